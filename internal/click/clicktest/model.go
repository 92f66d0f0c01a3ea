package clicktest

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
	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/click"
	"github.com/linkforge/linkforge/internal/click/clickstore"
	"github.com/linkforge/linkforge/internal/click/stats"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/id"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/suitetest"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
)

// Question is a query of stats.
type Question struct {
	Member workspace.Membership
	Of     clickstore.Subject
	Links  []string // of the subject; none: all of the workspace
	R      clickstore.Range
	Zone   string
	F      clickstore.Filter
}

func (q Question) String() string {
	bots := "all"
	if q.F.Bots != nil {
		bots = strconv.FormatBool(*q.F.Bots)
	}
	return fmt.Sprintf("%s %v from %s to %s, %s, bots %s, %v", q.Member.Slug(), q.Links,
		q.R.From.Format(time.RFC3339Nano),
		q.R.To.Format(time.RFC3339Nano),
		q.Zone, bots, q.F.Values)
}

// Ask draws a question.
func (w *World) Ask(random *rand.Rand, from, to time.Time) (q Question) {
	q.Member = w.Members[random.IntN(len(w.Members))]
	switch random.IntN(3) {
	case 0:
		q.Links = []string{w.Links[random.IntN(len(w.Links))].LinkID} // perhaps a foreign one: then there is nothing
		q.Of.LinkID = q.Links[0]
	case 1:
		for _, l := range w.Links {
			if random.IntN(2) == 0 {
				q.Links = append(q.Links, l.LinkID)
			}
		}
		q.Links = append(q.Links, id.New(id.Link))
		q.Of.Links = w.DB.NewSelect().Model((*clickstore.Total)(nil)).Column("subject_id").
			Where("subject_id IN (?)", bun.In(q.Links))
	}
	instant := func() time.Time {
		t := from.Add(time.Duration(random.Int64N(int64(to.Sub(from)))))
		return t.Truncate([]time.Duration{1, click.BucketLength, time.Hour, click.Day, click.Day}[random.IntN(5)])
	}
	for !q.R.From.Before(q.R.To) {
		q.R = clickstore.Range{From: instant(), To: instant()}
		if random.IntN(3) == 0 {
			q.R.To = q.R.From.Add(time.Duration(random.Int64N(int64(3 * click.Day))))
		}
	}
	q.Zone = []string{"", "UTC", "Asia/Kathmandu", "Australia/Lord_Howe", "America/St_Johns", "Africa/Cairo",
		"Pacific/Apia", "Europe/Berlin"}[random.IntN(8)]
	if bots := random.IntN(4); bots < 2 {
		q.F.Bots = new(bots == 0)
	}
	q.F.Values = map[click.Dimension]string{}
	for range max(0, random.IntN(5)-2) {
		if d := drawDimension(random); d == click.Status {
			q.F.Values[d] = []string{"302", "301", "404"}[random.IntN(3)]
		} else {
			q.F.Values[d] = textsOf(d)[random.IntN(len(textsOf(d)))]
		}
	}
	return q
}

// drawDimension draws one that clicks can be filtered by.
func drawDimension(random *rand.Rand) click.Dimension {
	n := random.IntN(len(click.VisitDimensions) + 1)
	if n == len(click.VisitDimensions) {
		return click.Status
	}
	return click.VisitDimensions[n].Name
}

// whole is the range with its ends moved outwards to quarters of an hour.
func (q Question) whole() clickstore.Range {
	const quarter = 15 * 60
	to := q.R.To.Unix() / quarter * quarter
	if !time.Unix(to, 0).Equal(q.R.To) {
		to += quarter
	}
	return clickstore.Range{From: time.Unix(q.R.From.Unix()/quarter*quarter, 0).UTC(), To: time.Unix(to, 0).UTC()}
}

// dividesDay reports whether an end of the range is no midnight (UTC).
func (q Question) dividesDay() bool {
	r := q.whole()
	return !r.From.Truncate(click.Day).Equal(r.From) || !r.To.Truncate(click.Day).Equal(r.To)
}

