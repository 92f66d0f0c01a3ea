package click

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/dbtest"
	"github.com/linkforge/linkforge/internal/id"
)

// TestWhateverIsAskedAddsUp writes clicks of 14 months in any order, many of them for days that have been summed up, and asks
// at each stage whatever comes to mind. Whichever way the answer is found, by the day, by the quarter of an hour or click by
// click, it is what was written. LINKFORGE_TEST_CLICKS, LINKFORGE_TEST_QUESTIONS, LINKFORGE_TEST_DIMENSIONS and
// LINKFORGE_TEST_SEED make it larger and other.
func TestWhateverIsAskedAddsUp(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		w, random := newWorld(t, d), rand.New(rand.NewPCG(uint64(sized("LINKFORGE_TEST_SEED", 1)), 14))
		from := noon.AddDate(0, -14, 0)
		questions := sized("LINKFORGE_TEST_QUESTIONS", 15)
		askAll := func(stage string) {
			t.Helper()
			for range questions / 3 {
				w.check(t, random, w.ask(random, from.Add(-3*day), noon.Add(2*day)))
			}
			for _, m := range w.members { // by the day, but for days that have not been summed up
				w.check(t, random, w.all(m, from.Truncate(day), noon.Add(2*day).Truncate(day)))
			}
			w.checkTotals(t)
			if t.Failed() {
				t.Fatal(stage)
			}
		}
		var clicks, late []Click
		for range sized("LINKFORGE_TEST_CLICKS", 600) {
			clicks = append(clicks, w.draw(random, from, noon))
		}
		for range 60 {
			clicks = append(clicks, w.draw(random, noon.Add(-3*day), noon))
		}
		slices.SortFunc(clicks, func(a, b Click) int { return a.ClickedAt.Compare(b.ClickedAt) })
		for _, until := range []time.Time{from.AddDate(0, 5, 3), from.AddDate(0, 11, 0).Truncate(day), noon} {
			end, _ := slices.BinarySearchFunc(clicks, until, func(c Click, t time.Time) int { return c.ClickedAt.Compare(t) })
			n := end / 7
			random.Shuffle(end, func(i, j int) { clicks[i], clicks[j] = clicks[j], clicks[i] })
			w.writeAll(t, random, append(late, clicks[n:end]...))
			late, clicks = slices.Clone(clicks[:n]), clicks[end:]
			if w.set(until); until.Equal(noon) {
				w.set(noon.Add(-2 * day))
			}
			w.seal(t)
		}
		w.writeAll(t, random, late)
		w.set(noon.Add(26 * time.Hour))
		askAll("with late clicks, and days that nobody has summed up yet")
		w.verify(t)

		for range 2 {
			w.seal(t)
		}
		askAll("when all days have been summed up")
		w.verify(t)

		since := w.clicksSince()
		for _, breakage := range []string{
			"UPDATE click_buckets SET visits = bots WHERE starts_at >= ?", "DELETE FROM click_days WHERE starts_at >= ?", "DELETE FROM click_buckets WHERE visits = 1 AND starts_at >= ?",
			"UPDATE click_totals SET clicks = clicks + 7 WHERE last_at >= ?", "UPDATE click_details SET os = browser, moments = moments WHERE starts_at >= ?",
		} {
			if _, err := d.NewRaw(breakage, since).Exec(db.AsSystem(t.Context())); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := w.Rebuild(t.Context()); err != nil {
			t.Fatal(err)
		}
		askAll("when the sums have been made anew")
		w.seal(t)
		askAll("when busy days have been kept by column again")
		w.verify(t)
	})
}

// TestNothingIsLostWhileDaysAreSummedUp writes clicks of some days, on several nodes, while the days are summed up, again and
// again.
func TestNothingIsLostWhileDaysAreSummedUp(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		w := newWorld(t, d)
		from := noon.Truncate(day).Add(-4 * day)
		var mu sync.Mutex
		var writing, sealing sync.WaitGroup
		for node := range 3 {
			random, log := rand.New(rand.NewPCG(3, uint64(node))), id.New(id.Log)
			writing.Go(func() {
				for position := range int64(sized("LINKFORGE_TEST_BATCHES", 5)) {
					var batch []Click
					for range 60 {
						batch = append(batch, w.draw(random, from, noon))
					}
					own := writer{db: d, now: atNoon}
					if err := own.write(context.Background(), log, position+1, batch); err != nil {
						t.Error(err)
					}
					mu.Lock()
					w.remember(batch)
					mu.Unlock()
				}
			})
		}
		done := make(chan struct{})
		sealing.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-done:
					return
				default:
				}
				w.set(noon.Add(time.Duration(min(n/2, 5)-4) * day)) // the days pass
				if err := w.Seal(context.Background()); err != nil {
					t.Error(err)
				}
			}
		})
		writing.Wait()
		close(done)
		sealing.Wait()

		w.set(noon.Add(day))
		state := func() (all []string) {
			for _, q := range []*bun.SelectQuery{
				d.NewSelect().Table(days).ColumnExpr("CAST(starts_at AS TEXT) || subject_id || ' ' || clicks || ' ' || visits || ' ' || bots"),
				d.NewSelect().Table("click_totals").ColumnExpr("CAST(sealed_at AS TEXT) || subject_id || ' ' || clicks || ' ' || bots"),
			} {
				var rows []string
				if err := q.Scan(db.AsSystem(t.Context()), &rows); err != nil {
					t.Fatal(err)
				}
				all = append(all, rows...)
			}
			slices.Sort(all)
			return all
		}
		if err := w.Seal(t.Context()); err != nil {
			t.Fatal(err)
		}
		before := state()
		if err := w.Seal(t.Context()); err != nil {
			t.Fatal(err)
		}
		if diff := gocmp.Diff(before, state()); diff != "" || len(before) == 0 {
			t.Errorf("summing up twice (-once +twice):\n%s", diff)
		}
		w.verify(t)
		w.checkTotals(t)
		for _, m := range w.members {
			q := w.all(m, from.Add(-day), noon.Add(day))
			for _, read := range []struct {
				how   string
				stats *Stats
			}{{"by the day", w.stats(t, q)}, {"by the quarter", w.stats(t, question{member: m, r: Range{q.r.From.Add(time.Hour), q.r.To}, zone: "Asia/Kathmandu"})}} {
				points, err := read.stats.Series(t.Context(), Day)
				if err != nil {
					t.Fatal(err)
				}
				var sum Count
				for _, p := range points {
					sum.add(p.Count)
				}
				if want := countAll(w.meant(q)); sum != want {
					t.Errorf("%s, %s: %+v, want %+v", m.Slug(), read.how, sum, want)
				}
			}
		}
	})
}
