package clicksql

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/click"
	"github.com/linkforge/linkforge/internal/clickstore"
	"github.com/linkforge/linkforge/internal/rollup"
)

// This file answers queries that rollups cannot, from single clicks, as long as they are stored.

// CheckKept implements clickstore.Store.
func (s *Store) CheckKept(ctx context.Context, q clickstore.Query) error {
	return (&query{q, s}).checkCombined(ctx)
}

// checkCombined refuses a range whose single clicks have been deleted.
func (s *query) checkCombined(ctx context.Context) error {
	since := s.store.ClicksSince()
	if !s.From.Before(since) {
		return nil
	}
	return s.checkClicks(ctx, clickstore.Range{From: s.From, To: earlier(since, s.To)}, since, "Combined filters are available")
}

// clicks selects single clicks.
func (s *query) clicks() *bun.SelectQuery {
	q := s.store.DB.NewSelect().Model((*click.Row)(nil)).Where("workspace_id = ?", s.Member.ID())
	if !s.IsWorkspace() {
		q = s.subject(q, "link_id")
	}
	return filtered(q, s.Filter)
}

// clicksIn selects the single clicks of some spans.
func (s *query) clicksIn(spans ...clickstore.Range) *bun.SelectQuery {
	return within(s.clicks(), "clicked_at", spans)
}

// filtered keeps the clicks that the filter does.
func filtered(q *bun.SelectQuery, f clickstore.Filter) *bun.SelectQuery {
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
func (s *query) countClicks(ctx context.Context) (points []clickstore.Point, err error) {
	if err := s.checkCombined(ctx); err != nil {
		return nil, err
	}
	rest, err := s.eachDetail(ctx, slices.Collect(maps.Keys(s.Values)), func(d *dayOfDetails) {
		var found [click.Day / click.BucketLength]rollup.Count
		d.eachClick(s.Values, func(_ int, quarter byte, one rollup.Count) { found[quarter].Add(one) })
		for quarter, n := range found {
			at := d.start.Add(time.Duration(quarter) * click.BucketLength)
			if n.Clicks > 0 && !at.Before(s.From) && at.Before(s.To) {
				points = append(points, clickstore.Point{Start: at, Count: n})
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
	err = s.clicksIn(rest...).ColumnExpr("? AS quarter", s.store.quarter()).ColumnExpr(counted).GroupExpr("1").
		Scan(ctx, &rows)
	if err != nil {
		return nil, fmt.Errorf("counting clicks one by one: %w", err)
	}
	for _, r := range rows {
		points = append(points, clickstore.Point{Start: time.Unix(r.Quarter*int64(click.BucketLength/time.Second), 0).UTC(), Count: r.Count})
	}
	return points, nil
}

// countBy counts clicks by the values of a dimension: by columns, and one by one where there are
// none.
func (s *query) countBy(ctx context.Context, by click.Dimension) (rollup.Values, error) {
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
	err = s.clicksIn(rest...).ColumnExpr("CAST(? AS TEXT) AS value", bun.Ident(by.Definition().Column)).ColumnExpr(counted).
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
func (s *query) latencies(ctx context.Context) (rollup.Tally, rollup.Values, error) {
	if err := s.checkCombined(ctx); err != nil {
		return rollup.Tally{}, nil, err
	}
	rows, err := s.clicksIn(s.Range).Column("latency_ms").Rows(ctx)
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
