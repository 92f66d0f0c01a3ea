package link

import (
	"context"
	"fmt"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/audit"
	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/routing"
	"github.com/linkforge/linkforge/internal/webhook"
	"github.com/linkforge/linkforge/internal/workspace"
)

// sweepBatch is how many links a job locks at once: few enough that a redirect never waits long.
const sweepBatch = 500

// CleanUp records transitions, purges links that ended longer ago than Tombstones, and deletes expired
// idempotency keys and changes, in batches with a transaction each. No state depends on it: a link
// expires at its instant, recorded or not.
func (s *Store) CleanUp(ctx context.Context) error {
	if err := s.RecordTransitions(ctx); err != nil {
		return err
	}
	ctx = db.AsSystem(ctx)
	for _, step := range []struct {
		name string
		do   func(ctx context.Context) (n int64, err error)
	}{
		{"purging links", s.purge},
		{"deleting expired idempotency keys", func(ctx context.Context) (int64, error) {
			return s.idempotency.DeleteExpired(ctx, sweepBatch)
		}},
	} {
		total, err := db.InBatches(sweepBatch, func() (int64, error) { return step.do(ctx) })
		if err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
		if total > 0 {
			s.Log.InfoContext(ctx, step.name, "count", total)
		}
	}
	if err := s.Resolver.DeleteExpiredChanges(ctx); err != nil {
		return fmt.Errorf("deleting expired changes: %w", err)
	}
	return nil
}

// purge deletes a batch of links that ended longer ago than Tombstones, and returns how many. The
// rows of deterministic links are scrubbed instead, so that the same URL always gets the same code.
// Disabled links are retained, because their URLs must not be shortened again.
func (s *Store) purge(ctx context.Context) (purged int64, err error) {
	now := s.now()
	before := now.Add(-s.Tombstones)
	err = s.DB.Tx(ctx, func(ctx context.Context, tx bun.Tx) error {
		var links []*Link
		batch := tx.NewSelect().Model(&links).
			Where("ended_at <= ?", before).Where("ended_at IS NOT NULL").
			Where("purged_at IS NULL").Where("disabled_at IS NULL").
			Where("deleted_at IS NOT NULL OR expires_at <= ?", now). // marked or not
			Order("ended_at").Limit(sweepBatch)
		if err := s.DB.SkipLocked(batch).Scan(ctx); err != nil || len(links) == 0 {
			return err
		}
		purged = int64(len(links))
		ids, scrubbed := make([]string, 0, len(links)), []rewrite{}
		for _, l := range links {
			ids = append(ids, l.ID)
			if l.Strategy == Deterministic {
				scrubbed = append(scrubbed, rewrite{before: l, after: scrub(l, now)})
			}
		}
		if _, err := tx.NewDelete().Model((*tag)(nil)).Where("link_id IN (?)", bun.In(ids)).Exec(ctx); err != nil {
			return err
		}
		if err := s.write(ctx, tx, scrubbed); err != nil {
			return err
		}
		if err := s.forgetHistory(ctx, tx, links); err != nil {
			return err
		}
		_, err := tx.NewDelete().Model((*Link)(nil)).Where("id IN (?)", bun.In(ids)).Where("strategy <> 'DETERMINISTIC'").
			Exec(ctx)
		return err
	})
	return purged, err
}

// forgetHistory deletes the versions, scheduled changes and URLs of purged links and the values in their
// events, and records that they were purged.
func (s *Store) forgetHistory(ctx context.Context, tx bun.Tx, links []*Link) error {
	var ids, workspaces []string
	var events []*audit.Event
	for _, l := range links {
		ids, workspaces = append(ids, l.ID), append(workspaces, l.WorkspaceID)
		if l.WorkspaceID != workspace.PublicID {
			events = append(events, audit.New(l.WorkspaceID, "", audit.LinkPurged, l.ID, nil, s.Now()))
		}
	}
	if _, err := tx.NewDelete().Model((*versionRow)(nil)).Where("link_id IN (?)", bun.In(ids)).Exec(ctx); err != nil {
		return fmt.Errorf("deleting versions: %w", err)
	}
	if _, err := tx.NewDelete().Model((*ScheduledChange)(nil)).Where("link_id IN (?)", bun.In(ids)).Exec(ctx); err != nil {
		return fmt.Errorf("deleting scheduled changes: %w", err)
	}
	if _, err := tx.NewDelete().Model((*linkURL)(nil)).Where("link_id IN (?)", bun.In(ids)).Exec(ctx); err != nil {
		return fmt.Errorf("deleting the URLs of links: %w", err)
	}
	if err := audit.ForgetValues(ctx, tx, ids...); err != nil {
		return err
	}
	if err := webhook.ForgetBodies(ctx, s.DB, tx, workspaces, ids); err != nil {
		return err
	}
	return audit.Write(ctx, tx, events...)
}

// scrub returns a purged deterministic link, which only reserves its code.
func scrub(l *Link, now time.Time) *Link {
	h := &Link{
		ID: l.ID, WorkspaceID: l.WorkspaceID, Code: l.Code, RootCode: l.RootCode, Strategy: l.Strategy,
		CanonicalHash: l.CanonicalHash, Settings: routing.Settings{RedirectStatus: l.RedirectStatus},
		CreatedAt: l.CreatedAt, UpdatedAt: now, DeletedAt: l.DeletedAt, EndedAt: l.EndedAt, PurgedAt: &now,
		ClaimHash: l.ClaimHash,
	}
	if h.DeletedAt == nil {
		h.DeletedAt = &now
	}
	return h
}

// PurgeWorkspace deletes all links of a workspace and their data except clicks, in batches.
func (s *Store) PurgeWorkspace(ctx context.Context, workspaceID string) error {
	ctx = db.AsSystem(ctx)
	_, err := db.InBatches(sweepBatch, func() (int64, error) {
		batch := s.DB.NewSelect().Model((*Link)(nil)).Column("id").Where("workspace_id = ?", workspaceID).Limit(sweepBatch)
		return db.Affected(s.DB.NewDelete().Model((*Link)(nil)).Where("id IN (?)", batch).Exec(ctx))
	})
	if err != nil {
		return fmt.Errorf("removing the links of a workspace: %w", err)
	}
	if err := s.idempotency.PurgeWorkspace(ctx, workspaceID); err != nil {
		return err
	}
	if _, err := s.DB.NewDelete().Table("link_usage").Where("workspace_id = ?", workspaceID).Exec(ctx); err != nil {
		return fmt.Errorf("deleting the usage of a workspace: %w", err)
	}
	return nil
}
