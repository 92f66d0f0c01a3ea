package moderation_test

import (
	"log/slog"
	"testing"
	"time"

	"github.com/linkforge/linkforge/internal/click/clicktest"
	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/link/creation"
	"github.com/linkforge/linkforge/internal/link/creation/creationtest"
	"github.com/linkforge/linkforge/internal/link/destination"
	"github.com/linkforge/linkforge/internal/link/edit"
	"github.com/linkforge/linkforge/internal/link/linktest"
	"github.com/linkforge/linkforge/internal/link/moderation"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/feed"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/optional"
	"github.com/linkforge/linkforge/internal/platform/ratelimit"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
	"github.com/linkforge/linkforge/internal/tenant/workspace/workspacetest"
)

// bundle is a store of links with a blocklist, and a workspace.
type bundle struct {
	*creation.Store
	blocklist  *moderation.Blocklist
	moderation *moderation.Store
	quota      *link.Quota
	edit       *edit.Store
	schedule   *edit.Schedules
	now        time.Time
	mine       workspace.Membership
}

func setup(t *testing.T, d *db.DB) *bundle {
	t.Helper()
	b := &bundle{now: dbtest.Noon}
	clock := func() time.Time { return b.now }
	log := slog.New(slog.DiscardHandler)
	limits := ratelimit.New(dbtest.Redis(t, ""), log, time.Now)
	clicks := clicktest.New(t, d, clock)
	clicktest.Run(t, clicks.Recorder)
	b.blocklist = &moderation.Blocklist{DB: d, Now: clock}
	links, err := link.NewStore(link.Config{
		DB: d, Feed: feed.New(d, log, clock), PublicURL: "http://sho.rt", Clicks: clicks,
		Destinations: destination.Checker{Blocklist: b.blocklist}, Log: log, Now: clock,
	})
	must.NoError(t, err)
	b.quota = &link.Quota{DB: d, Default: 100, Now: clock}
	b.Store = creation.NewStore(creation.Config{
		Links: links, Quota: b.quota, CodeSecrets: [][]byte{[]byte("a secret")}, AnonymousTTL: 8 * time.Hour,
		Limits: limits,
	})
	b.edit = &edit.Store{Store: links, Quota: b.quota}
	b.schedule = &edit.Schedules{Store: links}
	b.moderation = &moderation.Store{DB: d, Links: links, Limits: limits, Now: clock}
	b.mine = workspacetest.New(t, d, "mine")
	return b
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

func (b *bundle) create(t *testing.T, in creation.Input) (l *link.Link, created bool) {
	t.Helper()
	l, created, err := b.Create(t.Context(), b.mine, in)
	must.NoError(t, err)
	return l, created
}

func (b *bundle) createMany(t *testing.T, policy link.Policy, in ...*creation.Input) []link.Result {
	t.Helper()
	results := must.Value(b.CreateMany(t.Context(), b.mine, creation.Batch{Links: in, OnError: policy}))(t)
	return results
}

func (b *bundle) refuse(t *testing.T, in creation.Input, want errs.Kind) {
	t.Helper()
	if _, _, err := b.Create(t.Context(), b.mine, in); !errs.Is(err, want) {
		t.Errorf("creating %+v: %v, want %s", in, err, want)
	}
}

func (b *bundle) update(t *testing.T, l *link.Link, c link.Change) {
	t.Helper()
	c.ID = l.ID
	must.Value(b.edit.Update(t.Context(), b.mine, c))(t)
}

func (b *bundle) anonymous(t *testing.T, url string) (*link.Link, string) {
	t.Helper()
	l, token, err := b.CreateAnonymous(t.Context(), "192.0.2.1", url)
	must.NoError(t, err)
	return l, token
}

func (b *bundle) claimOne(t *testing.T, m workspace.Membership, token string) edit.Claim {
	t.Helper()
	claims := must.Value(b.edit.Claim(t.Context(), m, []string{token}))(t)
	return claims[0]
}

// exhaust uses up the clicks of a link with maxClicks.
func (b *bundle) exhaust(t *testing.T, l *link.Link) {
	t.Helper()
	must.Value(b.DB.ExecContext(db.AsSystem(t.Context()), "UPDATE grants SET granted = max_clicks WHERE subject_id = ?",
		l.ID))(t)
}

func (b *bundle) usage(t *testing.T) int64 {
	t.Helper()
	links, _, err := b.quota.Used(t.Context(), b.mine)
	must.NoError(t, err)
	return links
}

var outcomes, urls = linktest.Outcomes, creationtest.URLs

func to[T any](value T) optional.Edit[T] { return optional.Set(value) }
