package click

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/dbtest"
	"github.com/linkforge/linkforge/internal/errs"
	"github.com/linkforge/linkforge/internal/id"
	"github.com/linkforge/linkforge/internal/visitor"
)

// What is kept at noon: clicks of 13 whole months, and quarters of an hour of 25.
var (
	clicksKept   = time.Date(2025, 10, 1, 0, 0, 0, 0, time.UTC)
	quartersKept = time.Date(2024, 10, 1, 0, 0, 0, 0, time.UTC)
)

// aged is a world of 30 months of which only that is left which is kept.
func aged(t *testing.T, d *db.DB) (*world, *rand.Rand) {
	t.Helper()
	w, random := newWorld(t, d), rand.New(rand.NewPCG(8, 8))
	var clicks []Click
	for range 400 {
		clicks = append(clicks, w.draw(random, noon.AddDate(0, -30, 0), noon))
	}
	for _, edge := range []time.Time{clicksKept, quartersKept} { // the last that go, and the first that stay
		for _, at := range []time.Time{edge.Add(-time.Microsecond), edge} {
			c := w.draw(random, at, at.Add(time.Microsecond))
			c.LinkID, c.WorkspaceID = w.links[0].LinkID, w.links[0].WorkspaceID
			clicks = append(clicks, c)
		}
	}
	w.writeAll(t, random, clicks)
	w.tidy(t)
	return w, random
}

