package click

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/errs"
	"github.com/linkforge/linkforge/internal/id"
	"github.com/linkforge/linkforge/internal/workspace"
	"github.com/uptrace/bun"
)

// question is what is asked of the stats.
type question struct {
	member workspace.Membership
	of     Subject
	links  []string // of the subject; none: all of the workspace
	r      Range
	zone   string
	f      Filter
}

func (q question) String() string {
	bots := "all"
	if q.f.Bots != nil {
		bots = strconv.FormatBool(*q.f.Bots)
	}
	return fmt.Sprintf("%s %v from %s to %s, %s, bots %s, %v", q.member.Slug(), q.links, q.r.From.Format(time.RFC3339Nano), q.r.To.Format(time.RFC3339Nano),
		q.zone, bots, q.f.Values)
}

// ask draws a question.
func (w *world) ask(random *rand.Rand, from, to time.Time) (q question) {
	q.member = w.members[random.IntN(len(w.members))]
	switch random.IntN(3) {
	case 0:
		q.links = []string{w.links[random.IntN(len(w.links))].LinkID} // perhaps a foreign one: then there is nothing
		q.of.LinkID = q.links[0]
	case 1:
		for _, l := range w.links {
			if random.IntN(2) == 0 {
				q.links = append(q.links, l.LinkID)
			}
		}
		q.links = append(q.links, id.New(id.Link))
		q.of.Links = w.DB.NewSelect().Model((*total)(nil)).Column("subject_id").Where("subject_id IN (?)", bun.In(q.links))
	}
	instant := func() time.Time {
		t := from.Add(time.Duration(random.Int64N(int64(to.Sub(from)))))
		return t.Truncate([]time.Duration{1, BucketLength, time.Hour, day, day}[random.IntN(5)])
	}
	for !q.r.From.Before(q.r.To) {
		q.r = Range{instant(), instant()}
		if random.IntN(3) == 0 {
			q.r.To = q.r.From.Add(time.Duration(random.Int64N(int64(3 * day))))
		}
	}
	q.zone = []string{"", "UTC", "Asia/Kathmandu", "Australia/Lord_Howe", "America/St_Johns", "Africa/Cairo", "Pacific/Apia", "Europe/Berlin"}[random.IntN(8)]
	if bots := random.IntN(4); bots < 2 {
		q.f.Bots = new(bots == 0)
	}
	q.f.Values = map[Dimension]string{}
	for range max(0, random.IntN(5)-2) {
		if d := told[random.IntN(12)]; d == Status {
			q.f.Values[d] = []string{"302", "301", "404"}[random.IntN(3)]
		} else {
			q.f.Values[d] = texts[d][random.IntN(len(texts[d]))]
		}
	}
	return q
}

// whole is the range with its ends moved outwards to quarters of an hour.
func (q question) whole() Range {
	const quarter = 15 * 60
	to := q.r.To.Unix() / quarter * quarter
	if !time.Unix(to, 0).Equal(q.r.To) {
		to += quarter
	}
	return Range{time.Unix(q.r.From.Unix()/quarter*quarter, 0).UTC(), time.Unix(to, 0).UTC()}
}

// meant are the clicks that are asked for.
func (w *world) meant(q question) (found []*Click) {
	r := q.whole()
	for i := range w.clicks {
		c := &w.clicks[i]
		if c.WorkspaceID != q.member.ID() || c.ClickedAt.Before(r.From) || !c.ClickedAt.Before(r.To) || len(q.links) > 0 && !slices.Contains(q.links, c.LinkID) {
			continue
		}
		if q.f.Bots != nil && *q.f.Bots != c.Bot {
			continue
		}
		differs := false
		for d, value := range q.f.Values {
			differs = differs || valueOf(c, d) != value
		}
		if !differs {
			found = append(found, c)
		}
	}
	return found
}

func countAll(clicks []*Click) (n Count) {
	for _, c := range clicks {
		one := Count{Clicks: 1}
		if c.Bot {
			one.Bots = 1
		}
		if c.IsVisit {
			one.Visits = 1
		}
		n.add(one)
	}
	return n
}

func (w *world) stats(t *testing.T, q question) *Stats {
	t.Helper()
	s, err := w.Stats(t.Context(), q.member, q.of, &q.r, q.zone, q.f)
	if err != nil {
		t.Fatalf("%v: %v", q, err)
	}
	return s
}

// check asks for all that there is to know, and compares it with what was written.
func (w *world) check(t *testing.T, random *rand.Rand, q question) {
	t.Helper()
	s, meant := w.stats(t, q), w.meant(q)
	if diff := gocmp.Diff(q.whole(), s.Range); diff != "" {
		t.Errorf("%v, the range (-want +got):\n%s", q, diff)
	}
	want := countAll(meant)
	got, err := s.Total(t.Context())
	if w.refused(t, q, err, len(q.f.Values) > 1) {
		return
	}
	if got != want {
		t.Errorf("%v: %+v in all, want %+v", q, got, want)
	}
	w.checkSeries(t, random, q, meant)
	all := slices.Clone(told)
	random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	for _, by := range all[:min(len(all), sized("LINKFORGE_TEST_DIMENSIONS", 2))] {
		w.checkBreakdown(t, q, by, []int{1, 2, 10}[random.IntN(3)], meant)
	}
	w.checkLatency(t, q, meant)
}

