package clicksql

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/click"
	"github.com/linkforge/linkforge/internal/clickledger"
	"github.com/linkforge/linkforge/internal/clickstore"
	"github.com/linkforge/linkforge/internal/errs"
	"github.com/linkforge/linkforge/internal/rollup"
)

// This file reads the sums that stats are made of: by the day where it can, by the quarter of an
// hour where it must.

// countRollups counts rollups, none of which spans a cut.
func (s *query) countRollups(ctx context.Context, cuts []time.Time) ([]clickstore.Point, error) {
	sealed, err := s.sealedAt(ctx)
	if err != nil {
		return nil, err
	}
	fine, cut, whole := s.divide(cuts, sealed)
	points, unknown, err := s.countWithin(ctx, cut)
	if err != nil {
		return nil, err
	}
	fine = append(unknown, fine...)
	if err := s.checkKept(ctx, fine); err != nil {
		return nil, err
	}
	for _, part := range s.parts(fine, whole) {
		var rows []bucket
		err := part.ColumnExpr("starts_at").ColumnExpr("CAST(SUM(clicks) AS BIGINT) AS clicks").
			ColumnExpr("CAST(SUM(visits) AS BIGINT) AS visits").
			ColumnExpr("CAST(SUM(bots) AS BIGINT) AS bots").Group("starts_at").Scan(ctx, &rows)
		if err != nil {
			return nil, fmt.Errorf("counting clicks: %w", err)
		}
		for _, b := range rows {
			points = append(points, clickstore.Point{Start: b.StartsAt.UTC(), Count: b.count()})
		}
	}
	return points, nil
}

// countWithin counts quarters of an hour from daily rollups. days that were sealed by a version
// that did not store quarters are returned.
func (s *query) countWithin(ctx context.Context, spans []clickstore.Range) (points []clickstore.Point, unknown []clickstore.Range, err error) {
	if len(spans) == 0 {
		return nil, nil, nil
	}
	dark := map[time.Time]bool{}
	whole := make([]clickstore.Range, len(spans))
	for i, span := range spans {
		whole[i] = clickstore.Range{From: span.From.Truncate(click.Day), To: span.To}
	}
	q := s.sumsOf(days, whole).Column("starts_at", "clicks", "visits", "bots").
		ColumnExpr("CASE WHEN SUBSTR(counts, 1, 1) = ?0 THEN SUBSTR(counts, 1, ?1) ELSE counts END AS counts",
			[]byte{click.QuarterDimension}, rollup.QuartersBytes)
	err = s.eachRow(ctx, q, func(b *bucket) error {
		rest := b.Clicks
		err := rollup.EachCount(b.Counts, click.QuarterDimension, func(_ byte, value []byte, n rollup.Count) {
			if len(value) != 1 { // damaged: the day does not know
				return
			}
			rest -= n.Clicks
			at := b.StartsAt.Add(time.Duration(value[0]) * click.BucketLength)
			if !at.Before(s.From) && at.Before(s.To) {
				points = append(points, clickstore.Point{Start: at, Count: n})
			}
		})
		if rest != 0 {
			dark[b.StartsAt] = true
		}
		return err
	})
	if err != nil || len(dark) == 0 {
		return points, nil, err
	}
	points = slices.DeleteFunc(points, func(p clickstore.Point) bool { return dark[p.Start.Truncate(click.Day)] })
	for _, start := range slices.SortedFunc(maps.Keys(dark), time.Time.Compare) {
		unknown = append(unknown, clickstore.Range{From: later(start, s.From), To: earlier(start.Add(click.Day), s.To)})
	}
	return points, unknown, nil
}

