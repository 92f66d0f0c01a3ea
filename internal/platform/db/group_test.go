package db_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/poll/polltest"
	"github.com/linkforge/linkforge/internal/platform/wanttest"
)

// grouped runs transactions at once, on SQLite as a group, and returns how each ended: by its
// error, or by the value that it panicked with.
func grouped(t *testing.T, d *db.DB, all ...func(ctx context.Context, tx bun.Tx) error) []any {
	t.Helper()
	var calls []func() error
	for _, f := range all {
		calls = append(calls, func() error { return d.Tx(db.AsOwner(t.Context()), f) })
	}
	return groupedIn(t, d, calls)
}

// groupedIn is grouped for calls of Tx.
func groupedIn(t *testing.T, d *db.DB, calls []func() error) []any {
	t.Helper()
	var running sync.WaitGroup
	holds, release := make(chan struct{}), make(chan struct{})
	running.Go(func() {
		err := d.Tx(db.AsOwner(t.Context()), func(context.Context, bun.Tx) error {
			close(holds)
			<-release
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	})
	<-holds
	outcomes := make([]any, len(calls))
	for i, call := range calls {
		running.Go(func() {
			defer func() {
				if p := recover(); p != nil {
					outcomes[i] = p
				}
			}()
			if err := call(); err != nil {
				outcomes[i] = err.Error()
			}
		})
		if d.Kind == db.SQLite {
			polltest.Until(t, "the transaction waits", func() bool { return d.WaitingTransactions() == i+1 })
		}
	}
	close(release)
	running.Wait()
	return outcomes
}

// TestTx_GroupedTransactionsAreUndoneAlone lets transactions fail between others.
func TestTx_GroupedTransactionsAreUndoneAlone(t *testing.T) {
	dbtest.EachParallel(t, func(t *testing.T, d *db.DB) {
		setup(t, d)
		writes := func(id string, then func() error) func(ctx context.Context, tx bun.Tx) error {
			return func(ctx context.Context, tx bun.Tx) error {
				if err := insert(ctx, tx, id); err != nil {
					return errors.New("the id exists")
				}
				return then()
			}
		}
		works := func() error { return nil }
		got := grouped(t, d,
			writes("one", works),
			writes("two", func() error { return errors.New("refused") }),
			writes("first", works),
			writes("three", func() error { panic("broken") }),
			writes("four", works),
		)
		wanttest.Equal(t, []any{nil, "refused", "the id exists", "broken", nil}, got, "outcomes")
		wanttest.Equal(t, map[string]int64{"first": 0, "one": 0, "four": 0}, things(t, d), "things")
	})
}

// TestTx_GroupRunsAgainAfterItsRollback lets a transaction end that of the whole group, as SQLite
// does for a full disk: the others run again.
func TestTx_GroupRunsAgainAfterItsRollback(t *testing.T) {
	t.Parallel()
	d := dbtest.SQLite(t)
	setup(t, d)
	var all []func(ctx context.Context, tx bun.Tx) error
	for i := range 4 {
		all = append(all, func(ctx context.Context, tx bun.Tx) error {
			if err := insert(ctx, tx, fmt.Sprint(i)); err != nil || i != 2 {
				return err
			}
			_, err := tx.ExecContext(ctx, "ROLLBACK")
			return errors.Join(err, errors.New("the disk is full"))
		})
	}
	wanttest.Equal(t, []any{nil, nil, "the disk is full", nil}, grouped(t, d, all...), "outcomes")
	wanttest.Equal(t, map[string]int64{"first": 0, "0": 0, "1": 0, "3": 0}, things(t, d), "things")
}

// TestTx_CallerWhoLeavesDisturbsNoOther ends the context of a transaction in a group, which SQLite
// would answer to by rolling the group back: the others run once.
func TestTx_CallerWhoLeavesDisturbsNoOther(t *testing.T) {
	t.Parallel()
	d := dbtest.SQLite(t)
	setup(t, d)
	left, leave := context.WithCancel(db.AsOwner(t.Context()))
	var runs atomic.Int64
	writes := func(id string) error {
		return d.Tx(db.AsOwner(t.Context()), func(ctx context.Context, tx bun.Tx) error {
			runs.Add(1)
			return insert(ctx, tx, id)
		})
	}
	const many = `INSERT INTO things (id) WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers
		WHERE n < 200000) SELECT n FROM numbers`
	got := groupedIn(t, d, []func() error{
		func() error { return writes("one") },
		func() error {
			return d.Tx(left, func(ctx context.Context, tx bun.Tx) error {
				runs.Add(1)
				time.AfterFunc(20*time.Millisecond, leave) // during the statement
				_, err := tx.ExecContext(ctx, many)
				return err
			})
		},
		func() error { return writes("two") },
	})
	if got[0] != nil || got[2] != nil || got[1] != context.Canceled.Error() || runs.Load() != 3 {
		t.Errorf("%v after %d runs", got, runs.Load())
	}
	wanttest.Equal(t, map[string]int64{"first": 0, "one": 0, "two": 0}, things(t, d), "things")
}

// TestTx_CallerLeavesAWaitingGroup ends the context of a transaction that waits: it does not run.
func TestTx_CallerLeavesAWaitingGroup(t *testing.T) {
	dbtest.EachParallel(t, func(t *testing.T, d *db.DB) {
		setup(t, d)
		ctx := db.AsOwner(t.Context())
		err := d.Tx(ctx, func(context.Context, bun.Tx) error {
			left, cancel := context.WithCancel(ctx)
			cancel()
			if err := d.Tx(left, func(ctx context.Context, tx bun.Tx) error {
				return insert(ctx, tx, "late")
			}); err == nil {
				t.Error("a caller who has left gets no error")
			}
			return nil
		})
		if err != nil || len(things(t, d)) != 1 {
			t.Errorf("%v, %v", err, things(t, d))
		}
	})
}
