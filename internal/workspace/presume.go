package workspace

import (
	"context"
	"fmt"

	"github.com/maypok86/otter/v2"
	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/account"
	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/memo"
)

// maxRemembered is how many memberships a node remembers.
const maxRemembered = 10_000

// memory holds the memberships that this node has read most recently on PostgreSQL.
type memory = memo.Cache[proofKey, membershipRow]

// Presumed is a membership from this node's memory, which may be out of date. A statement that includes the condition
// of Unchanged needs no separate Require.
type Presumed struct {
	membership Membership
	// confirm is nil if the membership has just been read.
	confirm func(ctx context.Context) (Membership, error)
}

// Membership returns the membership as this node remembers it, for statements that include the condition of
// Unchanged.
func (p Presumed) Membership() Membership { return p.membership }

// IsCurrent reports whether the membership has just been read. It needs no further check.
func (p Presumed) IsCurrent() bool { return p.confirm == nil }

// Confirm returns the current membership. It returns NotFound.
func (p Presumed) Confirm(ctx context.Context) (Membership, error) {
	if p.IsCurrent() {
		return p.membership, nil
	}
	return p.confirm(ctx)
}

// Presume returns the actor's membership of a workspace from memory, if possible. It returns NotFound as Require
// does.
func (s *Store) Presume(ctx context.Context, a account.Actor, workspaceID string) (Presumed, error) {
	if row, known := s.remembered().GetIfPresent(keyOf(a, workspaceID, live)); known {
		confirm := func(ctx context.Context) (Membership, error) { return s.Require(ctx, a, workspaceID) }
		return Presumed{row.membership(a), confirm}, nil
	}
	m, err := s.Require(ctx, a, workspaceID)
	return Presumed{membership: m}, err
}

func (s *Store) remembered() memory {
	s.rememberOnce.Do(func() {
		s.memory = memo.New(&otter.Options[proofKey, membershipRow]{MaximumSize: maxRemembered})
	})
	return s.memory
}

// remember remembers the result of reading a membership.
func (s *Store) remember(key proofKey, row membershipRow, err error) {
	switch {
	case err != nil:
		s.remembered().Invalidate(key)
	case row.IsUnverified: // until it is verified, and then the memory would be wrong
		s.remembered().Invalidate(key)
	case row.RowVersion != "":
		s.remembered().Set(key, row)
	}
}

// Unchanged adds values to a statement, and returns the condition that presumed memberships are current. Every
// change of a workspace, such as its quota, defaults or deletion, changes the row's xmin. API keys are
// authenticated in each request. It reports false on SQLite, which has no row versions.
func Unchanged(statement *db.Combined, members ...Membership) (condition string, possible bool) {
	var ids, versions, spaces, accounts, roles []string
	seen := map[[3]string]bool{}
	for _, m := range members {
		if m.version == "" {
			return "", false
		}
		if space := [3]string{m.ID(), m.version}; !seen[space] {
			seen[space] = true
			ids, versions = append(ids, m.ID()), append(versions, m.version)
		}
		if member := [3]string{m.ID(), m.accountID, string(m.role)}; m.key == nil && !seen[member] {
			seen[member] = true
			spaces, accounts, roles = append(spaces, m.ID()), append(accounts, m.accountID), append(roles, string(m.role))
		}
	}
	return fmt.Sprintf(`NOT EXISTS (SELECT FROM unnest(%s::TEXT[], %s::TEXT[]) AS presumed (id, version)
			WHERE version IS DISTINCT FROM
				(SELECT xmin::TEXT FROM workspaces WHERE id = presumed.id AND deleted_at IS NULL))
		AND NOT EXISTS (SELECT FROM unnest(%s::TEXT[], %s::TEXT[], %s::TEXT[]) AS presumed (workspace_id, account_id, role)
			WHERE role IS DISTINCT FROM (SELECT members.role FROM members
				WHERE members.workspace_id = presumed.workspace_id AND members.account_id = presumed.account_id))`,
		statement.Of(ids), statement.Of(versions), statement.Of(spaces), statement.Of(accounts), statement.Of(roles)), true
}

// Permitted adds values to a statement, and returns the condition that accounts still are members of their workspaces
// with roles that have the permission. API keys are authenticated in each request.
func Permitted(statement *db.Combined, p Permission, members ...Membership) (condition string) {
	var spaces, accounts []string
	for _, m := range members {
		if m.key == nil && !m.IsPublic() {
			spaces, accounts = append(spaces, m.ID()), append(accounts, m.accountID)
		}
	}
	return fmt.Sprintf(`NOT EXISTS (SELECT FROM unnest(%s::TEXT[], %s::TEXT[]) AS waiting (workspace_id, account_id)
		WHERE NOT EXISTS (SELECT FROM members JOIN workspaces ON workspaces.id = members.workspace_id
			WHERE members.workspace_id = waiting.workspace_id AND members.account_id = waiting.account_id
				AND members.role = ANY(%s) AND workspaces.deleted_at IS NULL))`,
		statement.Of(spaces), statement.Of(accounts), statement.Of(RolesWith(p)))
}

// Recheck is for transactions that may have waited since the membership was read: it returns NotFound or Forbidden if
// the account is not a member any more, or has a role without the permission. See Permitted for API keys.
func Recheck(ctx context.Context, tx bun.IDB, m Membership, p Permission) error {
	if m.key != nil || m.IsPublic() {
		return nil
	}
	err := tx.NewSelect().Model((*Member)(nil)).Column("role").
		Join("JOIN workspaces AS workspace ON workspace.id = member.workspace_id").
		Where("member.workspace_id = ?", m.ID()).Where("member.account_id = ?", m.accountID).
		Where("workspace.deleted_at IS NULL").Scan(ctx, &m.role)
	if err != nil {
		return db.NoRowsAs(errNotFound(), err, "reading a membership again")
	}
	return m.refusal(p)
}
