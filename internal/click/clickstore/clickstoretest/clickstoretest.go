// Package clickstoretest has the contract of clickstore.Store as a test.
package clickstoretest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/linkforge/linkforge/internal/click"
	"github.com/linkforge/linkforge/internal/click/clickstore"
	"github.com/linkforge/linkforge/internal/click/clicktest"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/page"
	"github.com/linkforge/linkforge/internal/platform/poll/polltest"
	"github.com/linkforge/linkforge/internal/platform/suitetest"
	"github.com/linkforge/linkforge/internal/route/routing"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
)

// Open returns an empty store with a clock. Totals are in the database.
type Open func(t *testing.T, d *db.DB, now func() time.Time) clickstore.Store

// Run tests a store with each database. Visits are those of clicktest.World with firstInTime.
func Run(t *testing.T, firstInTime bool, open Open) {
	for name, test := range map[string]func(*testing.T, *clicktest.World){
		"answers":    answers,
		"lists":      lists,
		"groups":     groups,
		"moves":      moves,
		"purges":     purges,
		"verifies":   verifies,
		"concurrent": concurrent,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dbtest.Each(t, func(t *testing.T, d *db.DB) {
				w := clicktest.NewWorldOf(t, d, func(now func() time.Time) clickstore.Store { return open(t, d, now) })
				w.FirstInTime = firstInTime
				test(t, w)
			})
		})
	}
}

// write writes a batch once, or several times: alone, and as the beginning of a larger one.
func write(t *testing.T, w *clicktest.World, random *rand.Rand, clicks []click.Click) {
	t.Helper()
	clicks = slices.Clone(clicks)
	before := w.Position
	for i := range clicks {
		clicks[i].End = before + int64(i) + 1
	}
	first := len(clicks)
	if random.IntN(2) == 0 {
		first = 1 + random.IntN(len(clicks))
	}
	for _, part := range [][]click.Click{clicks[:first], clicks[first:]} {
		if len(part) == 0 {
			continue
		}
		w.Position = part[len(part)-1].End
		for range 1 + random.IntN(2) {
			sent := clickstore.Batch{Log: w.Log, To: w.Position, Clicks: clicks[:w.Position-before]}
			must.NoError(t, w.Store.Write(t.Context(), sent))
		}
		w.Remember(part)
	}
}

// writeAll writes clicks in batches.
func writeAll(t *testing.T, w *clicktest.World, random *rand.Rand, clicks []click.Click) {
	t.Helper()
	for len(clicks) > 0 {
		n := min(len(clicks), 1+random.IntN(300))
		write(t, w, random, clicks[:n])
		clicks = clicks[n:]
	}
}

// draw draws clicks of all links since an instant.
func draw(w *clicktest.World, random *rand.Rand, n int, since time.Time) []click.Click {
	return w.DrawAll(random, n, since, clicktest.Noon)
}

// answers asks random questions about clicks of 14 months, which are written day by day and late,
// at each stage of their storage.
func answers(t *testing.T, w *clicktest.World) {
	random, from := rand.New(rand.NewPCG(48, 3)), clicktest.Noon.AddDate(0, -15, 0)
	clicks := draw(w, random, suitetest.Size(600, 2000), from)
	clicks = append(clicks, draw(w, random, 200, clicktest.Noon.Add(-3*click.Day))...)
	slices.SortFunc(clicks, func(a, b click.Click) int { return a.ClickedAt.Compare(b.ClickedAt) })
	ask := func(stage string, from time.Time) {
		t.Helper()
		for range 40 / 4 {
			w.Check(t, random, w.Ask(random, from.Add(-3*click.Day), clicktest.Noon.Add(2*click.Day)))
		}
		for _, m := range w.Members {
			w.Check(t, random, w.All(m, from.Truncate(click.Day), clicktest.Noon.Add(2*click.Day).Truncate(click.Day)))
		}
		w.CheckTotals(t)
		w.VerifyRollups(t)
		if t.Failed() {
			t.Fatal(stage)
		}
	}
	var late []click.Click
	for _, until := range []time.Time{from.AddDate(0, 6, 0), from.AddDate(0, 12, 0), clicktest.Noon} {
		w.Set(until)
		end, _ := slices.BinarySearchFunc(clicks, until,
			func(c click.Click, t time.Time) int { return c.ClickedAt.Compare(t) })
		random.Shuffle(end, func(i, j int) { clicks[i], clicks[j] = clicks[j], clicks[i] })
		writeAll(t, w, random, append(late, clicks[end/7:end]...))
		late, clicks = slices.Clone(clicks[:end/7]), clicks[end:]
		w.SealDays(t)
	}
	ask("before the late clicks", from)
	w.Set(clicktest.Noon.Add(time.Hour))
	writeAll(t, w, random,
		slices.DeleteFunc(late, func(c click.Click) bool { return c.ClickedAt.Before(w.ClicksSince()) }))
	ask("with late clicks", from)
	w.Set(clicktest.Noon.Add(5 * click.Day))
	for range 2 {
		w.SealDays(t)
		ask("when days are sealed", from)
	}
	for range 2 {
		w.Tidy(t)
		ask("when months are deleted", from)
	}
	q := w.All(w.Members[0], from, clicktest.Noon)
	ctx := must.Value(q.Member.Enter(t.Context(), workspace.ReadStats))(t)
	if err := w.CheckKept(ctx, clickstore.Query{WorkspaceID: q.Member.ID(), Range: q.R}); !errs.Is(err,
		errs.InvalidInput) {
		t.Errorf("deleted clicks of %s: %v", from, err)
	}
	if err := w.CheckKept(ctx,
		clickstore.Query{WorkspaceID: q.Member.ID(),
			Range: clickstore.Range{From: w.ClicksSince(), To: clicktest.Noon}}); err != nil {
		t.Error(err)
	}
}

