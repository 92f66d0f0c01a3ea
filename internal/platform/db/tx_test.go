package db_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/poll/polltest"
	"github.com/linkforge/linkforge/internal/platform/wanttest"
)

// thing is a row to write.
type thing struct {
	bun.BaseModel `bun:"table:things"`

	ID    string `bun:",pk"`
	Count int64
}

// setup makes a table with one thing in it, which has been counted zero times.
func setup(t *testing.T, d *db.DB) {
	t.Helper()
	for _, statement := range []string{
		"CREATE TABLE things (id TEXT PRIMARY KEY, count BIGINT NOT NULL DEFAULT 0)",
		"INSERT INTO things (id) VALUES ('first')",
	} {
		must.Value(d.ExecContext(db.AsOwner(t.Context()), statement))(t)
	}
}

// things are the counts by id.
func things(t *testing.T, d *db.DB) map[string]int64 {
	t.Helper()
	var rows []thing
	must.NoError(t, d.NewSelect().Model(&rows).Scan(db.AsOwner(t.Context())))
	counts := map[string]int64{}
	for _, row := range rows {
		counts[row.ID] = row.Count
	}
	return counts
}

func insert(ctx context.Context, tx bun.Tx, id string) error {
	_, err := tx.NewInsert().Model(&thing{ID: id}).Exec(ctx)
	return err
}

// count reads a number and writes the next one, which is correct only if transactions are
// serialized.
func count(ctx context.Context, tx bun.Tx, id string) error {
	row := thing{ID: id}
	q := tx.NewSelect().Model(&row).WherePK()
	if tx.Dialect().Name().String() == "pg" {
		q = q.For("UPDATE")
	}
	if err := q.Scan(ctx); err != nil {
		return err
	}
	row.Count++
	_, err := tx.NewUpdate().Model(&row).WherePK().Exec(ctx)
	return err
}

func TestTx_NestedIsAnError(t *testing.T) {
	dbtest.EachParallel(t, func(t *testing.T, d *db.DB) {
		setup(t, d)
		err := d.Tx(db.AsOwner(t.Context()), func(ctx context.Context, tx bun.Tx) error {
			if err := insert(ctx, tx, "outer"); err != nil {
				return err
			}
			return d.Tx(ctx, func(ctx context.Context, tx bun.Tx) error { return insert(ctx, tx, "inner") })
		})
		if err == nil {
			t.Error("a transaction inside a transaction")
		}
		wanttest.Equal(t, map[string]int64{"first": 0}, things(t, d), "things")
	})
}

func TestTx_PanicReleasesConnection(t *testing.T) {
	dbtest.EachParallel(t, func(t *testing.T, d *db.DB) {
		setup(t, d)
		func() {
			defer func() {
				if recover() == nil {
					t.Error("the panic was swallowed")
				}
			}()
			_ = d.Tx(db.AsOwner(t.Context()), func(ctx context.Context, tx bun.Tx) error {
				if err := insert(ctx, tx, "lost"); err != nil {
					t.Error(err)
				}
				panic("a programmer's mistake")
			})
		}()
		err := d.Tx(db.AsOwner(t.Context()), func(ctx context.Context, tx bun.Tx) error {
			return insert(ctx, tx, "next")
		})
		must.NoError(t, err)
		wanttest.Equal(t, map[string]int64{"first": 0, "next": 0}, things(t, d), "things")
	})
}

func TestTx_RetriesConflicts(t *testing.T) {
	dbtest.EachParallel(t, func(t *testing.T, d *db.DB) {
		setup(t, d)
		conflict := &pgconn.PgError{Code: "40001"}
		for conflicts, want := range map[int]struct {
			calls int
			kept  bool
		}{0: {1, true}, 1: {2, true}, 3: {4, true}, 4: {4, false}, 100: {4, false}} {
			t.Run(fmt.Sprint(conflicts, " conflicts"), func(t *testing.T) {
				id, calls := fmt.Sprint("after-", conflicts), 0
				err := d.Tx(db.AsOwner(t.Context()), func(ctx context.Context, tx bun.Tx) error {
					calls++
					if err := insert(ctx, tx, id); err != nil {
						return err
					}
					if calls <= conflicts {
						return conflict
					}
					return nil
				})
				_, kept := things(t, d)[id]
				if calls != want.calls || kept != want.kept || kept != (err == nil) ||
					!kept && !errors.Is(err, conflict) {
					t.Errorf("%d conflicts: %d calls, kept %t, %v; want %+v", conflicts, calls, kept, err, want)
				}
			})
		}
	})
}

