package db_test

import (
	"context"
	"testing"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/must"
)

// TestAtOneInstant_SeesNoLaterCommits, and blocks none.
func TestAtOneInstant_SeesNoLaterCommits(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		setup(t, d)
		ctx := db.AsOwner(t.Context())
		read := func(ctx context.Context) (n int64) {
			must.NoError(t, d.Reading(ctx).Model((*thing)(nil)).Column("count").Where("id = 'first'").Scan(ctx, &n))
			return n
		}
		must.NoError(t, d.AtOneInstant(ctx, func(within context.Context) error {
			if n := read(within); n != 0 {
				t.Errorf("it begins with %d", n)
			}
			err := d.Tx(ctx, func(ctx context.Context, tx bun.Tx) error { return count(ctx, tx, "first") })
			if n := read(within); n != 0 || err != nil {
				t.Errorf("a later commit is seen: %d, %v", n, err)
			}
			return nil
		}))
		if n := read(ctx); n != 1 {
			t.Errorf("afterwards: %d", n)
		}
	})
}
