package workspace

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/audit"
	"github.com/linkforge/linkforge/internal/errs"
	"github.com/linkforge/linkforge/internal/page"
)

// Member is an account's place in a workspace.
type Member struct {
	bun.BaseModel `bun:"table:members"`

	WorkspaceID string `bun:",pk"`
	AccountID   string `bun:",pk"`
	Role        Role
	CreatedAt   time.Time
}

// Members is one page of the workspace's members, the newest account first. It returns Forbidden.
func (s *Store) Members(ctx context.Context, m Membership, r page.Request) (page.Page[*Member], error) {
	return list[Member](ctx, s, m, ReadMembers, r, "account_id", func(q *bun.SelectQuery) *bun.SelectQuery { return q })
}

// list is one page of the workspace's rows of a type, of those that where leaves, the last by the column first.
func list[T any](
	ctx context.Context, s *Store, m Membership, p Permission, r page.Request, column string, where func(*bun.SelectQuery) *bun.SelectQuery,
) (page.Page[*T], error) {
	ctx, err := m.Enter(ctx, p)
	if err != nil {
		return page.Page[*T]{}, err
	}
	var rows []*T
	q := where(s.DB.NewSelect().Model(&rows).Where("workspace_id = ?", m.ID()))
	if err := page.Limit(q, r, column).Scan(ctx); err != nil {
		return page.Page[*T]{}, fmt.Errorf("listing what belongs to a workspace: %w", err)
	}
	return page.Cut(r, rows), nil
}

// UpdateRole gives a member another role. Only an owner makes owners, and changes them. It returns NotFound, LastOwner
// or Forbidden.
func (s *Store) UpdateRole(ctx context.Context, m Membership, accountID string, role Role) (*Member, error) {
	ctx, err := m.Enter(ctx, WriteMembers)
	if err != nil {
		return nil, err
	}
	var changed *Member
	err = s.changeMembers(ctx, m, func(ctx context.Context, tx bun.Tx, now roster) error {
		if err := now.mayChange(m, accountID, role); err != nil {
			return err
		}
		changed, err = s.setRole(ctx, tx, m, accountID, role)
		if err != nil || now[accountID] == role {
			return err
		}
		return m.Audit(ctx, tx, s.Now(), audit.MemberRoleUpdated, accountID, audit.Details{"from": now[accountID], "to": role})
	})
	return changed, err
}

// TransferOwnership makes another member an owner, and the actor an admin. It returns NotFound or Forbidden.
func (s *Store) TransferOwnership(ctx context.Context, m Membership, accountID string) (*Member, error) {
	ctx, err := m.Enter(ctx, WriteOwners)
	if err != nil {
		return nil, err
	}
	if accountID == m.accountID {
		return nil, errs.New(errs.InvalidInput, "You are an owner already. Name the member who is to be one.").At("userId")
	}
	var owner *Member
	err = s.changeMembers(ctx, m, func(ctx context.Context, tx bun.Tx, now roster) error {
		if err := now.mayChange(m, accountID, Owner); err != nil {
			return err
		}
		if owner, err = s.setRole(ctx, tx, m, accountID, Owner); err != nil {
			return err
		}
		if _, err := s.setRole(ctx, tx, m, m.accountID, Admin); err != nil {
			return err
		}
		return m.Audit(ctx, tx, s.Now(), audit.OwnershipTransferred, accountID, nil)
	})
	return owner, err
}

// RemoveMember takes a member out of the workspace; anybody may leave. What the member has invited others to is taken
// back. It returns NotFound, LastOwner or Forbidden.
func (s *Store) RemoveMember(ctx context.Context, m Membership, accountID string) error {
	needed := WriteMembers
	if accountID == m.accountID {
		needed = ReadMembers
	}
	ctx, err := m.Enter(ctx, needed)
	if err != nil {
		return err
	}
	return s.changeMembers(ctx, m, func(ctx context.Context, tx bun.Tx, now roster) error {
		if err := now.mayRemove(m, accountID); err != nil {
			return err
		}
		if _, err := tx.NewDelete().Model((*Member)(nil)).Where("workspace_id = ?", m.ID()).Where("account_id = ?", accountID).Exec(ctx); err != nil {
			return err
		}
		if err := s.withdraw(ctx, tx, m.ID(), m.ActorID(), "invited_by = ?", accountID); err != nil {
			return err
		}
		return m.Audit(ctx, tx, s.Now(), audit.MemberRemoved, accountID, nil)
	})
}

// LeaveAll takes an account out of all its workspaces, in a transaction that sees them all. It returns LastOwner.
func (s *Store) LeaveAll(ctx context.Context, tx bun.Tx, accountID string) error {
	var ids []string
	err := tx.NewSelect().Model((*Member)(nil)).Column("workspace_id").Where("account_id = ?", accountID).Order("workspace_id").Scan(ctx, &ids)
	if err != nil {
		return err
	}
	var kept []string
	var events []*audit.Event
	for _, workspaceID := range ids {
		w, now, err := s.lockMembers(ctx, tx, workspaceID, accountID)
		if err != nil {
			return err
		}
		if now.lastOwner(accountID) && w.DeletedAt == nil {
			kept = append(kept, w.Slug)
		}
		if err := s.withdraw(ctx, tx, workspaceID, accountID, "invited_by = ?", accountID); err != nil {
			return err
		}
		events = append(events, audit.New(workspaceID, accountID, audit.MemberRemoved, accountID, nil, s.Now()))
	}
	if len(kept) > 0 {
		return errs.New(errs.LastOwner, "You are the last owner of %s. Hand these workspaces over, or delete them, first.", strings.Join(kept, ", "))
	}
	if _, err := tx.NewDelete().Model((*Member)(nil)).Where("account_id = ?", accountID).Exec(ctx); err != nil {
		return err
	}
	if err := s.forgetInvited(ctx, tx, accountID); err != nil {
		return err
	}
	return audit.Write(ctx, tx, events...)
}

