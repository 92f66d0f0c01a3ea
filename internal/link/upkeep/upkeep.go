// Package upkeep does for links what no caller requests: it records the transitions of their state
// and the checks of their URLs, and purges links that have ended. The jobs of package stores call
// it.
package upkeep

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/platform/db"
)

// batchSize is how many links a job locks at once: few enough that a redirect never waits long.
const batchSize = 500

// Store records what happens to links by themselves.
type Store struct {
	*link.Store
	// Tombstones is how long an ended link responds that it has ended.
	Tombstones time.Duration
}

// now returns the current time in the precision of the database.
func (s *Store) now() time.Time { return db.Instant(s.Now()) }

// CleanUp records transitions, purges links that ended longer ago than Tombstones, and deletes old
// rows of the change list, in batches with a transaction each. No state depends on it: a link
// expires at its instant, recorded or not. A step that fails delays no other.
func (s *Store) CleanUp(ctx context.Context) error {
	failed := s.RecordTransitions(ctx)
	ctx = db.AsSystem(ctx)
	purged, err := db.InBatches(batchSize, func() (int64, error) { return s.purge(ctx) })
	if err != nil {
		failed = errors.Join(failed, fmt.Errorf("purging links: %w", err))
	}
	if purged > 0 {
		s.Log.InfoContext(ctx, "purging links", "count", purged)
	}
	if err := s.Feed.DeleteExpired(ctx); err != nil {
		failed = errors.Join(failed, fmt.Errorf("deleting expired changes: %w", err))
	}
	return failed
}

// purge purges a batch of links that ended longer ago than Tombstones, and returns how many.
// Disabled links are retained, because their URLs must not be shortened again.
func (s *Store) purge(ctx context.Context) (purged int64, err error) {
	err = s.DB.Tx(ctx, func(ctx context.Context, tx bun.Tx) error {
		var links []*link.Link
		batch := tx.NewSelect().Model(&links).
			Where("ended_at <= ?", s.now().Add(-s.Tombstones)).Where("ended_at IS NOT NULL").
			Where("purged_at IS NULL").Where("disabled_at IS NULL").
			Where("deleted_at IS NOT NULL OR expires_at <= ?", s.now()). // marked or not
			Order("ended_at").Limit(batchSize)
		if err := s.DB.SkipLocked(batch).Scan(ctx); err != nil || len(links) == 0 {
			return err
		}
		purged = int64(len(links))
		return s.Purge(ctx, tx, links...)
	})
	return purged, err
}

// PurgeWorkspace deletes all links of a workspace and their data except clicks, in batches.
func (s *Store) PurgeWorkspace(ctx context.Context, workspaceID string) error {
	ctx = db.AsSystem(ctx)
	_, err := db.InBatches(batchSize, func() (int64, error) {
		batch := s.DB.NewSelect().Model((*link.Link)(nil)).Column("id").Where("workspace_id = ?", workspaceID).
			Limit(batchSize)
		return db.Affected(s.DB.NewDelete().Model((*link.Link)(nil)).Where("id IN (?)", batch).Exec(ctx))
	})
	if err != nil {
		return fmt.Errorf("removing the links of a workspace: %w", err)
	}
	return link.PurgeUsage(ctx, s.DB, workspaceID)
}
