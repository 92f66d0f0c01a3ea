package audit

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/feed"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/page"
	"github.com/linkforge/linkforge/internal/platform/poll/polltest"
)

// noon is when the tests begin.
var noon = dbtest.Noon

// write keeps events of a workspace that is made for them.
func write(t *testing.T, d *db.DB, workspaceID string, events ...*Event) {
	t.Helper()
	must.NoError(t, d.Tx(db.AsSystem(t.Context()), func(ctx context.Context, tx bun.Tx) error {
		_, err := tx.NewRaw("INSERT INTO workspaces (id, slug, name, created_at, updated_at) VALUES (?, ?, 'n', ?, "+
			"?) ON "+
			"CONFLICT DO NOTHING",
			workspaceID, workspaceID, noon, noon).Exec(ctx)
		if err != nil {
			return err
		}
		return Write(ctx, tx, events...)
	}))
}

// targets are the targets of all events of a workspace, oldest first, in pages of 7.
func targets(t *testing.T, d *db.DB, workspaceID string, f *Filter) (all []string) {
	t.Helper()
	r := page.Request{Size: 7}
	for {
		p := must.Value(List(db.InWorkspace(t.Context(), workspaceID, ""), d, workspaceID, f, r))(t)
		for _, e := range p.Items {
			all = append(all, e.TargetID)
			r.After = e.ID
		}
		if !p.HasNext {
			slices.Reverse(all)
			return all
		}
	}
}

func TestList_Filters(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		var events []*Event
		for i := range 12 {
			action, actor := LinkCreated, "usr_a"
			if i%3 == 0 {
				action = LinkDeleted
			}
			if i%4 == 0 {
				actor = ""
			}
			events = append(events, New("ws_mine", actor, action, fmt.Sprintf("t%d", i), nil,
				noon.Add(time.Duration(i)*time.Hour)))
		}
		write(t, d, "ws_mine", events...)
		write(t, d, "ws_foreign", New("ws_foreign", "usr_a", LinkCreated, "foreign", nil, noon))
		from, to := noon.Add(2*time.Hour), noon.Add(5*time.Hour)
		for name, c := range map[string]struct {
			filter *Filter
			want   []string
		}{
			"none":    {nil, []string{"t0", "t1", "t2", "t3", "t4", "t5", "t6", "t7", "t8", "t9", "t10", "t11"}},
			"actions": {&Filter{Actions: []Action{LinkDeleted, KeyCreated}}, []string{"t0", "t3", "t6", "t9"}},
			"an actor": {&Filter{ActorID: new("usr_a"), Actions: []Action{LinkDeleted}},
				[]string{"t3", "t6", "t9"}},
			"the server itself": {&Filter{ActorID: new("")}, []string{"t0", "t4", "t8"}},
			"a target":          {&Filter{TargetID: new("t5")}, []string{"t5"}},
			"another's target":  {&Filter{TargetID: new("foreign")}, nil},
			"a time":            {&Filter{From: &from, To: &to}, []string{"t2", "t3", "t4"}},
		} {
			if diff := cmp.Diff(c.want, targets(t, d, "ws_mine", c.filter)); diff != "" {
				t.Errorf("%s: (-want +got):\n%s", name, diff)
			}
		}
		for _, odd := range []string{"' OR true --", "\x00", "\xff", "USR_A", string(make([]byte, 200))} {
			for _, f := range []*Filter{{ActorID: &odd}, {TargetID: &odd}} {
				if _, err := List(t.Context(), d, "ws_mine", f, page.Request{Size: 1}); !errs.Is(err,
					errs.InvalidInput) {
					t.Errorf("%q: %v", odd, err)
				}
			}
		}
	})
}

