package clickhouse

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/linkforge/linkforge/internal/click"
	"github.com/linkforge/linkforge/internal/click/clickstore"
)

// This file ends days and months. Every step can be repeated, and questions are answered exactly
// between two steps: a bound moves once the rows behind it are written. The next run removes the
// rows that they replace, which no query reads any more.

// Seal implements clickstore.Store: it moves days for whose clicks no more visitors are compared
// from clicks_open to clicks, without the numbers of the visitors.
func (s *Store) Seal(ctx context.Context) error {
	if err := s.prepare(ctx); err != nil {
		return err
	}
	bounds, err := s.bounds(ctx)
	if err != nil {
		return err
	}
	sealed := bounds[sealedBound]
	done, err := s.daysOf(ctx, sealed)
	if err != nil {
		return err
	}
	for _, day := range done {
		if err := s.client.run(ctx, "ALTER TABLE clicks_open DROP PARTITION ?", day.Format(time.DateOnly)); err != nil {
			return fmt.Errorf("deleting the open clicks of %s: %w", day.Format(time.DateOnly), err)
		}
	}
	open, err := s.daysOf(ctx, s.sealable())
	if err != nil {
		return err
	}
	for _, day := range open {
		if err := s.seal(ctx, day); err != nil {
			return fmt.Errorf("sealing %s: %w", day.Format(time.DateOnly), err)
		}
		if err := s.moveBound(ctx, sealedBound, sealed, day.Add(click.Day), always); err != nil {
			return err
		}
		sealed = day.Add(click.Day)
	}
	return s.moveBound(ctx, sealedBound, sealed, s.sealable(), always)
}

// seal copies a day to clicks, where no query reads it yet. It first removes the rows that an
// interrupted run has left there.
func (s *Store) seal(ctx context.Context, day time.Time) error {
	if err := s.kill(ctx, "sealing"); err != nil {
		return err
	}
	of := render("clicked_at >= ? AND clicked_at < ?", day, day.Add(click.Day))
	copied, err := s.copied(ctx, of)
	if err == nil && copied.Sealed != 0 {
		err = s.client.run(ctx, "ALTER TABLE clicks DELETE WHERE ? AND NOT late AND ?", sql(of),
			sql(until(sealedBound, day)))
	}
	if err != nil {
		return err
	}
	_, err = s.client.send(ctx,
		render("INSERT INTO clicks (?, visit, late) SELECT ?, id IN (SELECT argMin(id, (clicked_at, id)) "+
			"FROM clicks_open WHERE ? AND visitor != 0 AND NOT bot GROUP BY link_id, visitor), false "+
			"FROM clicks_open WHERE ? AND ?",
			sql(columns), sql(columns), sql(of), sql(of), sql(until(sealedBound, day))),
		nil, "query_id", s.queryID("sealing", day.Unix()))
	if err == nil {
		copied, err = s.copied(ctx, of)
	}
	if err == nil && copied.Sealed != copied.Open {
		err = errors.New("the clicks of the day have changed meanwhile")
	}
	return err
}

// until is the condition that a bound has not passed an instant: a statement that is late does
// nothing then.
func until(bound string, at time.Time) string {
	return render("(SELECT max(at) FROM bounds WHERE name = ?) <= ?", bound, at)
}

// copied sums up the clicks of a day in both tables, and whose they are.
func (s *Store) copied(ctx context.Context, of string) (n struct{ Open, Sealed uint64 }, err error) {
	rows, err := fetch[struct{ Open, Sealed uint64 }](ctx, s.client,
		"SELECT (SELECT sum(cityHash64(workspace_id, id)) FROM clicks_open "+
			"WHERE ?) AS Open, (SELECT sum(cityHash64(workspace_id, id)) FROM clicks WHERE ? AND NOT late) AS Sealed",
		sql(of), sql(of))
	if err != nil || len(rows) == 0 {
		return n, err
	}
	return rows[0], nil
}

// daysOf are the days (UTC) before an instant that clicks_open has clicks of.
func (s *Store) daysOf(ctx context.Context, before time.Time) (days []time.Time, err error) {
	rows, err := fetch[struct{ Day int64 }](ctx, s.client,
		"SELECT DISTINCT toInt64(toUInt16(toDate(clicked_at))) AS Day "+
			"FROM clicks_open WHERE clicked_at < ? ORDER BY Day", before)
	if err != nil {
		return nil, fmt.Errorf("selecting days: %w", err)
	}
	for _, r := range rows {
		days = append(days, time.Unix(r.Day*int64(click.Day/time.Second), 0).UTC())
	}
	return days, nil
}

// sealable is the instant before which days can be sealed: a day before it no click is written with
// a visitor.
func (s *Store) sealable() time.Time {
	return s.Now().Add(-openFor - click.Day).UTC().Truncate(click.Day)
}