// lists reads single clicks in pages, by id and by spans.
func lists(t *testing.T, w *clicktest.World) {
	random, from := rand.New(rand.NewPCG(48, 4)), clicktest.Noon.Add(-40*click.Day)
	writeAll(t, w, random, draw(w, random, 300, from))
	for range 20 {
		q := w.Ask(random, from, clicktest.Noon.Add(click.Day))
		q.R = clickstore.Range{From: q.R.From.Truncate(click.BucketLength),
			To: q.R.To.Truncate(click.BucketLength).Add(click.BucketLength)}
		meant := w.Meant(q)
		slices.SortStableFunc(meant, func(a, b *click.Click) int { return a.ClickedAt.Compare(b.ClickedAt) })
		of := clickstore.Query{WorkspaceID: q.Member.ID(), Subject: q.Of, Range: q.R, Filter: q.F}
		ctx := must.Value(q.Member.Enter(t.Context(), workspace.ReadStats))(t)
		for _, newestFirst := range []bool{false, true} {
			var got []*click.Click
			for p := (clickstore.Page{Size: 1 + random.IntN(40),
				NewestFirst: newestFirst}); ; p.After = got[len(got)-1] {
				found := must.Value(w.Store.List(ctx, of, p))(t)
				if got = append(got, found...); len(found) < p.Size {
					break
				}
			}
			if newestFirst {
				slices.Reverse(got)
			}
			if diff := cmp.Diff(stored(meant), stored(got)); diff != "" {
				t.Fatalf("%v, newest first %t (-want +got):\n%s", q, newestFirst, diff)
			}
			checkIDs(t, w, ctx, q.Member, got)
		}
	}
	rest := must.Value(w.Stats.List(t.Context(), w.Members[0], clickstore.Subject{}, nil, clickstore.Filter{},
		page.Request{Size: 1000}))(t)
	if all := w.Meant(w.All(w.Members[0], from, clicktest.Noon.Add(click.Day))); len(rest.Items) != len(all) {
		t.Errorf("%d clicks without a range, want %d", len(rest.Items), len(all))
	}
}

// stored are clicks as a list has them.
func stored(clicks []*click.Click) (all []click.Click) {
	for _, c := range clicks {
		one := *c
		one.ID, one.End, one.Visitor = 0, 0, 0
		all = append(all, one)
	}
	return all
}

// checkIDs finds clicks again, by their ids and the spans of these.
func checkIDs(t *testing.T, w *clicktest.World, ctx context.Context, m workspace.Membership, clicks []*click.Click) {
	t.Helper()
	if len(clicks) == 0 {
		return
	}
	first, last := clicks[0], clicks[len(clicks)-1]
	ids := []string{first.PublicID(), "click_x", last.PublicID()}
	for _, owner := range w.Members {
		want := 0
		if owner.ID() == m.ID() {
			want = len(slices.Compact([]int64{first.ID, last.ID}))
		}
		if found := must.Value(w.ByID(ctx, owner.ID(), ids...))(t); len(found) != want {
			t.Errorf("%d clicks by id, want %d", len(found), want)
		}
		if found := must.Value(w.WorkspacesOf(ctx, []string{owner.ID()}, ids...))(t); len(found) != want {
			t.Errorf("%d workspaces of clicks, want %d", len(found), want)
		}
	}
	spaces := must.Value(w.WorkspacesOf(ctx, []string{w.Members[0].ID(), w.Members[1].ID()}, ids...))(t)
	if spaces[first.PublicID()] != m.ID() || spaces[last.PublicID()] != m.ID() {
		t.Errorf("the workspaces of clicks are %v", spaces)
	}
	span := clickstore.Span{FirstID: first.ID, LastID: first.ID, FirstAt: first.ClickedAt, LastAt: first.ClickedAt}
	other := clickstore.Span{FirstID: last.ID, LastID: last.ID, FirstAt: last.ClickedAt, LastAt: last.ClickedAt}
	found := must.Value(w.Span(db.AsSystem(ctx), []clickstore.Span{span, other}, []string{m.ID()}, ""))(t)
	if len(found) != len(slices.Compact([]int64{first.ID, last.ID})) {
		t.Errorf("%d clicks of two spans", len(found))
	}
	if found := must.Value(w.Span(db.AsSystem(ctx), []clickstore.Span{span}, []string{m.ID()}, last.LinkID))(t); len(
		found) == 1 != (first.LinkID == last.LinkID) {
		t.Errorf("%d clicks of a span and another link", len(found))
	}
}

