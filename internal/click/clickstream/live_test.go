package clickstream

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/click"
	"github.com/linkforge/linkforge/internal/click/clicksql"
	"github.com/linkforge/linkforge/internal/click/clickstore"
	"github.com/linkforge/linkforge/internal/click/clicktest"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/feed"
	"github.com/linkforge/linkforge/internal/platform/feed/feedtest"
	"github.com/linkforge/linkforge/internal/platform/id"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
	"github.com/linkforge/linkforge/internal/tenant/workspace/workspacetest"
)

// newLive returns the Live of a node that does not run.
func newLive(d *db.DB) *Live {
	return New(d, &clicksql.Store{DB: d, Now: clicktest.AtNoon}, slog.New(slog.DiscardHandler), clicktest.AtNoon)
}

// run runs it until the test's end.
func (l *Live) run(t *testing.T) *Live {
	t.Helper()
	feedtest.Run(t, l, clicktest.AtNoon)
	return l
}

// watch is a subscriber.
type watch struct{ *feed.Watch[*click.Click] }

// watch watches until the test's end.
func (l *Live) watch(t *testing.T, m workspace.Membership, linkID, after string) watch {
	t.Helper()
	w := must.Value(l.Watch(t.Context(), m, linkID, after))(t)
	t.Cleanup(w.Close)
	return watch{w}
}

// receiveIDs waits for n clicks and returns their ids.
func (w watch) receiveIDs(t *testing.T, n int) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var ids []string
	for range n {
		c, err := w.Next(ctx)
		if err != nil {
			t.Errorf("after %d clicks of %d: %v", len(ids), n, err)
			return ids
		}
		ids = append(ids, c.PublicID())
	}
	return ids
}

// wantNoClick fails if a click is delivered during two polls. It attaches the watch.
func (w watch) wantNoClick(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*feedtest.Interval)
	defer cancel()
	if c, err := w.Next(ctx); err == nil {
		t.Errorf("received %s, want no further click", c.PublicID())
	}
}

// TestLive_DeliversEachClickOnceInOrder: while several processes write, subscribers at two
// nodes receive all clicks of their workspaces. Some are too slow for the buffer, some subscribe
// later, and some change the node.
func TestLive_DeliversEachClickOnceInOrder(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := clicktest.Setup(t, d)
		other := workspacetest.New(t, b.Store.DB, "grace")
		links := []string{id.New(id.Link), id.New(id.Link)}
		foreign := id.New(id.Link)
		nodes := []*Live{newLive(d).run(t), newLive(d).run(t)}
		const writers, rounds, size = 4, 10, 100
		const all = writers * rounds * size
		var watching sync.WaitGroup
		var mu sync.Mutex
		received := map[string][]string{}
		keep := func(name string, ids []string) {
			mu.Lock()
			defer mu.Unlock()
			received[name] = ids
		}
		for i, l := range nodes {
			whole, one, w := l.watch(t, b.Member, "", ""), l.watch(t, b.Member, links[0], ""), l.watch(t, b.Member, "",
				"")
			watching.Go(func() { keep(fmt.Sprintf("all at %d", i), whole.receiveIDs(t, all)) })
			watching.Go(func() { keep(fmt.Sprintf("one at %d", i), one.receiveIDs(t, all/2)) })
			watching.Go(func() {
				ids := w.receiveIDs(t, 1)
				late := nodes[1-i].watch(t, b.Member, "", ids[0])
				keep(fmt.Sprintf("later at %d", i), append(ids, late.receiveIDs(t, all-1)...))
			})
		}
		slow := nodes[0].watch(t, b.Member, "", "")
		slow.wantNoClick(t)
		theirs := nodes[1].watch(t, other, "", "")
		var writing sync.WaitGroup
		for i := range writers {
			w := clicksql.Store{DB: d, Now: clicktest.AtNoon}
			logID := id.New(id.Log)
			writing.Go(func() {
				for round := range rounds {
					var batch []click.Click
					for n := range size {
						batch = append(batch, click.Click{WorkspaceID: b.Member.ID(), LinkID: links[n%2],
							ClickedAt: clicktest.Noon.Add(time.Duration(n*round) * time.Second)})
					}
					batch = append(batch,
						click.Click{WorkspaceID: other.ID(), LinkID: foreign, ClickedAt: clicktest.Noon})
					if err := w.Write(t.Context(),
						clickstore.Batch{Log: logID, To: int64(round + 1), Clicks: batch}); err != nil {
						t.Errorf("writer %d: %v", i, err)
					}
				}
			})
		}
		writing.Wait()
		keep("slow", slow.receiveIDs(t, all))
		keep("foreign", theirs.receiveIDs(t, writers*rounds))
		watching.Wait()
		slow.wantNoClick(t)

		whole := received["slow"]
		sorted := slices.Sorted(slices.Values(whole))
		if len(slices.Compact(sorted)) != all {
			t.Errorf("received %d distinct clicks, want %d", len(slices.Compact(sorted)), all)
		}
		for name, ids := range received {
			switch {
			case name == "foreign":
				for _, one := range ids {
					if slices.Contains(whole, one) {
						t.Fatalf("%s was delivered to both workspaces", one)
					}
				}
			case strings.HasPrefix(name, "one"):
				if diff := cmp.Diff(received["one at 0"], ids); diff != "" || !feedtest.IsSubsequence(ids, whole) {
					t.Errorf("%s: another order", name)
				}
			case strings.HasPrefix(name, "later") && !slices.Equal(ids, whole[len(whole)-len(ids):]),
				!strings.HasPrefix(name, "later") && !slices.Equal(ids, whole):
				t.Errorf("%s: another order", name)
			}
		}
		if s := nodes[0].Stats(); s.Watches == 0 {
			t.Errorf("got stats %+v, want watches", s)
		}
	})
}

