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
	"github.com/linkforge/linkforge/internal/click/clickstore"
)

// This file counts single clicks, as long as they are stored.

// CheckKept implements clickstore.Store.
func (s *Store) CheckKept(ctx context.Context, of clickstore.Query) error {
	return (&query{of, s}).checkKept(ctx, of.Range)
}

// clicks selects the single clicks that the filter permits.
func (q *query) clicks(ctx context.Context) *bun.SelectQuery {
	sel := q.store.DB.Reading(ctx).Model((*click.Row)(nil)).Where("workspace_id = ?", q.WorkspaceID)
	if !q.IsWorkspace() {
		sel = q.subject(sel, "link_id")
	}
	if q.Bots != nil {
		sel = sel.Where("bot = ?", *q.Bots)
	}
	for _, dimension := range slices.Sorted(maps.Keys(q.Values)) {
		column, value := dimension.Definition().Column, q.Values[dimension]
		switch {
		case dimension == click.Status:
			status, err := strconv.Atoi(value)
			if err != nil {
				status = 0
			}
			sel = sel.Where("status = ?", status)
		case value == "":
			sel = sel.Where("? IS NULL", bun.Ident(column))
		default:
			sel = sel.Where("? = ?", bun.Ident(column), value)
		}
	}
	return sel
}

// clicksIn selects the single clicks of some spans.
func (q *query) clicksIn(ctx context.Context, spans []clickstore.Range) *bun.SelectQuery {
	return q.clicks(ctx).WhereGroup(" AND ", func(sel *bun.SelectQuery) *bun.SelectQuery {
		for _, span := range spans {
			sel = sel.WhereOr("clicked_at >= ? AND clicked_at < ?", span.From, span.To)
		}
		return sel
	})
}

// counted are the columns of a Count.
const counted = "COUNT(*) AS clicks, COUNT(*) FILTER (WHERE visit) AS visits, COUNT(*) FILTER (WHERE bot) AS bots"

// countClicks counts the clicks of spans by the quarter of an hour. It returns InvalidInput if there
// were clicks that are not stored any more, as countBy and latencies do.
func (q *query) countClicks(ctx context.Context, spans []clickstore.Range) (points []clickstore.Point, err error) {
	if len(spans) == 0 {
		return nil, nil
	}
	if err := q.checkKept(ctx, spans...); err != nil {
		return nil, err
	}
	var rows []struct {
		Quarter int64
		click.Count
	}
	err = q.clicksIn(ctx, spans).ColumnExpr("? AS quarter", q.store.quarter()).ColumnExpr(counted).GroupExpr("1").
		Scan(ctx, &rows)
	if err != nil {
		return nil, fmt.Errorf("counting clicks one by one: %w", err)
	}
	for _, r := range rows {
		start := time.Unix(r.Quarter*int64(click.BucketLength/time.Second), 0).UTC()
		points = append(points, clickstore.Point{Start: start, Count: r.Count})
	}
	return points, nil
}

// countBy counts the clicks of spans by the values of a dimension.
func (q *query) countBy(ctx context.Context, by click.Dimension, spans []clickstore.Range, all click.Values) error {
	if len(spans) == 0 {
		return nil
	}
	if err := q.checkKept(ctx, spans...); err != nil {
		return err
	}
	var rows []struct {
		Value *string
		click.Count
	}
	err := q.clicksIn(ctx, spans).ColumnExpr("CAST(? AS TEXT) AS value", bun.Ident(by.Definition().Column)).
		ColumnExpr(counted).
		GroupExpr("1").Scan(ctx, &rows)
	if err != nil {
		return fmt.Errorf("counting clicks one by one: %w", err)
	}
	for _, r := range rows {
		if r.Value == nil {
			r.Value = new("")
		}
		all.Add(*r.Value, r.Count)
	}
	return nil
}

// latencies adds the latencies of the clicks of spans, one by one.
func (q *query) latencies(ctx context.Context, spans []clickstore.Range, tally *click.Tally, steps click.Values) error {
	if len(spans) == 0 {
		return nil
	}
	if err := q.checkKept(ctx, spans...); err != nil {
		return err
	}
	rows, err := q.clicksIn(ctx, spans).Column("latency_ms").Rows(ctx)
	if err != nil {
		return fmt.Errorf("reading latencies: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var ms float64
		if err := rows.Scan(&ms); err != nil {
			return fmt.Errorf("reading latencies: %w", err)
		}
		tally.Add(ms)
		steps.Add(string([]byte{click.LatencyStep(ms)}), click.Count{Clicks: 1})
	}
	return rows.Err()
}

// eachClick calls f with the clicks of a query.
func (s *Store) eachClick(ctx context.Context, q *bun.SelectQuery, f func(*click.Click)) error {
	rows, err := q.Rows(ctx)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var r click.Row
		if err := s.DB.ScanRow(ctx, rows, &r); err != nil {
			return err
		}
		f(r.Click())
	}
	return rows.Err()
}

// Groups implements clickstore.Store.
func (s *Store) Groups(
	ctx context.Context, of clickstore.Query, by clickstore.Grouping, each func(*clickstore.Group),
) error {
	q, dialect := query{of, s}, s.DB.Dialect()
	key := by.KeySQL(
		func(at time.Time) string { return string(dialect.AppendTime(nil, at)) },
		func(text string) string { return string(dialect.AppendString(nil, text)) })
	newest := q.clicksIn(ctx, []clickstore.Range{of.Range}).Column("clicked_at").
		ColumnExpr("? AS key", bun.Safe(key)).OrderExpr("clicked_at DESC, id DESC").Limit(int64(by.Newest))
	rows, err := s.DB.Reading(ctx).TableExpr("(?) AS newest", newest).
		ColumnExpr("key, COUNT(*) AS clicks, MIN(clicked_at) AS oldest").GroupExpr("key").Rows(ctx)
	if err != nil {
		return fmt.Errorf("counting groups of clicks: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var group struct {
			Key    string
			Clicks int64
			Oldest time.Time
		}
		if err := s.DB.ScanRow(ctx, rows, &group); err != nil {
			return fmt.Errorf("counting groups of clicks: %w", err)
		}
		each(by.Group(group.Key, group.Clicks, group.Oldest))
	}
	return rows.Err()
}
