package link_test

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/click"
	"github.com/linkforge/linkforge/internal/click/clicktest"
	"github.com/linkforge/linkforge/internal/creation"
	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/dbtest"
	"github.com/linkforge/linkforge/internal/errs"
	"github.com/linkforge/linkforge/internal/hitquota"
	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/must"
	"github.com/linkforge/linkforge/internal/polltest"
	"github.com/linkforge/linkforge/internal/ratelimit"
	"github.com/linkforge/linkforge/internal/routing"
	"github.com/linkforge/linkforge/internal/workspace"
	"github.com/linkforge/linkforge/internal/workspace/workspacetest"
)

// noon is when the tests begin.
var noon = dbtest.Noon

// bundle is a store with two workspaces of one person each.
type bundle struct {
	*creation.Store
	now     time.Time
	mine    workspace.Membership
	foreign workspace.Membership
	me      string
	grants  *hitquota.Grants
	last    hitquota.Grant
}

func setup(t testing.TB, d *db.DB) *bundle {
	t.Helper()
	b := &bundle{now: noon}
	clock := func() time.Time { return b.now }
	log := slog.New(slog.DiscardHandler)
	clicks := clicktest.New(t, d, clock)
	clicktest.Run(t, clicks.Recorder)
	store := must.Value(link.NewStore(link.Config{
		DB: d, PublicURL: "http://sho.rt", LinkQuota: 100, CodeSecrets: [][]byte{[]byte("a secret")},
		AnonymousTTL: 8 * time.Hour, Tombstones: 90 * 24 * time.Hour,
		Clicks: clicks, Limits: ratelimit.New(dbtest.Redis(t, ""), log, time.Now), Log: log,
		Now: clock,
	}))(t)
	b.Store, b.grants = creation.NewStore(store), hitquota.NewGrants(d, clicks.Store, log)
	clicktest.Run(t, b.grants)
	b.mine, b.foreign = workspacetest.New(t, d, "mine"), workspacetest.New(t, d, "foreign")
	b.me = b.mine.AccountID()
	return b
}

// follow records clicks of the link, and waits until the database has them.
func (b *bundle) follow(t *testing.T, l *link.Link, times int) {
	t.Helper()
	recorder := b.Clicks.(clicktest.Clicks).Recorder
	for range times {
		recorder.Record(&click.Click{WorkspaceID: l.WorkspaceID, LinkID: l.ID, ClickedAt: b.now})
	}
	must.NoError(t, recorder.Flush(t.Context()))
}

func (b *bundle) create(t *testing.T, in link.New) (l *link.Link, created bool) {
	t.Helper()
	l, created, err := b.Create(t.Context(), b.mine, in)
	must.NoError(t, err)
	return l, created
}

func (b *bundle) createMany(t *testing.T, policy link.Policy, in ...*link.New) []link.Result {
	t.Helper()
	return must.Value(b.CreateMany(t.Context(), b.mine, creation.Batch{Links: in, OnError: policy}))(t)
}

// outcomes names the results: created, there, or the kind of the error.
func outcomes(results []link.Result) []string {
	var said []string
	for _, r := range results {
		switch {
		case r.Err != nil:
			said = append(said, errs.From(r.Err).Kind.Code())
		case r.Created:
			said = append(said, "created")
		default:
			said = append(said, "there")
		}
	}
	return said
}

func urls(from, to int) []*link.New {
	var in []*link.New
	for i := from; i < to; i++ {
		in = append(in, &link.New{URL: fmt.Sprintf("https://example.com/%d", i)})
	}
	return in
}

// grant requests one redirect of a link with MaxClicks, and expects want grants.
func (b *bundle) grant(t *testing.T, l *link.Link, want int) {
	t.Helper()
	grant, ok, err := b.grants.Grant(t.Context(), l.ID)
	if err != nil || ok != (want == 1) {
		t.Fatalf("granted %t, want %d: %v", ok, want, err)
	}
	if ok {
		b.last = grant
	}
}

// giveBack returns the last granted redirect.
func (b *bundle) giveBack(t *testing.T, l *link.Link) {
	t.Helper()
	before := b.granted(t, l)
	for range 2 { // the second time changes nothing
		b.last.Release()
	}
	polltest.Until(t, "the grant has returned", func() bool { return b.granted(t, l) == before-1 })
}

func (b *bundle) granted(t *testing.T, l *link.Link) int64 {
	t.Helper()
	return must.Value(b.Get(t.Context(), b.mine, l.ID))(t).Granted
}

func (b *bundle) refuse(t *testing.T, in link.New, want errs.Kind) {
	t.Helper()
	if _, _, err := b.Create(t.Context(), b.mine, in); !errs.Is(err, want) {
		t.Errorf("creating %+v: %v, want %s", in, err, want)
	}
}

// set writes a column of the link.
func (b *bundle) set(t *testing.T, l *link.Link, assignment string, args ...any) {
	t.Helper()
	must.Value(b.DB.NewUpdate().Model((*link.Link)(nil)).Set(assignment, args...).Where("id = ?", l.ID).
		Exec(db.AsSystem(t.Context())))(t)
}

func (b *bundle) get(t *testing.T, l *link.Link) *link.Link {
	t.Helper()
	got := must.Value(b.Get(t.Context(), b.mine, l.ID))(t)
	return got
}

// cleanUp purges the links that ended longer ago than Tombstones, as package upkeep does.
func (b *bundle) cleanUp(t *testing.T) {
	t.Helper()
	must.NoError(t, b.DB.Tx(db.AsSystem(t.Context()), func(ctx context.Context, tx bun.Tx) error {
		var links []*link.Link
		err := tx.NewSelect().Model(&links).Where("ended_at <= ?", b.now.Add(-b.Tombstones)).Where("purged_at IS NULL").Scan(ctx)
		if err != nil || len(links) == 0 {
			return err
		}
		return b.Purge(ctx, tx, links...)
	}))
}

func custom(url, code string) link.New { return link.New{URL: url, CustomCode: &code} }

func (b *bundle) usage(t *testing.T) int64 {
	t.Helper()
	links, _, err := b.Usage(t.Context(), b.mine)
	must.NoError(t, err)
	return links
}

func TestLink_StatusAtTheInstant(t *testing.T) {
	t.Parallel()
	start, end := noon.Add(time.Hour), noon.Add(2*time.Hour)
	l := &link.Link{Settings: routing.Settings{StartsAt: &start, ExpiresAt: &end}}
	for _, c := range []struct {
		at   time.Time
		want routing.Status
	}{
		{start.Add(-time.Nanosecond), routing.Scheduled},
		{start, routing.Active},
		{end.Add(-time.Nanosecond), routing.Active},
		{end, routing.Expired},
	} {
		t.Run(c.at.Format(time.RFC3339Nano), func(t *testing.T) {
			if got := l.Status(c.at); got != c.want {
				t.Errorf("at %s: %s, want %s", c.at, got, c.want)
			}
		})
	}
	l.DeletedAt = &noon
	if got := l.Status(end); got != routing.Deleted {
		t.Errorf("deleted and expired: %s", got)
	}
	l.DisabledAt = &noon
	if got := l.Status(end); got != routing.Disabled {
		t.Errorf("disabled and deleted: %s", got)
	}
}
