package clickstore_test

import (
	"testing"

	"github.com/linkforge/linkforge/internal/click/clickstore"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/must"
)

// TestIDs_AreNewAfterRestore: clicks that were written after the backup have other ids.
func TestIDs_AreNewAfterRestore(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		const since = 1_000_000_000 // clicks since the backup
		before := must.Value(new(clickstore.ClickIDs).Take(t.Context(), d, 1))(t)
		must.NoError(t, clickstore.AfterRestore(t.Context(), d))
		if after := must.Value(new(clickstore.ClickIDs).Take(t.Context(), d, 1))(t); after <= before+since {
			t.Errorf("the ids after a restore begin at %d, before it at %d", after, before)
		}
	})
}
