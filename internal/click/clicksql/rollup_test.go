package clicksql_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/linkforge/linkforge/internal/click"
	"github.com/linkforge/linkforge/internal/click/clicksql"
	"github.com/linkforge/linkforge/internal/click/clickstore"
	"github.com/linkforge/linkforge/internal/click/clicktest"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/id"
	"github.com/linkforge/linkforge/internal/platform/must"
)

// TestRebuild_RecreatesRollups damages the rollups of a link in every way. Verifying reports it and
// changes nothing, and rebuilding fixes it.
func TestRebuild_RecreatesRollups(t *testing.T) {
	clicktest.EachWorld(t, func(t *testing.T, w *clicktest.World) {
		random, from := rand.New(rand.NewPCG(1, 14)), clicktest.Noon.Add(-9*click.Day)
		w.WriteAll(t, random, w.DrawAll(random, 300, from, clicktest.Noon))
		w.SealDays(t)
		for i, breakage := range []string{
			"UPDATE click_totals SET clicks = clicks + 1 WHERE subject_id = ?0",
			"UPDATE click_days SET latency_mean = 7 WHERE subject_id = ?0",
			"DELETE FROM click_days WHERE subject_id = ?0", "DELETE FROM click_totals WHERE subject_id = ?0",
			"UPDATE click_days SET visits = clicks + 1 WHERE subject_id = ?0",
			"UPDATE click_days SET counts = ?1 WHERE subject_id = ?0",
		} {
			broken, none := w.Links[i%5].LinkID, []byte{}
			must.Value(w.DB.NewRaw(breakage, broken, none).Exec(db.AsSystem(t.Context())))(t)
			for range 2 {
				var found []string
				n, err := w.Verify(t.Context(), func(f clickstore.Difference) { found = append(found, f.SubjectID) })
				if !slices.Equal(slices.Compact(found), []string{broken}) || n != len(w.Links)+2 || err != nil {
					t.Errorf("%s: of %d subjects %v differ, want %s: %v", breakage, n, found, broken, err)
				}
			}
			if n, err := w.Rebuild(t.Context()); err != nil || n != len(w.Links)+2 {
				t.Errorf("%d subjects are rebuilt: %v", n, err)
			}
			w.SealDays(t)
			w.VerifyRollups(t)
		}
		w.Write(t, w.Draw(random, from, clicktest.Noon)) // ingest continues
		w.SealDays(t)
		w.VerifyRollups(t)
		w.CheckTotals(t)
		for _, m := range w.Members {
			for _, to := range []time.Time{clicktest.Noon, clicktest.Noon.Truncate(click.Day)} {
				w.Check(t, random, w.All(m, from.Truncate(click.Day), to))
			}
		}
	})
}

