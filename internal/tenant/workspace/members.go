package workspace

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/event/audit"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/id"
	"github.com/linkforge/linkforge/internal/platform/page"
)

// Source is who decides a membership.
type Source string

// The sources of memberships.
const (
	Manual Source = "manual" // members and the operator
	SSO    Source = "sso"    // the groups of the provider of single sign-on: see SyncGroups
)

// Member is an account's membership as stored.
type Member struct {
	bun.BaseModel `bun:"table:members"`

	WorkspaceID string `bun:",pk"`
	AccountID   string `bun:",pk"`
	Role        Role
	Source      Source `bun:",nullzero,default:'manual'"`
	CreatedAt   time.Time

	// In is the membership through which the member was read.
	In Membership `bun:"-"`
}

func (*Member) IsEntity() {} // an entity of Apollo Federation

// ID returns the member's global ID, a pair of the account's and the workspace's.
func (m *Member) ID() string { return id.Pair(id.Member, m.AccountID, m.WorkspaceID) }

// Members returns one page of the workspace's members, newest account first. It returns Forbidden.
func (s *Store) Members(ctx context.Context, m Membership, r page.Request) (page.Page[*Member], error) {
	return s.members().List(ctx, m, r)
}

// MembersByID returns the members with the global IDs. Unknown IDs are missing from the result. It
// returns Forbidden.
func (s *Store) MembersByID(ctx context.Context, m Membership, ids ...string) ([]*Member, error) {
	var accounts []string
	for _, one := range ids {
		if accountID, workspaceID, ok := id.SplitPair(id.Member, one, id.Account, id.Workspace); ok &&
			workspaceID == m.ID() {
			accounts = append(accounts, accountID)
		}
	}
	return s.members().ByID(ctx, m, accounts...)
}

func (s *Store) members() Collection[Member] {
	return Collection[Member]{
		DB: s.DB, Permission: ReadMembers, Column: "account_id",
		In: func(one *Member, m Membership) { one.In = m },
	}
}

// UpdateRole changes a member's role. Only owners change the role of owners or grant it. From then
// on the groups of the provider do not change the membership, also if the role was the same. It
// returns NotFound, LastOwner or Forbidden.
func (s *Store) UpdateRole(ctx context.Context, m Membership, accountID string, role Role) (*Member, error) {
	ctx, err := m.Enter(ctx, WriteMembers)
	if err != nil {
		return nil, err
	}
	var changed *Member
	err = changeMembers(ctx, s.DB, m, func(ctx context.Context, tx bun.Tx, now roster) error {
		if err := now.mayChange(m, accountID, role); err != nil {
			return err
		}
		changed, err = s.setRole(ctx, tx, m.manual(accountID, role), m.ActorID())
		if err != nil || now[accountID] == role {
			return err
		}
		event := m.Event(s.Now(), audit.MemberRoleUpdated, accountID, audit.Details{"from": now[accountID], "to": role})
		return audit.Write(ctx, tx, event.WithChanges(roleChange(now[accountID], role)))
	})
	return changed, err
}

// TransferOwnership makes another member an owner and the actor an admin. It returns NotFound or
// Forbidden.
func (s *Store) TransferOwnership(ctx context.Context, m Membership, accountID string) (*Member, error) {
	ctx, err := m.Enter(ctx, WriteOwners)
	if err != nil {
		return nil, err
	}
	if accountID == m.accountID {
		return nil, errs.New(errs.InvalidInput, "You are an owner already. Name the member who is to be one.").
			At("userId")
	}
	var owner *Member
	err = changeMembers(ctx, s.DB, m, func(ctx context.Context, tx bun.Tx, now roster) error {
		if err := now.mayChange(m, accountID, Owner); err != nil {
			return err
		}
		if owner, err = s.setRole(ctx, tx, m.manual(accountID, Owner), m.ActorID()); err != nil {
			return err
		}
		if _, err := s.setRole(ctx, tx, m.manual(m.accountID, Admin), m.ActorID()); err != nil {
			return err
		}
		event := m.Event(s.Now(), audit.OwnershipTransferred, accountID, nil)
		return audit.Write(ctx, tx, event.WithChanges(roleChange(now[accountID], Owner)))
	})
	return owner, err
}