// rowsBefore is how many rows a table has of the time before an instant.
func rowsBefore(t *testing.T, d *db.DB, table, column string, before time.Time) int64 {
	t.Helper()
	n, err := d.NewSelect().Table(table).Where(column+" < ?", before).Count(db.AsSystem(t.Context()))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// months are the tables that PostgreSQL keeps months of a table in.
func months(t *testing.T, d *db.DB, table string) (names []string) {
	t.Helper()
	err := d.NewRaw("SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = ?::regclass ORDER BY 1", table).Scan(db.AsSystem(t.Context()), &names)
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// wantKept compares what is left with what is to be kept.
func wantKept(t *testing.T, w *world) {
	t.Helper()
	var clicks int64
	for _, c := range w.clicks {
		if !c.ClickedAt.Before(clicksKept) {
			clicks++
		}
	}
	rows, err := w.DB.NewSelect().Table("clicks").Count(db.AsSystem(t.Context()))
	if err != nil || rows != clicks {
		t.Errorf("%d clicks are kept, want %d: %v", rows, clicks, err)
	}
	if n := rowsBefore(t, w.DB, quarters, "starts_at", quartersKept); n > 0 {
		t.Errorf("%d quarters of an hour are kept too long", n)
	}
	if rowsBefore(t, w.DB, quarters, "starts_at", clicksKept) == 0 || rowsBefore(t, w.DB, days, "starts_at", quartersKept) == 0 {
		t.Error("sums are gone")
	}
	if w.DB.Kind != db.Postgres {
		return
	}
	for table, first := range map[string]string{"clicks": "clicks_2025_10", quarters: "click_buckets_2024_10"} {
		names := months(t, w.DB, table)
		if last := table + "_2027_01"; names[0] != first || names[len(names)-1] != last {
			t.Errorf("months are kept from %s to %s, want from %s to %s", names[0], names[len(names)-1], first, last)
		}
	}
}

// wantRefused insists that a question is refused, and that it is said since when it would not be.
func wantRefused(t *testing.T, what string, err error, since time.Time) {
	t.Helper()
	if !errs.Is(err, errs.InvalidInput) || !strings.Contains(err.Error(), since.Format(time.DateOnly)) {
		t.Errorf("%s: %v", what, err)
	}
}

// TestWhatIsKeptNoLonger: clicks go after 13 months and quarters of an hour after 25; sums and totals stay for ever, and what
// cannot be known is refused, not counted as nothing.
func TestWhatIsKeptNoLonger(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		w, random := aged(t, d)
		wantKept(t, w)
		w.checkTotals(t)
		w.verify(t)
		if _, err := w.Rebuild(t.Context()); err != nil { // which leaves alone what it cannot make anew
			t.Fatal(err)
		}
		w.checkTotals(t)

		ever := w.all(w.members[0], noon.AddDate(0, -31, 0).Truncate(day), noon.Truncate(day))
		for _, f := range []Filter{{}, {Bots: new(false)}, {Values: map[Dimension]string{Country: "NP"}}, {Values: map[Dimension]string{Country: ""}}} {
			q := ever
			q.f = f
			meant := w.meant(q)
			if got, err := w.stats(t, q).Total(t.Context()); err != nil || got != countAll(meant) || got.Clicks == 0 {
				t.Errorf("%v: %+v, want %+v: %v", q, got, countAll(meant), err)
			}
			if points, err := w.stats(t, q).Series(t.Context(), Month); err != nil || len(points) != 32 {
				t.Errorf("%v: %d months: %v", q, len(points), err)
			}
			if f.Values == nil {
				w.checkBreakdown(t, q, ByLink, 10, meant)
				w.checkBreakdown(t, q, Referrer, 2, meant)
			}
		}

		nepal := Filter{Values: map[Dimension]string{Country: "NP"}}
		two := Filter{Values: map[Dimension]string{Country: "NP", Device: visitor.Mobile}}
		ask := func(from time.Time, zone string, f Filter) (*Stats, question) {
			q := question{member: w.members[0], r: Range{from, noon}, zone: zone, f: f}
			return w.stats(t, q), q
		}
		for _, one := range []struct {
			what  string
			since time.Time
			zone  string
			f     Filter
			do    func(s *Stats) error
		}{
			{"two filters", clicksKept, "", two, func(s *Stats) error { _, err := s.Total(t.Context()); return err }},
			{"a series of them", clicksKept, "", two, func(s *Stats) error { _, err := s.Series(t.Context(), Month); return err }},
			{"a filter and a dimension", clicksKept, "", nepal, func(s *Stats) error {
				_, err := s.Breakdown(t.Context(), Browser, 3)
				return err
			}},
			{"a latency of people", clicksKept, "", Filter{Bots: new(false)}, func(s *Stats) error { _, err := s.Latency(t.Context()); return err }},
			{"days of a zone, of a country", quartersKept, "Asia/Kathmandu", nepal, func(s *Stats) error { _, err := s.Series(t.Context(), Day); return err }},
			{"weeks of a zone, of a country", quartersKept, "America/St_Johns", nepal, func(s *Stats) error { _, err := s.Series(t.Context(), Week); return err }},
		} {
			for _, early := range []time.Duration{BucketLength, day, 60 * day} {
				s, _ := ask(one.since.Add(-early), one.zone, one.f)
				wantRefused(t, one.what, one.do(s), one.since)
			}
			s, q := ask(one.since, one.zone, one.f)
			if err := one.do(s); err != nil {
				t.Errorf("%s since it is known: %v", one.what, err)
			}
			w.check(t, random, q)
		}
		for _, zone := range []string{"", "Asia/Kathmandu", "America/St_Johns"} { // days know their quarters for ever
			s, q := ask(quartersKept.Add(-20*day+time.Hour), zone, Filter{})
			if got, err := s.Total(t.Context()); err != nil || got != countAll(w.meant(q)) {
				t.Errorf("%v: %+v, want %+v: %v", q, got, countAll(w.meant(q)), err)
			}
			w.checkSeries(t, random, q, w.meant(q))
		}
	})
}