// refused says that a question was refused for want of clicks one by one, as it may be.
func (w *world) refused(t *testing.T, q question, err error, needsClicks bool) bool {
	t.Helper()
	if err == nil {
		return false
	}
	if !errs.Is(err, errs.InvalidInput) || !needsClicks || !q.r.From.Before(w.clicksSince()) {
		t.Errorf("%v: %v", q, err)
	}
	return true
}

func (w *world) checkSeries(t *testing.T, random *rand.Rand, q question, meant []*Click) {
	t.Helper()
	s := w.stats(t, q)
	interval := []Interval{Hour, Day, Week, Month}[random.IntN(4)]
	if q.r.To.Sub(q.r.From) > 30*day && interval == Hour {
		interval = Day
	}
	points, err := s.Series(t.Context(), interval)
	if w.refused(t, q, err, len(q.f.Values) > 1) {
		return
	}
	zone, err := time.LoadLocation(q.zone)
	if err != nil {
		t.Fatal(err)
	}
	for i, p := range points {
		end := q.whole().To
		if i+1 < len(points) {
			end = points[i+1].Start
		}
		if !p.Start.Before(end) || i == 0 && p.Start.After(q.whole().From) {
			t.Fatalf("%v, %s %d: from %s to %s", q, interval, i, p.Start, end)
		}
		before := p.Start.Add(-time.Nanosecond).In(zone)
		if interval == Day && before.Day() == p.Start.In(zone).Day() || interval == Month && before.Month() == p.Start.In(zone).Month() {
			t.Errorf("%v, %s %d begins at %s", q, interval, i, p.Start.In(zone))
		}
		within := slices.DeleteFunc(slices.Clone(meant), func(c *Click) bool { return c.ClickedAt.Before(p.Start) || !c.ClickedAt.Before(end) })
		if want := countAll(within); p.Count != want {
			t.Errorf("%v, %s from %s to %s: %+v, want %+v", q, interval, p.Start, end, p.Count, want)
		}
	}
}

func (w *world) checkBreakdown(t *testing.T, q question, by Dimension, first int, meant []*Click) {
	t.Helper()
	got, err := w.stats(t, q).Breakdown(t.Context(), by, first)
	if w.refused(t, q, err, len(q.f.Values) > 0 || by == ByLink && len(q.links) > 0) {
		return
	}
	if diff := gocmp.Diff(slicesOf(meant, by, first), got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("%v, first %d by %s (-want +got):\n%s", q, first, by, diff)
	}
}

// slicesOf divides clicks.
func slicesOf(clicks []*Click, by Dimension, first int) (all []Slice) {
	parts := map[string][]*Click{}
	for _, c := range clicks {
		parts[valueOf(c, by)] = append(parts[valueOf(c, by)], c)
	}
	for value, part := range parts {
		all = append(all, Slice{Value: value, Count: countAll(part)})
	}
	slices.SortFunc(all, func(a, b Slice) int { return cmp.Or(cmp.Compare(b.Clicks, a.Clicks), cmp.Compare(a.Value, b.Value)) })
	if len(all) > first {
		rest := Slice{IsOther: true}
		for _, s := range all[first:] {
			rest.add(s.Count)
		}
		all = append(all[:first], rest)
	}
	return all
}

func (w *world) checkLatency(t *testing.T, q question, meant []*Click) {
	t.Helper()
	got, err := w.stats(t, q).Latency(t.Context())
	if w.refused(t, q, err, len(q.f.Values) > 0 || q.f.Bots != nil) {
		return
	}
	if len(meant) == 0 || got == nil {
		if len(meant) > 0 || got != nil {
			t.Errorf("%v: latency %+v of %d clicks", q, got, len(meant))
		}
		return
	}
	var sum, squares float64
	var sorted []float64
	for _, c := range meant {
		sum += c.LatencyMs
		sorted = append(sorted, c.LatencyMs)
	}
	slices.Sort(sorted)
	n := float64(len(meant))
	for _, c := range meant {
		squares += (c.LatencyMs - sum/n) * (c.LatencyMs - sum/n)
	}
	for i, one := range []struct{ got, want, margin float64 }{
		{got.Mean, sum / n, 1e-9}, {got.StdDev, math.Sqrt(squares / n), 1e-6}, {got.P50, sorted[int(math.Ceil(0.5*n))-1], 0.05},
		{got.P95, sorted[int(math.Ceil(0.95*n))-1], 0.05}, {got.P99, sorted[int(math.Ceil(0.99*n))-1], 0.05},
	} {
		if math.Abs(one.got-one.want) > one.margin*(0.02+one.want) { // a microsecond is the shortest that is told
			t.Errorf("%v: figure %d of the latency is %g, want %g", q, i, one.got, one.want)
		}
	}
}

// move gives a link that nobody owned to the first workspace.
func (w *world) move(t *testing.T, linkID string) {
	t.Helper()
	err := w.DB.Tx(db.AsSystem(t.Context()), func(ctx context.Context, tx bun.Tx) error {
		return w.Move(ctx, tx, linkID, w.members[0].ID())
	})
	if err != nil {
		t.Fatal(err)
	}
	w.moved(linkID)
}

func (w *world) moved(linkID string) {
	for _, all := range [][]Click{w.clicks, w.links} {
		for i := range all {
			if all[i].LinkID == linkID {
				all[i].WorkspaceID = w.members[0].ID()
			}
		}
	}
}

// tidy does what the server's jobs do, twice: the second time changes nothing.
func (w *world) tidy(t *testing.T) {
	t.Helper()
	for range 2 {
		w.seal(t)
		if err := w.Retain(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}
