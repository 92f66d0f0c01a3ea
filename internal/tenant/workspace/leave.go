package workspace

import (
	"context"
	"strings"

	"github.com/linkforge/linkforge/internal/event/audit"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/uptrace/bun"
)

// RemoveMember removes a member and revokes the invitations that they sent. Every member may remove
// themselves, also from a workspace that is closed to their session. It returns NotFound, LastOwner
// or Forbidden.
func (s *Store) RemoveMember(ctx context.Context, m Membership, accountID string) error {
	needed := WriteMembers
	if accountID == m.accountID {
		needed, m.lacksSecondFactor = ReadMembers, false
	}
	ctx, err := m.Enter(ctx, needed)
	if err != nil {
		return err
	}
	return changeMembers(ctx, s.DB, m, func(ctx context.Context, tx bun.Tx, now roster) error {
		if err := now.mayRemove(m, accountID); err != nil {
			return err
		}
		_, err := tx.NewDelete().Model((*Member)(nil)).
			Where("workspace_id = ?", m.ID()).Where("account_id = ?", accountID).Exec(ctx)
		if err != nil {
			return err
		}
		if err := s.withdraw(ctx, tx, m.ID(), m.ActorID(), "invited_by = ?", accountID); err != nil {
			return err
		}
		return m.Audit(ctx, tx, s.Now(), audit.MemberRemoved, accountID, nil)
	})
}

// LeaveAll removes an account that is being deleted from all its workspaces, in a transaction of the
// system's scope. Each workspace gets a MemberRemoved event, and the invitations that the account
// has sent there are revoked. It returns LastOwner if a workspace that is not deleted has no other
// owner, and names these workspaces.
func (s *Store) LeaveAll(ctx context.Context, tx bun.Tx, accountID string) error {
	var ids []string
	err := tx.NewSelect().Model((*Member)(nil)).Column("workspace_id").Where("account_id = ?", accountID).
		Order("workspace_id").Scan(ctx, &ids)
	if err != nil {
		return err
	}
	var lastOwnerOf []string
	var events []*audit.Event
	for _, workspaceID := range ids {
		w, now, err := lockMembers(ctx, s.DB, tx, workspaceID, accountID)
		if err != nil {
			return err
		}
		if now.lastOwner(accountID) && w.DeletedAt == nil {
			lastOwnerOf = append(lastOwnerOf, w.Slug)
		}
		if err := s.withdraw(ctx, tx, workspaceID, accountID, "invited_by = ?", accountID); err != nil {
			return err
		}
		events = append(events, audit.New(workspaceID, accountID, audit.MemberRemoved, accountID, nil, s.Now()))
	}
	if len(lastOwnerOf) > 0 {
		return errs.New(errs.LastOwner,
			"The account is the last owner of %s. Transfer these workspaces, or delete them, first.",
			strings.Join(lastOwnerOf, ", "))
	}
	if _, err := tx.NewDelete().Model((*Member)(nil)).Where("account_id = ?", accountID).Exec(ctx); err != nil {
		return err
	}
	if err := s.forgetInvited(ctx, tx, accountID); err != nil {
		return err
	}
	return audit.Write(ctx, tx, events...)
}