// Meant returns the clicks that a query selects.
func (w *World) Meant(q Question) (found []*click.Click) {
	r := q.whole()
	for i := range w.Clicks {
		c := &w.Clicks[i]
		if c.WorkspaceID != q.Member.ID() || c.ClickedAt.Before(r.From) || !c.ClickedAt.Before(r.To) ||
			len(q.Links) > 0 &&
				!slices.Contains(q.Links, c.LinkID) {
			continue
		}
		if q.F.Bots != nil && *q.F.Bots != c.Bot {
			continue
		}
		differs := false
		for d, value := range q.F.Values {
			differs = differs || valueOf(c, d) != value
		}
		if !differs {
			found = append(found, c)
		}
	}
	return found
}

func CountAll(clicks []*click.Click) (n click.Count) {
	for _, c := range clicks {
		one := click.Count{Clicks: 1}
		if c.Bot {
			one.Bots = 1
		}
		if c.IsVisit {
			one.Visits = 1
		}
		n.Add(one)
	}
	return n
}

func (w *World) QueryStats(t *testing.T, q Question) *stats.Stats {
	t.Helper()
	s, err := w.Stats.Stats(t.Context(), q.Member, q.Of, &q.R, q.Zone, q.F)
	if err != nil {
		t.Fatalf("%v: %v", q, err)
	}
	return s
}

// Check compares all stats of a query with the written clicks.
func (w *World) Check(t *testing.T, random *rand.Rand, q Question) {
	t.Helper()
	s, meant := w.QueryStats(t, q), w.Meant(q)
	if diff := gocmp.Diff(q.whole(), s.Range); diff != "" {
		t.Errorf("%v, the range (-want +got):\n%s", q, diff)
	}
	want := CountAll(meant)
	got, err := s.Total(t.Context())
	if w.refused(t, q, err, len(q.F.Values) > 1 || len(q.F.Values) == 1 && q.dividesDay()) {
		return
	}
	if got != want {
		t.Errorf("%v: %+v in all, want %+v", q, got, want)
	}
	w.CheckSeries(t, random, q, meant)
	all := slices.Clone(click.StoredDimensions)
	random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	for _, by := range all[:min(len(all), suitetest.Size(2, 4))] {
		w.CheckBreakdown(t, q, by.Name, []int{1, 2, 10}[random.IntN(3)], meant)
	}
	w.checkLatency(t, q, meant)
}

// CheckTotal compares how many clicks a query counts with the written ones.
func (w *World) CheckTotal(t *testing.T, q Question) {
	t.Helper()
	got, err := w.QueryStats(t, q).Total(t.Context())
	if want := CountAll(w.Meant(q)); got != want || err != nil {
		t.Errorf("%v: %+v in all, want %+v: %v", q, got, want, err)
	}
}

// refused says that a question was refused for want of clicks one by one, as it may be.
func (w *World) refused(t *testing.T, q Question, err error, needsClicks bool) bool {
	t.Helper()
	if err == nil {
		return false
	}
	if !errs.Is(err, errs.InvalidInput) || !needsClicks || !q.R.From.Before(w.ClicksSince()) {
		t.Errorf("%v: %v", q, err)
	}
	return true
}

func (w *World) CheckSeries(t *testing.T, random *rand.Rand, q Question, meant []*click.Click) {
	t.Helper()
	s := w.QueryStats(t, q)
	interval := []stats.Interval{stats.Hour, stats.Day, stats.Week, stats.Month}[random.IntN(4)]
	if q.R.To.Sub(q.R.From) > 30*click.Day && interval == stats.Hour {
		interval = stats.Day
	}
	points, err := s.Series(t.Context(), interval)
	if w.refused(t, q, err, len(q.F.Values) > 1 || len(q.F.Values) == 1 && (q.dividesDay() || q.Zone != "UTC")) {
		return
	}
	zone, err := time.LoadLocation(q.Zone)
	if err != nil {
		t.Fatal(err)
	}
	counts := must.Value(s.Counts(t.Context(), interval))(t)
	if len(counts) != len(points) {
		t.Fatalf("%v, %s: %d counts of %d points", q, interval, len(counts), len(points))
	}
	for i, p := range points {
		if counts[i] != p.Clicks {
			t.Errorf("%v, %s %d: counts %d, want %d", q, interval, i, counts[i], p.Clicks)
		}
		end := q.whole().To
		if i+1 < len(points) {
			end = points[i+1].Start
		}
		if !p.Start.Before(end) || i == 0 && p.Start.After(q.whole().From) {
			t.Fatalf("%v, %s %d: from %s to %s", q, interval, i, p.Start, end)
		}
		before := p.Start.Add(-time.Nanosecond).In(zone)
		if interval == stats.Day && before.Day() == p.Start.In(zone).Day() || interval == stats.Month &&
			before.Month() == p.Start.In(zone).Month() {
			t.Errorf("%v, %s %d begins at %s", q, interval, i, p.Start.In(zone))
		}
		within := slices.DeleteFunc(slices.Clone(meant), func(c *click.Click) bool {
			return c.ClickedAt.Before(p.Start) ||
				!c.ClickedAt.Before(end)
		})
		if want := CountAll(within); p.Count != want {
			t.Errorf("%v, %s from %s to %s: %+v, want %+v", q, interval, p.Start, end, p.Count, want)
		}
	}
}