// TestAClickThatComesMonthsLate counts, though its month is gone, and what is written with it too.
func TestAClickThatComesMonthsLate(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		w, random := aged(t, d)
		before := len(w.clicks)
		for _, at := range []time.Time{clicksKept.AddDate(0, -2, 3), quartersKept.AddDate(0, -3, 3), never.AddDate(0, 0, 1)} {
			batch := []Click{w.draw(random, at, at.Add(time.Hour)), w.draw(random, at, at.Add(time.Hour)), w.draw(random, noon.Add(-time.Hour), noon)}
			batch[0].LinkID, batch[0].WorkspaceID = w.links[0].LinkID, w.links[0].WorkspaceID
			w.position += 3
			err := w.writer.write(t.Context(), w.log, w.position, batch)
			if err != nil { // the writer has not known that the month is gone: now it does
				if db.IsRefused(err) {
					t.Errorf("the batch is taken for poison: %v", err)
				}
				err = w.writer.write(t.Context(), w.log, w.position, batch)
			}
			if err != nil {
				t.Fatal(err)
			}
			w.remember(batch)
		}
		check := func() {
			t.Helper()
			w.checkTotals(t)
			w.verify(t)
			for _, m := range w.members {
				for _, q := range []question{
					w.all(m, noon.AddDate(0, -36, 0).Truncate(day), noon.Add(day).Truncate(day)), w.all(m, never, never.Add(60*day)),
				} {
					meant := w.meant(q)
					if got, err := w.stats(t, q).Total(t.Context()); err != nil || got != countAll(meant) {
						t.Errorf("%v: %+v, want %+v: %v", q, got, countAll(meant), err)
					}
					w.checkBreakdown(t, q, Country, 3, meant)
				}
			}
		}
		if len(w.clicks) != before+9 {
			t.Fatal("not all were written")
		}
		check()
		w.tidy(t)
		wantKept(t, w)
		check()
	})
}

// TestALinkOfWhichNothingIsOld may be asked about for longer than anything is kept: that it had no clicks then is known.
func TestALinkOfWhichNothingIsOld(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		w, random := newWorld(t, d), rand.New(rand.NewPCG(9, 9))
		for range 5 {
			w.write(t, w.draw(random, noon.AddDate(0, -5, 0), noon))
		}
		w.tidy(t)
		for _, zone := range []string{"", "Asia/Kathmandu"} {
			q := question{member: w.members[0], r: Range{noon.AddDate(-3, 0, 0), noon}, zone: zone, f: Filter{Values: map[Dimension]string{Country: "", Device: ""}}}
			w.checkSeries(t, random, question{member: q.member, r: q.r, zone: zone}, w.meant(question{member: q.member, r: q.r}))
			if got, err := w.stats(t, q).Total(t.Context()); err != nil || got != countAll(w.meant(q)) {
				t.Errorf("%v: %+v: %v", q, got, err)
			}
		}
		if got, err := w.stats(t, question{member: w.members[0], of: Subject{LinkID: id.New(id.Link)}, r: Range{noon.AddDate(-9, 0, 0), noon}, zone: "Asia/Kathmandu"}).Series(t.Context(), Month); err != nil || len(got) == 0 {
			t.Errorf("a link without clicks: %v", err)
		}
	})
}

// TestOnlyWhatIsNotKnownIsRefused: an edge of the range where nothing was clicked is known by its day.
func TestOnlyWhatIsNotKnownIsRefused(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		w := newWorld(t, d)
		w.write(t, crowdOf(w.links[0], quartersKept.Add(-200*day), 3)...)
		w.write(t, crowdOf(w.links[0], noon, 3)...)
		w.tidy(t)
		edges := w.all(w.members[0], quartersKept.Add(-300*day+time.Hour), noon.Truncate(day)) // begins within a day
		if got, err := w.stats(t, edges).Total(t.Context()); err != nil || got != countAll(w.meant(edges)) {
			t.Errorf("the first day has no clicks: %+v: %v", got, err)
		}
		earlier := w.all(w.members[0], quartersKept.Add(-300*day), quartersKept.Add(-250*day)) // ends before there were clicks
		earlier.f.Values = map[Dimension]string{Country: "", Device: ""}
		if got, err := w.stats(t, earlier).Total(t.Context()); err != nil || got != (Count{}) {
			t.Errorf("no day has clicks: %+v: %v", got, err)
		}
	})
}

