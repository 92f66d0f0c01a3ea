package clickhouse

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/linkforge/linkforge/internal/click"
	"github.com/linkforge/linkforge/internal/click/clickstore"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/id"
	"github.com/linkforge/linkforge/internal/platform/poll"
)

// This file compares the totals in the SQL database with the clicks: nothing else is counted twice.

// looks is how often the totals of a workspace that differ are compared, because clicks are counted
// meanwhile, and lookPause the time between two looks.
const (
	looks     = 5
	lookPause = 100 * time.Millisecond
)

// Verify implements clickstore.Store.
func (s *Store) Verify(ctx context.Context, found func(clickstore.Difference)) (subjects int, err error) {
	return s.compare(ctx, func(_ context.Context, is, want *clickstore.Total) error {
		found(clickstore.Difference{SubjectID: is.SubjectID, Clicks: want.Clicks, Counted: is.Clicks})
		return nil
	})
}

// Rebuild implements clickstore.Store. A total that changes meanwhile stays as it is.
func (s *Store) Rebuild(ctx context.Context) (subjects int, err error) {
	return s.compare(ctx, func(ctx context.Context, is, want *clickstore.Total) error {
		_, err := s.DB.NewUpdate().Model(want).Column("clicks", "bots", "latency_mean", "latency_m2", "_month",
			"_before_month").
			WherePK().Where("clicks = ?", is.Clicks).Exec(ctx)
		return err
	})
}

// compare calls f with the totals that differ from the clicks.
func (s *Store) compare(
	ctx context.Context, f func(ctx context.Context, is, want *clickstore.Total) error,
) (subjects int, err error) {
	ctx = db.AsSystem(ctx)
	if err := s.prepare(ctx); err != nil {
		return 0, err
	}
	var spaces []string
	err = s.DB.NewSelect().Model((*clickstore.Total)(nil)).ColumnExpr("DISTINCT workspace_id").Order("workspace_id").
		Scan(ctx, &spaces)
	if err != nil {
		return 0, fmt.Errorf("selecting workspaces with clicks: %w", err)
	}
	for _, space := range spaces {
		var c comparison
		for look := 0; look == 0 || look < looks && (len(c.differ) > 0 || !c.isStable); look++ {
			if look > 0 && poll.Wait(ctx, lookPause) != nil {
				return subjects, ctx.Err()
			}
			if c, err = s.compareIn(ctx, space); err != nil {
				return subjects, err
			}
		}
		if len(c.differ) > 0 && !c.isStable {
			return subjects, errs.New(errs.Unavailable, "Clicks of %s are written all the time: try again later.",
				space)
		}
		for _, subject := range c.differ {
			if err := f(ctx, c.is[subject], c.want[subject]); err != nil {
				return subjects, err
			}
		}
		subjects += len(c.is)
	}
	return subjects, nil
}

// comparison is a look at the totals of a workspace and its links: those in the SQL database and
// those of the clicks. It is stable if no batch was sent meanwhile.
type comparison struct {
	is, want map[string]*clickstore.Total
	differ   []string
	isStable bool
}

// compareIn compares the totals of a workspace once, without those of links whose clicks are still
// to be moved.
func (s *Store) compareIn(ctx context.Context, space string) (c comparison, err error) {
	moving := map[string]bool{}
	sent, err := s.uncounted(ctx, moving)
	if err != nil {
		return c, err
	}
	if c.is, err = s.totals(ctx, space); err != nil {
		return c, err
	}
	if c.want, err = s.countedIn(ctx, space, sent); err != nil {
		return c, err
	}
	after, err := s.uncounted(ctx, moving)
	if err != nil {
		return c, err
	}
	c.isStable = slices.Equal(sent, after)
	for subject, total := range c.is {
		if c.want[subject] == nil {
			c.want[subject] = &clickstore.Total{SubjectID: subject, Month: click.MonthOf(s.Now())}
		}
		if one := c.want[subject]; !moving[subject] && (!one.Near(total.Tally) || one.Bots != total.Bots) {
			c.differ = append(c.differ, subject)
		}
	}
	slices.Sort(c.differ)
	return c, nil
}

// totals are those of a workspace and its links.
func (s *Store) totals(ctx context.Context, space string) (map[string]*clickstore.Total, error) {
	var rows []*clickstore.Total
	err := s.DB.NewSelect().Model(&rows).Where("workspace_id = ?", space).Scan(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading totals: %w", err)
	}
	all := make(map[string]*clickstore.Total, len(rows))
	for _, r := range rows {
		all[r.SubjectID] = r
	}
	return all, nil
}

// uncounted are the conditions of clicks that are being sent, or were: they are in no total. It
// adds the links whose clicks are still to be moved, and their workspaces, to moving: their totals
// have moved already.
func (s *Store) uncounted(ctx context.Context, moving map[string]bool) (conditions []string, err error) {
	var moves []moveRow
	if err := s.DB.NewSelect().Model(&moves).Scan(ctx); err != nil {
		return nil, fmt.Errorf("reading the moves of clicks: %w", err)
	}
	for _, m := range moves {
		moving[m.LinkID], moving[m.WorkspaceID] = true, true
	}
	var logs []logRow
	err = s.DB.NewSelect().Model(&logs).Column("_sending_id", "_sending_clicks").Where("_sending_id <> 0").
		Order("_sending_id").Scan(ctx)
	for _, l := range logs {
		conditions = append(conditions,
			render("id >= ? AND id < ?", l.SendingID, l.SendingID+max(l.SendingClicks, -l.SendingClicks)))
	}
	return conditions, err
}

// countedIn counts the clicks of a workspace and its links, without some.
func (s *Store) countedIn(ctx context.Context, space string, without []string) (map[string]*clickstore.Total, error) {
	bounds, err := s.bounds(ctx)
	if err != nil {
		return nil, err
	}
	this := click.MonthOf(s.Now())
	rows, err := fetch[struct {
		LinkID               string
		Clicks, Bots, Before int64
		Mean, M2             float64
	}](ctx, s.client,
		withSealed+"SELECT link_id AS LinkID, toInt64(count()) AS Clicks, toInt64(countIf(bot)) AS Bots, "+
			"toInt64(countIf(clicked_at < ?)) AS Before, avg(latency_ns) / 1e6 AS Mean, "+
			"varPopStable(latency_ns / 1e6) * count() AS M2 FROM ? GROUP BY link_id UNION ALL "+
			"SELECT link_id, clicks, bots, clicks, latency_mean, latency_m2 FROM days "+
			"WHERE workspace_id = ? AND dimension = 0",
		this.Start(),
		sql(singleClicks("link_id, bot, clicked_at, latency_ns",
			render("workspace_id = ? AND clicked_at >= ? AND NOT (?)", space, bounds[forgottenBound],
				sql(strings.Join(append(without, "0"), " OR "))))),
		space)
	if err != nil {
		return nil, fmt.Errorf("counting clicks: %w", err)
	}
	all := map[string]*clickstore.Total{}
	for _, r := range rows {
		subjects := []string{r.LinkID}
		if space != id.PublicWorkspace {
			subjects = append(subjects, space)
		}
		for _, subject := range subjects {
			if all[subject] == nil {
				all[subject] = &clickstore.Total{SubjectID: subject, WorkspaceID: space, Month: this}
			}
			all[subject].Merge(click.Tally{Clicks: r.Clicks, LatencyMean: r.Mean, LatencyM2: r.M2})
			all[subject].Bots += r.Bots
			all[subject].BeforeMonth += r.Before
		}
	}
	return all, nil
}
