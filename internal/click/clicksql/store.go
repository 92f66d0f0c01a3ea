// Package clicksql stores clicks in the SQL database: their rows and the rollups of days. It
// implements package clickstore. Stores, jobs and commands construct and call it.
package clicksql

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/uptrace/bun"
	"github.com/uptrace/bun/schema"

	"github.com/linkforge/linkforge/internal/click"
	"github.com/linkforge/linkforge/internal/click/clickstore"
	"github.com/linkforge/linkforge/internal/platform/db"
)

// Store implements clickstore.Store.
type Store struct {
	// DB is the database.
	DB *db.DB
	// ClickMonths is the retention of single clicks in whole months; zero means
	// clickstore.DefaultMonths.
	ClickMonths int
	// Now is the clock.
	Now func() time.Time

	ids    clickstore.ClickIDs
	months sync.Map // those that have partitions, as 2006-01
}

var _ clickstore.Store = (*Store)(nil)

// query is a query with the store that executes it.
type query struct {
	clickstore.Query
	store *Store
}

// AtOneInstant implements clickstore.Store.
func (s *Store) AtOneInstant(ctx context.Context, f func(ctx context.Context) error) error {
	return s.DB.AtOneInstant(ctx, f)
}

// Points implements clickstore.Store.
func (s *Store) Points(
	ctx context.Context, of clickstore.Query, cuts []time.Time,
) (points []clickstore.Point, err error) {
	q := query{of, s}
	switch len(q.Values) {
	case 0:
		points, err = q.countDays(ctx, cuts)
	case 1:
		points, err = q.countValue(ctx, cuts)
	default:
		points, err = q.countClicks(ctx, []clickstore.Range{q.Range})
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
func (s *Store) Slices(ctx context.Context, of clickstore.Query, by click.Dimension) (all click.Values, err error) {
	q, rest := query{of, s}, []clickstore.Range{of.Range}
	all = click.Values{}
	if len(q.Values) == 0 && (by != click.ByLink || q.IsWorkspace()) {
		rest, err = q.eachWhole(ctx, nil, func(d *day) error {
			found, err := valuesOf(d, by)
			for value, n := range found {
				all.Add(value, n)
			}
			return err
		})
	}
	if err == nil {
		err = q.countBy(ctx, by, rest, all)
	}
	for value, n := range all {
		all[value] = q.People(n)
	}
	return all, err
}

// Latencies implements clickstore.Store.
func (s *Store) Latencies(ctx context.Context, of clickstore.Query) (click.Tally, click.Values, error) {
	q, rest := query{of, s}, []clickstore.Range{of.Range}
	tally, steps := click.Tally{}, click.Values{}
	var err error
	if len(q.Values) == 0 && q.Bots == nil {
		rest, err = q.eachWhole(ctx, nil, func(d *day) error {
			tally.Merge(d.Tally)
			return click.EachCount(d.Counts, click.LatencyDimension,
				func(_ byte, value []byte, n click.Count) { steps.Add(string(value), n) })
		})
	}
	if err == nil {
		err = q.latencies(ctx, rest, &tally, steps)
	}
	return tally, steps, err
}

// valuesOf returns the counts of a day by the values of a dimension, including clicks of unknown
// value.
func valuesOf(d *day, dimension click.Dimension) (click.Values, error) {
	rest := d.count()
	found := click.Values{}
	err := click.EachCount(d.Counts, dimension.Definition().Number, func(_ byte, value []byte, n click.Count) {
		found[string(value)] = n
		rest.Add(click.Count{Clicks: -n.Clicks, Visits: -n.Visits, Bots: -n.Bots})
	})
	if rest != (click.Count{}) {
		found[unknownValue(dimension)] = rest
	}
	return found, err
}

// unknownValue returns the value of clicks whose counts contain none.
func unknownValue(dimension click.Dimension) string {
	if dimension == click.Status {
		return strconv.Itoa(click.CommonStatus)
	}
	return ""
}

// subject restricts a query to the rows whose column names a subject of q.
func (q *query) subject(of *bun.SelectQuery, column string) *bun.SelectQuery {
	switch {
	case q.LinkID != "":
		return of.Where("? = ?", bun.Ident(column), q.LinkID)
	case q.Links != nil:
		return of.Where("? IN (?)", bun.Ident(column), q.Links)
	}
	return of.Where("? = ?", bun.Ident(column), q.WorkspaceID)
}

// quarter is the number of the quarter of an hour, since 1970, that a click lies in.
func (s *Store) quarter() schema.QueryWithArgs {
	if s.DB.Kind == db.Postgres {
		return bun.SafeQuery("CAST(floor(extract(epoch FROM clicked_at) / 900) AS BIGINT)")
	}
	return bun.SafeQuery("CAST(strftime('%s', clicked_at) AS INTEGER) / 900")
}