// TestLive_WaitsForEarlierTransactions: clicks are delivered in the order of the starts of their
// transactions, even if an earlier one commits last.
func TestLive_WaitsForEarlierTransactions(t *testing.T) {
	t.Parallel()
	d := dbtest.MigratedPostgres(t)
	b := clicktest.Setup(t, d)
	early, late := id.New(id.Link), id.New(id.Link)
	w := clicksql.Store{DB: d, Now: clicktest.AtNoon}
	must.NoError(t,
		w.Write(t.Context(),
			clickstore.Batch{Log: "log", To: 1, Clicks: []click.Click{{WorkspaceID: b.Member.ID(), LinkID: late,
				ClickedAt: clicktest.Noon}}}))
	l := newLive(d)
	watch := l.watch(t, b.Member, "", "")
	start := must.Value(l.clicks.head(t.Context()))(t)
	begun, goOn, ended := make(chan struct{}), make(chan struct{}), make(chan error)
	go func() {
		ended <- d.Tx(db.AsSystem(t.Context()), func(ctx context.Context, tx bun.Tx) error {
			if _, err := tx.ExecContext(ctx, "SELECT pg_current_xact_id()"); err != nil {
				return err
			}
			close(begun)
			<-goOn
			row := click.Row{ID: 1 << 40, WorkspaceID: b.Member.ID(), LinkID: early, ClickedAt: clicktest.Noon}
			if _, err := tx.NewInsert().Model(&row).Exec(ctx); err != nil {
				return err
			}
			return clickstore.Announce(ctx, tx, []click.Click{*row.Click()}, clicktest.Noon)
		})
	}()
	<-begun
	if err := w.Write(t.Context(),
		clickstore.Batch{Log: "log", To: 2, Clicks: []click.Click{{WorkspaceID: b.Member.ID(), LinkID: late,
			ClickedAt: clicktest.Noon}}}); err != nil {
		t.Error(err)
	}
	for range 3 {
		if s, err := l.clicks.After(t.Context(), start, []string{b.Member.ID()}); err != nil ||
			slices.ContainsFunc(s.Items, func(c item) bool { return c.Position.Seq > 1 }) {
			t.Errorf("delivered before the earlier transaction ended: %+v: %v", s.Items, err)
		}
	}
	close(goOn)
	must.NoError(t, <-ended)
	l.run(t)
	var received []string
	for len(received) < 2 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		c, err := watch.Next(ctx)
		cancel()
		must.NoError(t, err)
		if c.ID != 1<<40 && len(received) == 0 {
			continue // the first click, if the transaction of another test delayed it
		}
		received = append(received, c.LinkID)
	}
	if diff := cmp.Diff([]string{early, late}, received); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
	// A subscriber that resumes after the first click receives the second one, at any node.
	again := newLive(d).run(t).watch(t, b.Member, "", (&click.Click{ID: 1 << 40, ClickedAt: clicktest.Noon}).PublicID())
	if c, err := again.Next(t.Context()); err != nil || c.LinkID != late {
		t.Errorf("after the first comes %+v: %v", c, err)
	}
	again.wantNoClick(t)
}

func TestLive_ResumesFromCursor(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := clicktest.Setup(t, d)
		other, linkID := workspacetest.New(t, b.Store.DB, "grace"), id.New(id.Link)
		l := newLive(d).run(t)
		w := l.watch(t, b.Member, linkID, "")
		b.RecordClicks(linkID, clicktest.Noon, 1, 2, 3)
		b.FlushClicks(t)
		ids := w.receiveIDs(t, 3)
		if diff := cmp.Diff(ids[1:], l.watch(t, b.Member, "", ids[0]).receiveIDs(t, 2)); diff != "" {
			t.Errorf("after the first (-want +got):\n%s", diff)
		}
		l.watch(t, b.Member, "", ids[2]).wantNoClick(t)
		refused := func(m workspace.Membership, after string, want errs.Kind) {
			t.Helper()
			if _, err := l.Watch(t.Context(), m, "", after); !errs.Is(err, want) {
				t.Errorf("after %q: %v, want %s", after, err, want)
			}
		}
		refused(b.Member, "nonsense", errs.InvalidInput)
		refused(b.Member, linkID, errs.InvalidInput)
		refused(b.Member, (&click.Click{ID: 99, ClickedAt: clicktest.Noon}).PublicID(), errs.Expired)
		refused(other, ids[0], errs.Expired)
		refused(workspace.Membership{}, ids[0], errs.Forbidden)

		b.RecordClicks(linkID, clicktest.Noon, 4)
		b.FlushClicks(t)
		later := func() time.Time { return clicktest.Noon.Add(25 * time.Hour) }
		must.NoError(t, New(d, nil, slog.Default(), later).DeleteExpiredBatches(t.Context()))
		if n, err := d.NewSelect().Table("click_batches").Count(db.AsSystem(t.Context())); err != nil || n != 1 {
			t.Errorf("%d batches are left, want the last: %v", n, err)
		}
		refused(b.Member, ids[0], errs.Expired)
		last := w.receiveIDs(t, 1)
		l.watch(t, b.Member, "", last[0]).wantNoClick(t)
		late := clickLog{db: d, now: later}
		if _, err := late.After(t.Context(), feed.Position{At: clicktest.Noon}, nil); !errs.Is(err, errs.Expired) {
			t.Errorf("after a day without an answer: %v", err)
		}
	})
}
