// Package clicksql keeps clicks in the SQL database: their rows, sums of quarters of an hour and of days, and the details
// of busy days by column. It implements package clickstore. Stores, jobs and commands construct and call it.
package clicksql

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/uptrace/bun"
	"github.com/uptrace/bun/schema"

	"github.com/linkforge/linkforge/internal/click"
	"github.com/linkforge/linkforge/internal/clickstore"
	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/rollup"
)

// Store implements clickstore.Store.
type Store struct {
	// DB is the database.
	DB *db.DB
	// ClickMonths and QuarterMonths are the numbers of whole months for which single clicks and
	// quarter-hour rollups are stored; zero means DefaultClickMonths and DefaultQuarterMonths.
	ClickMonths, QuarterMonths int
	// Now is the clock.
	Now func() time.Time

	room room
}

var _ clickstore.Store = (*Store)(nil)

// query is a question to the store.
type query struct {
	clickstore.Query
	store *Store
}

// Points implements clickstore.Store.
func (s *Store) Points(
	ctx context.Context, of clickstore.Query, cuts []time.Time,
) (points []clickstore.Point, err error) {
	q := query{of, s}
	switch len(q.Values) {
	case 0:
		points, err = q.countRollups(ctx, cuts)
	case 1:
		var all bool
		points, all, err = q.countValue(ctx, cuts)
		if err == nil && !all {
			points, err = q.countClicks(ctx)
		}
	default:
		points, err = q.countClicks(ctx)
	}
	if err != nil {
		return nil, err
	}
	for i := range points {
		points[i].Count = q.People(points[i].Count)
	}
	slices.SortStableFunc(points, func(a, b clickstore.Point) int { return a.Start.Compare(b.Start) })
	return points, nil
}

// Slices implements clickstore.Store.
func (s *Store) Slices(ctx context.Context, of clickstore.Query, by click.Dimension) (all rollup.Values, err error) {
	q := query{of, s}
	if len(q.Values) == 0 && (by != click.ByLink || q.IsWorkspace()) {
		all = rollup.Values{}
		err = q.eachRollup(ctx, nil, func(b *bucket) error {
			found, err := valuesOf(b, by)
			for value, n := range found {
				all.Add(value, n)
			}
			return err
		})
	} else {
		all, err = q.countBy(ctx, by)
	}
	for value, n := range all {
		all[value] = q.People(n)
	}
	return all, err
}

// Latencies implements clickstore.Store.
func (s *Store) Latencies(ctx context.Context, of clickstore.Query) (rollup.Tally, rollup.Values, error) {
	q := query{of, s}
	if len(q.Values) > 0 || q.Bots != nil {
		return q.latencies(ctx)
	}
	tally, steps := rollup.Tally{}, rollup.Values{}
	err := q.eachRollup(ctx, nil, func(b *bucket) error {
		tally.Merge(b.Tally)
		return rollup.EachCount(b.Counts, click.LatencyDimension,
			func(_ byte, value []byte, n rollup.Count) { steps.Add(string(value), n) })
	})
	return tally, steps, err
}

// countValue counts clicks of one value by the sums. It returns false when a sum may have counted
// some among others.
func (s *query) countValue(ctx context.Context, cuts []time.Time) (points []clickstore.Point, all bool, err error) {
	all = true
	err = s.eachRollup(ctx, cuts, func(b *bucket) error {
		for dimension, value := range s.Values {
			found, err := valuesOf(b, dimension)
			if err != nil {
				return err
			}
			if _, some := found[rollup.Others]; some && value != unknownValue(dimension) {
				all = false
			}
			points = append(points, clickstore.Point{Start: b.StartsAt, Count: found[value]})
		}
		return nil
	})
	return points, all, err
}

// valuesOf returns the counts of a rollup by the values of a dimension, including clicks of unknown
// value.
func valuesOf(b *bucket, dimension click.Dimension) (rollup.Values, error) {
	rest := b.count()
	found := rollup.Values{}
	err := rollup.EachCount(b.Counts, dimension.Definition().Number, func(_ byte, value []byte, n rollup.Count) {
		found[string(value)] = n
		rest.Add(rollup.Count{Clicks: -n.Clicks, Visits: -n.Visits, Bots: -n.Bots})
	})
	if rest != (rollup.Count{}) {
		found[unknownValue(dimension)] = rest
	}
	return found, err
}

// unknownValue returns the value of clicks whose counts contain none.
func unknownValue(dimension click.Dimension) string {
	if dimension == click.Status {
		return strconv.Itoa(rollup.CommonStatus)
	}
	return ""
}

// subject keeps the rows of a query whose column names a subject.
func (s *query) subject(q *bun.SelectQuery, column string) *bun.SelectQuery {
	switch {
	case s.LinkID != "":
		return q.Where("? = ?", bun.Ident(column), s.LinkID)
	case s.Links != nil:
		return q.Where("? IN (?)", bun.Ident(column), s.Links)
	}
	return q.Where("? = ?", bun.Ident(column), s.Member.ID())
}

// quarter is the number of the quarter of an hour, since 1970, that a click lies in.
func (s *Store) quarter() schema.QueryWithArgs {
	if s.DB.Kind == db.Postgres {
		return bun.SafeQuery("CAST(floor(extract(epoch FROM clicked_at) / 900) AS BIGINT)")
	}
	return bun.SafeQuery("CAST(strftime('%s', clicked_at) AS INTEGER) / 900")
}
