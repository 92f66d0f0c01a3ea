package workspace

import (
	"context"
	"errors"

	"github.com/maypok86/otter/v2"
	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/memo"
	"github.com/linkforge/linkforge/internal/tenant/account"
)

// maxRemembered is how many memberships a node remembers.
const maxRemembered = 10_000

// memory holds the memberships that this node has read most recently on PostgreSQL.
type memory = memo.Cache[proofKey, membershipRow]

// remembrance is the cached source of a presumed membership. It is forgotten when it turns out to
// be wrong.
type remembrance struct{ forget func() }

// ErrStale means that a workspace has changed since the membership was read, see Refresh.
var ErrStale = errors.New("the workspace has changed")

// Presume is Require for transactions that call Recheck before anything else: the membership may be
// one that this node remembers, which had the permission.
func (s *Store) Presume(ctx context.Context, a account.Actor, workspaceID string, p Permission) (Membership, error) {
	key := keyOf(a, workspaceID, live)
	if row, known := s.remembered().GetIfPresent(key); known {
		if m := row.membership(a); m.May(p) {
			m.memory = &remembrance{func() { s.remembered().Invalidate(key) }}
			return m, nil
		}
	}
	return s.Require(ctx, a, workspaceID)
}

// IsPresumed reports whether the membership is from memory.
func (m Membership) IsPresumed() bool { return m.memory != nil }

func (s *Store) remembered() memory {
	s.rememberOnce.Do(func() {
		s.memory = memo.New(&otter.Options[proofKey, membershipRow]{MaximumSize: maxRemembered})
	})
	return s.memory
}

// remember remembers the result of reading a membership, until its account is verified.
func (s *Store) remember(key proofKey, row membershipRow, err error) {
	if err != nil || row.IsUnverified {
		s.remembered().Invalidate(key)
	} else if row.RowVersion != "" {
		s.remembered().Set(key, row)
	}
}

// fact is the present version of a workspace's row, and the role of an account and its source; each
// is empty if there is none.
type fact struct {
	WorkspaceID, AccountID, Version string
	Role                            Role
	Source                          Source
}

// Recheck is for transactions that may have waited since memberships were read. It returns a
// lookup, and a function that returns an error for each member after it: NotFound or Forbidden if
// the account is not a member any more, or has a role without the permission, and ErrStale if the
// workspace has changed, on PostgreSQL. API keys are authenticated in each request.
func Recheck(d *db.DB, conn bun.IDB, p Permission, members []Membership) (lookup db.Lookup, refused func() []error) {
	facts, spaces, accounts := map[fact]fact{}, []string{}, []string{}
	for _, m := range members {
		if _, known := facts[m.identity()]; !known && !m.IsPublic() {
			facts[m.identity()], spaces, accounts = fact{}, append(spaces, m.ID()), append(accounts, m.accountID)
		}
	}
	var found []fact
	if len(spaces) > 0 {
		values, version := d.Params(), "xmin::TEXT"
		if values == nil {
			version = "'any'"
		}
		lookup = db.Lookup{Params: values, Dest: &found, Query: conn.NewRaw(`WITH pair (a, b) AS (?)
			SELECT a AS workspace_id, b AS account_id,
				COALESCE((SELECT ? FROM workspaces WHERE id = a AND deleted_at IS NULL), '') AS version,
				COALESCE((SELECT role FROM members WHERE workspace_id = a AND account_id = b), '') AS role,
				COALESCE((SELECT source FROM members WHERE workspace_id = a AND account_id = b), '') AS source
			FROM pair`, db.PairsOf(values, spaces, accounts, "TEXT"), bun.Safe(version))}
	}
	return lookup, func() []error {
		for _, f := range found {
			facts[fact{WorkspaceID: f.WorkspaceID, AccountID: f.AccountID}] = f
		}
		all := make([]error, len(members))
		for i, m := range members {
			if !m.IsPublic() {
				all[i] = m.recheck(p, facts[m.identity()])
			}
			if all[i] != nil && m.IsPresumed() {
				m.memory.forget()
			}
		}
		return all
	}
}

func (m Membership) identity() fact { return fact{WorkspaceID: m.ID(), AccountID: m.accountID} }

func (m Membership) recheck(p Permission, f fact) error {
	m.role = f.Role
	switch {
	case f.Version == "" || m.key == nil && (f.Role == "" || f.Source == SSO && !m.countsGroups):
		return errNotFound()
	case m.version != "" && m.version != f.Version:
		return ErrStale
	}
	return m.refusal(p)
}

// Refresh returns the membership with the present state of its workspace. It returns NotFound.
func Refresh(ctx context.Context, d *db.DB, conn bun.IDB, m Membership) (Membership, error) {
	row := membershipRow{}
	q := conn.NewSelect().Model(&row).ColumnExpr("?TableColumns").Where("workspace.id = ?", m.ID()).Where(live)
	if d.Kind == db.Postgres {
		q = q.ColumnExpr("workspace.xmin::TEXT AS row_version")
	}
	if err := q.Scan(ctx); err != nil {
		return m, db.NoRowsAs(errNotFound(), err, "reading a workspace again")
	}
	m.row, m.version, m.memory = &row.Workspace, row.RowVersion, nil
	return m, nil
}
