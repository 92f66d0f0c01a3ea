package history_test

import (
	"testing"
	"time"

	"github.com/linkforge/linkforge/internal/creation"
	"github.com/linkforge/linkforge/internal/creation/creationtest"
	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/dbtest"
	"github.com/linkforge/linkforge/internal/errs"
	"github.com/linkforge/linkforge/internal/must"
	"github.com/linkforge/linkforge/internal/resolve"
)

// TestStore_ByPastAddressKnowsWhenSlugsBegan: a slug answers from the instant on at which the workspace has it.
func TestStore_ByPastAddressKnowsWhenSlugsBegan(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := creationtest.New(t, d)
		l := b.Make(t, creation.Input{URL: "https://example.com/a", CustomCode: new("promo")})
		began := noon.Add(time.Hour)
		const add = "INSERT INTO slugs (slug, workspace_id, created_at) VALUES (?, ?, ?)"
		must.Value(d.ExecContext(db.AsSystem(t.Context()), add, "renamed", b.Mine.ID(), began))(t)
		a := resolve.Address{Slug: "renamed", Code: "promo"}
		if _, err := b.History.ByPastAddress(t.Context(), a, began.Add(-time.Microsecond)); !errs.Is(err, errs.NotFound) {
			t.Errorf("before the slug: %v", err)
		}
		if got, err := b.History.ByPastAddress(t.Context(), a, began); err != nil || got.ID != l.ID {
			t.Errorf("with the slug: %+v, %v", got, err)
		}
	})
}
