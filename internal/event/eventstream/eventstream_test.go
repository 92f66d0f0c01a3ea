package eventstream

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/event/audit"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/feed"
	"github.com/linkforge/linkforge/internal/platform/feed/feedtest"
	"github.com/linkforge/linkforge/internal/platform/id"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/page"
	"github.com/linkforge/linkforge/internal/platform/poll/polltest"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
	"github.com/linkforge/linkforge/internal/tenant/workspace/workspacetest"
)

var noon = dbtest.Noon

func atNoon() time.Time { return noon }

// node runs a Live until the test's end.
func node(t *testing.T, d *db.DB) *Live {
	t.Helper()
	l := New(d, slog.New(slog.DiscardHandler), atNoon)
	feedtest.Run(t, l, atNoon)
	return l
}

// watch is a subscriber.
type watch struct{ *feed.Watch[*audit.Event] }

// watch watches until the test's end.
func (l *Live) watch(t *testing.T, m workspace.Membership, f Filter, after string) watch {
	t.Helper()
	w := must.Value(l.Watch(t.Context(), m, f, after))(t)
	t.Cleanup(w.Close)
	return watch{w}
}

// receive waits for n events and returns their ids.
func (w watch) receive(t *testing.T, n int) (ids []string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for range n {
		e, err := w.Next(ctx)
		if err != nil {
			t.Errorf("after %d events of %d: %v", len(ids), n, err)
			return ids
		}
		ids = append(ids, e.ID)
	}
	return ids
}

// expectNone fails if an event is delivered during two polls.
func (w watch) expectNone(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*feedtest.Interval)
	defer cancel()
	if e, err := w.Next(ctx); err == nil {
		t.Errorf("received %+v, want no further event", e)
	}
}

// write writes events in one transaction.
func write(t *testing.T, d *db.DB, events ...*audit.Event) {
	t.Helper()
	err := d.Tx(db.AsSystem(t.Context()), func(ctx context.Context, tx bun.Tx) error {
		return audit.Write(ctx, tx, events...)
	})
	if err != nil {
		t.Error(err)
	}
}

func event(m workspace.Membership, action audit.Action, linkID string) *audit.Event {
	return audit.New(m.ID(), "", action, linkID, nil, noon)
}

// feedIDs returns the ids of all events of the feed.
func feedIDs(t *testing.T, s *workspace.Store, m workspace.Membership) (ids []string) {
	t.Helper()
	for r := (audit.FeedRequest{Size: 70}); ; r.After = ids[len(ids)-1] {
		p, _, err := s.Events(t.Context(), m, r)
		must.NoError(t, err)
		if ids = append(ids, p.Cursors...); !p.HasNext {
			return ids
		}
	}
}

// auditLog returns the ids of all events of links in the audit log, in the order of ids.
func auditLog(t *testing.T, s *workspace.Store, m workspace.Membership) (ids []string) {
	t.Helper()
	for r := (page.Request{Size: 100}); ; r.After = ids[len(ids)-1] {
		p := must.Value(s.AuditLog(t.Context(), m, &audit.Filter{Actions: audit.LinkActions}, r))(t)
		for _, e := range p.Items {
			ids = append(ids, e.ID)
		}
		if !p.HasNext {
			return ids
		}
	}
}

// TestLive_AgreesWithFeedAndAuditLog: while several writers commit, subscribers at two nodes
// receive all events of their workspaces in the order of the feed, also subscribers that join later
// or at another node.
func TestLive_AgreesWithFeedAndAuditLog(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		s := &workspace.Store{DB: d, Now: atNoon}
		mine, other := workspacetest.New(t, d, "ada"), workspacetest.New(t, d, "grace")
		nodes := []*Live{node(t, d), node(t, d)}
		const writers, rounds, size = 4, 15, 7
		const all = writers * rounds * size
		links := []string{id.New(id.Link), id.New(id.Link)}
		var mu sync.Mutex
		received := map[string][]string{}
		keep := func(name string, ids []string) {
			mu.Lock()
			defer mu.Unlock()
			received[name] = ids
		}
		var watching, writing sync.WaitGroup
		for i, l := range nodes {
			whole, first := l.watch(t, mine, Filter{}, ""), l.watch(t, mine, Filter{}, "")
			one := l.watch(t, mine, Filter{TargetID: links[0]}, "")
			watching.Go(func() { keep(fmt.Sprintf("all at %d", i), whole.receive(t, all)) })
			watching.Go(func() { keep(fmt.Sprintf("one at %d", i), one.receive(t, writers*rounds*4)) })
			watching.Go(func() {
				ids := first.receive(t, 1)
				later := nodes[1-i].watch(t, mine, Filter{}, ids[0])
				keep(fmt.Sprintf("later at %d", i), append(ids, later.receive(t, all-1)...))
			})
		}
		theirs := nodes[1].watch(t, other, Filter{}, "")
		for range writers {
			writing.Go(func() {
				for range rounds {
					events := []*audit.Event{event(other, audit.LinkUpdated, links[0])}
					for i := range size {
						events = append(events, event(mine, audit.LinkUpdated, links[i%2]))
					}
					write(t, d, events...)
				}
			})
		}
		writing.Wait()
		keep("foreign", theirs.receive(t, writers*rounds))
		watching.Wait()

		var order []string
		polltest.Until(t, "the feed has all events", func() bool {
			order = feedIDs(t, s, mine)
			return len(order) >= all
		})
		logged := auditLog(t, s, mine)
		slices.Sort(logged)
		if diff := cmp.Diff(logged, slices.Sorted(slices.Values(order))); diff != "" {
			t.Errorf("the feed (-audit log +feed):\n%s", diff)
		}
		for _, name := range []string{"all at 0", "all at 1", "later at 0", "later at 1"} {
			if diff := cmp.Diff(order, received[name]); diff != "" {
				t.Errorf("%s (-feed +received):\n%s", name, diff)
			}
		}
		if !slices.Equal(received["one at 0"], received["one at 1"]) ||
			!feedtest.IsSubsequence(received["one at 0"], order) {
			t.Error("the events of one link come in another order")
		}
		if diff := cmp.Diff(feedIDs(t, s, other), received["foreign"]); diff != "" {
			t.Errorf("the other workspace (-feed +received):\n%s", diff)
		}
	})
}