// always is the condition of a statement that has none.
const always = "1"

// moveBound moves a bound forward, under a condition. Settings are of the statement.
func (s *Store) moveBound(
	ctx context.Context, name string, from, to time.Time, condition string, settings ...string,
) error {
	if !from.Before(to) {
		return nil
	}
	_, err := s.client.send(ctx, render("INSERT INTO bounds (name, at) SELECT ?, ? WHERE ?", name, to, sql(condition)),
		nil, settings...)
	if err != nil {
		return fmt.Errorf("moving the bound %s: %w", name, err)
	}
	return nil
}

// Retain implements clickstore.Store: it counts expired months by days, and deletes the single
// clicks of counted months.
func (s *Store) Retain(ctx context.Context) error {
	if err := s.prepare(ctx); err != nil {
		return err
	}
	bounds, err := s.bounds(ctx)
	if err != nil {
		return err
	}
	forgotten := bounds[forgottenBound]
	months, err := fetch[struct{ Month string }](ctx, s.client,
		"SELECT DISTINCT toString(toYYYYMM(clicked_at)) AS Month FROM clicks "+
			"WHERE clicked_at < ?", forgotten)
	if err != nil {
		return fmt.Errorf("selecting expired clicks: %w", err)
	}
	for _, one := range months {
		if err := s.client.run(ctx, "ALTER TABLE clicks DROP PARTITION ?", sql(one.Month)); err != nil {
			return fmt.Errorf("deleting the clicks of %s: %w", one.Month, err)
		}
	}
	first, err := fetch[struct{ At, N int64 }](ctx, s.client,
		"SELECT toUnixTimestamp64Micro(min(clicked_at)) AS At, count() AS N FROM clicks WHERE clicked_at >= ?",
		forgotten)
	if err != nil || first[0].N == 0 {
		return err
	}
	end := clickstore.Earlier(s.ClicksSince(), bounds[sealedBound])
	for m := click.MonthOf(time.UnixMicro(first[0].At)); !m.End().After(end); m++ {
		if err := s.countDays(ctx, m); err != nil {
			return fmt.Errorf("counting the days of %s: %w", m, err)
		}
		if err := s.moveBound(ctx, forgottenBound, forgotten, m.End(), always); err != nil {
			return err
		}
		forgotten = m.End()
	}
	return nil
}

// countDays counts the clicks of a month. No query reads them from days yet, so rows of an
// interrupted run are removed first.
func (s *Store) countDays(ctx context.Context, m click.Month) error {
	if err := s.kill(ctx, "days"); err != nil {
		return err
	}
	if err := s.removeDays(ctx, m, always); err != nil {
		return err
	}
	for day := m.Start(); day.Before(m.End()); day = day.Add(click.Day) {
		_, err := s.client.send(ctx,
			render("INSERT INTO days SELECT workspace_id, link_id, toDate(clicked_at) AS day, dimension, value, "+
				"count(), countIf(visit), countIf(bot), avg(latency_ns) / 1e6, "+
				"varPopStable(latency_ns / 1e6) * count() FROM clicks ARRAY JOIN ? AS dimension, ? AS value "+
				"WHERE clicked_at >= ? AND clicked_at < ? AND ? GROUP BY workspace_id, link_id, day, dimension, value",
				sql(countedNumbers), sql(countedValues), day, day.Add(click.Day),
				sql(until(forgottenBound, m.Start()))),
			nil, "query_id", s.queryID("days", day.Unix()))
		if err != nil {
			return err
		}
	}
	return nil
}

// removeDays removes the rows that an interrupted run has left of a month, under a condition. No
// query reads them yet.
func (s *Store) removeDays(ctx context.Context, m click.Month, condition string) error {
	of := render("toYYYYMM(day) = ?", sql(m.Start().Format("200601")))
	if some, err := s.has(ctx, "days", of); err != nil || !some {
		return err
	}
	return s.client.run(ctx, "ALTER TABLE days DELETE WHERE ? AND ? AND ?", sql(of),
		sql(until(forgottenBound, m.Start())), sql(condition))
}

// countedNumbers and countedValues are the dimensions that days count by, and their values of a
// click.
var countedNumbers, countedValues = func() (string, string) {
	numbers := []int64{0, click.LatencyDimension, click.QuarterDimension}
	values := []string{"''", "toString(" + stepOf + ")",
		"toString(intDiv(toUInt32(toDateTime(clicked_at)) % 86400, 900))"}
	for _, d := range click.StoredDimensions {
		if d.Name != click.ByLink { // each row has its link
			numbers, values = append(numbers, int64(d.Number)), append(values, "toString("+d.Column+")")
		}
	}
	return literal(numbers), "[" + strings.Join(values, ", ") + "]"
}()
