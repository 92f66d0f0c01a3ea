package upkeep

import (
	"testing"
	"time"

	"github.com/linkforge/linkforge/internal/event/audit"
	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/link/creation"
	"github.com/linkforge/linkforge/internal/link/linktest"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/optional"
	"github.com/linkforge/linkforge/internal/platform/ratelimit"
	"github.com/linkforge/linkforge/internal/route/routing"
)

// noon is when the tests begin.
var noon = dbtest.Noon

// bundle is a store with a workspace of one person, and the store that creates its links.
type bundle struct {
	*Store
	*linktest.World
	creation *creation.Store
}

func setup(t *testing.T, d *db.DB) *bundle {
	t.Helper()
	w := linktest.New(t, d)
	w.Quota.Default = 10_000
	c := creation.Config{
		Links: w.Links, Quota: w.Quota, CodeSecrets: [][]byte{[]byte("a secret")}, AnonymousTTL: 8 * time.Hour,
		Limits: ratelimit.Limiter{Off: true},
	}
	return &bundle{&Store{w.Links, linktest.Tombstones}, w, creation.NewStore(c)}
}

// each runs the test with a fresh bundle on each kind of database.
func each(t *testing.T, test func(t *testing.T, b *bundle)) {
	t.Helper()
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) { test(t, setup(t, d)) })
}

func (b *bundle) create(t *testing.T, in creation.Input) *link.Link {
	t.Helper()
	l, _, err := b.creation.Create(t.Context(), b.Mine, in)
	must.NoError(t, err)
	return l
}

func (b *bundle) createMany(t *testing.T, in ...*creation.Input) []link.Result {
	t.Helper()
	return must.Value(b.creation.CreateMany(t.Context(), b.Mine, creation.Batch{Links: in}))(t)
}

// routed creates a link with a target and fallback URLs.
func (b *bundle) routed(t *testing.T, target, ended, pending string) *link.Link {
	t.Helper()
	return b.create(t,
		creation.Input{URL: "https://example.com/own/" + target, Routing: routingTo(target, ended, pending)})
}

func routingTo(target, ended, pending string) *routing.Change {
	at := func(path string) *string { return new("https://example.com/" + path) }
	return &routing.Change{
		Rules:    optional.Set([]*routing.Rule{{Targets: []*routing.Target{{URL: at(target)}}}}),
		EndedURL: optional.Set(at(ended)), PendingURL: optional.Set(at(pending)),
	}
}

func (b *bundle) anonymous(t *testing.T, url string) *link.Link {
	t.Helper()
	l, _, err := b.creation.CreateAnonymous(t.Context(), "192.0.2.1", url)
	must.NoError(t, err)
	return l
}

// grant takes one redirect of a link with MaxClicks.
func (b *bundle) grant(t *testing.T, l *link.Link) {
	t.Helper()
	if _, ok, err := b.Grants.Grant(t.Context(), l.ID); err != nil || !ok {
		t.Fatalf("granted %t: %v", ok, err)
	}
}

// events returns the events of the links.
func (b *bundle) events(t *testing.T) (all []*audit.Event) {
	t.Helper()
	must.NoError(t, b.DB.NewSelect().Model(&all).Where("workspace_id = ?", b.Mine.ID()).Where("action LIKE 'LINK_%'").
		Order("seq").Scan(db.AsSystem(t.Context())))
	return all
}