// TestTx_RetriesDeadlocks makes one: two transactions hold a row each and want the other's.
func TestTx_RetriesDeadlocks(t *testing.T) {
	t.Parallel()
	d := dbtest.Postgres(t)
	setup(t, d)
	must.NoError(t, d.Tx(db.AsOwner(t.Context()), func(ctx context.Context, tx bun.Tx) error {
		return insert(ctx, tx, "second")
	}))
	var holding, all sync.WaitGroup
	var calls atomic.Int64
	holding.Add(2)
	for _, order := range [][2]string{{"first", "second"}, {"second", "first"}} {
		first := true
		all.Go(func() {
			err := d.Tx(db.AsOwner(t.Context()), func(ctx context.Context, tx bun.Tx) error {
				calls.Add(1)
				if err := count(ctx, tx, order[0]); err != nil {
					return err
				}
				if first {
					first = false
					holding.Done()
					holding.Wait()
				}
				return count(ctx, tx, order[1])
			})
			if err != nil {
				t.Errorf("%v: %v", order, err)
			}
		})
	}
	all.Wait()
	if diff := cmp.Diff(map[string]int64{"first": 2, "second": 2}, things(t, d)); diff != "" || calls.Load() < 3 {
		t.Errorf("%d calls, want 3 or more: one of the two again; counts (-want +got):\n%s", calls.Load(), diff)
	}
}

func TestTx_SerializesWriters(t *testing.T) {
	dbtest.EachParallel(t, func(t *testing.T, d *db.DB) {
		setup(t, d)
		var all sync.WaitGroup
		for i := range 200 {
			all.Go(func() {
				err := d.Tx(db.AsOwner(t.Context()), func(ctx context.Context, tx bun.Tx) error {
					return errors.Join(count(ctx, tx, "first"), insert(ctx, tx, fmt.Sprint("writer-", i)))
				})
				if err != nil {
					t.Errorf("writer %d: %v", i, err)
				}
			})
		}
		all.Wait()
		counts := things(t, d)
		if counts["first"] != 200 || len(counts) != 201 {
			t.Errorf("counted to %d, %d things; want 200 and 201", counts["first"], len(counts))
		}
	})
}

func TestTx_CancelledCallerWritesNothing(t *testing.T) {
	dbtest.EachParallel(t, func(t *testing.T, d *db.DB) {
		setup(t, d)
		ctx, cancel := context.WithCancel(db.AsOwner(t.Context()))
		err := d.Tx(ctx, func(ctx context.Context, tx bun.Tx) error {
			if err := insert(ctx, tx, "lost"); err != nil {
				t.Error(err)
			}
			cancel()
			return nil
		})
		if diff := cmp.Diff(map[string]int64{"first": 0}, things(t, d)); diff != "" || err == nil ||
			strings.Contains(err.Error(), "attempts") {
			t.Errorf("%v; things (-want +got):\n%s", err, diff)
		}
	})
}

// TestTx_DeadlineIsATimeout: whether it ends a single statement, or one of a transaction, or comes
// between two.
func TestTx_DeadlineIsATimeout(t *testing.T) {
	dbtest.EachParallel(t, func(t *testing.T, d *db.DB) {
		long := "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 200000000) SELECT count(*) " +
			"FROM n"
		for name, f := range map[string]func(ctx context.Context) error{
			"statement": func(ctx context.Context) error { return d.NewRaw(long).Scan(ctx, new(int64)) },
			"transaction": func(ctx context.Context) error {
				return d.Tx(ctx, func(ctx context.Context, tx bun.Tx) error {
					return tx.NewRaw(long).Scan(ctx, new(int64))
				})
			},
			"between": func(ctx context.Context) error {
				return d.Tx(ctx, func(ctx context.Context, tx bun.Tx) error {
					<-ctx.Done()
					var err error
					for range 100 { // database/sql rolls the transaction back meanwhile
						if _, err = tx.ExecContext(context.WithoutCancel(ctx), "SELECT 1"); err != nil {
							break
						}
						polltest.Elapse(time.Millisecond)
					}
					return err
				})
			},
		} {
			ctx, cancel := context.WithTimeout(db.AsSystem(t.Context()), 50*time.Millisecond)
			if err := f(ctx); !errs.IsTimeout(err) || !errs.Is(err, errs.Unavailable) {
				t.Errorf("%s: %v is no timeout", name, err)
			}
			cancel()
		}
	})
}
