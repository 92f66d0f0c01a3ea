package link

import (
	"context"
	"fmt"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/db"
)

// CheckClaim is how long destinations belong to whoever took them to ask them. They are due again
// afterwards, so that none is forgotten by a node that dies.
const CheckClaim = 15 * time.Minute

// Due is a destination that is to be asked how it is.
type Due struct {
	LinkID string
	// URL is the link's OriginalURL.
	URL string
	// Failures is how often in a row it has not been well.
	Failures int
}

// DueChecks takes up to limit destinations that are to be asked now, those that have waited
// longest, and pushes them ahead by CheckClaim in the same step: two callers never get the same.
// Links that have ended are left out. The system asks, not a member, so it looks into every
// workspace.
func (s *Store) DueChecks(ctx context.Context, limit int) ([]Due, error) {
	ctx = db.AsSystem(ctx)
	now := s.now()
	batch := s.DB.NewSelect().Model((*Link)(nil)).Column("id").
		Where("check_at <= ?", now).
		Where("deleted_at IS NULL AND disabled_at IS NULL AND purged_at IS NULL").
		Where("expires_at IS NULL OR expires_at > ?", now).
		Where("workspace_id NOT IN (SELECT id FROM workspaces WHERE deleted_at IS NOT NULL)").
		Order("check_at").Limit(int64(limit))
	var due []Due
	err := s.applyMachine(set{"check_at", now.Add(CheckClaim)}).
		Where("id IN (?)", s.DB.SkipLocked(batch)). // a locked row is somebody else's already
		Returning("id AS link_id, original_url AS url, check_failures AS failures").Scan(ctx, &due)
	if err != nil {
		return nil, fmt.Errorf("taking destinations to ask: %w", err)
	}
	return due, nil
}

// Checked records what a destination answered, nil when nothing, how often in a row it has not been
// well, and when it is to be asked next. A link that leads elsewhere by now stays as it is. To its
// members the link has not changed.
func (s *Store) Checked(ctx context.Context, linkID, url string, status *int, failures int, at, next time.Time) error {
	_, err := s.applyMachine(
		set{"destination_status", status}, set{"last_checked_at", db.Instant(at)},
		set{"check_at", db.Instant(next)}, set{"check_failures", failures},
	).Where("id = ?", linkID).Where("original_url = ?", url).
		Exec(db.AsSystem(ctx))
	if err != nil {
		return fmt.Errorf("recording what a destination answered: %w", err)
	}
	return nil
}

// PostponeChecks has destinations that were taken be asked later. What is known of them stays, and
// so does the time of one whose link has been given another URL since, which is to be asked now.
func (s *Store) PostponeChecks(ctx context.Context, due []Due, until time.Time) error {
	ids := make([]string, 0, len(due))
	for _, d := range due {
		ids = append(ids, d.LinkID)
	}
	_, err := s.applyMachine(set{"check_at", db.Instant(until)}).
		Where("id IN (?)", bun.In(ids)).Where("check_at > ?", s.now()).
		Exec(db.AsSystem(ctx))
	if err != nil {
		return fmt.Errorf("postponing destinations: %w", err)
	}
	return nil
}