// TestLive_WaitsForOpenTransactions: a transaction that began earlier and commits later has its
// events in its position. Nothing is delivered before.
func TestLive_WaitsForOpenTransactions(t *testing.T) {
	t.Parallel()
	d := dbtest.MigratedPostgres(t)
	s, m, linkID := &workspace.Store{DB: d, Now: atNoon}, workspacetest.New(t, d, "ada"), id.New(id.Link)
	nodes := []*Live{node(t, d), node(t, d)}
	var watches []watch
	for _, l := range nodes {
		watches = append(watches, l.watch(t, m, Filter{}, ""))
	}
	early, late := event(m, audit.LinkCreated, linkID), event(m, audit.LinkDeleted, linkID)
	err := d.Tx(db.AsSystem(t.Context()), func(ctx context.Context, tx bun.Tx) error {
		if err := audit.Write(ctx, tx, early); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, "SELECT 1"); err != nil { // that the event is sent with
			return err
		}
		write(t, d, late)
		for _, w := range watches {
			w.expectNone(t)
		}
		// A client that knows the id from the audit log may start there: it receives no earlier
		// event.
		nodes[0].watch(t, m, Filter{}, late.ID).expectNone(t)
		if got := feedIDs(t, s, m); len(got) > 0 {
			t.Errorf("the feed has %v before the earlier transaction ends", got)
		}
		return nil
	})
	must.NoError(t, err)
	want := []string{early.ID, late.ID}
	for _, w := range watches {
		if diff := cmp.Diff(want, w.receive(t, 2)); diff != "" {
			t.Errorf("received (-want +got):\n%s", diff)
		}
	}
	if diff := cmp.Diff(want, feedIDs(t, s, m)); diff != "" {
		t.Errorf("feed (-want +got):\n%s", diff)
	}
}

// TestWatch_ResumesFromCursor: after an event of the workspace that is at most 30 days old.
func TestWatch_ResumesFromCursor(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		m, other, l := workspacetest.New(t, d, "ada"), workspacetest.New(t, d, "grace"), node(t, d)
		linkID := id.New(id.Link)
		var events []*audit.Event
		for _, action := range []audit.Action{
			audit.LinkCreated, audit.LinkUpdated, audit.DomainLost, audit.MemberJoined, audit.LinkPurged,
		} {
			events = append(events, event(m, action, linkID))
		}
		expired := event(m, audit.LinkCreated, linkID)
		expired.CreatedAt = noon.Add(-audit.FeedRetention)
		write(t, d, expired)
		write(t, d, events...)
		ids := func(indexes ...int) (ids []string) {
			for _, i := range indexes {
				ids = append(ids, events[i].ID)
			}
			return ids
		}
		for name, c := range map[string]struct {
			filter Filter
			after  int
			want   []string
		}{
			"all":      {Filter{}, 0, ids(1, 2, 4)},
			"a type":   {Filter{Actions: []audit.Action{audit.LinkPurged}}, 0, ids(4)},
			"no type":  {Filter{Actions: []audit.Action{}}, 0, nil},
			"a link":   {Filter{TargetID: linkID}, 1, ids(2, 4)},
			"no link":  {Filter{TargetID: id.New(id.Link)}, 0, nil},
			"the last": {Filter{}, 4, nil},
		} {
			w := l.watch(t, m, c.filter, events[c.after].ID)
			if diff := cmp.Diff(c.want, w.receive(t, len(c.want))); diff != "" {
				t.Errorf("%s: (-want +got):\n%s", name, diff)
			}
			w.expectNone(t)
		}
		for name, c := range map[string]struct {
			in    workspace.Membership
			after string
			want  errs.Kind
		}{
			"no id":              {m, linkID, errs.InvalidInput},
			"unknown":            {m, id.New(id.Event), errs.Expired},
			"too old":            {m, expired.ID, errs.Expired},
			"another workspace":  {other, events[0].ID, errs.Expired},
			"without membership": {workspace.Membership{}, events[0].ID, errs.Forbidden},
		} {
			if _, err := l.Watch(t.Context(), c.in, Filter{}, c.after); !errs.Is(err, c.want) {
				t.Errorf("%s: %v, want %s", name, err, c.want)
			}
		}
	})
}
