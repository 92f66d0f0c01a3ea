package click

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/errs"
	"github.com/linkforge/linkforge/internal/text"
)

// This file answers what the sums do not know: from the clicks themselves, as far back as they are kept.

// clicks asks for the clicks of the range, one by one.
func (s *Stats) clicks(ctx context.Context) (*bun.SelectQuery, error) {
	if since := s.store.clicksSince(); s.From.Before(since) {
		if err := s.checkClicks(ctx, Range{s.From, earlier(since, s.To)}, since, "Combined filters are told"); err != nil {
			return nil, err
		}
	}
	q := s.store.DB.NewSelect().Model((*row)(nil)).Where("workspace_id = ?", s.member.ID()).Where("clicked_at >= ?", s.From).Where("clicked_at < ?", s.To)
	if !s.isWorkspace() {
		q = s.subject(q, "link_id")
	}
	return s.filter(q), nil
}

// longestValue bounds the text of a filter: none that is kept is longer.
const longestValue = 300

func (f Filter) check() error {
	for _, value := range f.Values {
		if _, err := text.Line("A value", value, 0, longestValue); err != nil {
			return errs.From(err).At("filter")
		}
	}
	return nil
}

// filter keeps the clicks that the filter does.
func (f Filter) filter(q *bun.SelectQuery) *bun.SelectQuery {
	if f.Bots != nil {
		q = q.Where("bot = ?", *f.Bots)
	}
	for _, dimension := range slices.Sorted(maps.Keys(f.Values)) {
		column, value := columnOf(dimension), f.Values[dimension]
		switch {
		case dimension == Status:
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

func columnOf(dimension Dimension) string {
	for _, known := range dimensions {
		if known.name == dimension {
			return known.column
		}
	}
	return ""
}

// counted is what a query counts as a Count.
const counted = "COUNT(*) AS clicks, COUNT(*) FILTER (WHERE visit) AS visits, COUNT(*) FILTER (WHERE bot) AS bots"

// countRows counts clicks, one by one, by the quarter of an hour.
func (s *Stats) countRows(ctx context.Context) ([]countAt, error) {
	q, err := s.clicks(ctx)
	if err != nil {
		return nil, err
	}
	var rows []struct {
		Quarter int64
		Count
	}
	if err := q.ColumnExpr("? AS quarter", s.store.quarter()).ColumnExpr(counted).GroupExpr("1").Scan(ctx, &rows); err != nil {
		return nil, fmt.Errorf("counting clicks one by one: %w", err)
	}
	points := make([]countAt, len(rows))
	for i, r := range rows {
		points[i] = countAt{time.Unix(r.Quarter*int64(BucketLength/time.Second), 0).UTC(), r.Count}
	}
	return points, nil
}

// eachValue counts clicks, one by one, by the values of a dimension.
func (s *Stats) eachValue(ctx context.Context, by Dimension, f func(value string, n Count)) error {
	q, err := s.clicks(ctx)
	if err != nil {
		return err
	}
	var rows []struct {
		Value *string
		Count
	}
	err = q.ColumnExpr("CAST(? AS TEXT) AS value", bun.Ident(columnOf(by))).ColumnExpr(counted).GroupExpr("1").Scan(ctx, &rows)
	if err != nil {
		return fmt.Errorf("counting clicks one by one: %w", err)
	}
	for _, r := range rows {
		if r.Value == nil {
			r.Value = new("")
		}
		f(*r.Value, r.Count)
	}
	return nil
}

// latencies reads the latencies of clicks, one by one.
func (s *Stats) latencies(ctx context.Context) (Tally, values, error) {
	q, err := s.clicks(ctx)
	if err != nil {
		return Tally{}, nil, err
	}
	rows, err := q.Column("latency_ms").Rows(ctx)
	if err != nil {
		return Tally{}, nil, fmt.Errorf("reading latencies: %w", err)
	}
	defer rows.Close()
	tally, steps := Tally{}, values{}
	for rows.Next() {
		var ms float64
		if err := rows.Scan(&ms); err != nil {
			return Tally{}, nil, fmt.Errorf("reading latencies: %w", err)
		}
		tally.Add(ms)
		steps.add(string([]byte{latencyStep(ms)}), Count{Clicks: 1})
	}
	return tally, steps, rows.Err()
}
