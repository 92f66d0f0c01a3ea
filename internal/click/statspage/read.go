package statspage

import (
	"context"
	"time"

	"github.com/linkforge/linkforge/internal/click"
	"github.com/linkforge/linkforge/internal/click/clickstore"
	"github.com/linkforge/linkforge/internal/click/stats"
)

const (
	// pageDays is the number of days on the page, pageSlices that of referrers and countries.
	pageDays   = 30
	pageSlices = 10
)

// Range is the range of the page: days in UTC, the last of which is today.
func Range(now time.Time) *clickstore.Range {
	now = now.UTC()
	return &clickstore.Range{From: now.Truncate(click.Day).AddDate(0, 0, 1-pageDays), To: now}
}

// Read returns the numbers of the page, which are those of its Range. The caller sets the other fields.
func Read(ctx context.Context, s *stats.Stats) (*Page, error) {
	if _, err := s.Read(ctx,
		func(ctx context.Context) error { _, err := s.Total(ctx); return err },
		func(ctx context.Context) error { _, err := s.Series(ctx, stats.Day); return err },
		func(ctx context.Context) error { _, err := s.Breakdown(ctx, click.Referrer, pageSlices); return err },
		func(ctx context.Context) error { _, err := s.Breakdown(ctx, click.Country, pageSlices); return err },
	); err != nil {
		return nil, err
	}
	total, err := s.Total(ctx)
	if err != nil {
		return nil, err
	}
	p := &Page{Zone: s.Zone.String(), Clicks: total.Clicks, Visitors: total.Visits, Bots: total.Bots}
	points, err := s.Series(ctx, stats.Day)
	if err != nil {
		return nil, err
	}
	for _, point := range points {
		p.Days = append(p.Days, Day{Start: point.Start, Clicks: point.Clicks, Visitors: point.Visits})
	}
	if p.Referrers, err = slicesOf(ctx, s, click.Referrer); err != nil {
		return nil, err
	}
	p.Countries, err = slicesOf(ctx, s, click.Country)
	return p, err
}

func slicesOf(ctx context.Context, s *stats.Stats, by click.Dimension) (slices []Slice, err error) {
	parts, err := s.Breakdown(ctx, by, pageSlices)
	for _, part := range parts {
		slices = append(slices, Slice{Value: part.Value, Clicks: part.Clicks, Other: part.IsOther})
	}
	return slices, err
}