// roster are roles by account: those of the owners, of the actor and of whom the change is about.
type roster map[string]Role

// changeMembers makes a change with the workspace's row locked, so that changes take turns: whoever may do it and
// whoever is left is known then, and stays so.
func (s *Store) changeMembers(ctx context.Context, m Membership, change func(ctx context.Context, tx bun.Tx, now roster) error) error {
	err := s.DB.Tx(ctx, func(ctx context.Context, tx bun.Tx) error {
		_, now, err := s.lockMembers(ctx, tx, m.ID(), "")
		if err != nil {
			return err
		}
		return change(ctx, tx, now)
	})
	if err != nil {
		return fmt.Errorf("changing members: %w", err)
	}
	return nil
}

// lockMembers locks a workspace, and reads the roles of its members: of all, or of one account and the owners.
func (s *Store) lockMembers(ctx context.Context, tx bun.Tx, workspaceID, accountID string) (*Workspace, roster, error) {
	w := &Workspace{}
	if err := s.DB.ForChange(tx.NewSelect().Model(w).Where("id = ?", workspaceID)).Scan(ctx); err != nil {
		return nil, nil, err
	}
	var members []Member
	q := tx.NewSelect().Model(&members).Where("workspace_id = ?", workspaceID)
	if accountID != "" {
		q = q.Where("account_id = ? OR role = ?", accountID, Owner)
	}
	if err := q.Scan(ctx); err != nil {
		return nil, nil, err
	}
	now := roster{}
	for _, one := range members {
		now[one.AccountID] = one.Role
	}
	return w, now, nil
}

// mayChange finds out whether the actor may give the account the role.
func (now roster) mayChange(m Membership, accountID string, role Role) error {
	if !slices.Contains(everyRole, role) {
		return errs.New(errs.InvalidInput, "The role must be OWNER, ADMIN, EDITOR or VIEWER.").At("role")
	}
	before, ok := now[accountID]
	if !ok {
		return errNoMember()
	}
	if err := now.mayTouch(m, before, role); err != nil {
		return err
	}
	if role != Owner && now.lastOwner(accountID) {
		return errLastOwner()
	}
	return nil
}

// mayRemove finds out whether the actor may remove the account, which may be their own.
func (now roster) mayRemove(m Membership, accountID string) error {
	role, ok := now[accountID]
	if !ok {
		return errNoMember()
	}
	if accountID != m.accountID {
		if err := now.mayTouch(m, role); err != nil {
			return err
		}
	}
	if now.lastOwner(accountID) {
		return errLastOwner()
	}
	return nil
}

// mayTouch finds out whether the actor, in the role that they have now, may do with members of these roles.
func (now roster) mayTouch(m Membership, roles ...Role) error {
	needed := WriteMembers
	if slices.Contains(roles, Owner) {
		needed = WriteOwners
	}
	return now.may(m, needed)
}

// may finds out whether the actor has the permission in the role that they have now.
func (now roster) may(m Membership, needed Permission) error {
	role, ok := now[m.accountID]
	if !ok {
		return errNotFound()
	}
	if m.role = role; !m.May(needed) {
		return errs.New(errs.Forbidden, "This needs the role %s; yours is %s.", ruleOf(needed).Least, role)
	}
	return nil
}

// lastOwner reports whether the workspace has no owner but the account.
func (now roster) lastOwner(accountID string) bool {
	if now[accountID] != Owner {
		return false
	}
	for other, role := range now {
		if other != accountID && role == Owner {
			return false
		}
	}
	return true
}

// setRole writes a role. Whom its bearer may no longer invite, they have not invited.
func (s *Store) setRole(ctx context.Context, tx bun.Tx, m Membership, accountID string, role Role) (*Member, error) {
	changed := &Member{}
	_, err := tx.NewUpdate().Model(changed).Set("role = ?", role).
		Where("workspace_id = ?", m.ID()).Where("account_id = ?", accountID).Returning("*").Exec(ctx)
	if err != nil || role.Allows(WriteOwners) {
		return changed, err
	}
	roles := []Role{Owner}
	if !role.Allows(WriteMembers) {
		roles = everyRole
	}
	return changed, s.withdraw(ctx, tx, m.ID(), m.ActorID(), "invited_by = ? AND role IN (?)", accountID, bun.In(roles))
}

func errNoMember() error {
	return errs.New(errs.NotFound, "The workspace has no such member.").At("userId")
}

func errLastOwner() error {
	return errs.New(errs.LastOwner, "The workspace would have no owner. Make somebody else one first.").At("userId")
}
