package clicksql

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/uptrace/bun"
	"github.com/uptrace/bun/schema"

	"github.com/linkforge/linkforge/internal/click"
	"github.com/linkforge/linkforge/internal/click/clickstore"
)

// This file reads days. Single clicks are counted where days have no counts: in the open time, and
// in parts of days. Only the number of clicks in a part of a day is known by the day, which counts
// its quarters of an hour.

// eachDay calls f with the days of the range in their order, and returns the instant from which on
// clicks are in no day. That of a single subject is read with its days, by one statement, so that
// no click is in both or neither. Several links are sealed at different instants: of them only the
// days before the last midnight at which all were sealed are read.
func (q *query) eachDay(
	ctx context.Context, counts schema.QueryWithArgs, f func(*day) error,
) (sealed time.Time, err error) {
	if sealed, err = q.store.sealedAt(ctx, q.subject(q.store.DB.Reading(ctx), "subject_id")); err != nil {
		return sealed, err
	}
	stored := q.subject(q.store.DB.Reading(ctx).TableExpr("click_days AS day"), "subject_id").
		Where("workspace_id = ?", q.WorkspaceID).Where("starts_at >= ?", q.From.Truncate(click.Day)).
		Column("starts_at", "clicks", "visits", "bots", "latency_mean", "latency_m2").ColumnExpr("? AS counts", counts).
		Order("starts_at")
	if q.Links != nil {
		sealed = sealed.Truncate(click.Day)
		stored = stored.Where("starts_at < ?", clickstore.Earlier(sealed, q.To))
	} else {
		stored = stored.Where("starts_at < ?", q.To).
			ColumnExpr("(SELECT total.sealed_at FROM click_totals AS total WHERE total.subject_id = day.subject_id) " +
				"AS sealed_at")
	}
	rows, err := stored.Rows(ctx)
	if err != nil {
		return sealed, fmt.Errorf("reading days: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var d day
		if err := q.store.DB.ScanRow(ctx, rows, &d); err != nil {
			return sealed, fmt.Errorf("reading days: %w", err)
		}
		if d.StartsAt = d.StartsAt.UTC(); !d.SealedAt.IsZero() {
			sealed = d.SealedAt.UTC()
		}
		if d.SealedAt = sealed; !d.StartsAt.Before(sealed) { // the total was lost
			continue
		}
		if err := f(&d); err != nil {
			return sealed, fmt.Errorf("reading days: %w", err)
		}
	}
	if err := rows.Err(); err != nil {
		return sealed, fmt.Errorf("reading days: %w", err)
	}
	return sealed, nil
}

// sealedAt returns the instant before which all clicks of the subjects that the query selects are
// in days.
func (s *Store) sealedAt(ctx context.Context, totals *bun.SelectQuery) (time.Time, error) {
	var open []clickstore.Total
	err := totals.Model(&open).Column("sealed_at").Where("last_at >= sealed_at").Order("sealed_at").Limit(1).Scan(ctx)
	if err != nil {
		return time.Time{}, fmt.Errorf("selecting sealed days: %w", err)
	}
	if len(open) == 0 {
		return s.Now().UTC().Truncate(click.Day), nil
	}
	return open[0].SealedAt.UTC(), nil
}

// eachWhole calls f with the days that lie in the range as far as they are sealed, and are not cut.
// It returns the other spans of the range.
func (q *query) eachWhole(
	ctx context.Context, cuts []time.Time, f func(*day) error,
) (rest []clickstore.Range, err error) {
	isCut, extends := cutDays(cuts), false
	sealed, err := q.eachDay(ctx, bun.SafeQuery("counts"), func(d *day) error {
		end := d.end()
		if !isCut[d.StartsAt] && !d.StartsAt.Before(q.From) && !end.After(q.To) {
			extends = false
			return f(d)
		}
		rest, extends = q.addSpan(rest, extends, d.StartsAt, end), true
		return nil
	})
	return q.addSpan(rest, extends, sealed, q.To), err
}

// cutDays are the days that a cut divides.
func cutDays(cuts []time.Time) map[time.Time]bool {
	isCut := map[time.Time]bool{}
	for _, c := range cuts {
		if midnight := c.UTC().Truncate(click.Day); !midnight.Equal(c) {
			isCut[midnight] = true
		}
	}
	return isCut
}

// addSpan appends the part of a span that is in the range. With extends, it extends the last span
// to the end of that part instead, because the caller has counted no clicks between the two.
func (q *query) addSpan(spans []clickstore.Range, extends bool, from, to time.Time) []clickstore.Range {
	span := clickstore.Range{From: clickstore.Later(from, q.From), To: clickstore.Earlier(to, q.To)}
	switch {
	case !span.From.Before(span.To):
		return spans
	case extends && len(spans) > 0:
		spans[len(spans)-1].To = clickstore.Later(spans[len(spans)-1].To, span.To)
		return spans
	}
	return append(spans, span)
}

// quartersOf selects of the counts of some days the quarters of an hour, which come first, and
// nothing of other days.
func quartersOf(isCut map[time.Time]bool) schema.QueryWithArgs {
	if len(isCut) == 0 {
		return bun.SafeQuery("NULL")
	}
	return bun.SafeQuery("CASE WHEN starts_at NOT IN (?0) THEN NULL "+
		"WHEN SUBSTR(counts, 1, 1) = ?1 THEN SUBSTR(counts, 1, ?2) ELSE counts END",
		bun.In(slices.Collect(maps.Keys(isCut))), []byte{click.QuarterDimension}, click.QuartersBytes)
}

// countDays counts all clicks by the day, and by the quarter of an hour in days that a cut or an
// end of the range divides.
func (q *query) countDays(ctx context.Context, cuts []time.Time) (points []clickstore.Point, err error) {
	isCut := cutDays(append([]time.Time{q.From, q.To}, cuts...))
	isUnknown := map[time.Time]bool{} // days that do not know their quarters
	sealed, err := q.eachDay(ctx, quartersOf(isCut), func(d *day) error {
		if !isCut[d.StartsAt] {
			points = append(points, clickstore.Point{Start: d.StartsAt, Count: d.count()})
			return nil
		}
		missing := d.Clicks
		err := click.EachCount(d.Counts, click.QuarterDimension, func(_ byte, value []byte, n click.Count) {
			if len(value) != 1 { // damaged: the day does not know
				return
			}
			missing -= n.Clicks
			at := d.StartsAt.Add(time.Duration(value[0]) * click.BucketLength)
			if !at.Before(q.From) && at.Before(q.To) {
				points = append(points, clickstore.Point{Start: at, Count: n})
			}
		})
		if missing != 0 {
			isUnknown[d.StartsAt] = true
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	points = slices.DeleteFunc(points, func(p clickstore.Point) bool { return isUnknown[p.Start.Truncate(click.Day)] })
	var rest []clickstore.Range
	for _, start := range slices.SortedFunc(maps.Keys(isUnknown), time.Time.Compare) {
		rest = q.addSpan(rest, false, start, clickstore.Earlier(start.Add(click.Day), sealed))
	}
	more, err := q.countClicks(ctx, q.addSpan(rest, false, sealed, q.To))
	return append(points, more...), err
}

// countValue counts clicks of one value. If a day may have counted some among others, it counts all
// from single clicks.
func (q *query) countValue(ctx context.Context, cuts []time.Time) (points []clickstore.Point, err error) {
	all := true
	rest, err := q.eachWhole(ctx, cuts, func(d *day) error {
		for dimension, value := range q.Values {
			found, err := valuesOf(d, dimension)
			if err != nil {
				return err
			}
			if _, some := found[click.Others]; some && value != unknownValue(dimension) {
				all = false
			}
			points = append(points, clickstore.Point{Start: d.StartsAt, Count: found[value]})
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if !all {
		return q.countClicks(ctx, []clickstore.Range{q.Range})
	}
	more, err := q.countClicks(ctx, rest)
	return append(points, more...), err
}

// checkKept returns InvalidInput if there were clicks in a span that are not stored one by one any
// more.
func (q *query) checkKept(ctx context.Context, spans ...clickstore.Range) error {
	since := q.store.ClicksSince()
	for _, span := range spans {
		if !span.From.Before(since) {
			continue
		}
		some, err := q.subject(q.store.DB.Reading(ctx).Table(days), "subject_id").Where("workspace_id = ?",
			q.WorkspaceID).
			Where("starts_at >= ?", span.From.Truncate(click.Day)).Where("starts_at < ?",
			clickstore.Earlier(since, span.To)).Exists(ctx)
		if err != nil {
			return fmt.Errorf("selecting old clicks: %w", err)
		}
		if some {
			return clickstore.NotKept(since)
		}
	}
	return nil
}
