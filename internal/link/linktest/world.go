// Package linktest has the common fixture of the packages that create, change and read links: a
// store with two workspaces and a clock. It does not create links, so that package creation can use
// it.
package linktest

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/click"
	"github.com/linkforge/linkforge/internal/click/clicktest"
	"github.com/linkforge/linkforge/internal/event/audit"
	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/link/edit"
	"github.com/linkforge/linkforge/internal/link/history"
	"github.com/linkforge/linkforge/internal/link/linkfield"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/feed"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/poll/polltest"
	"github.com/linkforge/linkforge/internal/platform/ratelimit"
	"github.com/linkforge/linkforge/internal/route/routing"
	"github.com/linkforge/linkforge/internal/tenant/folder"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
	"github.com/linkforge/linkforge/internal/tenant/workspace/workspacetest"
	"github.com/linkforge/linkforge/internal/visit/hitquota"
	"github.com/linkforge/linkforge/internal/visit/resolve"
)

// World is a store of links with two workspaces of one person each.
type World struct {
	Links    *link.Store
	Quota    *link.Quota
	Edit     *edit.Store
	Schedule *edit.Schedules
	History  *history.Store
	Folders  *folder.Store
	// Now is the time of the store. It begins at dbtest.Noon.
	Now           time.Time
	Mine, Foreign workspace.Membership
	// Me is the account of Mine.
	Me     string
	Clicks clicktest.Clicks
	Grants *hitquota.Grants
	// Limits limits the creation of anonymous links.
	Limits ratelimit.Limiter
}

// Tombstones is how long an ended link responds that it has ended.
const Tombstones = 90 * 24 * time.Hour

// New returns a World in a database.
func New(t testing.TB, d *db.DB) *World {
	t.Helper()
	w := &World{Now: dbtest.Noon}
	clock := func() time.Time { return w.Now }
	log := slog.New(slog.DiscardHandler)
	w.Clicks, w.Limits = clicktest.New(t, d, clock), ratelimit.New(dbtest.Redis(t, ""), log, time.Now)
	clicktest.Run(t, w.Clicks.Recorder)
	w.Links = must.Value(link.NewStore(link.Config{
		DB: d, Feed: feed.New(d, log, clock), PublicURL: "http://sho.rt", Clicks: w.Clicks, Log: log, Now: clock,
	}))(t)
	w.Quota = &link.Quota{DB: d, Default: 100, Now: clock}
	w.Folders = &folder.Store{DB: d, Now: clock}
	w.Edit = &edit.Store{Store: w.Links, Quota: w.Quota, Folders: w.Folders}
	w.Schedule, w.History = &edit.Schedules{Store: w.Links}, &history.Store{Store: w.Links}
	w.Grants = hitquota.NewGrants(d, log)
	clicktest.Run(t, w.Grants)
	w.Mine, w.Foreign = workspacetest.New(t, d, "mine"), workspacetest.New(t, d, "foreign")
	w.Me = w.Mine.AccountID()
	return w
}

// Tick moves the clock by a minute.
func (w *World) Tick() { w.Now = w.Now.Add(time.Minute) }

// Node is another node on the same database, which knows all changes so far.
func (w *World) Node(t *testing.T, d *db.DB) *link.Store {
	t.Helper()
	c := w.Links.Config
	c.DB, c.Feed, c.CacheBytes, c.Now = d, feed.New(d, c.Log, time.Now), 1<<20, time.Now
	s := must.Value(link.NewStore(c))(t)
	must.NoError(t, s.Feed.CatchUp(t.Context()))
	return s
}

// Reload returns the link as it is now.
func (w *World) Reload(t *testing.T, l *link.Link) *link.Link {
	t.Helper()
	return must.Value(w.Links.Get(t.Context(), w.Mine, l.ID))(t)
}

// Tags returns the tags of the link.
func (w *World) Tags(t *testing.T, l *link.Link) []string {
	t.Helper()
	return must.Value(w.Links.TagsOf(t.Context(), l.In, l.ID))(t)[l.ID]
}

