package stats

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/click"
	"github.com/linkforge/linkforge/internal/errs"
	"github.com/linkforge/linkforge/internal/rollup"
	"github.com/linkforge/linkforge/internal/workspace"
)

const (
	// defaultRange is how far stats reach back when no range is given, longestRange how far apart its
	// ends may be.
	defaultRange = 30 * click.Day
	longestRange = 3700 * click.Day
	// MostSlices bounds a breakdown.
	MostSlices = 1000
)

// Range is a span of time: From belongs to it, To does not.
type Range struct {
	From, To time.Time
}

// Subject selects the clicks of one link or of several links, else of a whole workspace.
type Subject struct {
	LinkID string
	// Links finds the ids of links.
	Links *bun.SelectQuery
}

// Filter leaves clicks out.
type Filter struct {
	// Bots keeps only bots, or only people; nil keeps both.
	Bots *bool
	// Values are the required values of dimensions. An empty text means unknown.
	Values map[click.Dimension]string
}

// Stats are the clicks of a subject in a range, as seen from a time zone. Each method reads when it
// is called.
type Stats struct {
	Range
	Subject
	Filter
	store  *Store
	member workspace.Membership
	Zone   *time.Location

	mu    sync.Mutex
	count *rollup.Count
}

// Stats prepares to read stats. A nil range means the last 30 days, an empty zone UTC. The ends are
// moved outwards to whole quarters of an hour, the grain of the sums. It returns InvalidInput or
// Forbidden.
func (s *Store) Stats(
	ctx context.Context, m workspace.Membership, of Subject, r *Range, zone string, f Filter,
) (*Stats, error) {
	if _, err := m.Enter(ctx, workspace.ReadStats); err != nil {
		return nil, err
	}
	f, err := f.checked()
	if err != nil {
		return nil, err
	}
	if r == nil {
		now := s.Now()
		r = &Range{From: now.Add(-defaultRange), To: now}
	}
	if !r.From.Before(r.To) {
		return nil, errs.New(errs.InvalidInput, "The range must begin before it ends.").At("range")
	}
	if r.From.Before(Never) {
		return nil, errs.New(errs.InvalidInput, "The range must not begin before %s.", Never.Format(time.DateOnly)).
			At("range")
	}
	if r.To.Sub(r.From) > longestRange {
		return nil, errs.New(errs.InvalidInput, "The range must not be longer than 10 years.").At("range")
	}
	location, err := time.LoadLocation(zone)
	if err != nil || zone == "Local" {
		return nil, errs.New(errs.InvalidInput, "The time zone must be an IANA name, as in Europe/Berlin.").At("timezone")
	}
	whole := Range{From: r.From.UTC().Truncate(click.BucketLength), To: r.To.UTC().Add(click.BucketLength - 1).
		Truncate(click.BucketLength)}
	return &Stats{Range: whole, Subject: of, Filter: f, store: s, member: m, Zone: location}, nil
}

// Member returns the membership by which the stats are read.
func (s *Stats) Member() workspace.Membership { return s.member }

// Previous are the stats of the period before: it is as long, and ends where this one begins.
func (s *Stats) Previous() (*Stats, error) {
	from := s.From.Add(-s.To.Sub(s.From))
	if from.Before(Never) {
		return nil, errs.New(errs.InvalidInput, "The period before would begin before %s.", Never.Format(time.DateOnly)).
			At("range")
	}
	return &Stats{Range: Range{from, s.From}, Subject: s.Subject, Filter: s.Filter, store: s.store, member: s.member,
		Zone: s.Zone}, nil
}

// Total counts all clicks of the range.
func (s *Stats) Total(ctx context.Context) (rollup.Count, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.count != nil {
		return *s.count, nil
	}
	points, err := s.points(ctx, nil)
	if err != nil {
		return rollup.Count{}, err
	}
	all := rollup.Count{}
	for _, p := range points {
		all.Add(p.Count)
	}
	s.count = &all
	return all, nil
}

// countAt is a count from a start on, until the next one at the earliest.
type countAt struct {
	start time.Time
	rollup.Count
}

// points counts clicks in pieces, none of which spans a cut, in the order of time.
func (s *Stats) points(ctx context.Context, cuts []time.Time) (points []countAt, err error) {
	ctx, err = s.member.Enter(ctx, workspace.ReadStats)
	if err != nil {
		return nil, err
	}
	switch len(s.Values) {
	case 0:
		points, err = s.countRollups(ctx, cuts)
	case 1:
		var all bool
		points, all, err = s.countValue(ctx, cuts)
		if err == nil && !all {
			points, err = s.countClicks(ctx)
		}
	default:
		points, err = s.countClicks(ctx)
	}
	if err != nil {
		return nil, err
	}
	for i := range points {
		points[i].Count = s.people(points[i].Count)
	}
	slices.SortStableFunc(points, func(a, b countAt) int { return a.start.Compare(b.start) })
	return points, nil
}

// people applies the filter of bots to a count. Bots are not visitors.
func (s *Stats) people(n rollup.Count) rollup.Count {
	switch {
	case s.Bots == nil:
		return n
	case *s.Bots:
		return rollup.Count{Clicks: n.Bots, Bots: n.Bots}
	}
	return rollup.Count{Clicks: n.Clicks - n.Bots, Visits: n.Visits}
}

