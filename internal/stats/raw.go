package stats

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/click"
	"github.com/linkforge/linkforge/internal/errs"
	"github.com/linkforge/linkforge/internal/rollup"
	"github.com/linkforge/linkforge/internal/validate"
)

// This file answers queries that rollups cannot, from single clicks, as long as they are stored.

// checkCombined refuses a range whose single clicks have been deleted.
func (s *Stats) checkCombined(ctx context.Context) error {
	since := s.store.ClicksSince()
	if !s.From.Before(since) {
		return nil
	}
	return s.checkClicks(ctx, Range{s.From, earlier(since, s.To)}, since, "Combined filters are available")
}

// clicks selects the clicks of some spans.
func (s *Stats) clicks(spans ...Range) *bun.SelectQuery {
	q := within(s.store.DB.NewSelect().Model((*click.Row)(nil)).Where("workspace_id = ?", s.member.ID()), "clicked_at",
		spans)
	if !s.isWorkspace() {
		q = s.subject(q, "link_id")
	}
	return s.filter(q)
}

// maxFilterLength bounds the text of a filter: no stored value is longer.
const maxFilterLength = 300

// checked returns the filter with its texts as clicks have them. It returns InvalidInput.
func (f Filter) checked() (Filter, error) {
	values := make(map[click.Dimension]string, len(f.Values))
	for dimension, value := range f.Values {
		text, err := validate.Opaque("A value", value, 0, maxFilterLength)
		if err != nil {
			return Filter{}, errs.From(err).At("filter")
		}
		values[dimension] = text
	}
	return Filter{Bots: f.Bots, Values: values}, nil
}

// filter keeps the clicks that the filter does.
func (f Filter) filter(q *bun.SelectQuery) *bun.SelectQuery {
	if f.Bots != nil {
		q = q.Where("bot = ?", *f.Bots)
	}
	for _, dimension := range slices.Sorted(maps.Keys(f.Values)) {
		column, value := dimension.Definition().Column, f.Values[dimension]
		switch {
		case dimension == click.Status:
			status, err := strconv.Atoi(value)
			if err != nil {
				status = 0
			}
			q = q.Where("status = ?", status)
		case value == "":
			q = q.Where("? IS NULL", bun.Ident(column))
		default:
			q = q.Where("? = ?", bun.Ident(column), value)
		}
	}
	return q
}

// counted are the columns of a Count.
const counted = "COUNT(*) AS clicks, COUNT(*) FILTER (WHERE visit) AS visits, COUNT(*) FILTER (WHERE bot) AS bots"

// countClicks counts clicks by the quarter of an hour: by columns, and one by one where there are
// none.
func (s *Stats) countClicks(ctx context.Context) (points []countAt, err error) {
	if err := s.checkCombined(ctx); err != nil {
		return nil, err
	}
	rest, err := s.eachDetail(ctx, slices.Collect(maps.Keys(s.Values)), func(d *dayOfDetails) {
		var found [click.Day / click.BucketLength]rollup.Count
		d.eachClick(s.Values, func(_ int, quarter byte, one rollup.Count) { found[quarter].Add(one) })
		for quarter, n := range found {
			at := d.start.Add(time.Duration(quarter) * click.BucketLength)
			if n.Clicks > 0 && !at.Before(s.From) && at.Before(s.To) {
				points = append(points, countAt{at, n})
			}
		}
	})
	if err != nil || len(rest) == 0 {
		return points, err
	}
	var rows []struct {
		Quarter int64
		rollup.Count
	}
	err = s.clicks(rest...).ColumnExpr("? AS quarter", s.store.quarter()).ColumnExpr(counted).GroupExpr("1").
		Scan(ctx, &rows)
	if err != nil {
		return nil, fmt.Errorf("counting clicks one by one: %w", err)
	}
	for _, r := range rows {
		points = append(points, countAt{time.Unix(r.Quarter*int64(click.BucketLength/time.Second), 0).UTC(), r.Count})
	}
	return points, nil
}

// countBy counts clicks by the values of a dimension: by columns, and one by one where there are
// none.
func (s *Stats) countBy(ctx context.Context, by click.Dimension) (rollup.Values, error) {
	if err := s.checkCombined(ctx); err != nil {
		return nil, err
	}
	all := rollup.Values{}
	wanted := append(slices.Collect(maps.Keys(s.Values)), by)
	rest, err := s.eachDetail(ctx, slices.Compact(slices.Sorted(slices.Values(wanted))), func(d *dayOfDetails) {
		column := d.columns[by]
		found := make([]rollup.Count, len(column.values))
		d.eachClick(s.Values, func(number int, quarter byte, one rollup.Count) {
			if at := d.start.Add(time.Duration(quarter) * click.BucketLength); !at.Before(s.From) && at.Before(s.To) {
				found[column.clickCode(number)].Add(one)
			}
		})
		for code, n := range found {
			if n.Clicks > 0 {
				all.Add(column.values[code], n)
			}
		}
	})
	if err != nil || len(rest) == 0 {
		return all, err
	}
	var rows []struct {
		Value *string
		rollup.Count
	}
	err = s.clicks(rest...).ColumnExpr("CAST(? AS TEXT) AS value", bun.Ident(by.Definition().Column)).ColumnExpr(counted).
		GroupExpr("1").Scan(ctx, &rows)
	if err != nil {
		return nil, fmt.Errorf("counting clicks one by one: %w", err)
	}
	for _, r := range rows {
		if r.Value == nil {
			r.Value = new("")
		}
		all.Add(*r.Value, r.Count)
	}
	return all, nil
}

// latencies reads the latencies of clicks, one by one.
func (s *Stats) latencies(ctx context.Context) (rollup.Tally, rollup.Values, error) {
	if err := s.checkCombined(ctx); err != nil {
		return rollup.Tally{}, nil, err
	}
	rows, err := s.clicks(s.Range).Column("latency_ms").Rows(ctx)
	if err != nil {
		return rollup.Tally{}, nil, fmt.Errorf("reading latencies: %w", err)
	}
	defer rows.Close()
	tally, steps := rollup.Tally{}, rollup.Values{}
	for rows.Next() {
		var ms float64
		if err := rows.Scan(&ms); err != nil {
			return rollup.Tally{}, nil, fmt.Errorf("reading latencies: %w", err)
		}
		tally.Add(ms)
		steps.Add(string([]byte{rollup.LatencyStep(ms)}), rollup.Count{Clicks: 1})
	}
	return tally, steps, rows.Err()
}
