package clickhouse

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/linkforge/linkforge/internal/click"
	"github.com/linkforge/linkforge/internal/click/clickstore"
)

// This file counts. Each question has two parts: single clicks and, before the bound "forgotten",
// the counts of days.

// parts are those of a question. A part without time is empty.
type parts struct {
	clickstore.Query
	links         []string // the ids that Query.Links finds
	days, singles clickstore.Range
}

// partsOf divides a question.
// has reports whether a table has rows under a condition.
func (s *Store) has(ctx context.Context, table, condition string) (bool, error) {
	rows, err := fetch[struct{ N int64 }](ctx, s.client, "SELECT count() AS N FROM ? WHERE ?", sql(table),
		sql(condition))
	return err == nil && rows[0].N > 0, err
}

func (s *Store) partsOf(ctx context.Context, q clickstore.Query) (p parts, err error) {
	p = parts{Query: q, singles: q.Range}
	if err := s.prepare(ctx); err != nil {
		return p, err
	}
	if q.Links != nil {
		if err := q.Links.Scan(ctx, &p.links); err != nil {
			return p, fmt.Errorf("selecting the links of stats: %w", err)
		}
	}
	bounds, err := s.bounds(ctx)
	if err != nil {
		return p, err
	}
	forgotten := bounds[forgottenBound]
	if q.From.Before(forgotten) {
		p.days, p.singles = q.Range, clickstore.Range{}
		if forgotten.Before(q.To) {
			p.days.To, p.singles = forgotten, clickstore.Range{From: forgotten, To: q.To}
		}
	}
	return p, nil
}

// The names of bounds.
const (
	sealedBound    = "sealed"
	forgottenBound = "forgotten"
	copyingBound   = "copying"
	copiedBound    = "copied"
)

// never is a bound that has not moved.
var never = time.Unix(0, 0).UTC()

// bounds reads the bounds by their names.
func (s *Store) bounds(ctx context.Context) (map[string]time.Time, error) {
	rows, err := ask[struct {
		Name string
		At   int64
	}](ctx, s.client, "SELECT name AS Name, toUnixTimestamp64Micro(max(at)) AS At FROM bounds GROUP BY name")
	bounds := map[string]time.Time{sealedBound: never, forgottenBound: never, copiedBound: never}
	for _, r := range rows {
		bounds[r.Name] = time.UnixMicro(r.At).UTC()
	}
	return bounds, err
}

// subject is the condition of the subject on either table.
func (p *parts) subject() string {
	workspace := render("workspace_id = ?", p.WorkspaceID)
	switch {
	case p.LinkID != "":
		return workspace + render(" AND link_id = ?", p.LinkID)
	case p.Links != nil:
		return workspace + render(" AND link_id IN (?)", sql(joined(append([]string{""}, p.links...))))
	}
	return workspace
}

// isSingle is the condition on single clicks.
func (p *parts) isSingle() string {
	all := []string{p.subject(), render("clicked_at >= ? AND clicked_at < ?", p.singles.From, p.singles.To)}
	if p.Bots != nil {
		all = append(all, render("bot = ?", *p.Bots))
	}
	for _, d := range slices.Sorted(maps.Keys(p.Values)) {
		value := p.Values[d]
		if d == click.Status {
			status, err := strconv.Atoi(value)
			if err != nil {
				status = 0
			}
			all = append(all, render("status = ?", status))
			continue
		}
		all = append(all, render("? = ?", sql(d.Definition().Column), value))
	}
	return strings.Join(all, " AND ")
}

// withSealed defines the bound that fromBoth needs.
const withSealed = "WITH (SELECT max(at) FROM bounds WHERE name = 'sealed') AS sealed "

// fromBoth are the single clicks of both tables that a condition keeps, with columns of each. It
// needs withSealed.
func fromBoth(sealed, open, condition string) string {
	return render("(SELECT ? FROM clicks WHERE ? AND (clicked_at < sealed OR late) UNION ALL SELECT ? FROM "+
		"clicks_open WHERE ? "+
		"AND clicked_at >= sealed)", sql(sealed), sql(condition), sql(open), sql(condition))
}

// singleClicks are fromBoth with columns that both tables have.
func singleClicks(columns, condition string) string { return fromBoth(columns, columns, condition) }

