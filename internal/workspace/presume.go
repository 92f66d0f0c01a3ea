package workspace

import (
	"context"
	"fmt"
	"slices"

	"github.com/maypok86/otter/v2"

	"github.com/linkforge/linkforge/internal/account"
	"github.com/linkforge/linkforge/internal/db"
)

// maxRemembered is how many memberships a node remembers.
const maxRemembered = 10_000

// memory holds the memberships that this node has read most recently on PostgreSQL.
type memory = otter.Cache[proofKey, membershipRow]

// Presumed is a membership from this node's memory, which may be out of date. A statement that includes the condition
// of Unchanged needs no separate Require.
type Presumed struct {
	membership Membership
	// confirm is nil if the membership has just been read.
	confirm func(ctx context.Context) (Membership, error)
}

// Membership returns the membership as this node remembers it, for statements that include the condition of Unchanged.
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

// Presume returns the actor's membership of a workspace from memory, if possible. It returns NotFound as Require does.
func (s *Store) Presume(ctx context.Context, a account.Actor, workspaceID string) (Presumed, error) {
	if row, known := s.remembered().GetIfPresent(keyOf(a, workspaceID, live)); known {
		confirm := func(ctx context.Context) (Membership, error) { return s.Require(ctx, a, workspaceID) }
		return Presumed{row.membership(a), confirm}, nil
	}
	m, err := s.Require(ctx, a, workspaceID)
	return Presumed{membership: m}, err
}

func (s *Store) remembered() *memory {
	s.rememberOnce.Do(func() {
		s.memory = otter.Must(&otter.Options[proofKey, membershipRow]{MaximumSize: maxRemembered})
	})
	return s.memory
}

// remember remembers the result of reading a membership.
func (s *Store) remember(key proofKey, row membershipRow, err error) {
	switch {
	case err != nil:
		s.remembered().Invalidate(key)
	case row.RowVersion != "":
		s.remembered().Set(key, row)
	}
}

// Unchanged adds values to a statement, and returns the condition that presumed memberships of one workspace are
// current. Every change of the workspace, such as its quota, defaults or deletion, changes the row's xmin. API keys are
// authenticated in each request. It reports false if the condition is known not to hold, and on SQLite.
func Unchanged(statement *db.Combined, members ...Membership) (condition string, possible bool) {
	version := members[0].version
	var accounts, roles []string
	for _, m := range members {
		if m.version == "" || m.version != version {
			return "", false
		}
		if m.key != nil {
			continue
		}
		i := slices.Index(accounts, m.accountID)
		if i >= 0 && roles[i] != string(m.role) {
			return "", false
		}
		if i < 0 {
			accounts, roles = append(accounts, m.accountID), append(roles, string(m.role))
		}
	}
	workspaceID := statement.Of(members[0].ID())
	condition = fmt.Sprintf("EXISTS (SELECT FROM workspaces WHERE id = %s AND xmin::TEXT = %s AND deleted_at IS NULL)",
		workspaceID, statement.Of(version))
	if len(accounts) > 0 {
		condition += fmt.Sprintf(` AND (SELECT count(*) FROM unnest(%s::TEXT[], %s::TEXT[]) AS presumed (account_id, role)
			JOIN members USING (account_id, role) WHERE workspace_id = %s) = %s`,
			statement.Of(accounts), statement.Of(roles), workspaceID, statement.Of(len(accounts)))
	}
	return condition, true
}