func (w *World) CheckBreakdown(t *testing.T, q Question, by click.Dimension, first int, meant []*click.Click) {
	t.Helper()
	got, err := w.QueryStats(t, q).Breakdown(t.Context(), by, first)
	if w.refused(t, q, err, len(q.F.Values) > 0 || by == click.ByLink && len(q.Links) > 0 || q.dividesDay()) {
		return
	}
	want := slicesOf(meant, by, first)
	if diff := gocmp.Diff(want, got); diff != "" && len(want)+len(got) > 0 {
		t.Errorf("%v, first %d by %s (-want +got):\n%s", q, first, by, diff)
	}
}

// valueOf returns the value of a dimension; empty if it is not known.
func valueOf(c *click.Click, by click.Dimension) string {
	switch by {
	case click.Status:
		return strconv.Itoa(c.Status)
	case click.ByLink:
		return c.LinkID
	}
	return *by.Definition().Text(c)
}

// slicesOf divides clicks.
func slicesOf(clicks []*click.Click, by click.Dimension, first int) (all []stats.Slice) {
	parts := map[string][]*click.Click{}
	for _, c := range clicks {
		parts[valueOf(c, by)] = append(parts[valueOf(c, by)], c)
	}
	for value, part := range parts {
		all = append(all, stats.Slice{Value: value, Count: CountAll(part)})
	}
	slices.SortFunc(all, func(a, b stats.Slice) int {
		return cmp.Or(cmp.Compare(b.Clicks, a.Clicks), cmp.Compare(a.Value, b.Value))
	})
	if len(all) > first {
		rest := stats.Slice{IsOther: true}
		for _, s := range all[first:] {
			rest.Add(s.Count)
		}
		all = append(all[:first], rest)
	}
	return all
}

func (w *World) checkLatency(t *testing.T, q Question, meant []*click.Click) {
	t.Helper()
	got, err := w.QueryStats(t, q).Latency(t.Context())
	if w.refused(t, q, err, len(q.F.Values) > 0 || q.F.Bots != nil || q.dividesDay()) {
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
		{got.Mean, sum / n, 1e-9}, {got.StdDev, math.Sqrt(squares / n), 1e-6},
		{got.P50, sorted[int(math.Ceil(0.5*n))-1],
			0.05},
		{got.P95, sorted[int(math.Ceil(0.95*n))-1], 0.05}, {got.P99, sorted[int(math.Ceil(0.99*n))-1], 0.05},
	} {
		if math.Abs(one.got-one.want) > one.margin*(0.02+one.want) { // latencies are reported in microseconds
			t.Errorf("%v: figure %d of the latency is %g, want %g", q, i, one.got, one.want)
		}
	}
}

// MoveLink moves a link without an owner to the first workspace.
func (w *World) MoveLink(t *testing.T, linkID string) {
	t.Helper()
	err := w.DB.Tx(db.AsSystem(t.Context()), func(ctx context.Context, tx bun.Tx) error {
		return w.Move(ctx, tx, linkID, w.Members[0].ID())
	})
	if err != nil {
		t.Fatal(err)
	}
	w.Moved(linkID)
}

func (w *World) Moved(linkID string) {
	for _, all := range [][]click.Click{w.Clicks, w.Links} {
		for i := range all {
			if all[i].LinkID == linkID {
				all[i].WorkspaceID = w.Members[0].ID()
			}
		}
	}
}

// Tidy runs the server's jobs twice. The second run must change nothing.
func (w *World) Tidy(t *testing.T) {
	t.Helper()
	for range 2 {
		w.SealDays(t)
		if err := w.Retain(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}