// eachRollup calls f with the rollups of the range in any order, none of which spans a cut: by day
// where a whole sealed day (UTC) lies between two cuts, otherwise by quarter of an hour.
func (s *query) eachRollup(ctx context.Context, cuts []time.Time, f func(*bucket) error) error {
	sealed, err := s.sealedAt(ctx)
	if err != nil {
		return err
	}
	fine, cut, whole := s.divide(cuts, sealed)
	fine = append(cut, fine...)
	if err := s.checkKept(ctx, fine); err != nil {
		return err
	}
	for _, part := range s.parts(fine, whole) {
		err := s.eachRow(ctx, part.Column("starts_at", "clicks", "visits", "bots", "latency_mean", "latency_m2", "counts"), f)
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *query) eachRow(ctx context.Context, q *bun.SelectQuery, f func(*bucket) error) error {
	rows, err := q.Rows(ctx)
	if err != nil {
		return fmt.Errorf("reading rollups: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var b bucket
		if err := s.store.DB.ScanRow(ctx, rows, &b); err != nil {
			return fmt.Errorf("reading rollups: %w", err)
		}
		b.StartsAt = b.StartsAt.UTC()
		if err := f(&b); err != nil {
			return fmt.Errorf("reading rollups: %w", err)
		}
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("reading rollups: %w", err)
	}
	return nil
}

// parts are the queries for spans by the quarter of an hour and by the day.
func (s *query) parts(fine, whole []clickstore.Range) (parts []*bun.SelectQuery) {
	if len(whole) > 0 {
		parts = append(parts, s.sumsOf(days, whole))
	}
	if len(fine) > 0 {
		parts = append(parts, s.sumsOf(quarters, fine))
	}
	return parts
}

func (s *query) sumsOf(table string, spans []clickstore.Range) *bun.SelectQuery {
	q := s.subject(s.store.DB.NewSelect().TableExpr("? AS bucket", bun.Ident(table)), "subject_id").
		Where("workspace_id = ?", s.Member.ID())
	return within(q, "starts_at", spans)
}

// within keeps the rows of some spans.
func within(q *bun.SelectQuery, column string, spans []clickstore.Range) *bun.SelectQuery {
	return q.WhereGroup(" AND ", func(q *bun.SelectQuery) *bun.SelectQuery {
		for _, span := range spans {
			q = q.WhereOr("?0 >= ?1 AND ?0 < ?2", bun.Ident(column), span.From, span.To)
		}
		return q
	})
}

// divide divides the range into spans without daily rollups, days that are cut or only partly in
// the range, and whole days.
func (s *query) divide(cuts []time.Time, sealed time.Time) (fine, cut, whole []clickstore.Range) {
	isCut := map[time.Time]bool{}
	for _, c := range cuts {
		if midnight := c.UTC().Truncate(click.Day); !midnight.Equal(c) {
			isCut[midnight] = true
		}
	}
	grow := func(spans []clickstore.Range, from, to time.Time) []clickstore.Range {
		if n := len(spans); n > 0 && spans[n-1].To.Equal(from) {
			spans[n-1].To = to
			return spans
		}
		return append(spans, clickstore.Range{From: from, To: to})
	}
	for start := s.From; start.Before(s.To); {
		midnight := start.Truncate(click.Day)
		next := midnight.Add(click.Day)
		switch {
		case !start.Before(sealed):
			return grow(fine, start, s.To), cut, whole
		case !start.Equal(midnight) || next.After(s.To) || isCut[midnight]:
			next = earlier(next, s.To)
			cut = grow(cut, start, next)
		default:
			whole = grow(whole, start, next)
		}
		start = next
	}
	return fine, cut, whole
}

// sealedAt is the midnight before which the days of all subjects have been summed up.
func (s *query) sealedAt(ctx context.Context) (time.Time, error) {
	var open []clickledger.Total
	q := s.subject(s.store.DB.NewSelect().Model(&open), "subject_id").Column("sealed_at").
		Where("last_at >= sealed_at").Order("sealed_at").Limit(1)
	if err := q.Scan(ctx); err != nil {
		return time.Time{}, fmt.Errorf("selecting sealed days: %w", err)
	}
	if len(open) == 0 {
		return s.store.Now().UTC().Truncate(click.Day), nil
	}
	return open[0].SealedAt.UTC(), nil
}

// checkKept refuses to show zeros where quarters of an hour are no longer kept.
func (s *query) checkKept(ctx context.Context, fine []clickstore.Range) error {
	since := s.store.quartersSince()
	for _, span := range fine {
		if !span.From.Before(since) {
			break
		}
		err := s.checkClicks(ctx, clickstore.Range{From: span.From, To: earlier(since, span.To)}, since,
			"Clicks by quarter of an hour, which days of a zone other than UTC need, exist")
		if err != nil {
			return err
		}
	}
	return nil
}

// checkClicks returns InvalidInput if there were clicks in a span whose detail has been deleted.
func (s *query) checkClicks(ctx context.Context, span clickstore.Range, since time.Time, what string) error {
	q := s.subject(s.store.DB.NewSelect().Table(days), "subject_id").Where("workspace_id = ?", s.Member.ID()).
		Where("starts_at >= ?", span.From.Truncate(click.Day)).Where("starts_at < ?", span.To)
	some, err := q.Exists(ctx)
	if err != nil {
		return fmt.Errorf("selecting old clicks: %w", err)
	}
	if some {
		return errs.New(errs.InvalidInput, "%s only since %s: begin the range then or later.",
			what, since.Format(time.DateOnly)).At("range")
	}
	return nil
}
