package click

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/dbtest"
	"github.com/linkforge/linkforge/internal/errs"
)

// crowd writes clicks of a link on two days, each with a referrer of its own, and of the first one more than of all others.
func crowd(t *testing.T, w *world, n int) {
	t.Helper()
	c := w.links[0]
	c.Status = 302
	for at, from := range map[time.Time]int{noon.Add(-day): 0, noon: n / 2} {
		c.ClickedAt, c.Referrer = at, "first.example"
		batch := []Click{c, c, c}
		for i := range n {
			c.Referrer = fmt.Sprintf("%04d.example", from+i)
			c.Visitor = person(&c, i)
			c.Bot = i%3 == 0
			batch = append(batch, c)
		}
		c.Visitor, c.Bot = 0, false
		w.write(t, batch...)
	}
}

// TestMoreValuesThanThereIsRoomFor: the rest are others, and all of them add up, by the quarter of an hour and by the day.
func TestMoreValuesThanThereIsRoomFor(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		w := newWorld(t, d)
		crowd(t, w, maxValues+200)
		check := func() {
			t.Helper()
			for _, q := range []question{
				w.all(w.members[0], noon.Add(-2*day).Truncate(day), noon.Add(2*day).Truncate(day)), // by the day, when they are over
				w.all(w.members[0], noon.Add(-2*day), noon.Add(time.Hour)),
				{member: w.members[0], of: Subject{LinkID: w.links[0].LinkID}, links: []string{w.links[0].LinkID}, r: Range{noon.Add(-day), noon.Add(time.Hour)}},
			} {
				meant := w.meant(q)
				for first, other := range map[int]bool{1: true, 5: true, maxValues: true} {
					got, err := w.stats(t, q).Breakdown(t.Context(), Referrer, first)
					if err != nil || len(got) != first+1 && first < maxValues || got[len(got)-1].IsOther != other {
						t.Fatalf("first %d: %d slices: %v", first, len(got), err)
					}
					var sum Count
					for _, s := range got {
						sum.add(s.Count)
					}
					if want := countAll(meant); sum != want {
						t.Errorf("first %d: the slices add up to %+v, want %+v", first, sum, want)
					}
				}
			}
			w.verify(t)
		}
		check()
		w.set(noon.Add(day))
		if err := w.Seal(t.Context()); err != nil {
			t.Fatal(err)
		}
		check()
	})
}

// TestTheMostFrequentIsTold, also where there is no room for each.
func TestTheMostFrequentIsTold(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		w := newWorld(t, d)
		crowd(t, w, maxValues+200)
		for _, now := range []time.Time{noon, noon.Add(day)} {
			w.set(now)
			if err := w.Seal(t.Context()); err != nil {
				t.Fatal(err)
			}
			got, err := w.stats(t, w.all(w.members[0], noon.Add(-2*day).Truncate(day), noon.Add(day).Truncate(day))).Breakdown(t.Context(), Referrer, 1)
			if want := (Slice{Value: "first.example", Count: Count{Clicks: 6}}); err != nil || got[0] != want {
				t.Errorf("%+v, want %+v: %v", got, want, err)
			}
		}
	})
}

// TestAFilterFindsWhatHasNoRoom: a value is filtered by as it was sent, also where there were too many to keep each.
func TestAFilterFindsWhatHasNoRoom(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		w := newWorld(t, d)
		crowd(t, w, maxValues+200)
		q := w.all(w.members[0], noon.Add(-2*day), noon.Add(time.Hour))
		for i := range 2 * maxValues {
			if i%97 > 0 {
				continue
			}
			q.f.Values = map[Dimension]string{Referrer: fmt.Sprintf("%04d.example", i)}
			got, err := w.stats(t, q).Total(t.Context())
			if want := countAll(w.meant(q)); err != nil || got != want {
				t.Fatalf("%v: %+v, want %+v: %v", q, got, want, err)
			}
		}
	})
}

// TestValuesThatNobodyKnows: an empty text stands for what is not known, in a filter as in a slice.
func TestValuesThatNobodyKnows(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		w := newWorld(t, d)
		c := w.links[0]
		c.ClickedAt, c.Status = noon, 302
		known := c
		known.Country, known.Status = "NP", 308
		w.write(t, c, c, known)
		q := w.all(w.members[0], noon.Add(-day), noon.Add(day))
		for _, one := range []struct {
			f    Filter
			by   Dimension
			want []Slice
		}{
			{Filter{}, Country, []Slice{{Value: "", Count: Count{Clicks: 2}}, {Value: "NP", Count: Count{Clicks: 1}}}},
			{Filter{}, Status, []Slice{{Value: "302", Count: Count{Clicks: 2}}, {Value: "308", Count: Count{Clicks: 1}}}},
			{Filter{Values: map[Dimension]string{Country: ""}}, Status, []Slice{{Value: "302", Count: Count{Clicks: 2}}}},
			{Filter{Values: map[Dimension]string{Status: "302"}}, Country, []Slice{{Value: "", Count: Count{Clicks: 2}}}},
			{Filter{Values: map[Dimension]string{Status: "no status"}}, Country, nil},
			{Filter{Values: map[Dimension]string{Country: "' OR 1=1 --"}}, Country, nil},
			{Filter{Values: map[Dimension]string{Country: "NP", Status: "308"}}, Content, []Slice{{Count: Count{Clicks: 1}}}},
		} {
			q.f = one.f
			got, err := w.stats(t, q).Breakdown(t.Context(), one.by, 10)
			if diff := cmp.Diff(one.want, got, cmpopts.EquateEmpty()); diff != "" || err != nil {
				t.Errorf("%v by %s (-want +got):\n%s%v", one.f.Values, one.by, diff, err)
			}
			total, err := w.stats(t, q).Total(t.Context())
			if want := countAll(w.meant(q)); total != want || err != nil {
				t.Errorf("%v: %+v in all, want %+v: %v", one.f.Values, total, want, err)
			}
		}
	})
}

func TestBadQuestions(t *testing.T) {
	t.Parallel()
	w := newWorld(t, dbtest.Migrated(t, dbtest.SQLite(t)))
	q := w.all(w.members[0], noon.Add(-day), noon)
	for _, first := range []int{-1, 0, mostSlices + 1} {
		if _, err := w.stats(t, q).Breakdown(t.Context(), Country, first); !errs.Is(err, errs.InvalidInput) {
			t.Errorf("%d slices: %v", first, err)
		}
	}
	for name, value := range map[string]string{"long": fmt.Sprintf("%0301d", 1), "two lines": "a\nb", "no text": "\xff", "the others": others} {
		if _, err := w.Stats(t.Context(), q.member, q.of, &q.r, "", Filter{Values: map[Dimension]string{Referrer: value}}); !errs.Is(err, errs.InvalidInput) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