// manual returns the membership that a member of the workspace gives an account.
func (m Membership) manual(accountID string, role Role) Member {
	return Member{WorkspaceID: m.ID(), AccountID: accountID, Role: role, Source: Manual, In: m}
}

func roleChange(before, after Role) []*audit.FieldChange {
	return audit.Compare([]audit.Field{{Name: "role", Value: before}}, []audit.Field{{Name: "role", Value: after}})
}

// roster holds the roles of members by account, read under the lock of the workspace.
type roster map[string]Role

// ChangeAs runs change in a transaction while the memberships of the workspace are locked. It
// returns Forbidden or NotFound unless the actor's present role has the permission.
func ChangeAs(
	ctx context.Context, d *db.DB, m Membership, p Permission, change func(ctx context.Context, tx bun.Tx) error,
) error {
	return changeMembers(ctx, d, m, func(ctx context.Context, tx bun.Tx, now roster) error {
		if err := now.may(m, p); err != nil {
			return err
		}
		return change(ctx, tx)
	})
}

// changeMembers runs change with the workspace's row locked, so that the roster stays as it is.
func changeMembers(
	ctx context.Context, d *db.DB, m Membership, change func(ctx context.Context, tx bun.Tx, now roster) error,
) error {
	err := d.Tx(ctx, func(ctx context.Context, tx bun.Tx) error {
		_, now, err := lockMembers(ctx, d, tx, m.ID(), "")
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

// lockMembers locks a workspace and reads the roles of all members, or of one account and the
// owners.
func lockMembers(ctx context.Context, d *db.DB, tx bun.Tx, workspaceID, accountID string) (*Workspace, roster, error) {
	w := &Workspace{}
	if err := d.ForChange(tx.NewSelect().Model(w).Where("id = ?", workspaceID)).Scan(ctx); err != nil {
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

// mayChange returns an error unless the actor may give the account the role.
func (now roster) mayChange(m Membership, accountID string, role Role) error {
	if !slices.Contains(allRoles, role) {
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

// mayRemove returns an error unless the actor may remove the account, which may be their own.
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

// mayTouch returns an error unless the actor's present role may change members of these roles.
func (now roster) mayTouch(m Membership, roles ...Role) error {
	needed := WriteMembers
	if slices.Contains(roles, Owner) {
		needed = WriteOwners
	}
	return now.may(m, needed)
}

// may returns an error unless the actor's present role has the permission.
func (now roster) may(m Membership, needed Permission) error {
	role, ok := now[m.accountID]
	if !ok {
		return errNotFound()
	}
	m.role = role
	return m.refusal(needed)
}

// lastOwner reports whether the account is the only owner.
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

// setRole stores the role and the source of a member, and revokes the member's invitations to roles
// that they may no longer grant. The actor is empty for the provider of single sign-on.
func (s *Store) setRole(ctx context.Context, tx bun.Tx, to Member, actorID string) (*Member, error) {
	changed := &Member{In: to.In}
	_, err := tx.NewUpdate().Model(changed).Set("role = ?", to.Role).Set("source = ?", to.Source).
		Where("workspace_id = ?", to.WorkspaceID).Where("account_id = ?", to.AccountID).Returning("*").Exec(ctx)
	if err != nil || to.Role.Allows(WriteOwners) {
		return changed, err
	}
	roles := []Role{Owner}
	if !to.Role.Allows(WriteMembers) {
		roles = allRoles
	}
	return changed, s.withdraw(ctx, tx, to.WorkspaceID, actorID,
		"invited_by = ? AND role IN (?)", to.AccountID, bun.In(roles))
}

func errNoMember() error {
	return errs.New(errs.NotFound, "The workspace has no such member.").At("userId")
}

func errLastOwner() error {
	return errs.New(errs.LastOwner, "The workspace would have no owner. Make somebody else one first.").At("userId")
}
