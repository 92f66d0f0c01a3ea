package clicksql_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/linkforge/linkforge/internal/click"
	"github.com/linkforge/linkforge/internal/click/clicksql"
	"github.com/linkforge/linkforge/internal/click/clickstore"
	"github.com/linkforge/linkforge/internal/click/clicktest"
	"github.com/linkforge/linkforge/internal/click/stats"
	"github.com/linkforge/linkforge/internal/click/visitor"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/id"
	"github.com/linkforge/linkforge/internal/platform/must"
)

// clicksKept is the retention at noon: single clicks of 13 whole months. longAgo is a year before.
var (
	clicksKept = time.Date(2025, 10, 1, 0, 0, 0, 0, time.UTC)
	longAgo    = time.Date(2024, 10, 1, 0, 0, 0, 0, time.UTC)
)

// aged is a world of 30 months after retention.
func aged(t *testing.T, d *db.DB) (*clicktest.World, *rand.Rand) {
	t.Helper()
	w, random := clicktest.NewWorld(t, d), rand.New(rand.NewPCG(8, 8))
	clicks := w.DrawAll(random, 400, clicktest.Noon.AddDate(0, -30, 0), clicktest.Noon)
	for _, edge := range []time.Time{clicksKept, longAgo} { // the last that go, and the first that stay
		for _, at := range []time.Time{edge.Add(-time.Microsecond), edge} {
			c := w.Draw(random, at, at.Add(time.Microsecond))
			c.LinkID, c.WorkspaceID = w.Links[0].LinkID, w.Links[0].WorkspaceID
			clicks = append(clicks, c)
		}
	}
	w.WriteAll(t, random, clicks)
	w.Tidy(t)
	return w, random
}

// months are the tables that PostgreSQL keeps months of clicks in.
func months(t *testing.T, d *db.DB) (names []string) {
	t.Helper()
	must.NoError(t,
		d.NewRaw("SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = 'clicks'::regclass ORDER BY 1").
			Scan(db.AsSystem(t.Context()), &names))
	return names
}

// wantStored compares the stored rows with the expected ones.
func wantStored(t *testing.T, w *clicktest.World) {
	t.Helper()
	var clicks int64
	for _, c := range w.Clicks {
		if !c.ClickedAt.Before(clicksKept) {
			clicks++
		}
	}
	rows, err := w.DB.NewSelect().Table("clicks").Count(db.AsSystem(t.Context()))
	if err != nil || rows != clicks {
		t.Errorf("%d clicks are stored, want %d: %v", rows, clicks, err)
	}
	if !must.Value(w.DB.NewSelect().Table(clicksql.Days).Where("starts_at < ?", longAgo).
		Exists(db.AsSystem(t.Context())))(t) {
		t.Error("days were deleted")
	}
	if w.DB.Kind != db.Postgres {
		return
	}
	const first, last = "clicks_2025_10", "clicks_2027_01"
	if names := months(t, w.DB); names[0] != first || names[len(names)-1] != last {
		t.Errorf("months are stored from %s to %s, want from %s to %s", names[0], names[len(names)-1], first, last)
	}
}

// wantRefused checks that a query is refused, with the earliest permitted date in the message.
func wantRefused(t *testing.T, what string, err error) {
	t.Helper()
	if !errs.Is(err, errs.InvalidInput) || !strings.Contains(err.Error(), clicksKept.Format(time.DateOnly)) {
		t.Errorf("%s: %v", what, err)
	}
}

// TestRetention_RemovesOldClicks: clicks go after 13 months; days and
// totals stay for ever, and what cannot be known is refused, not counted as nothing.
func TestRetention_RemovesOldClicks(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		w, _ := aged(t, d)
		wantStored(t, w)
		w.CheckTotals(t)
		w.VerifyRollups(t)
		if _, err := w.Rebuild(t.Context()); err != nil { // it does not change counts that it cannot compute
			t.Fatal(err)
		}
		w.CheckTotals(t)

		nepal := clickstore.Filter{Values: map[click.Dimension]string{click.Country: "NP"}}
		two := clickstore.Filter{Values: map[click.Dimension]string{click.Country: "NP", click.Device: visitor.Mobile}}
		for _, one := range []struct {
			what, zone string
			f          clickstore.Filter
			do         func(s *stats.Stats) error
		}{
			{"two filters", "", two, func(s *stats.Stats) error { _, err := s.Total(t.Context()); return err }},
			{"a filter and a dimension", "", nepal, func(s *stats.Stats) error {
				_, err := s.Breakdown(t.Context(), click.Browser, 3)
				return err
			}},
			{"a latency of people", "", clickstore.Filter{Bots: new(false)},
				func(s *stats.Stats) error { _, err := s.Latency(t.Context()); return err }},
			{"days of a zone, of a country", "Asia/Kathmandu", nepal,
				func(s *stats.Stats) error { _, err := s.Series(t.Context(), stats.Day); return err }},
		} {
			ask := func(from time.Time) error {
				r := clickstore.Range{From: from, To: clicktest.Noon}
				return one.do(w.QueryStats(t, clicktest.Question{Member: w.Members[0], R: r, Zone: one.zone, F: one.f}))
			}
			wantRefused(t, one.what, ask(clicksKept.Add(-click.BucketLength)))
			if err := ask(clicksKept); err != nil {
				t.Errorf("%s since it is known: %v", one.what, err)
			}
		}
	})
}

