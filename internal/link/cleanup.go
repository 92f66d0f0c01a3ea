package link

import (
	"context"
	"fmt"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/routing"
)

// sweepBatch is how many links a job takes on at once: few enough that a redirect never waits long
// for one.
const sweepBatch = 500

// CleanUp marks the links that have expired, and then purges those whose tombstones have stood for
// long enough, each batch in a transaction of its own. It forgets idempotency keys that are too
// old. Nothing waits for it: a link has expired at its instant, whatever has been marked.
func (s *Store) CleanUp(ctx context.Context) error {
	ctx = db.AsSystem(ctx)
	for _, step := range []struct {
		name string
		do   func(ctx context.Context) (n int, err error)
	}{
		{"marking ended links", s.markEnded},
		{"purging links", s.purge},
		{"forgetting idempotency keys", func(ctx context.Context) (int, error) {
			n, err := s.idempotency.DeleteExpired(ctx, sweepBatch)
			return int(n), err
		}},
		{"forgetting changes", s.Resolver.ForgetChanges},
	} {
		total := 0
		for {
			n, err := step.do(ctx)
			if err != nil {
				return fmt.Errorf("%s: %w", step.name, err)
			}
			if total += n; n < sweepBatch {
				break
			}
		}
		if total > 0 {
			s.Log.InfoContext(ctx, step.name, "count", total)
		}
	}
	return nil
}

// markEnded marks a batch of links that have expired, and returns how many.
func (s *Store) markEnded(ctx context.Context) (int, error) {
	batch := s.DB.NewSelect().Model((*Link)(nil)).Column("id").
		Where("expires_at <= ?", s.now()).Where("expires_at IS NOT NULL").Where("ended_at IS NULL").
		Order("expires_at").Limit(sweepBatch)
	result, err := s.applyMachine(set{"ended_at", bun.Ident("expires_at")}).
		Where("id IN (?)", s.DB.SkipLocked(batch)).Where("expires_at <= ?", s.now()).Exec(ctx)
	return affected(result, err)
}

// purge removes a batch of links that ended longer ago than Tombstones, and returns how many. Of a
// deterministic link the workspace, the URL's hash and the code stay, so that the same URL gets the
// same code for ever. Disabled links stay: they say what must not come back.
func (s *Store) purge(ctx context.Context) (purged int, err error) {
	now := s.now()
	before := now.Add(-s.Tombstones)
	err = s.DB.Tx(ctx, func(ctx context.Context, tx bun.Tx) error {
		var links []*Link
		batch := tx.NewSelect().Model(&links).
			Where("ended_at <= ?", before).Where("ended_at IS NOT NULL").Where("purged_at IS NULL").Where("disabled_at IS NULL").
			Where("deleted_at IS NOT NULL OR expires_at <= ?", now). // whatever the mark says
			Order("ended_at").Limit(sweepBatch)
		if err := s.DB.SkipLocked(batch).Scan(ctx); err != nil || len(links) == 0 {
			return err
		}
		purged = len(links)
		ids, hollowed := make([]string, 0, len(links)), []change{}
		for _, l := range links {
			ids = append(ids, l.ID)
			if l.Strategy == Deterministic {
				hollowed = append(hollowed, change{before: l, after: hollow(l, now)})
			}
		}
		if _, err := tx.NewDelete().Model((*tag)(nil)).Where("link_id IN (?)", bun.In(ids)).Exec(ctx); err != nil {
			return err
		}
		if err := s.apply(ctx, tx, "", hollowed); err != nil {
			return err
		}
		_, err := tx.NewDelete().Model((*Link)(nil)).Where("id IN (?)", bun.In(ids)).Where("strategy <> 'DETERMINISTIC'").
			Exec(ctx)
		return err
	})
	return purged, err
}

// hollow returns what is retained of a purged deterministic link, so that its code stays reserved.
func hollow(l *Link, now time.Time) *Link {
	h := &Link{
		ID: l.ID, WorkspaceID: l.WorkspaceID, Code: l.Code, RootCode: l.RootCode, Strategy: l.Strategy,
		CanonicalHash: l.CanonicalHash, Settings: routing.Settings{RedirectStatus: l.RedirectStatus}, CreatedAt: l.CreatedAt, UpdatedAt: now,
		DeletedAt: l.DeletedAt, EndedAt: l.EndedAt, PurgedAt: &now, ClaimHash: l.ClaimHash,
	}
	if h.DeletedAt == nil {
		h.DeletedAt = &now
	}
	return h
}

// PurgeWorkspace removes all links of a workspace with everything that belongs to them but their
// clicks, in batches.
func (s *Store) PurgeWorkspace(ctx context.Context, workspaceID string) error {
	ctx = db.AsSystem(ctx)
	for {
		batch := s.DB.NewSelect().Model((*Link)(nil)).Column("id").Where("workspace_id = ?", workspaceID).Limit(sweepBatch)
		n, err := affected(s.DB.NewDelete().Model((*Link)(nil)).Where("id IN (?)", batch).Exec(ctx))
		if err != nil {
			return fmt.Errorf("removing the links of a workspace: %w", err)
		}
		if n < sweepBatch {
			break
		}
	}
	for _, table := range []string{"idempotency_keys", "link_usage"} {
		if _, err := s.DB.NewDelete().Table(table).Where("workspace_id = ?", workspaceID).Exec(ctx); err != nil {
			return fmt.Errorf("removing what belonged to links: %w", err)
		}
	}
	return nil
}