// TestMoreIsToBeKeptThanThereIs: who raises how many months are kept gets no sums made anew of nothing.
func TestMoreIsToBeKeptThanThereIs(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		w := newWorld(t, d)
		w.ClickMonths, w.QuarterMonths = 2, 2
		w.write(t, crowdOf(w.links[0], noon.AddDate(0, -6, 0), 3)...)
		w.write(t, crowdOf(w.links[0], noon.AddDate(0, 0, -1), 3)...)
		w.tidy(t)
		w.ClickMonths, w.QuarterMonths = 0, 0
		q := w.all(w.members[0], noon.AddDate(0, -8, 0).Truncate(day), noon.Truncate(day))
		w.verify(t)
		if _, err := w.Rebuild(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.checkTotals(t)
		if got, err := w.stats(t, q).Total(t.Context()); err != nil || got != countAll(w.meant(q)) {
			t.Errorf("after a rebuild: %+v, want %+v: %v", got, countAll(w.meant(q)), err)
		}
	})
}

// TestDaysThatDoNotKnowTheirQuarters were summed up before days did: their quarters of an hour are read as long as they are kept.
func TestDaysThatDoNotKnowTheirQuarters(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		w, random := aged(t, d)
		for _, counts := range [][]byte{{}, {quarterDimension, 1, 0, 1, 0, 0}} { // nothing, and a quarter without a number
			_, err := d.NewUpdate().Table(days).Set("counts = ?", counts).Where("starts_at < ?", noon.AddDate(0, -2, 0)).Exec(db.AsSystem(t.Context()))
			if err != nil {
				t.Fatal(err)
			}
			for _, from := range []time.Time{quartersKept, quartersKept.Add(day + time.Hour), noon.AddDate(0, -3, 0)} {
				q := question{member: w.members[0], r: Range{from, noon}, zone: "Asia/Kathmandu"}
				w.checkSeries(t, random, q, w.meant(q))
			}
		}
		s := w.stats(t, question{member: w.members[0], r: Range{quartersKept.Add(-60 * day), noon}, zone: "Asia/Kathmandu"})
		_, err := s.Series(t.Context(), Day)
		wantRefused(t, "days of a zone", err, quartersKept)
	})
}

// TestDaysThatTellTheirQuartersLast were summed up before quarters came first: they are read as a whole.
func TestDaysThatTellTheirQuartersLast(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		w, random := aged(t, d)
		var rows []bucket
		if err := d.NewSelect().Table(days).Column("subject_id", "starts_at", "counts").Scan(db.AsSystem(t.Context()), &rows); err != nil {
			t.Fatal(err)
		}
		for _, b := range rows {
			all, quarters := counts{}, counts{}
			if err := all.addEncoded(b.Counts); err != nil {
				t.Fatal(err)
			}
			for value, n := range all.of(quarterDimension) {
				quarters.add(quarterDimension, value, n)
			}
			for i := range quartersBytes / 10 { // more than is read of other rows
				all.add(numberOf(Referrer), fmt.Sprintf("%06d.example", i), Count{Clicks: 1})
			}
			front := quarters.encode()
			_, err := d.NewUpdate().Table(days).Set("counts = ?", append(all.encode()[len(front):], front...)).
				Where("subject_id = ?", b.SubjectID).Where("starts_at = ?", b.StartsAt).Exec(db.AsSystem(t.Context()))
			if err != nil {
				t.Fatal(err)
			}
		}
		q := question{member: w.members[0], r: Range{quartersKept.Add(-60 * day), noon}, zone: "Asia/Kathmandu"}
		w.checkSeries(t, random, q, w.meant(q))
	})
}
