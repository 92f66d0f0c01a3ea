package clicksql_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/click"
	"github.com/linkforge/linkforge/internal/click/clicksql"
	"github.com/linkforge/linkforge/internal/click/clickstore"
	"github.com/linkforge/linkforge/internal/click/clicktest"
	"github.com/linkforge/linkforge/internal/click/stats"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/id"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/suitetest"
)

// TestStats_AddUpForEveryQuery writes clicks of 14 months in any order, many of them for sealed
// days, and compares random queries with the written clicks at each stage: queries by day, by
// quarter of an hour, and click by click.
func TestStats_AddUpForEveryQuery(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		w, random := clicktest.NewWorld(t, d), rand.New(rand.NewPCG(1, 14))
		from := clicktest.Noon.AddDate(0, -14, 0)
		questions := suitetest.Size(9, 15)
		askAll := func(stage string) {
			t.Helper()
			for range questions / 3 {
				w.Check(t, random, w.Ask(random, from.Add(-3*click.Day), clicktest.Noon.Add(2*click.Day)))
			}
			for _, m := range w.Members { // by the day, but for days that have not been summed up
				w.Check(t, random,
					w.All(m, from.Truncate(click.Day), clicktest.Noon.Add(2*click.Day).Truncate(click.Day)))
			}
			w.CheckTotals(t)
			if t.Failed() {
				t.Fatal(stage)
			}
		}
		var clicks, late []click.Click
		for range suitetest.Size(300, 600) {
			clicks = append(clicks, w.Draw(random, from, clicktest.Noon))
		}
		for range 60 {
			clicks = append(clicks, w.Draw(random, clicktest.Noon.Add(-3*click.Day), clicktest.Noon))
		}
		slices.SortFunc(clicks, func(a, b click.Click) int { return a.ClickedAt.Compare(b.ClickedAt) })
		for _, until := range []time.Time{from.AddDate(0, 5, 3), from.AddDate(0, 11, 0).Truncate(click.Day),
			clicktest.Noon} {
			end, _ := slices.BinarySearchFunc(clicks, until,
				func(c click.Click, t time.Time) int { return c.ClickedAt.Compare(t) })
			n := end / 7
			random.Shuffle(end, func(i, j int) { clicks[i], clicks[j] = clicks[j], clicks[i] })
			w.WriteAll(t, random, append(late, clicks[n:end]...))
			late, clicks = slices.Clone(clicks[:n]), clicks[end:]
			if w.Set(until); until.Equal(clicktest.Noon) {
				w.Set(clicktest.Noon.Add(-2 * click.Day))
			}
			w.SealDays(t)
		}
		w.WriteAll(t, random, late)
		w.Set(clicktest.Noon.Add(26 * time.Hour))
		askAll("with late clicks, and days that are not sealed yet")
		w.VerifyRollups(t)

		for range 2 {
			w.SealDays(t)
		}
		askAll("when all days are sealed")
		w.VerifyRollups(t)

		since := w.ClicksSince()
		for _, breakage := range []string{
			"UPDATE click_days SET visits = bots WHERE starts_at >= ?", "DELETE FROM click_days WHERE visits = 1 AND " +
				"starts_at >= ?",
			"UPDATE click_totals SET clicks = clicks + 7 WHERE last_at >= ?",
			"UPDATE click_details SET os = browser, moments = moments WHERE starts_at >= ?",
		} {
			must.Value(d.NewRaw(breakage, since).Exec(db.AsSystem(t.Context())))(t)
		}
		must.Value(w.Rebuild(t.Context()))(t)
		askAll("after rebuilding the rollups")
		w.SealDays(t)
		askAll("after storing busy days by column again")
		w.VerifyRollups(t)
	})
}

// TestRollup_LosesNothingConcurrently writes clicks of some days, on several nodes, while the
// days are summed up, again and again.
func TestRollup_LosesNothingConcurrently(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		w := clicktest.NewWorld(t, d)
		from := clicktest.Noon.Truncate(click.Day).Add(-4 * click.Day)
		var mu sync.Mutex
		var writing, sealing sync.WaitGroup
		for node := range 3 {
			random, log := rand.New(rand.NewPCG(3, uint64(node))), id.New(id.Log)
			writing.Go(func() {
				for position := range int64(5) {
					var batch []click.Click
					for range 60 {
						batch = append(batch, w.Draw(random, from, clicktest.Noon))
					}
					own := clicksql.Store{DB: d, Now: clicktest.AtNoon}
					if err := own.Write(context.Background(),
						clickstore.Batch{Log: log, To: position + 1, Clicks: batch}); err != nil {
						t.Error(err)
					}
					mu.Lock()
					w.Remember(batch)
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
				w.Set(clicktest.Noon.Add(time.Duration(min(n/2, 5)-4) * click.Day)) // the days pass
				if err := w.Seal(context.Background()); err != nil {
					t.Error(err)
				}
			}
		})
		writing.Wait()
		close(done)
		sealing.Wait()

		w.Set(clicktest.Noon.Add(click.Day))
		state := func() (all []string) {
			for _, q := range []*bun.SelectQuery{
				d.NewSelect().Table(clicksql.Days).
					ColumnExpr(
						"CAST(starts_at AS TEXT) || subject_id || ' ' || clicks || ' ' || visits || ' ' || bots"),
				d.NewSelect().Table("click_totals").
					ColumnExpr("CAST(sealed_at AS TEXT) || subject_id || ' ' || clicks || ' ' || bots"),
			} {
				var rows []string
				must.NoError(t, q.Scan(db.AsSystem(t.Context()), &rows))
				all = append(all, rows...)
			}
			slices.Sort(all)
			return all
		}
		must.NoError(t, w.Seal(t.Context()))
		before := state()
		must.NoError(t, w.Seal(t.Context()))
		if diff := gocmp.Diff(before, state()); diff != "" || len(before) == 0 {
			t.Errorf("sealing twice (-once +twice):\n%s", diff)
		}
		w.VerifyRollups(t)
		w.CheckTotals(t)
		for _, m := range w.Members {
			q := w.All(m, from.Add(-click.Day), clicktest.Noon.Add(click.Day))
			for _, read := range []struct {
				how   string
				stats *stats.Stats
			}{{"by the day", w.QueryStats(t, q)}, {"by the quarter",
				w.QueryStats(t,
					clicktest.Question{Member: m, R: clickstore.Range{From: q.R.From.Add(time.Hour), To: q.R.To},
						Zone: "Asia/Kathmandu"})}} {
				t.Run(m.Slug()+" "+read.how, func(t *testing.T) {
					points := must.Value(read.stats.Series(t.Context(), stats.Day))(t)
					var sum click.Count
					for _, p := range points {
						sum.Add(p.Count)
					}
					if want := clicktest.CountAll(w.Meant(q)); sum != want {
						t.Errorf("%+v, want %+v", sum, want)
					}
				})
			}
		}
	})
}
