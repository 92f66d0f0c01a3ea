package db_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/dbtest"
	"github.com/linkforge/linkforge/internal/polltest"
)

// grouped runs transactions at once, on SQLite as a group, and returns how each ended: by its error, or by the value
// that it panicked with.
func grouped(t *testing.T, d *db.DB, all ...func(ctx context.Context, tx bun.Tx) error) []any {
	t.Helper()
	ctx := db.AsOwner(t.Context())
	var running sync.WaitGroup
	holds, release := make(chan struct{}), make(chan struct{})
	running.Go(func() {
		err := d.Tx(ctx, func(context.Context, bun.Tx) error {
			close(holds)
			<-release
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	})
	<-holds
	outcomes := make([]any, len(all))
	for i, f := range all {
		running.Go(func() {
			defer func() {
				if p := recover(); p != nil {
					outcomes[i] = p
				}
			}()
			if err := d.Tx(ctx, f); err != nil {
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
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
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
		if diff := cmp.Diff([]any{nil, "refused", "the id exists", "broken", nil}, got); diff != "" {
			t.Errorf("outcomes (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(map[string]int64{"first": 0, "one": 0, "four": 0}, things(t, d)); diff != "" {
			t.Errorf("things (-want +got):\n%s", diff)
		}
	})
}

// TestTx_GroupRunsAgainAfterItsRollback lets a transaction end that of the whole group, as SQLite does for a full
// disk: the others run again.
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
	if diff := cmp.Diff([]any{nil, nil, "the disk is full", nil}, grouped(t, d, all...)); diff != "" {
		t.Errorf("outcomes (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]int64{"first": 0, "0": 0, "1": 0, "3": 0}, things(t, d)); diff != "" {
		t.Errorf("things (-want +got):\n%s", diff)
	}
}

// TestTx_CallerLeavesAWaitingGroup ends the context of a transaction that waits: it does not run.
func TestTx_CallerLeavesAWaitingGroup(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		setup(t, d)
		ctx := db.AsOwner(t.Context())
		err := d.Tx(ctx, func(context.Context, bun.Tx) error {
			left, cancel := context.WithCancel(ctx)
			cancel()
			if err := d.Tx(left, func(ctx context.Context, tx bun.Tx) error { return insert(ctx, tx, "late") }); err == nil {
				t.Error("a caller who has left gets no error")
			}
			return nil
		})
		if err != nil || len(things(t, d)) != 1 {
			t.Errorf("%v, %v", err, things(t, d))
		}
	})
}
