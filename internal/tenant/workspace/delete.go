package workspace

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/event/audit"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/tenant/account"
)

const (
	// Undo is how long a deleted workspace can be restored.
	Undo = 30 * 24 * time.Hour
	// purgeAfter adds a margin for the clocks of other nodes, which may restore the workspace.
	purgeAfter = Undo + time.Hour
)

// Delete deletes the workspace: its links respond with 410 and its members lose access. Owners can
// restore it within Undo; then it is purged. It returns Forbidden.
func (s *Store) Delete(ctx context.Context, m Membership) (Membership, error) {
	now := s.now()
	if err := s.setDeleted(ctx, m, audit.WorkspaceDeleted, &now); err != nil {
		return Membership{}, err
	}
	deleted := *m.row
	deleted.DeletedAt = &now
	m.row = &deleted
	return m, nil
}

// Restore restores a deleted workspace that the actor owns. It returns NotFound, also for a purged
// one.
func (s *Store) Restore(ctx context.Context, a account.Actor, workspaceID string) (Membership, error) {
	m, err := s.require(ctx, a, workspaceID, "workspace.deleted_at IS NOT NULL")
	if err != nil {
		return Membership{}, err
	}
	if !s.now().Before(m.row.DeletedAt.Add(Undo)) || !m.role.Allows(DeleteWorkspace) {
		return Membership{}, errNotFound() // other members do not see a deleted workspace
	}
	if err := s.setDeleted(ctx, m, audit.WorkspaceRestored, nil); err != nil {
		return Membership{}, err
	}
	return s.Require(ctx, a, workspaceID)
}

func (s *Store) setDeleted(ctx context.Context, m Membership, action audit.Action, at *time.Time) error {
	ctx, err := m.Enter(ctx, DeleteWorkspace)
	if err != nil {
		return err
	}
	err = s.DB.Tx(ctx, func(ctx context.Context, tx bun.Tx) error {
		n, err := db.Affected(tx.NewUpdate().Model((*Workspace)(nil)).Set("deleted_at = ?", at).
			Set("updated_at = ?", s.now()).
			Where("id = ?", m.ID()).Where("(deleted_at IS NULL) = ?", at != nil).Where("purged_at IS NULL").Exec(ctx))
		if err != nil || n == 0 { // deleted or restored concurrently
			return err
		}
		return m.Audit(ctx, tx, s.Now(), action, m.ID(), nil)
	})
	if err != nil {
		return fmt.Errorf("deleting or restoring a workspace: %w", err)
	}
	return nil
}

// Purge removes all rows of the workspaces that were deleted longer ago than Undo, except the
// slugs, which stay reserved. The others delete the rows of their packages first. A
// workspace that fails delays no other.
func (s *Store) Purge(
	ctx context.Context, others ...func(ctx context.Context, workspaceID string) error,
) (failed error) {
	for failing := []string{""}; ; {
		var w Workspace
		err := s.DB.NewSelect().Model(&w).Where("deleted_at <= ?", s.now().Add(-purgeAfter)).
			Where("deleted_at IS NOT NULL").
			Where("purged_at IS NULL").Where("id NOT IN (?)", bun.In(failing)).Order("deleted_at").Limit(1).Scan(ctx)
		if errors.Is(err, sql.ErrNoRows) {
			return failed
		}
		if err != nil {
			return errors.Join(failed, fmt.Errorf("selecting a workspace to purge: %w", err))
		}
		for _, other := range others {
			if err == nil {
				err = other(ctx, w.ID)
			}
		}
		if err == nil {
			err = s.DB.Tx(ctx, func(ctx context.Context, tx bun.Tx) error { return s.purge(ctx, tx, w.ID) })
		}
		if err != nil {
			failing, failed = append(failing, w.ID), errors.Join(failed, fmt.Errorf("purging a workspace: %w", err))
			continue
		}
		s.Log.InfoContext(ctx, "workspace purged", "workspace", w.ID)
	}
}

func (s *Store) purge(ctx context.Context, tx bun.Tx, workspaceID string) error {
	for _, model := range []any{(*Member)(nil), (*Invitation)(nil), (*ssoWorkspace)(nil), (*audit.Event)(nil)} {
		if err := purgeRows(ctx, tx, model, workspaceID); err != nil {
			return err
		}
	}
	_, err := tx.NewUpdate().Model((*Workspace)(nil)).Set("name = ''").Set("primary_host = NULL").
		Set("qr_style = NULL").Set("qr_logo = NULL").Set("purged_at = ?", s.now()).Where("id = ?", workspaceID).
		Exec(ctx)
	return err
}