// Used returns how many links Mine has created in the month.
func (w *World) Used(t *testing.T) int64 {
	t.Helper()
	links, _, err := w.Quota.Used(t.Context(), w.Mine)
	must.NoError(t, err)
	return links
}

// ExpectUsed reports if Mine has created another number of links in the month.
func (w *World) ExpectUsed(t *testing.T, want int64) {
	t.Helper()
	if got := w.Used(t); got != want {
		t.Errorf("%d links used, want %d", got, want)
	}
}

// ExpectRows reports if another number of rows of a table fulfills the condition.
func (w *World) ExpectRows(t *testing.T, want int64, table, condition string, args ...any) {
	t.Helper()
	n := must.Value(w.Links.DB.NewSelect().Table(table).Where(condition, args...).Count(db.AsSystem(t.Context())))(t)
	if n != want {
		t.Errorf("%d rows of %s, %s: want %d", n, table, condition, want)
	}
}

// Location returns where the short URL redirects, as this node resolves it.
func (w *World) Location(t *testing.T, l *link.Link) string {
	t.Helper()
	target := must.Value(w.Links.Resolver.Resolve(t.Context(), resolve.Address{Code: l.Code}, w.Now, nil))(t)
	return routing.Decide(&target.Program, &routing.Request{Now: w.Now}).Location
}

// Follow records clicks of the link, and waits until the database has them.
func (w *World) Follow(t *testing.T, l *link.Link, times int) {
	t.Helper()
	for range times {
		w.Clicks.Recorder.Record(&click.Click{WorkspaceID: l.WorkspaceID, LinkID: l.ID, ClickedAt: w.Now})
	}
	must.NoError(t, w.Clicks.Recorder.Flush(t.Context()))
}

// Set writes a column of the link.
func (w *World) Set(t *testing.T, l *link.Link, assignment string, args ...any) {
	t.Helper()
	must.Value(w.Links.DB.NewUpdate().Model((*link.Link)(nil)).Set(assignment, args...).Where("id = ?", l.ID).
		Exec(db.AsSystem(t.Context())))(t)
}

// Change updates the link.
func (w *World) Change(t *testing.T, l *link.Link, c linkfield.Change) *link.Link {
	t.Helper()
	c.ID = l.ID
	return must.Value(w.Edit.Update(t.Context(), w.Mine, c))(t)
}

// Remove deletes links.
func (w *World) Remove(t *testing.T, ids ...string) []link.Result {
	t.Helper()
	return must.Value(w.Edit.DeleteMany(t.Context(), w.Mine, ids, link.SkipFailed))(t)
}

// PurgeEnded purges the links that ended longer ago than Tombstones, as package upkeep does.
func (w *World) PurgeEnded(t *testing.T) {
	t.Helper()
	must.NoError(t, w.Links.DB.Tx(db.AsSystem(t.Context()), func(ctx context.Context, tx bun.Tx) error {
		var links []*link.Link
		err := tx.NewSelect().Model(&links).Where("ended_at <= ?", w.Now.Add(-Tombstones)).Where("purged_at IS NULL").
			Scan(ctx)
		if err != nil || len(links) == 0 {
			return err
		}
		return w.Links.Purge(ctx, tx, links...)
	}))
}

// Plan schedules a change of the link.
func (w *World) Plan(t *testing.T, l *link.Link, in time.Duration, c linkfield.Change) *link.ScheduledChange {
	t.Helper()
	return must.Value(w.Schedule.Add(t.Context(), w.Mine, l.ID, w.Now.Add(in), c))(t)
}

// ApplyDue writes the scheduled changes that have taken effect.
func (w *World) ApplyDue(t *testing.T) {
	t.Helper()
	must.NoError(t, w.Schedule.ApplyDue(t.Context()))
}

// AllVersions returns all versions of the link, newest first, page by page.
func (w *World) AllVersions(t *testing.T, l *link.Link) (all []*link.Version) {
	t.Helper()
	l = w.Reload(t, l)
	for after := ""; ; {
		p := must.Value(w.History.Versions(t.Context(), l, new(3), after))(t)
		all = append(all, p.Items...)
		if !p.HasNext {
			return all
		}
		after = p.Cursors[len(p.Cursors)-1]
	}
}