// TestSeal_SealsBusyDaysInParts writes clicks of a day before and after each part of it is sealed,
// by time and late, and then none: the day is sealed as a whole when it is over. Days that remain
// of a lost total are not counted.
func TestSeal_SealsBusyDaysInParts(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		w, random := clicktest.NewWorld(t, d), rand.New(rand.NewPCG(48, 1))
		today, ctx := clicktest.Noon.Truncate(click.Day), db.AsSystem(t.Context())
		write := func(link int, n int, at time.Duration) {
			var clicks []click.Click
			for i := range n {
				c := w.Draw(random, today, today.Add(time.Hour))
				c.LinkID, c.WorkspaceID = w.Links[link].LinkID, w.Links[link].WorkspaceID
				c.ClickedAt = today.Add(at + time.Duration(i)*time.Second)
				clicks = append(clicks, c)
			}
			w.Write(t, clicks...)
		}
		const busy, quiet = 0, 1
		for _, step := range []struct {
			name string
			now  time.Duration // since midnight
			do   func()
			// sealed is up to when the busy link is sealed, and inDays how many of its clicks are
			// in days.
			sealed time.Duration
			inDays int64
		}{
			{"a quiet day", 10 * time.Hour, func() {
				write(busy, clicksql.BusyDay-1, 9*time.Hour)
				write(quiet, 1, 9*time.Hour)
			}, 0, 0},
			{"a busy day", 11*time.Hour + 20*time.Minute, func() { write(busy, 1, 11*time.Hour) },
				11*time.Hour + 15*time.Minute, clicksql.BusyDay},
			{"open clicks", 11*time.Hour + 40*time.Minute, func() { write(busy, 2, 11*time.Hour+20*time.Minute) },
				11*time.Hour + 15*time.Minute, clicksql.BusyDay},
			{"late clicks", 12 * time.Hour, func() { write(busy, 4, 8*time.Hour) }, 11*time.Hour + 45*time.Minute,
				clicksql.BusyDay + 6},
			{"a lost total", 13 * time.Hour, func() {
				must.Value(d.ExecContext(ctx, "DELETE FROM click_totals WHERE subject_id = ?",
					w.Links[quiet].LinkID))(t)
				must.Value(w.Rebuild(t.Context()))(t)
			}, 11*time.Hour + 45*time.Minute, clicksql.BusyDay + 6},
			{"the day is over", 30 * time.Hour, func() {}, 24 * time.Hour, clicksql.BusyDay + 6},
			{"nothing is left", 60 * time.Hour, func() {}, 24 * time.Hour, clicksql.BusyDay + 6},
		} {
			w.Set(today.Add(step.now))
			step.do()
			must.NoError(t, w.Seal(t.Context()))
			var sealed time.Time
			var inDays int64
			must.NoError(t, d.NewSelect().Table("click_totals").Column("sealed_at").
				ColumnExpr("(SELECT CAST(COALESCE(SUM(clicks), 0) AS BIGINT) FROM click_days AS d WHERE d.subject_id "+
					"= click_totals.subject_id)").
				Where("subject_id = ?", w.Links[busy].LinkID).Scan(ctx, &sealed, &inDays))
			if !sealed.Equal(today.Add(step.sealed)) || inDays != step.inDays {
				t.Errorf("%s: sealed up to %s with %d clicks, want %s with %d", step.name, sealed, inDays,
					today.Add(step.sealed), step.inDays)
			}
			w.CheckTotals(t)
			w.VerifyRollups(t)
			for range 4 {
				w.Check(t, random, w.Ask(random, today.Add(-click.Day), today.Add(2*click.Day)))
			}
			w.Check(t, random, w.All(w.Members[0], today, today.Add(step.now)))
		}
	})
}

// TestRollup_LosesNothingConcurrently writes clicks of some days, on several nodes, while the
// days are summed up, again and again.
func TestRollup_LosesNothingConcurrently(t *testing.T) {
	clicktest.EachWorld(t, func(t *testing.T, w *clicktest.World) {
		from := clicktest.Noon.Truncate(click.Day).Add(-4 * click.Day)
		var mu sync.Mutex
		var writing, sealing sync.WaitGroup
		for node := range 3 {
			random, log := rand.New(rand.NewPCG(3, uint64(node))), id.New(id.Log)
			writing.Go(func() {
				for position := range int64(5) {
					batch := w.DrawAll(random, 60, from, clicktest.Noon)
					for i := range batch { // else the first visit of a day depends on the order of the nodes
						if batch[i].Visitor != 0 {
							batch[i].Visitor += int64(node)
						}
					}
					own := clicksql.Store{DB: w.DB, Now: clicktest.AtNoon}
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
		for range 2 { // the second time changes nothing
			w.SealDays(t)
			w.VerifyRollups(t)
			w.CheckTotals(t)
		}
		for _, m := range w.Members {
			w.Check(t, rand.New(rand.NewPCG(3, 3)), w.All(m, from.Add(-click.Day), clicktest.Noon.Add(click.Day)))
		}
	})
}

// TestRouting_CostsPlainLinksNothing: rollups of clicks without a rule do not store its absence.
func TestRouting_CostsPlainLinksNothing(t *testing.T) {
	clicktest.EachWorld(t, func(t *testing.T, w *clicktest.World) {
		own, plain := w.Links[0], w.Links[1]
		own.ClickedAt, plain.ClickedAt = clicktest.Noon.Add(-2*click.Day), clicktest.Noon.Add(-2*click.Day)
		routed := own
		routed.RuleID, routed.TargetID, routed.QRSource = "rul_1", "tgt_1", "flyer"
		w.Write(t, own, routed, plain)
		w.SealDays(t)
		for linkID, want := range map[string]int{plain.LinkID: 0, routed.LinkID: 3} {
			var encoded []byte
			must.NoError(t, w.DB.NewSelect().Table(clicksql.Days).Column("counts").Where("subject_id = ?", linkID).
				Scan(db.AsSystem(t.Context()), &encoded))
			counts, got := click.Counts{}, 0
			must.NoError(t, counts.AddEncoded(encoded))
			for _, d := range []click.Dimension{click.Rule, click.Target, click.QRSource} {
				got += len(counts.Of(d.Definition().Number))
			}
			if got != want {
				t.Errorf("a day of %s has %d rules, targets and sources, want %d", linkID, got, want)
			}
		}
	})
}
