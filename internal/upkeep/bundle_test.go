package upkeep

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/linkforge/linkforge/internal/audit"
	"github.com/linkforge/linkforge/internal/click"
	"github.com/linkforge/linkforge/internal/click/clicktest"
	"github.com/linkforge/linkforge/internal/creation"
	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/dbtest"
	"github.com/linkforge/linkforge/internal/hitquota"
	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/must"
	"github.com/linkforge/linkforge/internal/optional"
	"github.com/linkforge/linkforge/internal/ratelimit"
	"github.com/linkforge/linkforge/internal/routing"
	"github.com/linkforge/linkforge/internal/workspace"
	"github.com/linkforge/linkforge/internal/workspace/workspacetest"
)

// noon is when the tests begin.
var noon = dbtest.Noon

// bundle is a store with a workspace of one person, and the store that creates its links.
type bundle struct {
	*Store
	creation *creation.Store
	now      time.Time
	mine     workspace.Membership
	me       string
	clicks   clicktest.Clicks
	grants   *hitquota.Grants
}

func setup(t *testing.T, d *db.DB) *bundle {
	t.Helper()
	b := &bundle{now: noon, mine: workspacetest.New(t, d, "mine")}
	clock := func() time.Time { return b.now }
	log := slog.New(slog.DiscardHandler)
	b.me, b.clicks = b.mine.AccountID(), clicktest.New(t, d, clock)
	clicktest.Run(t, b.clicks.Recorder)
	links := must.Value(link.NewStore(link.Config{
		DB: d, PublicURL: "http://sho.rt", LinkQuota: 10_000, CodeSecrets: [][]byte{[]byte("a secret")},
		AnonymousTTL: 8 * time.Hour, Tombstones: 90 * 24 * time.Hour,
		Clicks: b.clicks, Limits: ratelimit.Limiter{Off: true}, Log: log, Now: clock,
	}))(t)
	b.Store, b.creation = &Store{links}, creation.NewStore(links)
	b.grants = hitquota.NewGrants(d, b.clicks.Store, log)
	clicktest.Run(t, b.grants)
	return b
}

// tick moves the clock.
func (b *bundle) tick() { b.now = b.now.Add(time.Minute) }

func (b *bundle) create(t *testing.T, in link.New) *link.Link {
	t.Helper()
	l, _, err := b.creation.Create(t.Context(), b.mine, in)
	must.NoError(t, err)
	return l
}

func (b *bundle) createMany(t *testing.T, in ...*link.New) []link.Result {
	t.Helper()
	return must.Value(b.creation.CreateMany(t.Context(), b.mine, creation.Batch{Links: in}))(t)
}

// urls are n links to create.
func urls(n int) (in []*link.New) {
	for i := range n {
		in = append(in, &link.New{URL: fmt.Sprintf("https://example.com/%d", i)})
	}
	return in
}

// routed creates a link with a target and fallback URLs.
func (b *bundle) routed(t *testing.T, target, ended, pending string) *link.Link {
	t.Helper()
	return b.create(t, link.New{URL: "https://example.com/own/" + target, Routing: routingTo(target, ended, pending)})
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

func (b *bundle) update(t *testing.T, l *link.Link, c link.Change) {
	t.Helper()
	c.ID = l.ID
	must.Value(b.Update(t.Context(), b.mine, c))(t)
}

func (b *bundle) get(t *testing.T, l *link.Link) *link.Link {
	t.Helper()
	return must.Value(b.Get(t.Context(), b.mine, l.ID))(t)
}

// set writes a column of the link.
func (b *bundle) set(t *testing.T, l *link.Link, assignment string, args ...any) {
	t.Helper()
	must.Value(b.DB.NewUpdate().Model((*link.Link)(nil)).Set(assignment, args...).Where("id = ?", l.ID).
		Exec(db.AsSystem(t.Context())))(t)
}

// follow records clicks of the link, and waits until the database has them.
func (b *bundle) follow(t *testing.T, l *link.Link, times int) {
	t.Helper()
	for range times {
		b.clicks.Recorder.Record(&click.Click{WorkspaceID: l.WorkspaceID, LinkID: l.ID, ClickedAt: b.now})
	}
	must.NoError(t, b.clicks.Recorder.Flush(t.Context()))
}

// grant takes one redirect of a link with MaxClicks.
func (b *bundle) grant(t *testing.T, l *link.Link) {
	t.Helper()
	if _, ok, err := b.grants.Grant(t.Context(), l.ID); err != nil || !ok {
		t.Fatalf("granted %t: %v", ok, err)
	}
}

// events returns the events of the links.
func (b *bundle) events(t *testing.T) (all []*audit.Event) {
	t.Helper()
	must.NoError(t, b.DB.NewSelect().Model(&all).Where("workspace_id = ?", b.mine.ID()).Where("action LIKE 'LINK_%'").
		Order("seq").Scan(db.AsSystem(t.Context())))
	return all
}