// TestEvents_AreKeptFor400Days, and not longer, however many there are.
func TestEvents_AreKeptFor400Days(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		var events []*Event
		for range 2*batch + 10 {
			events = append(events, New("ws_mine", "", LinkCreated, "old", nil, noon.Add(-Retention)))
		}
		events = append(events, New("ws_mine", "", LinkCreated, "kept", nil, noon.Add(-Retention+time.Microsecond)))
		write(t, d, "ws_mine", events...)
		s := &Store{DB: d, Now: func() time.Time { return noon }}
		must.NoError(t, s.CleanUp(t.Context()))
		if diff := cmp.Diff([]string{"kept"}, targets(t, d, "ws_mine", nil)); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
	})
}

// TestExport_HasOnlyOwnEvents: of all workspaces, in parts.
func TestExport_HasOnlyOwnEvents(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		var events []*Event
		for range batch + 1 {
			events = append(events, New("ws_mine", "usr_a", LinkCreated, "mine", nil, noon))
		}
		write(t, d, "ws_mine", append(events, New("ws_mine", "usr_b", LinkCreated, "other", nil, noon))...)
		write(t, d, "ws_another", New("ws_another", "usr_a", LinkCreated, "another", nil, noon))
		s := &Store{DB: d, Now: func() time.Time { return noon }}
		got, everywhere := map[string]int{}, func(q *bun.SelectQuery) *bun.SelectQuery { return q }
		for next, parts := "", 0; parts == 0 || next != ""; parts++ {
			part, more, err := s.Export(t.Context(), "usr_a", everywhere, next)
			if err != nil || parts > 2 {
				t.Fatal(parts, err)
			}
			for _, e := range part {
				got[e.TargetID]++
			}
			next = more
		}
		if diff := cmp.Diff(map[string]int{"mine": batch + 1, "another": 1}, got); diff != "" {
			t.Errorf("exported (-want +got):\n%s", diff)
		}
	})
}

// TestWrite_UsesNoNumberAgain: a reader of the log misses no event after the newest ones were
// deleted.
func TestWrite_UsesNoNumberAgain(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		ctx := db.AsSystem(t.Context())
		read := func(after feed.Position) (rows []feed.Position) {
			polltest.Until(t, "the events are final", func() (ok bool) {
				var err error
				if rows, err = WrittenAfter(ctx, d, after, 10); err != nil {
					t.Fatal(err)
				}
				return len(rows) > 0
			})
			return rows
		}
		write(t, d, "ws_gone", New("ws_gone", "", LinkCreated, "a", nil, noon),
			New("ws_gone", "", LinkDeleted, "a", nil, noon))
		before := read(feed.Position{})
		must.Value(d.NewDelete().Model((*Event)(nil)).Where("workspace_id = ?", "ws_gone").Exec(ctx))(t)
		write(t, d, "ws_mine", New("ws_mine", "", LinkCreated, "b", nil, noon))
		after := read(before[len(before)-1])
		if len(before) != 2 || len(after) != 1 {
			t.Errorf("read %d events, then %d", len(before), len(after))
		}
	})
}

// links returns n events of one action, each about another link.
func links(n int, action Action) (events []*Event) {
	for i := range n {
		events = append(events, New("ws_a", "", action, fmt.Sprint("lnk_", i), nil, noon))
	}
	return events
}

// feedIn reads a page of the feed.
func feedIn(t *testing.T, d *db.DB, r FeedRequest) page.Page[*Event] {
	t.Helper()
	r.Actions = LinkActions
	p, _, err := Feed(db.InWorkspace(t.Context(), "ws_a", ""), d, "ws_a", r, noon)
	must.NoError(t, err)
	return p
}

