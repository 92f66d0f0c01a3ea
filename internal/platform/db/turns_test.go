package db_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/platform/admission"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/poll/polltest"
)

// TestOwnedBy_LeavesConnections: an owner with many transactions does not keep another waiting, nor
// statements without an owner.
func TestOwnedBy_LeavesConnections(t *testing.T) {
	dbtest.EachParallel(t, func(t *testing.T, d *db.DB) {
		ctx := db.AsOwner(t.Context())
		flood := admission.OwnedBy(ctx, "flood")
		release := make(chan struct{})
		var holding, all sync.WaitGroup
		holding.Add(1)
		var once sync.Once
		for range 200 {
			all.Go(func() {
				err := d.Tx(flood, func(context.Context, bun.Tx) error {
					once.Do(holding.Done)
					<-release
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			})
		}
		holding.Wait()
		polltest.Until(t, "the flood waits for its turns", func() bool { return d.WaitingTurns() > 10 })
		var one int
		for name, ctx := range map[string]context.Context{"another owner": admission.OwnedBy(ctx, "victim"),
			"no owner": ctx} {
			began := time.Now()
			if err := d.NewSelect().ColumnExpr("1").Scan(ctx, &one); err != nil || time.Since(began) > time.Second {
				t.Errorf("%s: %v after %s", name, err, time.Since(began))
			}
		}
		close(release)
		all.Wait()
		if n := d.WaitingTurns(); n != 0 {
			t.Errorf("%d transactions still wait", n)
		}
	})
}

// TestOwnedBy_EndsTurns: each kind of statement gives its connection back, also when it fails.
func TestOwnedBy_EndsTurns(t *testing.T) {
	dbtest.EachParallel(t, func(t *testing.T, d *db.DB) {
		ctx := admission.OwnedBy(db.AsOwner(t.Context()), "owner")
		for range 100 { // more than any share
			var one int
			must.NoError(t, d.NewSelect().ColumnExpr("1").Scan(ctx, &one))
			must.NoError(t, d.NewRaw("SELECT 1").Scan(ctx, &one))
			must.Value(d.NewSelect().TableExpr("(SELECT 1) AS x").Count(ctx))(t)
			must.Value(d.NewSelect().TableExpr("(SELECT 1) AS x").Exists(ctx))(t)
			if err := d.NewSelect().TableExpr("missing").ColumnExpr("1").Scan(ctx, &one); err == nil {
				t.Fatal("a missing table was read")
			}
			must.NoError(t, d.Tx(ctx, func(ctx context.Context, tx bun.Tx) error {
				return tx.NewSelect().ColumnExpr("1").Scan(ctx, &one)
			}))
		}
		if used := d.UsedTurns(); used != 0 {
			t.Errorf("%d turns have not ended", used)
		}
	})
}
