package click

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/dbtest"
	"github.com/linkforge/linkforge/internal/id"
	"github.com/linkforge/linkforge/internal/workspace"
)

// TestAClaimedLinkBringsItsPast: days that were summed up and days that were not, of the link, into a workspace that has some
// of both.
func TestAClaimedLinkBringsItsPast(t *testing.T) {
	t.Parallel()
	for name, seals := range map[string]func(w *world, stage int) bool{
		"never summed up":     func(*world, int) bool { return false },
		"summed up before":    func(_ *world, stage int) bool { return stage == 0 },
		"summed up each time": func(*world, int) bool { return true },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dbtest.Each(t, func(t *testing.T, d *db.DB) {
				w, random := newWorld(t, d), rand.New(rand.NewPCG(4, 4))
				anonymous := w.links[len(w.links)-1].LinkID
				stage := func(n int, from, to time.Time) {
					var clicks []Click
					for range 60 {
						clicks = append(clicks, w.draw(random, from, to))
					}
					w.writeAll(t, random, clicks)
					if w.set(to); seals(w, n) {
						if err := w.Seal(t.Context()); err != nil {
							t.Fatal(err)
						}
					}
				}
				stage(0, noon.Add(-20*day), noon.Add(-10*day))
				stage(1, noon.Add(-10*day), noon)
				w.move(t, anonymous)
				w.verify(t)
				stage(2, noon.Add(-20*day), noon.Add(day)) // clicks that come late do so as those of nobody
				w.checkTotals(t)
				w.verify(t)
				for range 8 {
					q := w.ask(random, noon.Add(-21*day), noon.Add(2*day))
					q.member = w.members[0]
					w.check(t, random, q)
				}
				q := w.all(w.members[0], noon.Add(-21*day).Truncate(day), noon.Add(2*day).Truncate(day))
				w.checkBreakdown(t, q, ByLink, 10, w.meant(q))
				q.of.LinkID, q.links = anonymous, []string{anonymous}
				w.check(t, random, q)
				if all := w.meant(q); !slices.ContainsFunc(all, func(c *Click) bool { return c.LinkID == anonymous && c.IsVisit }) {
					t.Fatal("the link has no visitors")
				}
			})
		})
	}
}

// TestALinkIsClaimedWhileItIsFollowed, and what is written meanwhile is in one place or the other, and then in the workspace.
func TestALinkIsClaimedWhileItIsFollowed(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		w := newWorld(t, d)
		anonymous := w.links[len(w.links)-1]
		var running sync.WaitGroup
		var mu sync.Mutex
		begun := make(chan struct{}, 12)
		for range 2 {
			running.Go(func() {
				own, log := writer{db: d, now: atNoon}, id.New(id.Log)
				for position := range int64(6) {
					batch := slices.Concat(crowdOf(anonymous, noon.Add(-day), 10), crowdOf(w.links[0], noon, 10))
					if err := own.write(t.Context(), log, position+1, batch); err != nil {
						t.Error(err)
					}
					mu.Lock()
					w.remember(batch)
					mu.Unlock()
					begun <- struct{}{}
				}
			})
		}
		<-begun
		err := d.Tx(db.AsSystem(t.Context()), func(ctx context.Context, tx bun.Tx) error {
			return w.Move(ctx, tx, anonymous.LinkID, w.members[0].ID())
		})
		running.Wait()
		w.moved(anonymous.LinkID)
		if err != nil {
			t.Fatal(err)
		}
		w.verify(t)
		w.checkTotals(t)
		q := w.all(w.members[0], noon.Add(-2*day), noon.Add(day))
		for _, by := range []Dimension{ByLink, Status} {
			w.checkBreakdown(t, q, by, 10, w.meant(q))
		}
	})
}

// TestAPurgedWorkspaceLeavesNothing in any table that says whose its rows are, and takes nothing of others.
func TestAPurgedWorkspaceLeavesNothing(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		w, random := newWorld(t, d), rand.New(rand.NewPCG(6, 6))
		var clicks []Click
		for range 200 {
			clicks = append(clicks, w.draw(random, noon.Add(-20*day), noon))
		}
		w.writeAll(t, random, clicks)
		w.move(t, w.links[len(w.links)-1].LinkID)
		if err := w.Seal(t.Context()); err != nil {
			t.Fatal(err)
		}
		gone := w.members[0].ID()
		own := []string{gone}
		for _, l := range w.links {
			if l.WorkspaceID == gone {
				own = append(own, l.LinkID)
			}
		}
		for range 2 {
			if err := w.PurgeWorkspace(t.Context(), gone); err != nil {
				t.Fatal(err)
			}
		}
		for table, columns := range map[string][]string{
			"clicks": {"workspace_id", "link_id"}, quarters: {"workspace_id", "subject_id"}, days: {"workspace_id", "subject_id"},
			"click_totals": {"workspace_id", "subject_id"}, "orphans": {"workspace_id"},
		} {
			for _, column := range columns {
				n, err := d.NewSelect().Table(table).Where("? IN (?)", bun.Ident(column), bun.In(own)).Count(db.AsSystem(t.Context()))
				if err != nil || n > 0 {
					t.Errorf("%d rows of %s have such a %s: %v", n, table, strings.ReplaceAll(column, "_", " "), err)
				}
			}
		}
		w.clicks = slices.DeleteFunc(w.clicks, func(c Click) bool { return c.WorkspaceID == gone })
		w.checkTotals(t)
		w.verify(t)
		q := w.all(w.members[1], noon.Add(-21*day), noon.Add(day))
		if n := w.meant(q); len(n) == 0 || n[0].WorkspaceID == workspace.PublicID {
			t.Fatal("nobody else has clicks")
		}
		w.check(t, random, q)
	})
}
