package moderation_test

import (
	"testing"

	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/link/creation/creationtest"
	"github.com/linkforge/linkforge/internal/link/linktest"
	"github.com/linkforge/linkforge/internal/link/moderation"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/optional"
)

// bundle is a store of links with a blocklist.
type bundle struct {
	*creationtest.World
	blocklist  *moderation.Blocklist
	moderation *moderation.Store
}

func setup(t *testing.T, d *db.DB) *bundle {
	t.Helper()
	w := creationtest.New(t, d)
	blocklist := &moderation.Blocklist{DB: d, Now: w.Links.Now}
	w.Destinations.Blocklist = blocklist
	return &bundle{w, blocklist, &moderation.Store{DB: d, Links: w.Links, Limits: w.Limits, Now: w.Links.Now}}
}

// each runs the test with a fresh bundle on each kind of database.
func each(t *testing.T, test func(t *testing.T, b *bundle)) {
	t.Helper()
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) { test(t, setup(t, d)) })
}

func (b *bundle) block(t *testing.T, host string) {
	t.Helper()
	must.Value(b.blocklist.Block(t.Context(), host, "a reason"))(t)
}

// exhaust uses up the clicks of a link with maxClicks.
func (b *bundle) exhaust(t *testing.T, l *link.Link) {
	t.Helper()
	must.Value(b.DB.ExecContext(db.AsSystem(t.Context()), "UPDATE grants SET granted = max_clicks WHERE subject_id = ?",
		l.ID))(t)
}

var outcomes, urls = linktest.Outcomes, creationtest.URLs

func to[T any](value T) optional.Edit[T] { return optional.Set(value) }
