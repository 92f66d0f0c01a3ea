package stats

import (
	"context"
	"time"

	"github.com/linkforge/linkforge/internal/click"
	"github.com/linkforge/linkforge/internal/platform/errs"
)

// Interval is the length of a point in a series.
type Interval string

// The intervals, in the viewer's time zone. A week begins on Monday.
const (
	Hour  Interval = "HOUR"
	Day   Interval = "DAY"
	Week  Interval = "WEEK"
	Month Interval = "MONTH"
)

// Point is the clicks of one interval.
type Point struct {
	// Start is the interval's first instant, which may lie before the range.
	Start time.Time
	click.Count
}

const (
	// longestHours is how long a range may be that is divided into hours, mostPoints how many
	// intervals there may be.
	longestHours = 31 * click.Day
	mostPoints   = 1500
)

// Series divides the range into intervals without gaps: empty ones are zero. The points add up to
// the total. It returns InvalidInput for hours of a range of more than 31 days, and for more than
// 1,500 intervals.
func (s *Stats) Series(ctx context.Context, interval Interval) ([]Point, error) {
	return readOnce(s, interval, func() ([]Point, error) { return s.series(ctx, interval) })
}

// Counts are the clicks of the points of a series.
func (s *Stats) Counts(ctx context.Context, interval Interval) ([]int64, error) {
	points, err := s.Series(ctx, interval)
	if err != nil {
		return nil, err
	}
	counts := make([]int64, len(points))
	for i, p := range points {
		counts[i] = p.Clicks
	}
	return counts, nil
}

func (s *Stats) series(ctx context.Context, interval Interval) ([]Point, error) {
	points, err := s.Intervals(interval)
	if err != nil {
		return nil, err
	}
	cuts := make([]time.Time, len(points))
	for i := range points {
		cuts[i] = points[i].Start
	}
	counts, err := s.points(ctx, cuts)
	if err != nil {
		return nil, err
	}
	at := 0
	for _, n := range counts {
		for at+1 < len(points) && !n.Start.Before(points[at+1].Start) {
			at++
		}
		points[at].Add(n.Count)
	}
	return points, nil
}

// Intervals are the points of a series, with nothing counted yet.
func (s *Stats) Intervals(interval Interval) (points []Point, err error) {
	if interval == Hour && s.To.Sub(s.From) > longestHours+click.BucketLength {
		return nil, errs.New(errs.InvalidInput, "Hourly series are limited to ranges of 31 days.").At("interval")
	}
	for start := s.start(interval, s.From); start.Before(s.To); start = s.after(interval, start) {
		if len(points) == mostPoints {
			return nil, errs.New(errs.InvalidInput, "The range has more than %d such intervals: use longer ones.",
				mostPoints).
				At("interval")
		}
		points = append(points, Point{Start: start.UTC()})
	}
	return points, nil
}

// start is the first instant of the interval that t lies in.
func (s *Stats) start(interval Interval, t time.Time) time.Time {
	t = t.In(s.Zone)
	y, m, d := t.Date()
	switch interval {
	case Hour:
		// Hours are cut in elapsed time from the zone's offset: when clocks go back, the hour that
		// comes twice is two.
		_, offset := t.Zone()
		shift := time.Duration(offset) * time.Second
		return t.Add(shift).Truncate(time.Hour).Add(-shift)
	case Week:
		return s.midnight(y, m, d-(int(t.Weekday())+6)%7)
	case Month:
		return s.midnight(y, m, 1)
	}
	return s.midnight(y, m, d)
}

// after is the first instant after the interval that begins at start. It is always later: where a
// zone has left out a whole day, that day and the next begin together, and the day after them is
// looked at.
func (s *Stats) after(interval Interval, start time.Time) time.Time {
	for n := 1; ; n++ {
		if end := s.ahead(interval, start, n); end.After(start) {
			return end
		}
	}
}

// ahead is the start of the n-th interval after the one that begins at start.
func (s *Stats) ahead(interval Interval, start time.Time, n int) time.Time {
	y, m, d := start.In(s.Zone).Date()
	switch interval {
	case Hour:
		return s.start(Hour, start.Add(time.Duration(n)*time.Hour))
	case Week:
		return s.midnight(y, m, d+7*n)
	case Month:
		return s.midnight(y, m+time.Month(n), 1)
	}
	return s.midnight(y, m, d+n)
}

// midnight is the first instant of a day. Where clocks go forward at midnight there is no 00:00,
// and time.Date may answer with an instant of the day before.
func (s *Stats) midnight(y int, m time.Month, d int) time.Time {
	t := time.Date(y, m, d, 0, 0, 0, 0, s.Zone)
	noon := time.Date(y, m, d, 12, 0, 0, 0, s.Zone)
	for t.Day() != noon.Day() {
		t = t.Add(click.BucketLength)
	}
	return t
}