// visits are the single clicks of the question with the column is_visit: of an open day it is found
// among all clicks of the day.
func (p *parts) visits() string {
	from, to := p.singles.From.Truncate(click.Day), p.singles.To.Add(click.Day-1).Truncate(click.Day)
	isFirst := render("id IN (SELECT argMin(id, (clicked_at, id)) FROM clicks_open WHERE ? AND clicked_at >= ? AND "+
		"clicked_at < ? "+
		"AND visitor != 0 AND NOT bot GROUP BY link_id, toDate(clicked_at), visitor)", sql(p.subject()), from, to)
	return fromBoth(columns+", visit AS is_visit", columns+", "+isFirst+" AS is_visit", p.isSingle())
}

// counted are the columns of a Count of single clicks.
const counted = "count() AS Clicks, countIf(is_visit) AS Visits, countIf(bot) AS Bots"

// summed are the columns of a Count of days.
const summed = "sum(clicks) AS Clicks, sum(visits) AS Visits, sum(bots) AS Bots"

// countRow is an answer with a count.
type countRow struct {
	Value string
	Start int64
	click.Count
}

// Points implements clickstore.Store.
func (s *Store) Points(
	ctx context.Context, q clickstore.Query, cuts []time.Time,
) (points []clickstore.Point, err error) {
	p, err := s.partsOf(ctx, q)
	if err != nil {
		return nil, err
	}
	add := func(rows []countRow, filter clickstore.Filter) {
		for _, r := range rows {
			points = append(points, clickstore.Point{Start: time.Unix(r.Start, 0).UTC(), Count: filter.People(r.Count)})
		}
	}
	if !p.days.From.Equal(p.days.To) {
		rows, err := s.pointsOfDays(ctx, &p, cuts)
		if err != nil {
			return nil, err
		}
		add(rows, q.Filter)
	}
	if !p.singles.From.Equal(p.singles.To) {
		rows, err := ask[countRow](ctx, s.client,
			withSealed+"SELECT ? AS Start, ? FROM ? GROUP BY Start ORDER BY Start",
			sql(pieceOf("intDiv(toUnixTimestamp64Micro(clicked_at), 1000000)", p.singles.From, cuts)), sql(counted),
			sql(p.visits()))
		if err != nil {
			return nil, fmt.Errorf("counting clicks: %w", err)
		}
		add(rows, clickstore.Filter{}) // the condition has it
	}
	return points, nil
}

// pieceOf is the start of the piece that an instant lies in, both in seconds.
func pieceOf(seconds string, from time.Time, cuts []time.Time) string {
	starts := []int64{from.Unix()}
	for _, c := range cuts {
		if c.After(from) {
			starts = append(starts, c.Unix())
		}
	}
	return render("roundDown(?, ?)", sql(seconds), starts)
}

// pointsOfDays counts clicks of days: by whole days or, of all values, by quarters of an hour.
func (s *Store) pointsOfDays(ctx context.Context, p *parts, cuts []time.Time) ([]countRow, error) {
	dimension, value, seconds := byte(0), "", "toInt64(toUInt16(day)) * 86400"
	for d, only := range p.Values {
		dimension, value = d.Definition().Number, only
	}
	if p.dividesDay(cuts) {
		hasQuarters, err := s.hasQuarters(ctx, p)
		if err != nil {
			return nil, err
		}
		if len(p.Values) > 0 || !hasQuarters {
			return nil, s.checkNone(ctx, p)
		}
		dimension, seconds = click.QuarterDimension, seconds+" + toInt64OrZero(value) * 900"
	}
	if len(p.Values) > 1 {
		return nil, s.checkNone(ctx, p)
	}
	from, to := p.days.From, p.days.To
	if len(p.Values) == 1 {
		others, err := askDays[countRow](ctx, s.client,
			"SELECT ? FROM days WHERE ? AND dimension = ? AND value = ? AND "+
				"day >= toDate(?) AND day < toDate(?)", sql(summed), sql(p.subject()), int64(dimension), click.Others,
			from,
			to)
		if err != nil || len(others) > 0 && others[0].Clicks > 0 { // some of them may have the value
			return nil, errors.Join(err, s.checkNone(ctx, p))
		}
	}
	condition := render("? AND dimension = ? AND ? >= ? AND ? < ?", sql(p.subject()), int64(dimension), sql(seconds),
		from.Unix(),
		sql(seconds), to.Unix())
	if len(p.Values) == 1 {
		condition += render(" AND value = ?", value)
	}
	return askDays[countRow](ctx, s.client, "SELECT ? AS Start, ? FROM days WHERE ? GROUP BY Start ORDER BY Start",
		sql(pieceOf(seconds, from, cuts)), sql(summed), sql(condition))
}

