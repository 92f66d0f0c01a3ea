package stats

import (
	"cmp"
	"context"
	"database/sql/driver"
	"errors"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/linkforge/linkforge/internal/click"
	"github.com/linkforge/linkforge/internal/click/clickstore"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/validate"
	"github.com/linkforge/linkforge/internal/route/routing"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
)

const (
	// defaultRange is how far stats reach back when no range is given, longestRange how far apart
	// its ends may be.
	defaultRange = 30 * click.Day
	longestRange = 3700 * click.Day
	// MostSlices bounds a breakdown.
	MostSlices = 1000
)

// Stats are the clicks of a subject in a range, as seen from a time zone. Each part is read once, by the
// first call of its method or by Read; its error is kept too.
type Stats struct {
	clickstore.Query
	Member workspace.Membership
	Zone   *time.Location
	store  *Store

	parts sync.Map // by a key of readOnce: what was read
}

// readOnce reads a part of stats, unless it was read before.
func readOnce[T any](s *Stats, key any, read func() (T, error)) (T, error) {
	once, _ := s.parts.LoadOrStore(key, sync.OnceValues(read))
	return once.(func() (T, error))()
}

// Read runs parts at one instant, and returns the total of the link at that instant; zero for other
// subjects. Parts call methods of s, which keep the results for later calls. It returns the error of a
// part, but for InvalidInput, which the method returns again.
func (s *Stats) Read(
	ctx context.Context, parts ...func(ctx context.Context) error,
) (total clickstore.LinkTotal, err error) {
	total, err = s.read(ctx, parts)
	if errors.Is(err, driver.ErrBadConn) { // a standby has ended, or has cancelled a statement
		s.parts.Clear()
		return s.read(db.UpToDate(ctx), parts)
	}
	return total, err
}

func (s *Stats) read(
	ctx context.Context, parts []func(ctx context.Context) error,
) (total clickstore.LinkTotal, err error) {
	ctx, err = s.Member.Enter(ctx, workspace.ReadStats)
	if err != nil {
		return total, err
	}
	err = s.store.Clicks.AtOneInstant(ctx, func(ctx context.Context) error {
		for _, read := range parts {
			if err := read(ctx); err != nil && !errs.Is(err, errs.InvalidInput) {
				return err
			}
		}
		if s.LinkID == "" {
			return nil
		}
		totals, err := s.store.Ledger.Totals(ctx, s.WorkspaceID, s.LinkID)
		total = totals[s.LinkID]
		return err
	})
	return total, err
}

// Stats prepares to read stats. A nil range means the last 30 days, an empty timezone UTC. The ends
// are moved outwards to whole quarters of an hour, the grain of the sums. It returns InvalidInput
// or Forbidden.
func (s *Store) Stats(
	ctx context.Context, m workspace.Membership, of clickstore.Subject, r *clickstore.Range, timezone string,
	f clickstore.Filter,
) (*Stats, error) {
	if _, err := s.enter(ctx, m, of); err != nil {
		return nil, err
	}
	f, filterErr := checked(f)
	if r == nil {
		now := s.Now()
		r = &clickstore.Range{From: now.Add(-defaultRange), To: now}
	}
	var rangeErr, zoneErr error
	switch {
	case !r.From.Before(r.To):
		rangeErr = errs.New(errs.InvalidInput, "The range must begin before it ends.").At("range")
	case r.From.Before(clickstore.Never):
		rangeErr = errs.New(errs.InvalidInput, "The range must not begin before %s.",
			clickstore.Never.Format(time.DateOnly)).
			At("range")
	case r.To.Sub(r.From) > longestRange:
		rangeErr = errs.New(errs.InvalidInput, "The range must not be longer than 10 years.").At("range")
	}
	location := routing.LoadZone(cmp.Or(timezone, "UTC"))
	if location == nil {
		zoneErr = errs.New(errs.InvalidInput, "The time zone must be an IANA name, as in Europe/Berlin.").
			At("timezone")
	}
	if err := errs.All(rangeErr, zoneErr, filterErr); err != nil {
		return nil, err
	}
	whole := clickstore.Range{From: r.From.UTC().Truncate(click.BucketLength),
		To: r.To.UTC().Add(click.BucketLength - 1).
			Truncate(click.BucketLength)}
	q := clickstore.Query{WorkspaceID: m.ID(), Subject: of, Range: whole, Filter: f}
	return &Stats{Query: q, Member: m, Zone: location, store: s}, nil
}

