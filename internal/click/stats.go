package click

import (
	"context"
	"fmt"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/errs"
	"github.com/linkforge/linkforge/internal/workspace"
)

const (
	// defaultRange is how far stats reach back when no range is given, longestRange how far apart its ends may be.
	defaultRange = 30 * 24 * time.Hour
	longestRange = 400 * 24 * time.Hour
)

// earliest is before every click.
var earliest = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// Store reads what the recorder wrote.
type Store struct {
	// DB is the database.
	DB *db.DB
	// Now is the clock.
	Now func() time.Time
}

// Range is a span of time: From belongs to it, To does not.
type Range struct {
	From, To time.Time
}

// Stats are the clicks of a link in a range, in a time zone.
type Stats struct {
	Range
	// Tally is of the whole range.
	Tally
	zone    *time.Location
	buckets []bucket // in the order of time
}

// Link reads the stats of a link. A nil range means the last 30 days, an empty zone UTC. The ends are moved
// outwards to whole quarters of an hour, the grain of the sums. It returns InvalidInput or Forbidden.
func (s *Store) Link(ctx context.Context, m workspace.Membership, linkID string, r *Range, zone string) (*Stats, error) {
	ctx, err := m.Enter(ctx, workspace.ReadStats)
	if err != nil {
		return nil, err
	}
	stats, err := s.empty(r, zone)
	if err != nil {
		return nil, err
	}
	err = s.DB.NewSelect().Model(&stats.buckets).
		Where("workspace_id = ?", m.ID()).Where("link_id = ?", linkID).
		Where("starts_at >= ?", stats.From).Where("starts_at < ?", stats.To).
		Order("starts_at").Scan(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading a link's clicks: %w", err)
	}
	for _, b := range stats.buckets {
		stats.Merge(b.Tally)
	}
	return stats, nil
}

func (s *Store) empty(r *Range, zone string) (*Stats, error) {
	if r == nil {
		now := s.Now()
		r = &Range{From: now.Add(-defaultRange), To: now}
	}
	if !r.From.Before(r.To) {
		return nil, errs.New(errs.InvalidInput, "The range must begin before it ends.").At("range")
	}
	if r.From.Before(earliest) {
		return nil, errs.New(errs.InvalidInput, "The range must not begin before %s.", earliest.Format(time.DateOnly)).At("range")
	}
	if r.To.Sub(r.From) > longestRange {
		return nil, errs.New(errs.InvalidInput, "The range must not be longer than 400 days.").At("range")
	}
	location, err := time.LoadLocation(zone)
	if err != nil || zone == "Local" {
		return nil, errs.New(errs.InvalidInput, "The time zone must be an IANA name, as in Europe/Berlin.").At("timezone")
	}
	to := r.To.UTC().Add(BucketLength - 1).Truncate(BucketLength)
	return &Stats{Range: Range{From: r.From.UTC().Truncate(BucketLength), To: to}, zone: location}, nil
}

// Totals reads the tallies of links since they were made. Links without a click are missing from the answer.
func (s *Store) Totals(ctx context.Context, m workspace.Membership, linkIDs ...string) (map[string]Tally, error) {
	ctx, err := m.Enter(ctx, workspace.ReadLinks)
	if err != nil {
		return nil, err
	}
	var rows []total
	err = s.DB.NewSelect().Model(&rows).Where("workspace_id = ?", m.ID()).Where("link_id IN (?)", bun.In(linkIDs)).Scan(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading click totals: %w", err)
	}
	totals := make(map[string]Tally, len(rows))
	for _, row := range rows {
		totals[row.LinkID] = row.Tally
	}
	return totals, nil
}

// Counts are the clicks that links have had, ever, as the connection sees them. Links without a click are missing
// from the answer.
func (s *Store) Counts(ctx context.Context, conn bun.IDB, linkIDs ...string) (map[string]int64, error) {
	var rows []total
	err := conn.NewSelect().Model(&rows).Column("link_id", "clicks").Where("link_id IN (?)", bun.In(linkIDs)).Scan(ctx)
	if err != nil {
		return nil, fmt.Errorf("counting clicks of links: %w", err)
	}
	counts := make(map[string]int64, len(rows))
	for _, row := range rows {
		counts[row.LinkID] = row.Clicks
	}
	return counts, nil
}