// TestIndexes_AreUsed names a query for each index of the table: without it, the query would read
// all events of the workspace, or of all workspaces.
func TestIndexes_AreUsed(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		events := slices.Concat(links(3000, LinkCreated), links(5, LinkExpired))
		for range 200 { // the log has them last, so reading it in order reads all others
			events = append(events, New("ws_a", "", LinkUpdated, "lnk_7", nil, noon))
		}
		var few []*Event
		for range 20 {
			events = append(events, New("ws_a", "usr_few", LinkUpdated, "lnk_8", nil, noon))
			few = append(few, New("ws_few", "", LinkCreated, "lnk_few", nil, noon))
		}
		write(t, d, "ws_a", events...)
		write(t, d, "ws_few", few...)
		list := func(d *db.DB, workspaceID string, f *Filter) {
			must.Value(List(db.AsSystem(t.Context()), d, workspaceID, f, page.Request{Size: 20}))(t)
		}
		read := func(d *db.DB, r LogRequest) {
			r.Actions, r.UpTo, r.Limit = LinkActions, feed.Position{XID: 1 << 60, Seq: 1 << 60}, 50
			must.Value(Read(db.AsSystem(t.Context()), d, r))(t)
		}
		polltest.Until(t, "all events are final, which plans depend on", func() bool {
			return len(feedIn(t, d, FeedRequest{TargetID: "lnk_7", Size: 20}).Items) == 20
		})
		dbtest.Analyze(t, d)
		for _, c := range []struct {
			name, index string
			read        func(d *db.DB)
		}{
			{"a page about a link", "audit_events_by_target", func(d *db.DB) {
				feedIn(t, d, FeedRequest{TargetID: "lnk_7", Size: 20})
			}},
			{"a page of rare events", "audit_events_rare", func(d *db.DB) {
				feedIn(t, d, FeedRequest{Wanted: []Action{LinkExpired, DestinationFailed}, Size: 20})
			}},
			{"a stream about a link", "audit_events_by_target", func(d *db.DB) {
				read(d, LogRequest{WorkspaceIDs: []string{"ws_a"}, TargetID: "lnk_7"})
			}},
			{"a stream of a workspace", "audit_events_in_order", func(d *db.DB) {
				read(d, LogRequest{WorkspaceIDs: []string{"ws_few"}})
			}},
			{"the log of all workspaces", "audit_events_(by_commit|seq)", func(d *db.DB) {
				must.Value(WrittenAfter(db.AsSystem(t.Context()), d, feed.Position{XID: 1 << 60, Seq: 1 << 60}, 50))(t)
			}},
			{"an audit log", "audit_events_in_workspace", func(d *db.DB) { list(d, "ws_few", nil) }},
			{"the changes of an actor", "audit_events_by_actor", func(d *db.DB) {
				list(d, "ws_a", &Filter{ActorID: new("usr_few")})
			}},
		} {
			plans := dbtest.Plans(t, d, c.read)
			last := plans[len(plans)-1]
			if !regexp.MustCompile(`(Index.* using|Index Scan on|USING .*INDEX) ` + c.index).MatchString(last) {
				t.Errorf("%s does not read %s:\n%s", c.name, c.index, last)
			}
		}
	})
}

// TestFeed_StopsEarly: a page reads a bounded part of the log. Its end is not that of the last
// event.
func TestFeed_StopsEarly(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		created := links(maxScanned+10, LinkCreated)
		write(t, d, "ws_a", slices.Concat(links(1, LinkUpdated), created, links(1, LinkUpdated))...)
		polltest.Until(t, "all events are final", func() bool {
			return len(feedIn(t, d, FeedRequest{TargetID: "lnk_0", Size: 20}).Items) == 3
		})
		r := FeedRequest{Wanted: []Action{LinkUpdated}, Size: 20}
		p := feedIn(t, d, r)
		if len(p.Items) != 1 || !p.HasNext || p.End != created[maxScanned-2].ID {
			t.Errorf("%d events, more: %t, end %q, want %q", len(p.Items), p.HasNext, p.End, created[maxScanned-2].ID)
		}
		r.After = p.End
		if p = feedIn(t, d, r); len(p.Items) != 1 || p.HasNext || p.End != "" {
			t.Errorf("next page: %d events, more: %t, end %q", len(p.Items), p.HasNext, p.End)
		}
		r = FeedRequest{Size: 20}
		if p = feedIn(t, d, r); len(p.Items) != 20 || !p.HasNext || p.End != "" {
			t.Errorf("a full page: %d events, more: %t, end %q", len(p.Items), p.HasNext, p.End)
		}
	})
}