// TestRetention_AcceptsLateClicks counts, although its month has been deleted; so do other clicks
// of its batch.
func TestRetention_AcceptsLateClicks(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		w, random := aged(t, d)
		before := len(w.Clicks)
		for _, at := range []time.Time{clicksKept.AddDate(0, -2, 3), longAgo.AddDate(0, -3, 3),
			clickstore.Never.AddDate(0, 0, 1)} {
			batch := []click.Click{w.Draw(random, at, at.Add(time.Hour)), w.Draw(random, at, at.Add(time.Hour)),
				w.Draw(random, clicktest.Noon.Add(-time.Hour), clicktest.Noon)}
			batch[0].LinkID, batch[0].WorkspaceID = w.Links[0].LinkID, w.Links[0].WorkspaceID
			w.Position += 3
			err := w.Store.Write(t.Context(), w.Batch(batch...))
			if err != nil { // the writer has not known that the month is gone: now it does
				if db.IsRefused(err) {
					t.Errorf("writing the batch: %v", err)
				}
				err = w.Store.Write(t.Context(), w.Batch(batch...))
			}
			must.NoError(t, err)
			w.Remember(batch)
		}
		check := func() {
			t.Helper()
			w.CheckTotals(t)
			w.VerifyRollups(t)
			for _, m := range w.Members {
				for _, q := range []clicktest.Question{
					w.All(m, clicktest.Noon.AddDate(0, -36, 0).Truncate(click.Day),
						clicktest.Noon.Add(click.Day).Truncate(click.Day)),
					w.All(m, clickstore.Never, clickstore.Never.Add(60*click.Day)),
				} {
					w.CheckTotal(t, q)
					w.CheckBreakdown(t, q, click.Country, 3, w.Meant(q))
				}
			}
		}
		if len(w.Clicks) != before+9 {
			t.Fatal("not all were written")
		}
		check()
		w.Tidy(t)
		wantStored(t, w)
		check()
	})
}

// TestRetention_SkipsYoungLinks can be queried for any range, because it is known to have had no
// clicks.
func TestRetention_SkipsYoungLinks(t *testing.T) {
	clicktest.EachWorld(t, func(t *testing.T, w *clicktest.World) {
		random := rand.New(rand.NewPCG(9, 9))
		w.Write(t, w.DrawAll(random, 5, clicktest.Noon.AddDate(0, -5, 0), clicktest.Noon)...)
		w.Tidy(t)
		for _, zone := range []string{"", "Asia/Kathmandu"} {
			q := clicktest.Question{Member: w.Members[0],
				R:    clickstore.Range{From: clicktest.Noon.AddDate(-3, 0, 0), To: clicktest.Noon},
				Zone: zone,
				F:    clickstore.Filter{Values: map[click.Dimension]string{click.Country: "", click.Device: ""}}}
			w.CheckSeries(t, random, clicktest.Question{Member: q.Member, R: q.R, Zone: zone},
				w.Meant(clicktest.Question{Member: q.Member, R: q.R}))
			w.CheckTotal(t, q)
		}
		if got, err := w.QueryStats(t,
			clicktest.Question{Member: w.Members[0], Of: clickstore.Subject{LinkID: id.New(id.Link)},
				R:    clickstore.Range{From: clicktest.Noon.AddDate(-9, 0, 0), To: clicktest.Noon},
				Zone: "Asia/Kathmandu"}).
			Series(t.Context(), stats.Month); err != nil || len(got) == 0 {
			t.Errorf("a link without clicks: %v", err)
		}
	})
}

