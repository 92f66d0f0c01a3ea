// Package stats owns the tables of rollups and every query over rollups and clicks: totals, series,
// breakdowns, lists, exports, retention and rebuilds. It does not decide when clicks are written:
// ingest does, by the functions of this package. Resolvers, jobs and commands call it.
package stats

import (
	"context"
	"fmt"
	"time"

	"github.com/uptrace/bun"
	"github.com/uptrace/bun/schema"

	"github.com/linkforge/linkforge/internal/click"
	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/rollup"
	"github.com/linkforge/linkforge/internal/workspace"
)

// Store queries and maintains the rollups that the recorder writes.
type Store struct {
	// DB is the database.
	DB *db.DB
	// ClickMonths and QuarterMonths are the numbers of whole months for which single clicks and
	// quarter-hour rollups are stored; zero means DefaultClickMonths and DefaultQuarterMonths.
	ClickMonths, QuarterMonths int
	// Now is the clock.
	Now func() time.Time
}

// quarter is the number of the quarter of an hour, since 1970, that a click lies in.
func (s *Store) quarter() schema.QueryWithArgs {
	if s.DB.Kind == db.Postgres {
		return bun.SafeQuery("CAST(floor(extract(epoch FROM clicked_at) / 900) AS BIGINT)")
	}
	return bun.SafeQuery("CAST(strftime('%s', clicked_at) AS INTEGER) / 900")
}

// Totals reads the tallies of links since they were made. Links without a click are missing from
// the answer.
func (s *Store) Totals(
	ctx context.Context, m workspace.Membership, linkIDs ...string,
) (map[string]LinkTotal, error) {
	ctx, err := m.Enter(ctx, workspace.ReadLinks)
	if err != nil {
		return nil, err
	}
	var rows []Total
	err = s.DB.NewSelect().Model(&rows).Where("workspace_id = ?", m.ID()).Where("subject_id IN (?)", bun.In(linkIDs)).
		Scan(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading click totals: %w", err)
	}
	totals := make(map[string]LinkTotal, len(rows))
	for _, row := range rows {
		totals[row.SubjectID] = LinkTotal{row.Tally, row.LastAt.UTC()}
	}
	return totals, nil
}

// Counts are the clicks that links have had, ever, as the connection sees them. Links without a
// click are missing from the answer.
func (s *Store) Counts(ctx context.Context, conn bun.IDB, linkIDs ...string) (map[string]int64, error) {
	var rows []Total
	err := conn.NewSelect().Model(&rows).Column("subject_id", "clicks").Where("subject_id IN (?)", bun.In(linkIDs)).
		Scan(ctx)
	if err != nil {
		return nil, fmt.Errorf("counting clicks of links: %w", err)
	}
	counts := make(map[string]int64, len(rows))
	for _, row := range rows {
		counts[row.SubjectID] = row.Clicks
	}
	return counts, nil
}

// CountsSince counts clicks of links of a workspace from an instant on, which must be the start of
// a bucket: that of a month is. Links without a click are missing from the answer.
func (s *Store) CountsSince(
	ctx context.Context, m workspace.Membership, linkIDs []string, from time.Time,
) (map[string]int64, error) {
	ctx, err := m.Enter(ctx, workspace.ReadLinks)
	if err != nil {
		return nil, err
	}
	return s.countsSince(ctx, linkIDs, from)
}

// Since is CountsSince for links of any workspace.
func (s *Store) Since(ctx context.Context, linkIDs []string, from time.Time) (map[string]int64, error) {
	return s.countsSince(db.AsSystem(ctx), linkIDs, from)
}

// Since returns the SQL of the number of clicks of a link, an SQL expression, since an instant, which must be the
// start of a bucket. The totals tell whether there are any: it is the cheaper lookup.
func Since(linkID string, from any) schema.QueryWithArgs {
	return bun.SafeQuery(fmt.Sprintf(`CASE
		WHEN EXISTS (SELECT 1 FROM click_totals WHERE subject_id = %[1]s AND last_at >= ?0)
		THEN (SELECT CAST(coalesce(sum(clicks), 0) AS BIGINT) FROM click_buckets
			WHERE subject_id = %[1]s AND starts_at >= ?0)
		ELSE 0 END`, linkID), from)
}

func (s *Store) countsSince(ctx context.Context, linkIDs []string, from time.Time) (map[string]int64, error) {
	var rows []struct {
		SubjectID string
		Clicks    int64
	}
	err := s.DB.NewSelect().Model((*Bucket)(nil)).
		Column("subject_id").ColumnExpr("CAST(SUM(clicks) AS BIGINT) AS clicks").
		Where("subject_id IN (?)", bun.In(linkIDs)).Where("starts_at >= ?", from).Group("subject_id").
		Scan(ctx, &rows)
	if err != nil {
		return nil, fmt.Errorf("counting clicks: %w", err)
	}
	counts := make(map[string]int64, len(rows))
	for _, row := range rows {
		counts[row.SubjectID] = row.Clicks
	}
	return counts, nil
}

// Platform is the tally of the whole instance; its mean is weighted by the count.
func (s *Store) Platform(ctx context.Context) (rollup.Tally, error) {
	var t rollup.Tally
	err := s.DB.NewSelect().Model((*Total)(nil)).
		ColumnExpr("CAST(COALESCE(SUM(clicks), 0) AS BIGINT) AS clicks").
		ColumnExpr("CAST(COALESCE(SUM(latency_mean * clicks) / NULLIF(SUM(clicks), 0), 0) AS DOUBLE PRECISION) AS "+
							"latency_mean").
		Where("subject_id <> workspace_id"). // a workspace's are its links'
		Scan(db.AsSystem(ctx), &t.Clicks, &t.LatencyMean)
	if err != nil {
		return rollup.Tally{}, fmt.Errorf("rolling up clicks: %w", err)
	}
	return t, nil
}

// TargetClicks returns the clicks of links by the targets of their rules, without those of private
// visitors. It reads the rollups of one link after the other.
func (s *Store) TargetClicks(
	ctx context.Context, m workspace.Membership, linkIDs ...string,
) (map[string]map[string]int64, error) {
	ctx, err := m.Enter(ctx, workspace.ReadLinks)
	if err != nil {
		return nil, err
	}
	counts, tomorrow := map[string]map[string]int64{}, s.Now().UTC().Truncate(click.Day).Add(click.Day)
	for _, linkID := range linkIDs {
		of := map[string]int64{}
		counts[linkID] = of
		all := &Stats{Range: Range{Never, tomorrow}, Subject: Subject{LinkID: linkID}, store: s, member: m, Zone: time.UTC}
		err := all.EachRollup(ctx, nil, func(b *Bucket) error {
			found, err := valuesOf(b, click.Target)
			for target, n := range found {
				of[target] += n.Clicks
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return counts, nil
}