// countValue counts clicks of one value by the sums. It returns false when a sum may have counted
// some among others.
func (s *Stats) countValue(ctx context.Context, cuts []time.Time) (points []countAt, all bool, err error) {
	all = true
	err = s.EachRollup(ctx, cuts, func(b *Bucket) error {
		for dimension, value := range s.Values {
			found, err := valuesOf(b, dimension)
			if err != nil {
				return err
			}
			if _, some := found[rollup.Others]; some && value != unknownValue(dimension) {
				all = false
			}
			points = append(points, countAt{b.StartsAt, found[value]})
		}
		return nil
	})
	return points, all, err
}

// valuesOf returns the counts of a rollup by the values of a dimension, including clicks of unknown
// value.
func valuesOf(b *Bucket, dimension click.Dimension) (rollup.Values, error) {
	rest := b.count()
	found := rollup.Values{}
	err := rollup.EachCount(b.Counts, dimension.Definition().Number, func(_ byte, value []byte, n rollup.Count) {
		found[string(value)] = n
		rest.Add(rollup.Count{Clicks: -n.Clicks, Visits: -n.Visits, Bots: -n.Bots})
	})
	if rest != (rollup.Count{}) {
		found[unknownValue(dimension)] = rest
	}
	return found, err
}

// unknownValue returns the value of clicks whose counts contain none.
func unknownValue(dimension click.Dimension) string {
	if dimension == click.Status {
		return strconv.Itoa(rollup.CommonStatus)
	}
	return ""
}

// Slice is the part of the clicks with one value or, with IsOther, with any value that is not
// listed.
type Slice struct {
	Value   string
	IsOther bool
	rollup.Count
}

// Breakdown divides the clicks by a dimension: the values with the most clicks, and all others
// together. The slices add up to the total. It returns InvalidInput.
func (s *Stats) Breakdown(ctx context.Context, by click.Dimension, first int) ([]Slice, error) {
	if first < 1 || first > MostSlices {
		return nil, errs.New(errs.InvalidInput, "Request 1 to %d slices.", MostSlices).At("first")
	}
	ctx, err := s.member.Enter(ctx, workspace.ReadStats)
	if err != nil {
		return nil, err
	}
	all := rollup.Values{}
	if len(s.Values) == 0 && (by != click.ByLink || s.isWorkspace()) {
		err = s.EachRollup(ctx, nil, func(b *Bucket) error {
			found, err := valuesOf(b, by)
			for value, n := range found {
				all.Add(value, n)
			}
			return err
		})
	} else {
		all, err = s.countBy(ctx, by)
	}
	if err != nil {
		return nil, err
	}
	return s.slices(all, first), nil
}

func (s *Stats) slices(all rollup.Values, first int) []Slice {
	other := Slice{IsOther: true, Count: s.people(all[rollup.Others])}
	delete(all, rollup.Others)
	sorted := make([]Slice, 0, len(all))
	for value, n := range all {
		if n = s.people(n); n.Clicks > 0 {
			sorted = append(sorted, Slice{Value: value, Count: n})
		}
	}
	slices.SortFunc(sorted, func(a, b Slice) int {
		return cmp.Or(cmp.Compare(b.Clicks, a.Clicks),
			cmp.Compare(a.Value, b.Value))
	})
	if len(sorted) > first {
		for _, rest := range sorted[first:] {
			other.Add(rest.Count)
		}
		sorted = sorted[:first]
	}
	if other.Clicks > 0 {
		sorted = append(sorted, other)
	}
	return sorted
}

// Latency describes the time that redirects took, in milliseconds: the exact mean and standard
// deviation, and percentiles to five per cent.
type Latency struct {
	Mean, StdDev, P50, P95, P99 float64
}

// Latency is nil without clicks.
func (s *Stats) Latency(ctx context.Context) (*Latency, error) {
	ctx, err := s.member.Enter(ctx, workspace.ReadStats)
	if err != nil {
		return nil, err
	}
	tally, steps := rollup.Tally{}, rollup.Values{}
	if len(s.Values) == 0 && s.Bots == nil {
		err = s.EachRollup(ctx, nil, func(b *Bucket) error {
			tally.Merge(b.Tally)
			return rollup.EachCount(b.Counts, click.LatencyDimension,
				func(_ byte, value []byte, n rollup.Count) { steps.Add(string(value), n) })
		})
	} else {
		tally, steps, err = s.latencies(ctx)
	}
	if err != nil || tally.Clicks == 0 {
		return nil, err
	}
	p := steps.Percentiles(0.5, 0.95, 0.99)
	return &Latency{tally.LatencyMean, math.Sqrt(max(0, tally.LatencyM2) / float64(tally.Clicks)), p[0], p[1], p[2]}, nil
}

func (s *Stats) isWorkspace() bool { return s.LinkID == "" && s.Links == nil }

// subject keeps the rows of a query whose column names a subject.
func (s *Stats) subject(q *bun.SelectQuery, column string) *bun.SelectQuery {
	switch {
	case s.LinkID != "":
		return q.Where("? = ?", bun.Ident(column), s.LinkID)
	case s.Links != nil:
		return q.Where("? IN (?)", bun.Ident(column), s.Links)
	}
	return q.Where("? = ?", bun.Ident(column), s.member.ID())
}