// TestRetention_RefusesOnlyRemovedClicks: an edge of the range where nothing was clicked is known
// by its day.
func TestRetention_RefusesOnlyRemovedClicks(t *testing.T) {
	clicktest.EachWorld(t, func(t *testing.T, w *clicktest.World) {
		w.Write(t, clicktest.CrowdOf(w.Links[0], longAgo.Add(-200*click.Day), 3)...)
		w.Write(t, clicktest.CrowdOf(w.Links[0], clicktest.Noon, 3)...)
		w.Tidy(t)
		// begins within a day
		edges := w.All(w.Members[0], longAgo.Add(-300*click.Day+time.Hour), clicktest.Noon.Truncate(click.Day))
		w.CheckTotal(t, edges)
		// ends before there were clicks
		earlier := w.All(w.Members[0], longAgo.Add(-300*click.Day), longAgo.Add(-250*click.Day))
		earlier.F.Values = map[click.Dimension]string{click.Country: "", click.Device: ""}
		w.CheckTotal(t, earlier)
	})
}

// TestRetention_CanBeExtended: raising the number of stored months does not rebuild rollups from
// deleted clicks.
func TestRetention_CanBeExtended(t *testing.T) {
	clicktest.EachWorld(t, func(t *testing.T, w *clicktest.World) {
		w.Store.(*clicksql.Store).ClickMonths = 2
		w.Write(t, clicktest.CrowdOf(w.Links[0], clicktest.Noon.AddDate(0, -6, 0), 3)...)
		w.Write(t, clicktest.CrowdOf(w.Links[0], clicktest.Noon.AddDate(0, 0, -1), 3)...)
		w.Tidy(t)
		w.Store.(*clicksql.Store).ClickMonths = 0
		q := w.All(w.Members[0], clicktest.Noon.AddDate(0, -8, 0).Truncate(click.Day),
			clicktest.Noon.Truncate(click.Day))
		w.VerifyRollups(t)
		must.Value(w.Rebuild(t.Context()))(t)
		w.CheckTotals(t)
		w.CheckTotal(t, q)
	})
}

// TestRetention_DaysWithoutQuarters were sealed by an earlier version, or are damaged. Their clicks
// are counted one by one as long as they are stored.
func TestRetention_DaysWithoutQuarters(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		w, random := aged(t, d)
		// nothing, and a quarter without a number
		for _, counts := range [][]byte{{}, {click.QuarterDimension, 1, 0, 1, 0, 0}} {
			must.Value(d.NewUpdate().Table(clicksql.Days).Set("counts = ?", counts).
				Where("starts_at < ?", clicktest.Noon.AddDate(0, -2, 0)).Exec(db.AsSystem(t.Context())))(t)
			for _, from := range []time.Time{clicksKept, clicksKept.Add(click.Day + time.Hour),
				clicktest.Noon.AddDate(0, -3, 0)} {
				q := clicktest.Question{Member: w.Members[0], R: clickstore.Range{From: from, To: clicktest.Noon},
					Zone: "Asia/Kathmandu"}
				w.CheckSeries(t, random, q, w.Meant(q))
			}
		}
		s := w.QueryStats(t,
			clicktest.Question{Member: w.Members[0],
				R: clickstore.Range{From: clicksKept.Add(-60 * click.Day), To: clicktest.Noon}, Zone: "Asia/Kathmandu"})
		_, err := s.Series(t.Context(), stats.Day)
		wantRefused(t, "days of a zone", err)
	})
}

// TestRetention_DaysWithTrailingQuarters were summed up before quarters came first: they are read
// as a whole.
func TestRetention_DaysWithTrailingQuarters(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		w, random := aged(t, d)
		var rows []clicksql.Day
		must.NoError(t, d.NewSelect().Table(clicksql.Days).Column("subject_id", "starts_at", "counts").
			Scan(db.AsSystem(t.Context()), &rows))
		for _, b := range rows {
			all, quarters := click.Counts{}, click.Counts{}
			must.NoError(t, all.AddEncoded(b.Counts))
			for value, n := range all.Of(click.QuarterDimension) {
				quarters.Add(click.QuarterDimension, value, n)
			}
			for i := range click.QuartersBytes / 10 { // more than is read of other rows
				all.Add(click.Referrer.Definition().Number, fmt.Sprintf("%06d.example", i), click.Count{Clicks: 1})
			}
			front := quarters.Encode()
			must.Value(d.NewUpdate().Table(clicksql.Days).
				Set("counts = ?", append(all.Encode()[len(front):], front...)).
				Where("subject_id = ?", b.SubjectID).Where("starts_at = ?", b.StartsAt).
				Exec(db.AsSystem(t.Context())))(t)
		}
		q := clicktest.Question{Member: w.Members[0],
			R:    clickstore.Range{From: longAgo.Add(-60 * click.Day), To: clicktest.Noon},
			Zone: "Asia/Kathmandu"}
		w.CheckSeries(t, random, q, w.Meant(q))
	})
}