// groups counts single clicks by random attributes and phases of time: all of a range, and the newest.
func groups(t *testing.T, w *clicktest.World) {
	random, from := rand.New(rand.NewPCG(48, 9)), clicktest.Noon.Add(-10*click.Day)
	writeAll(t, w, random, draw(w, random, 400, from))
	for round := range 20 {
		if round == 10 {
			w.SealDays(t)
		}
		q := w.Ask(random, from, clicktest.Noon.Add(click.Day))
		q.R = clickstore.Range{From: q.R.From.Truncate(click.BucketLength),
			To: q.R.To.Truncate(click.BucketLength).Add(click.BucketLength)}
		by := clickstore.Grouping{Newest: 1000, Phases: []routing.Phase{{From: q.R.From}}}
		for i := range random.IntN(40) {
			at := q.R.From.Add(time.Duration(1+i) * q.R.To.Sub(q.R.From) / 41).Truncate(time.Microsecond)
			by.Phases = append(by.Phases, routing.Phase{From: at, Number: random.IntN(3)})
		}
		for _, d := range click.VisitDimensions {
			if random.IntN(4) == 0 {
				a := clickstore.Attribute{Dimension: d.Name}
				if random.IntN(2) == 0 {
					a.Named = []string{"de", ".example", "t.example", "chrome", "a"}
				}
				by.By = append(by.By, a)
			}
		}
		meant := w.Meant(q)
		slices.SortStableFunc(meant, func(a, b *click.Click) int { return b.ClickedAt.Compare(a.ClickedAt) })
		if n := len(meant); n > 3 && random.IntN(2) == 0 && meant[n/2-1].ClickedAt.After(meant[n/2].ClickedAt) {
			by.Newest, meant = n/2, meant[:n/2]
		}
		got, want := map[string]int64{}, map[string]int64{}
		oldest := map[string]time.Time{}
		for _, c := range meant {
			key := groupOf(c, by)
			want[key], oldest[key] = want[key]+1, c.ClickedAt
		}
		ctx := must.Value(q.Member.Enter(t.Context(), workspace.ReadStats))(t)
		of := clickstore.Query{WorkspaceID: q.Member.ID(), Subject: q.Of, Range: q.R, Filter: q.F}
		must.NoError(t, w.Store.Groups(ctx, of, by, func(g *clickstore.Group) {
			key := groupOf(&g.Click, by)
			if got[key] += g.Clicks; !g.ClickedAt.Equal(oldest[key]) {
				t.Errorf("the oldest click of %s is of %s, want %s", key, g.ClickedAt, oldest[key])
			}
		}))
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("%v by %v (-want +got):\n%s", q, by, diff)
		}
	}
}

// groupOf returns what distinguishes the group of a click.
func groupOf(c *click.Click, by clickstore.Grouping) string {
	key, phase := fmt.Sprint(c.Bot), 0
	for _, p := range by.Phases {
		if !c.ClickedAt.Before(p.From) {
			phase = p.Number
		}
	}
	for _, a := range by.By {
		value := strings.ToLower(*a.Definition().Text(c))
		if a.Named != nil && value != "" && !slices.Contains(a.Named, value) && !strings.HasSuffix(value, ".example") {
			value = click.Others
		}
		key += ", " + value
	}
	return fmt.Sprint(key, " in ", phase)
}

