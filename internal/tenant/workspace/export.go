package workspace

import (
	"context"
	"fmt"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/tenant/account"
)

// Exported is the personal data of an account in this package.
type Exported struct {
	Memberships []ExportedMembership `json:"memberships"`
	Invitations []ExportedInvitation `json:"invitations"`
}

// ExportedMembership is a membership of an Export.
type ExportedMembership struct {
	WorkspaceID string    `json:"workspaceId"`
	Slug        string    `json:"slug"`
	Name        string    `json:"name"`
	Role        Role      `json:"role"`
	JoinedAt    time.Time `json:"joinedAt"`
}

// ExportedInvitation is an invitation that the account sent, accepted, or received at its address.
type ExportedInvitation struct {
	ID          string    `json:"id"`
	WorkspaceID string    `json:"workspaceId"`
	Email       string    `json:"email"`
	Role        Role      `json:"role"`
	CreatedAt   time.Time `json:"createdAt"`
}

// Opened restricts a query to workspaces that the actor's session opens. It omits workspaces that
// require a second factor if the session lacks one, and those of memberships that do not count in
// it.
func Opened(a account.Actor) func(*bun.SelectQuery) *bun.SelectQuery {
	return func(q *bun.SelectQuery) *bun.SelectQuery {
		if a.LacksSecondFactor() {
			q = q.Where("workspace_id NOT IN (SELECT id FROM workspaces WHERE require_second_factor)")
		}
		if !a.CountsGroups() {
			q = q.Where("workspace_id NOT IN (SELECT workspace_id FROM members WHERE account_id = ? AND source = ?)",
				a.AccountID, SSO)
		}
		return q
	}
}

// Export returns the personal data of the actor in all workspaces.
func (s *Store) Export(ctx context.Context, a account.Actor) (Exported, error) {
	// The statements are bound to the account, not to a workspace.
	ctx = db.AsSystem(ctx)
	e := Exported{Memberships: []ExportedMembership{}, Invitations: []ExportedInvitation{}}
	err := s.DB.NewSelect().Model((*Member)(nil)).
		ColumnExpr("member.workspace_id, w.slug, w.name, member.role, member.created_at AS joined_at").
		Join("JOIN workspaces AS w ON w.id = member.workspace_id").
		Where("member.account_id = ?", a.AccountID).Order("member.workspace_id").Scan(ctx, &e.Memberships)
	if err == nil {
		err = s.DB.NewSelect().Model((*Invitation)(nil)).Column("id", "workspace_id", "email", "role", "created_at").
			Where("email = (?) OR accepted_by = ? OR invited_by = ?", s.ownAddress(a.AccountID), a.AccountID,
				a.AccountID).
			Apply(Opened(a)).Order("id").Scan(ctx, &e.Invitations)
	}
	if err != nil {
		return Exported{}, fmt.Errorf("exporting memberships: %w", err)
	}
	return e, nil
}