// maxFilterLength bounds the text of a filter: no stored value is longer.
const maxFilterLength = 300

// checked returns the filter with its texts as clicks have them. It returns InvalidInput.
func checked(f clickstore.Filter) (clickstore.Filter, error) {
	values := make(map[click.Dimension]string, len(f.Values))
	var checks []error
	for dimension, value := range f.Values {
		text, err := validate.Opaque("A value", value, 0, maxFilterLength)
		checks = append(checks, errs.At(err, "filter", (&click.Definition{Name: dimension}).FilterName()))
		values[dimension] = text
	}
	return clickstore.Filter{Bots: f.Bots, Values: values}, errs.All(checks...)
}

// Previous are the stats of the period before: it is as long, and ends where this one begins.
func (s *Stats) Previous() (*Stats, error) {
	from := s.From.Add(-s.To.Sub(s.From))
	if from.Before(clickstore.Never) {
		return nil, errs.New(errs.InvalidInput, "The period before would begin before %s.",
			clickstore.Never.Format(time.DateOnly)).
			At("range")
	}
	q := s.Query
	q.Range = clickstore.Range{From: from, To: s.From}
	return &Stats{Query: q, Member: s.Member, Zone: s.Zone, store: s.store}, nil
}

// Total counts all clicks of the range.
func (s *Stats) Total(ctx context.Context) (click.Count, error) {
	return readOnce(s, "total", func() (all click.Count, err error) {
		points, err := s.points(ctx, nil)
		for _, p := range points {
			all.Add(p.Count)
		}
		return all, err
	})
}

// points counts clicks in chronological pieces that span no cut.
func (s *Stats) points(ctx context.Context, cuts []time.Time) ([]clickstore.Point, error) {
	ctx, err := s.Member.Enter(ctx, workspace.ReadStats)
	if err != nil {
		return nil, err
	}
	return s.store.Clicks.Points(ctx, s.Query, cuts)
}

// Slice is the part of the clicks with one value or, with IsOther, with any value that is not
// listed.
type Slice struct {
	Value   string
	IsOther bool
	click.Count
}

// Breakdown divides the clicks by a dimension: the values with the most clicks, and all others
// together. The slices add up to the total. It returns InvalidInput.
func (s *Stats) Breakdown(ctx context.Context, by click.Dimension, first int) ([]Slice, error) {
	if first < 1 || first > MostSlices {
		return nil, errs.New(errs.InvalidInput, "Request 1 to %d slices.", MostSlices).At("first")
	}
	all, err := readOnce(s, by, func() (click.Values, error) {
		ctx, err := s.Member.Enter(ctx, workspace.ReadStats)
		if err != nil {
			return nil, err
		}
		return s.store.Clicks.Slices(ctx, s.Query, by)
	})
	if err != nil {
		return nil, err
	}
	return slicesOf(all, first), nil
}

// slicesOf returns the values with the most clicks, and all others together.
func slicesOf(all click.Values, first int) []Slice {
	other := Slice{IsOther: true, Count: all[click.Others]}
	sorted := make([]Slice, 0, len(all))
	for value, n := range all {
		if n.Clicks > 0 && value != click.Others {
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
	return readOnce(s, "latency", func() (*Latency, error) {
		ctx, err := s.Member.Enter(ctx, workspace.ReadStats)
		if err != nil {
			return nil, err
		}
		tally, steps, err := s.store.Clicks.Latencies(ctx, s.Query)
		if err != nil || tally.Clicks == 0 {
			return nil, err
		}
		p := steps.Percentiles(0.5, 0.95, 0.99)
		return &Latency{tally.LatencyMean, math.Sqrt(max(0, tally.LatencyM2) / float64(tally.Clicks)), p[0], p[1],
			p[2]}, nil
	})
}
