package db_test

import (
	"context"
	"slices"
	"testing"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/must"
)

// TestPipe_ReadsInOrder: each lookup has its own rows. One that fails ends the transaction, and
// leaves the connection in order.
func TestPipe_ReadsInOrder(t *testing.T) {
	dbtest.EachParallel(t, func(t *testing.T, d *db.DB) {
		divide := func(ctx context.Context, divisors ...int) (results []int, err error) {
			results = make([]int, len(divisors))
			err = d.Tx(ctx, func(ctx context.Context, tx bun.Tx) error {
				lookups := []db.Lookup{{}}
				for i, divisor := range divisors {
					p := d.Params()
					lookups = append(lookups, db.Lookup{
						Query: tx.NewRaw("SELECT 12 / CAST(? AS INTEGER)", p.Of(divisor)), Params: p, Dest: &results[i],
					})
				}
				return d.Pipe(ctx, tx, lookups...)
			})
			return results, err
		}
		for range 3 {
			got := must.Value(divide(t.Context(), 1, 2, 3))(t)
			if !slices.Equal(got, []int{12, 6, 4}) {
				t.Errorf("%v", got)
			}
			if _, err := divide(t.Context(), 1, 0, 3); err == nil && d.Kind == db.Postgres {
				t.Error("a division by zero")
			}
		}
	})
}
