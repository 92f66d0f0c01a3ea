package stats_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/linkforge/linkforge/internal/click"
	"github.com/linkforge/linkforge/internal/click/clickstore"
	"github.com/linkforge/linkforge/internal/click/clicktest"
	"github.com/linkforge/linkforge/internal/click/stats"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/must"
)

// crowd writes clicks of a link on two days, each with a referrer of its own, and of the first one
// more than of all others.
func crowd(t *testing.T, w *clicktest.World, n int) {
	t.Helper()
	c := w.Links[0]
	c.Status = 302
	for at, from := range map[time.Time]int{clicktest.Noon.Add(-click.Day): 0, clicktest.Noon: n / 2} {
		c.ClickedAt, c.Referrer = at, "first.example"
		batch := []click.Click{c, c, c}
		for i := range n {
			c.Referrer = fmt.Sprintf("%04d.example", from+i)
			c.Visitor = clicktest.Person(&c, i)
			c.Bot = i%3 == 0
			batch = append(batch, c)
		}
		c.Visitor, c.Bot = 0, false
		w.Write(t, batch...)
	}
}

// TestBreakdown_BoundsValues: the most frequent are kept, the rest are others, and all of them add up, by
// the quarter of an hour and by the day. A value is filtered by as it was sent, also where there were too
// many to keep each.
func TestBreakdown_BoundsValues(t *testing.T) {
	clicktest.EachWorld(t, func(t *testing.T, w *clicktest.World) {
		crowd(t, w, click.MaxValues+200)
		check := func() {
			t.Helper()
			for _, q := range []clicktest.Question{
				// by the day, when they are over
				w.All(w.Members[0], clicktest.Noon.Add(-2*click.Day).Truncate(click.Day),
					clicktest.Noon.Add(2*click.Day).
						Truncate(click.Day)),
				w.All(w.Members[0], clicktest.Noon.Add(-2*click.Day), clicktest.Noon.Add(time.Hour)),
				{Member: w.Members[0], Of: clickstore.Subject{LinkID: w.Links[0].LinkID},
					Links: []string{w.Links[0].LinkID},
					R:     clickstore.Range{From: clicktest.Noon.Add(-click.Day), To: clicktest.Noon.Add(time.Hour)}},
			} {
				meant := w.Meant(q)
				w.CheckSeries(t, rand.New(rand.NewPCG(7, 7)), q, meant)
				for first, other := range map[int]bool{1: true, 5: true, click.MaxValues: true} {
					got, err := w.QueryStats(t, q).Breakdown(t.Context(), click.Referrer, first)
					if err != nil || len(got) != first+1 && first < click.MaxValues ||
						got[0].Value != "first.example" || got[len(got)-1].IsOther != other {
						t.Fatalf("first %d: %d slices: %v", first, len(got), err)
					}
					var sum click.Count
					for _, s := range got {
						sum.Add(s.Count)
					}
					if want := clicktest.CountAll(meant); sum != want {
						t.Errorf("first %d: the slices add up to %+v, want %+v", first, sum, want)
					}
				}
			}
			w.VerifyRollups(t)
		}
		check()
		w.Set(clicktest.Noon.Add(click.Day))
		must.NoError(t, w.Seal(t.Context()))
		check()
		q := w.All(w.Members[0], clicktest.Noon.Add(-2*click.Day), clicktest.Noon.Add(time.Hour))
		for _, value := range []string{"0000.example", "1164.example", "1455.example", "none.example", "' OR 1=1 --"} {
			q.F.Values = map[click.Dimension]string{click.Referrer: value}
			w.CheckTotal(t, q)
		}
	})
}

func TestBreakdown_RefusesBadArguments(t *testing.T) {
	t.Parallel()
	w := clicktest.NewWorld(t, dbtest.MigratedSQLite(t))
	q := w.All(w.Members[0], clicktest.Noon.Add(-click.Day), clicktest.Noon)
	for _, first := range []int{-1, 0, stats.MostSlices + 1} {
		if _, err := w.QueryStats(t, q).Breakdown(t.Context(), click.Country, first); !errs.Is(err, errs.InvalidInput) {
			t.Errorf("%d slices: %v", first, err)
		}
	}
	for name, value := range map[string]string{"long": fmt.Sprintf("%0301d", 1), "two lines": "a\nb", "no text": "\xff",
		"the others": click.Others} {
		if _, err := w.Stats.Stats(t.Context(), q.Member, q.Of, &q.R, "",
			clickstore.Filter{Values: map[click.Dimension]string{click.Referrer: value}}); !errs.Is(err,
			errs.InvalidInput) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