// Differences are the disagreements between links, their versions and their events, by the links.
func (w *World) Differences(t *testing.T) map[string][]string {
	t.Helper()
	found := map[string][]string{}
	must.Value(w.History.Verify(t.Context(), func(d history.Difference) {
		found[d.LinkID] = append(found[d.LinkID], d.Text)
	}))(t)
	return found
}

// Events waits until the feed of the workspace has n events, and returns them. On PostgreSQL, an
// event waits for all transactions that began before its own.
func (w *World) Events(t *testing.T, n int) (all []*audit.Event) {
	t.Helper()
	polltest.Until(t, fmt.Sprint("the feed has ", n, " events"), func() bool {
		all = w.feed(t)
		return len(all) == n
	})
	return all
}

// feed reads the feed page by page.
func (w *World) feed(t *testing.T) (all []*audit.Event) {
	t.Helper()
	for after := ""; ; {
		p, head, err := audit.Feed(db.AsSystem(t.Context()), w.Links.DB, w.Mine.ID(), audit.FeedRequest{
			Actions: audit.LinkActions, After: after, Size: 7,
		}, w.Now)
		must.NoError(t, err)
		all = append(all, p.Items...)
		if !p.HasNext {
			// events can become visible after head was read
			if head != "" && !slices.ContainsFunc(all, func(e *audit.Event) bool { return e.ID == head }) {
				t.Errorf("the newest event is %s, which the feed has not", head)
			}
			return all
		}
		after = p.Cursors[len(p.Cursors)-1]
	}
}

// BlockedHosts is a Blocklist of exactly these hosts.
type BlockedHosts map[string]bool

func (b BlockedHosts) Blocked(_ bun.IDB, hosts ...string) (db.Lookup, func() map[string]bool) {
	found := map[string]bool{}
	for _, host := range hosts {
		if b[host] {
			found[host] = true
		}
	}
	return db.Lookup{}, func() map[string]bool { return found }
}

// Pairs is metadata of one pair.
func Pairs(key, value string) []*linkfield.Pair { return []*linkfield.Pair{{Key: key, Value: value}} }

// KindOf is the code of an error; empty for none.
func KindOf(err error) string {
	if err == nil {
		return ""
	}
	return errs.From(err).Kind.Code()
}

// Outcome names the result: created, there, or the kind of the error.
func Outcome(r link.Result) string {
	switch {
	case r.Err != nil:
		return errs.From(r.Err).Kind.Code()
	case r.Created:
		return "created"
	}
	return "there"
}

// Outcomes names the results.
func Outcomes(results []link.Result) (said []string) {
	for _, r := range results {
		said = append(said, Outcome(r))
	}
	return said
}

// AtOnce makes n calls at the same time, and counts what they return.
func AtOnce(n int, call func(i int) string) map[string]int {
	said := make([]string, n)
	var calls sync.WaitGroup
	for i := range n {
		calls.Go(func() { said[i] = call(i) })
	}
	calls.Wait()
	counts := map[string]int{}
	for _, one := range said {
		counts[one]++
	}
	return counts
}

// Refused returns a function that reports if a call did not fail with a kind of error, described by
// a format: Refused(call())(t, errs.NotFound, "a foreign link").
func Refused[V any](_ V, err error) func(t testing.TB, want errs.Kind, format string, args ...any) {
	return func(t testing.TB, want errs.Kind, format string, args ...any) {
		t.Helper()
		if !errs.Is(err, want) {
			t.Errorf("%s: %v, want %s", fmt.Sprintf(format, args...), err, want)
		}
	}
}

// ExpectConsistent reports disagreements between links, their versions and their events.
func (w *World) ExpectConsistent(t *testing.T) {
	t.Helper()
	if all := w.Differences(t); len(all) > 0 {
		t.Errorf("differences: %v", all)
	}
}
