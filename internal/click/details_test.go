package click

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/dbtest"
)

// TestColumns: of one value, of as many as a byte numbers, of one more, and of so many that two bytes are too few.
func init() { busyDay = 3 }

func TestColumns(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 2, 255, 256, 257, 65536, 65537} {
		c := column{known: map[string]int{}}
		for i := range n + 3 {
			c.add(fmt.Sprint(i % n))
		}
		read, err := readCodes(c.encode(), n+3)
		if err != nil {
			t.Fatalf("%d values: %v", n, err)
		}
		for i := range n + 3 {
			if got := read.values[read.at(i)]; got != fmt.Sprint(i%n) {
				t.Fatalf("%d values, click %d: %q", n, i, got)
			}
		}
		if read.code("0") != 0 || read.code("none") != -1 {
			t.Errorf("%d values: codes %d and %d", n, read.code("0"), read.code("none"))
		}
	}
}

// FuzzColumns: nothing that a column may hold makes reading panic.
func FuzzColumns(f *testing.F) {
	c := column{known: map[string]int{}}
	c.add("a")
	c.add("")
	f.Add(c.encode(), 2)
	f.Add([]byte{255, 255, 255, 255, 255, 255, 255, 255, 255, 1}, 1)
	f.Fuzz(func(_ *testing.T, b []byte, clicks int) {
		read, err := readCodes(b, clicks)
		if err != nil {
			return
		}
		for i := range min(clicks, 1000) {
			_ = read.at(i)
		}
	})
}

// detailed is how many days of a subject are kept by column, and how many clicks are in them.
func detailed(t *testing.T, d *db.DB, subject string) (n, clicks int64) {
	t.Helper()
	err := d.NewSelect().Table(details).ColumnExpr("COUNT(*), CAST(COALESCE(SUM(clicks), 0) AS BIGINT)").Where("subject_id = ?", subject).
		Scan(db.AsSystem(t.Context()), &n, &clicks)
	if err != nil {
		t.Fatal(err)
	}
	return n, clicks
}

// TestBusyDaysAreKeptByColumn, of a workspace and of its busy links, and again when clicks come late.
func TestBusyDaysAreKeptByColumn(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		w := newWorld(t, d)
		busy, quiet, foreign := w.links[0], w.links[1], w.links[len(w.links)-1]
		at := func(c Click, n int, start time.Time) (clicks []Click) {
			for i := range n {
				c.ClickedAt = start.Add(time.Duration(i) * time.Minute)
				clicks = append(clicks, c)
			}
			return clicks
		}
		monday, tuesday := noon.Add(-2*day).Truncate(day), noon.Add(-day).Truncate(day)
		w.write(t, at(busy, busyDay, monday)...)
		w.write(t, at(quiet, busyDay-1, monday)...)
		w.write(t, at(foreign, busyDay, monday)...)
		w.write(t, at(busy, busyDay, tuesday)...)
		w.write(t, at(busy, busyDay, noon.Truncate(day))...) // today is not over
		w.seal(t)
		want := func(what string, subject string, days, clicks int) {
			t.Helper()
			if n, m := detailed(t, d, subject); n != int64(days) || m != int64(clicks) {
				t.Errorf("%s: %d days with %d clicks, want %d with %d", what, n, m, days, clicks)
			}
		}
		want("a busy link", busy.LinkID, 2, 2*busyDay)
		want("a quiet link", quiet.LinkID, 0, 0)
		want("a link of nobody's", foreign.LinkID, 0, 0)
		want("the workspace", busy.WorkspaceID, 2, 3*busyDay-1)

		late := at(busy, 1, monday.Add(23*time.Hour))
		w.write(t, late...)
		q := w.all(w.members[0], monday, noon)
		q.f.Values = map[Dimension]string{Country: "", Device: ""}
		if got, err := w.stats(t, q).Total(t.Context()); err != nil || got != countAll(w.meant(q)) {
			t.Errorf("with a late click %+v, want %+v: %v", got, countAll(w.meant(q)), err)
		}
		w.seal(t)
		want("a busy link, with a late click", busy.LinkID, 2, 2*busyDay+1)
		want("the workspace, with a late click", busy.WorkspaceID, 2, 3*busyDay)
	})
}

// TestCombinedFiltersReadColumns: clicks that are kept by column are not read one by one. What columns say of a day that
// knows of more clicks is not believed.
func TestCombinedFiltersReadColumns(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		w := newWorld(t, d)
		c := w.links[0]
		c.Country, c.Browser, c.ClickedAt = "NP", "Firefox", noon.Add(-2*day)
		w.write(t, c, c, c, c)
		w.seal(t)
		if _, err := d.NewDelete().Table("clicks").Where("TRUE").Exec(db.AsSystem(t.Context())); err != nil {
			t.Fatal(err)
		}
		for _, q := range []question{w.all(w.members[0], noon.Add(-3*day), noon), {member: w.members[0], of: Subject{LinkID: c.LinkID}, r: Range{noon.Add(-3 * day), noon}}} {
			q.f.Values = map[Dimension]string{Country: "NP", Browser: "Firefox"}
			ask := func(what string, want Count) {
				t.Helper()
				if got, err := w.stats(t, q).Total(t.Context()); err != nil || got != want {
					t.Errorf("%s, %v: %+v, want %+v: %v", what, q, got, want, err)
				}
			}
			ask("by columns", Count{Clicks: 4})
			slices, err := w.stats(t, q).Breakdown(t.Context(), ByLink, 3)
			if diff := cmp.Diff([]Slice{{Value: c.LinkID, Count: Count{Clicks: 4}}}, slices); diff != "" || err != nil {
				t.Errorf("by link (-want +got):\n%s%v", diff, err)
			}
			q.f.Values[Browser] = "Chrome"
			ask("another browser", Count{})
		}
		if _, err := d.NewUpdate().Table(days).Set("clicks = clicks + 1").Where("TRUE").Exec(db.AsSystem(t.Context())); err != nil {
			t.Fatal(err)
		}
		q := w.all(w.members[0], noon.Add(-3*day), noon)
		q.f.Values = map[Dimension]string{Country: "NP", Browser: "Firefox"}
		if got, err := w.stats(t, q).Total(t.Context()); err != nil || got != (Count{}) {
			t.Errorf("columns out of date say %+v: %v", got, err)
		}
	})
}