// moves claims a link without an account, while clicks of it are written: days that are sealed and days
// that are not, into a workspace that has some of both.
func moves(t *testing.T, w *clicktest.World) {
	random, link := rand.New(rand.NewPCG(48, 5)), w.Links[len(w.Links)-1]
	var clicks []click.Click
	for range 120 {
		c := w.Draw(random, clicktest.Noon.Add(-30*time.Hour), clicktest.Noon)
		c.WorkspaceID, c.LinkID = link.WorkspaceID, link.LinkID
		if c.Visitor != 0 {
			c.Visitor = clicktest.Person(&c, random.IntN(3))
		}
		clicks = append(clicks, c)
	}
	writeAll(t, w, random, draw(w, random, 100, clicktest.Noon.Add(-30*time.Hour)))
	writeAll(t, w, random, clicks[:20])
	w.SealDays(t)
	writeAll(t, w, random, clicks[20:40])
	w.Set(clicktest.Noon.Add(time.Hour))
	w.MoveLink(t, link.LinkID)
	settle(t, w)
	for i := range clicks[40:80] { // they were recorded before
		write(t, w, random, clicks[40+i:41+i])
	}
	w.Moved(link.LinkID)
	for range 2 {
		settle(t, w)
		w.SealDays(t)
		w.Check(t, random, w.All(w.Members[0], clicktest.Noon.Add(-2*click.Day), clicktest.Noon.Add(click.Day)))
		w.CheckTotals(t)
		w.VerifyRollups(t)
	}
}

// settle moves the clicks of links that were claimed, where a store does that later.
func settle(t *testing.T, w *clicktest.World) {
	t.Helper()
	if later, ok := w.Store.(interface{ MoveClicks(context.Context) error }); ok {
		must.NoError(t, later.MoveClicks(t.Context()))
	}
}

// purges removes a workspace: nothing of it is left, and everything of the other.
func purges(t *testing.T, w *clicktest.World) {
	random := rand.New(rand.NewPCG(48, 6))
	writeAll(t, w, random, draw(w, random, 200, clicktest.Noon.Add(-5*click.Day)))
	w.SealDays(t)
	gone := w.Members[1].ID()
	for range 2 {
		must.NoError(t, w.PurgeWorkspace(t.Context(), gone))
	}
	w.Clicks = slices.DeleteFunc(w.Clicks, func(c click.Click) bool { return c.WorkspaceID == gone })
	for _, m := range w.Members {
		w.Check(t, random, w.All(m, clicktest.Noon.Add(-6*click.Day), clicktest.Noon.Add(click.Day)))
	}
	w.CheckTotals(t)
	w.VerifyRollups(t)
}

// verifies finds totals that differ from the clicks, and counts them again.
func verifies(t *testing.T, w *clicktest.World) {
	random := rand.New(rand.NewPCG(48, 7))
	writeAll(t, w, random, draw(w, random, 200, clicktest.Noon.Add(-40*click.Day)))
	w.SealDays(t)
	w.VerifyRollups(t)
	broken := w.Links[0].LinkID
	must.Value(w.DB.NewUpdate().Model((*clickstore.Total)(nil)).Set("clicks = clicks + 7").
		Where("subject_id = ?", broken).
		Exec(db.AsSystem(t.Context())))(t)
	var found []string
	subjects := must.Value(w.Verify(t.Context(), func(d clickstore.Difference) {
		if found = append(found, d.SubjectID); d.Counted-d.Clicks != 7 {
			t.Errorf("differs: %+v", d)
		}
	}))(t)
	if !slices.Equal(found, []string{broken}) || subjects < 8 {
		t.Errorf("of %d subjects %v differ, want %s", subjects, found, broken)
	}
	must.Value(w.Rebuild(t.Context()))(t)
	w.VerifyRollups(t)
	w.CheckTotals(t)
}

// concurrent writes several logs at once, each of them by two processes, which try again until a
// batch is written.
func concurrent(t *testing.T, w *clicktest.World) {
	random := rand.New(rand.NewPCG(48, 8))
	var writing sync.WaitGroup
	for n := range 2 {
		clicks := draw(w, random, 60, clicktest.Noon.Add(-click.Day))
		for i := range clicks {
			clicks[i].End = int64(i) + 1
		}
		w.Remember(clicks)
		log := fmt.Sprint(w.Log, n)
		for range 2 {
			writing.Go(func() {
				for to := 30; to <= len(clicks); to += 30 {
					const tries = 200
					var err error
					for i := 0; i < tries && (i == 0 || err != nil); i++ {
						if i > 0 { // as a recorder does
							polltest.Elapse(rand.N(time.Second))
						}
						err = w.Store.Write(t.Context(), clickstore.Batch{Log: log, To: int64(to), Clicks: clicks[:to]})
					}
					if err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
	writing.Wait()
	w.CheckTotals(t)
	w.VerifyRollups(t)
	for _, m := range w.Members {
		q := w.All(m, clicktest.Noon.Add(-2*click.Day), clicktest.Noon.Add(click.Day))
		if got, want := must.Value(w.QueryStats(t, q).Total(t.Context()))(t).Clicks, clicktest.CountAll(w.Meant(q)).
			Clicks; got != want {
			t.Errorf("%s has %d clicks, want %d", m.Slug(), got, want)
		}
	}
}