// Move gives a link's clicks to another workspace. The total is moved first, and made if there is none: it is where
// clicks that are still to be written find their workspace.
func (s *Store) Move(ctx context.Context, tx bun.Tx, linkID, workspaceID string) error {
	_, err := tx.NewInsert().Model(&total{LinkID: linkID, WorkspaceID: workspaceID}).
		On("CONFLICT (link_id) DO UPDATE").Set("workspace_id = excluded.workspace_id").Returning("NULL").Exec(ctx)
	for _, rows := range []any{(*Click)(nil), (*bucket)(nil)} {
		if err == nil {
			_, err = tx.NewUpdate().Model(rows).Set("workspace_id = ?", workspaceID).Where("link_id = ?", linkID).Exec(ctx)
		}
	}
	if err != nil {
		return fmt.Errorf("moving a link's clicks: %w", err)
	}
	return nil
}

// purgeBatch is how many clicks are removed at once.
const purgeBatch = 5000

// PurgeWorkspace removes all clicks of a workspace, with their sums, in batches.
func (s *Store) PurgeWorkspace(ctx context.Context, workspaceID string) error {
	ctx = db.AsSystem(ctx)
	for {
		links := s.DB.NewSelect().Model((*total)(nil)).Column("link_id").Where("workspace_id = ?", workspaceID)
		batch := s.DB.NewSelect().Model((*Click)(nil)).Column("id").Where("link_id IN (?)", links).Limit(purgeBatch)
		result, err := s.DB.NewDelete().Model((*Click)(nil)).Where("id IN (?)", batch).Exec(ctx)
		if err != nil {
			return fmt.Errorf("removing the clicks of a workspace: %w", err)
		}
		if n, err := result.RowsAffected(); err != nil || n < purgeBatch {
			break
		}
	}
	links := s.DB.NewSelect().Model((*total)(nil)).Column("link_id").Where("workspace_id = ?", workspaceID)
	_, err := s.DB.NewDelete().Model((*bucket)(nil)).Where("link_id IN (?)", links).Exec(ctx)
	if err == nil {
		_, err = s.DB.NewDelete().Model((*total)(nil)).Where("workspace_id = ?", workspaceID).Exec(ctx)
	}
	if err != nil {
		return fmt.Errorf("removing the sums of a workspace: %w", err)
	}
	return nil
}

// CountsSince counts clicks of links of a workspace from an instant on, which must be the start of a bucket: that of a month
// is. Links without a click are missing from the answer.
func (s *Store) CountsSince(ctx context.Context, m workspace.Membership, linkIDs []string, from time.Time) (map[string]int64, error) {
	ctx, err := m.Enter(ctx, workspace.ReadLinks)
	if err != nil {
		return nil, err
	}
	return s.countsSince(ctx, linkIDs, from)
}

func (s *Store) countsSince(ctx context.Context, linkIDs []string, from time.Time) (map[string]int64, error) {
	var rows []struct {
		LinkID string
		Clicks int64
	}
	err := s.DB.NewSelect().Model((*bucket)(nil)).
		Column("link_id").ColumnExpr("CAST(SUM(clicks) AS BIGINT) AS clicks").
		Where("link_id IN (?)", bun.In(linkIDs)).Where("starts_at >= ?", from).
		Group("link_id").Scan(ctx, &rows)
	if err != nil {
		return nil, fmt.Errorf("counting clicks: %w", err)
	}
	counts := make(map[string]int64, len(rows))
	for _, row := range rows {
		counts[row.LinkID] = row.Clicks
	}
	return counts, nil
}

// Platform is the tally of the whole instance; its mean is weighted by the count.
func (s *Store) Platform(ctx context.Context) (Tally, error) {
	var t Tally
	err := s.DB.NewSelect().Model((*total)(nil)).
		ColumnExpr("CAST(COALESCE(SUM(clicks), 0) AS BIGINT) AS clicks").
		ColumnExpr("CAST(COALESCE(SUM(latency_mean * clicks) / NULLIF(SUM(clicks), 0), 0) AS DOUBLE PRECISION) AS latency_mean").
		Scan(db.AsSystem(ctx), &t.Clicks, &t.LatencyMean)
	if err != nil {
		return Tally{}, fmt.Errorf("summing up clicks: %w", err)
	}
	return t, nil
}
