package link

import (
	"context"
	"fmt"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/db"
)

// CheckLease is how long a caller of DueChecks has to check the destinations. They are due again
// afterwards, in case its node has died.
const CheckLease = 15 * time.Minute

// Due is a destination to check.
type Due struct {
	LinkID string
	// URL is the link's OriginalURL.
	URL string
	// Failures is how many checks in a row have failed.
	Failures int
}

// DueChecks returns up to limit destinations of all workspaces that are due, the longest waiting
// first, and postpones them by CheckLease in the same statement, so that concurrent callers get
// different ones. Links that have ended are not checked.
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
	err := s.applyMachine(assignment{"check_at", now.Add(CheckLease)}).
		Where("id IN (?)", s.DB.SkipLocked(batch)). // another caller has locked the others
		Returning("id AS link_id, original_url AS url, check_failures AS failures").Scan(ctx, &due)
	if err != nil {
		return nil, fmt.Errorf("selecting destinations to check: %w", err)
	}
	return due, nil
}

// Checked records the status that a destination has returned (nil for none), how many checks in a
// row have failed, and when the next one is due. A link with another destination by now is left
// alone. The link's UpdatedAt does not change.
func (s *Store) Checked(ctx context.Context, linkID, url string, status *int, failures int, at, next time.Time) error {
	_, err := s.applyMachine(
		assignment{"destination_status", status}, assignment{"last_checked_at", db.Instant(at)},
		assignment{"check_at", db.Instant(next)}, assignment{"check_failures", failures},
	).Where("id = ?", linkID).Where("original_url = ?", url).
		Exec(db.AsSystem(ctx))
	if err != nil {
		return fmt.Errorf("recording the response of a destination: %w", err)
	}
	return nil
}

// PostponeChecks postpones the check of destinations that DueChecks has returned, without changing
// their results. A link that has got another URL meanwhile stays due.
func (s *Store) PostponeChecks(ctx context.Context, due []Due, until time.Time) error {
	ids := make([]string, 0, len(due))
	for _, d := range due {
		ids = append(ids, d.LinkID)
	}
	_, err := s.applyMachine(assignment{"check_at", db.Instant(until)}).
		Where("id IN (?)", bun.In(ids)).Where("check_at > ?", s.now()).
		Exec(db.AsSystem(ctx))
	if err != nil {
		return fmt.Errorf("postponing destinations: %w", err)
	}
	return nil
}
