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

// memory holds the newest memberships that this node has read on PostgreSQL.
type memory = otter.Cache[proofKey, membershipRow]

// Presumed is a membership that may have ended or changed since this node has read it. It saves the round trip of
// Require to a statement that checks it itself, see Unchanged.
type Presumed struct {
	membership Membership
	confirm    func(ctx context.Context) (Membership, error)
}

// Membership returns the membership as this node remembers it. Whatever is done with it must depend on Unchanged.
func (p Presumed) Membership() Membership { return p.membership }

// Confirm returns the current membership. It returns NotFound.
func (p Presumed) Confirm(ctx context.Context) (Membership, error) { return p.confirm(ctx) }

// Presume returns the actor's membership of a workspace from memory, if possible. It returns NotFound as Require does.
func (s *Store) Presume(ctx context.Context, a account.Actor, workspaceID string) (Presumed, error) {
	p := Presumed{confirm: func(ctx context.Context) (Membership, error) { return s.Require(ctx, a, workspaceID) }}
	if row, known := s.remembered().GetIfPresent(keyOf(a, workspaceID, live)); known {
		p.membership = row.membership(a)
		return p, nil
	}
	var err error
	p.membership, err = s.Require(ctx, a, workspaceID)
	return p, err
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

// Unchanged adds to a statement what must hold so that presumed memberships of one workspace are current, and
// returns the condition. It reports false if that is known not to hold, and on SQLite.
func Unchanged(statement *db.Combined, members ...Membership) (condition string, possible bool) {
	version := members[0].version
	var accounts, roles []string
	for _, m := range members {
		if m.version == "" || m.version != version {
			return "", false
		}
		if m.key == nil && !slices.Contains(accounts, m.accountID) {
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