// hasQuarters reports whether the quarters of an hour of the range have all clicks of its days:
// some copied days have none.
func (s *Store) hasQuarters(ctx context.Context, p *parts) (bool, error) {
	missing, err := askDays[countRow](ctx, s.client,
		"SELECT sumIf(clicks, dimension = 0) - sumIf(clicks, dimension = ?) AS Clicks FROM days "+
			"WHERE ? AND day >= toDate(?) AND day <= toDate(?)", int64(click.QuarterDimension), sql(p.subject()),
		p.days.From, p.days.To.Add(-1))
	return len(missing) == 0 || missing[0].Clicks == 0, err
}

// askDays queries the days of a range.
func askDays[T any](ctx context.Context, c *client, question string, args ...any) ([]T, error) {
	rows, err := ask[T](ctx, c, question, args...)
	if err != nil {
		return nil, fmt.Errorf("counting clicks of days: %w", err)
	}
	return rows, nil
}

// dividesDay reports whether an end of the days, or a cut among them, is no midnight (UTC).
func (p *parts) dividesDay(cuts []time.Time) bool {
	return slices.ContainsFunc(append(slices.Clone(cuts), p.days.From, p.days.To), func(t time.Time) bool {
		return !t.Before(p.days.From) && !t.After(p.days.To) && !t.Truncate(click.Day).Equal(t)
	})
}

// checkNone returns InvalidInput if the subject has clicks in days of the range, which can only be
// counted as a whole.
func (s *Store) checkNone(ctx context.Context, p *parts) error {
	rows, err := ask[countRow](ctx, s.client,
		"SELECT ? FROM days WHERE ? AND dimension = 0 AND day >= toDate(?) AND day <= toDate(?)",
		sql(summed), sql(p.subject()), p.days.From, p.days.To.Add(-1))
	if err != nil {
		return fmt.Errorf("selecting old clicks: %w", err)
	}
	if len(rows) > 0 && rows[0].Clicks > 0 {
		return clickstore.NotKept(clickstore.Later(s.ClicksSince(), p.days.To))
	}
	return nil
}

// Slices implements clickstore.Store.
func (s *Store) Slices(ctx context.Context, q clickstore.Query, by click.Dimension) (click.Values, error) {
	p, err := s.partsOf(ctx, q)
	if err != nil {
		return nil, err
	}
	all := click.Values{}
	if !p.days.From.Equal(p.days.To) {
		if len(p.Values) > 0 || p.dividesDay(nil) {
			err = s.checkNone(ctx, &p)
		} else {
			err = s.slicesOfDays(ctx, &p, by, all)
		}
		if err != nil {
			return nil, err
		}
	}
	if p.singles.From.Equal(p.singles.To) {
		return all, nil
	}
	rows, err := ask[countRow](ctx, s.client,
		withSealed+"SELECT toString(?) AS Value, ? FROM ? GROUP BY Value ORDER BY Clicks DESC, Value LIMIT ?",
		sql(by.Definition().Column), sql(counted), sql(p.visits()), click.MaxValues)
	if err != nil {
		return nil, fmt.Errorf("counting clicks: %w", err)
	}
	listed := click.Count{}
	for _, r := range rows {
		all.Add(r.Value, r.Count)
		listed.Add(r.Count)
	}
	if len(rows) < click.MaxValues {
		return all, nil
	}
	total, err := ask[countRow](ctx, s.client, withSealed+"SELECT ? FROM ?", sql(counted), sql(p.visits()))
	if err != nil {
		return nil, fmt.Errorf("counting clicks: %w", err)
	}
	rest := total[0].Count
	rest.Add(click.Count{Clicks: -listed.Clicks, Visits: -listed.Visits, Bots: -listed.Bots})
	all.Add(click.Others, rest)
	return all, nil
}

func (s *Store) slicesOfDays(ctx context.Context, p *parts, by click.Dimension, all click.Values) error {
	number, value := int64(by.Definition().Number), "value"
	if by == click.ByLink {
		number, value = 0, "link_id"
	}
	rows, err := askDays[countRow](ctx, s.client,
		"SELECT ? AS Value, ? FROM days WHERE ? AND dimension = ? AND day >= toDate(?) "+
			"AND day < toDate(?) GROUP BY Value", sql(value), sql(summed), sql(p.subject()), number, p.days.From,
		p.days.To)
	for _, r := range rows {
		all.Add(r.Value, p.People(r.Count))
	}
	return err
}

