package workspace

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/account"
	"github.com/linkforge/linkforge/internal/errs"
	"github.com/linkforge/linkforge/internal/id"
)

// Role is what a member may do. Each role may do what the ones below it may.
type Role string

// The roles, from the most to the least powerful.
const (
	Owner  Role = "OWNER"  // everything
	Admin  Role = "ADMIN"  // members, keys, settings
	Editor Role = "EDITOR" // links
	Viewer Role = "VIEWER" // reading
)

var rank = map[Role]int{Viewer: 1, Editor: 2, Admin: 3, Owner: 4}

// Allows reports whether a member of role r may do what needs the role.
func (r Role) Allows(needed Role) bool { return rank[r] >= rank[needed] }

// Membership proves that somebody belongs to a workspace. Only this package can make one, so a method that
// takes a Membership cannot be reached without the check. The zero value is of no workspace.
type Membership struct {
	workspace *Workspace
	accountID string
	role      Role
}

// PublicID is the id of the workspace of links that nobody owns.
const PublicID = "ws_00000000000000000000000000"

// Public is the scope in which links are made that nobody owns. No account is a member of it.
func Public() Membership {
	return Membership{role: Editor, workspace: &Workspace{
		ID: PublicID, Slug: "public", Name: "Public", DefaultStrategy: "COUNTER", DefaultRedirectStatus: 302,
	}}
}

// IsPublic says that the membership is nobody's.
func (m Membership) IsPublic() bool { return m.workspace.ID == PublicID }

// AccountID is the member's account; empty for nobody.
func (m Membership) AccountID() string { return m.accountID }

// Workspace is the workspace that the membership is of; its fields are not to be changed.
func (m Membership) Workspace() *Workspace { return m.workspace }

// ID is the workspace's id.
func (m Membership) ID() string { return m.workspace.ID }

// Slug is the workspace's part of short URLs.
func (m Membership) Slug() string { return m.workspace.Slug }

// Name is what people call the workspace.
func (m Membership) Name() string { return m.workspace.Name }

// CreatedAt is when the workspace was made.
func (m Membership) CreatedAt() time.Time { return m.workspace.CreatedAt }

// Role is the member's role.
func (m Membership) Role() Role { return m.role }

// Need returns Forbidden when the member's role does not allow what needs the role.
func (m Membership) Need(needed Role) error {
	if !m.role.Allows(needed) {
		return errs.New(errs.Forbidden, "This needs the role %s; yours is %s.", needed, m.role)
	}
	return nil
}

// Require proves that the actor is a member. Whoever is not gets NotFound, the same as for a workspace that
// does not exist.
func (s *Store) Require(ctx context.Context, a account.Actor, workspaceID string) (Membership, error) {
	if !id.Valid(id.Workspace, workspaceID) {
		return Membership{}, errNotFound()
	}
	var row membershipRow
	err := s.memberships(a).Model(&row).Where("workspace.id = ?", workspaceID).Scan(ctx)
	if errors.Is(err, sql.ErrNoRows) {
		return Membership{}, errNotFound()
	}
	if err != nil {
		return Membership{}, fmt.Errorf("looking for a membership: %w", err)
	}
	return row.membership(a), nil
}

// membershipRow is a workspace and the role that one account has in it.
type membershipRow struct {
	Workspace `bun:",extend"`

	Role Role
}

func (r membershipRow) membership(a account.Actor) Membership {
	return Membership{workspace: &r.Workspace, accountID: a.AccountID, role: r.Role}
}

func (s *Store) memberships(a account.Actor) *bun.SelectQuery {
	return s.DB.NewSelect().
		ColumnExpr("workspace.*, member.role").
		Join("JOIN members AS member ON member.workspace_id = workspace.id").
		Where("member.account_id = ?", a.AccountID)
}

func errNotFound() error {
	return errs.New(errs.NotFound, "There is no such workspace, or you are not a member of it.")
}