// latencyRow is the tally of a step.
type latencyRow struct {
	Step   string
	Clicks int64
	Mean   float64
	M2     float64
}

// stepOf is click.LatencyStep of a latency in nanoseconds.
var stepOf = fmt.Sprintf("if(latency_ns > 1000, least(255, toInt32(ceil(log(latency_ns / 1000) / log(%g)))), 0)",
	click.LatencyGrowth)

// Latencies implements clickstore.Store.
func (s *Store) Latencies(ctx context.Context, q clickstore.Query) (click.Tally, click.Values, error) {
	tally, steps := click.Tally{}, click.Values{}
	p, err := s.partsOf(ctx, q)
	if err != nil {
		return tally, steps, err
	}
	add := func(rows []latencyRow) {
		for _, r := range rows {
			step, _ := strconv.Atoi(r.Step)
			tally.Merge(click.Tally{Clicks: r.Clicks, LatencyMean: r.Mean, LatencyM2: r.M2})
			steps.Add(string([]byte{byte(step)}), click.Count{Clicks: r.Clicks})
		}
	}
	if !p.days.From.Equal(p.days.To) {
		if len(p.Values) > 0 || p.Bots != nil || p.dividesDay(nil) {
			err = s.checkNone(ctx, &p)
		} else {
			err = s.latenciesOfDays(ctx, &p, &tally, steps)
		}
		if err != nil {
			return tally, steps, err
		}
	}
	if p.singles.From.Equal(p.singles.To) {
		return tally, steps, nil
	}
	rows, err := ask[latencyRow](ctx, s.client,
		withSealed+"SELECT toString(?) AS Step, count() AS Clicks, avg(latency_ns) / 1e6 AS Mean, "+
			"varPopStable(latency_ns / 1e6) * count() AS M2 FROM ? GROUP BY Step", sql(stepOf),
		sql(singleClicks("latency_ns", p.isSingle())))
	if err != nil {
		return tally, steps, fmt.Errorf("reading latencies: %w", err)
	}
	add(rows)
	return tally, steps, nil
}

// latenciesOfDays adds the latencies of whole days.
func (s *Store) latenciesOfDays(ctx context.Context, p *parts, tally *click.Tally, steps click.Values) error {
	condition := render("? AND day >= toDate(?) AND day < toDate(?)", sql(p.subject()), p.days.From, p.days.To)
	rows, err := askDays[latencyRow](ctx, s.client, "SELECT value AS Step, sum(clicks) AS Clicks, "+
		"sum(clicks * latency_mean) / sum(clicks) AS Mean, "+
		"sum(latency_m2) + sum(clicks * latency_mean * latency_mean) - sum(clicks) * Mean * Mean AS M2 "+
		"FROM days WHERE ? AND dimension IN (0, ?) GROUP BY value", sql(condition), click.LatencyDimension)
	for _, r := range rows {
		if step, err := strconv.Atoi(r.Step); err == nil {
			steps.Add(string([]byte{byte(step)}), click.Count{Clicks: r.Clicks})
		} else { // the dimension 0 has no value
			tally.Merge(click.Tally{Clicks: r.Clicks, LatencyMean: r.Mean, LatencyM2: r.M2})
		}
	}
	return err
}

// groupRow is an answer with a group.
type groupRow struct {
	Key        string
	Clicks, At int64
}

// Groups implements clickstore.Store.
func (s *Store) Groups(
	ctx context.Context, q clickstore.Query, by clickstore.Grouping, each func(*clickstore.Group),
) error {
	p, err := s.partsOf(ctx, q)
	if err != nil || p.singles.From.Equal(p.singles.To) {
		return err
	}
	columns := "id, clicked_at, bot"
	for _, a := range by.By {
		columns += ", " + a.Definition().Column
	}
	key := by.KeySQL(
		func(at time.Time) string { return literal(at) }, func(text string) string { return literal(text) })
	rows, err := ask[groupRow](ctx, s.client,
		withSealed+"SELECT ? AS Key, count() AS Clicks, toUnixTimestamp64Micro(min(clicked_at)) AS At "+
			"FROM (SELECT * FROM ? ORDER BY clicked_at DESC, id DESC LIMIT ?) GROUP BY Key",
		sql(key), sql(singleClicks(columns, p.isSingle())), by.Newest)
	if err != nil {
		return fmt.Errorf("counting groups of clicks: %w", err)
	}
	for _, r := range rows {
		each(by.Group(r.Key, r.Clicks, time.UnixMicro(r.At)))
	}
	return nil
}
