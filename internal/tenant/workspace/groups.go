package workspace

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/event/audit"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/id"
	"github.com/linkforge/linkforge/internal/platform/validate"
)

// GroupRole is the role that a group of the provider of single sign-on gives in a workspace. It is
// never Owner.
type GroupRole struct {
	Group, WorkspaceID string
	Role               Role
}

// GroupSlug is a GroupRole that names the workspace by its slug.
type GroupSlug struct{ Group, Slug, Role string }

// ssoWorkspace is the workspace that a slug of the configuration meant when a start first named it.
type ssoWorkspace struct {
	bun.BaseModel `bun:"table:sso_workspaces"`

	Slug        string `bun:",pk"`
	WorkspaceID string
}

// ResolveGroups returns the mapping of LINKFORGE_SSO_MEMBERSHIPS with the ids of the workspaces.
// The server calls it at the start, and stores the ids, so that a workspace that changes its slug
// keeps its groups, and another one that takes the slug gets none. It forgets slugs that the
// mapping does not name. The error names the slugs of no workspace.
func (s *Store) ResolveGroups(ctx context.Context, mapping []GroupSlug) ([]GroupRole, error) {
	slugs := []string{""} // none, for an empty mapping
	for _, g := range mapping {
		slugs = append(slugs, g.Slug)
	}
	ids := map[string]string{}
	err := s.DB.Tx(db.AsSystem(ctx), func(ctx context.Context, tx bun.Tx) error {
		_, err := tx.NewDelete().Model((*ssoWorkspace)(nil)).Where("slug NOT IN (?)", bun.In(slugs)).Exec(ctx)
		if err != nil {
			return err
		}
		_, err = tx.NewRaw(`INSERT INTO sso_workspaces (slug, workspace_id)
			SELECT slugs.slug, slugs.workspace_id FROM slugs JOIN workspaces AS w ON w.id = slugs.workspace_id
			WHERE slugs.slug IN (?) AND w.deleted_at IS NULL AND w.id <> ? ON CONFLICT (slug) DO NOTHING`,
			bun.In(slugs), id.PublicWorkspace).Exec(ctx)
		if err != nil {
			return err
		}
		var stored []ssoWorkspace
		err = tx.NewSelect().Model(&stored).Scan(ctx)
		for _, one := range stored {
			ids[one.Slug] = one.WorkspaceID
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("reading the workspaces of groups: %w", err)
	}
	var resolved []GroupRole
	var unknown []error
	for _, g := range mapping {
		if ids[g.Slug] == "" {
			unknown = append(unknown,
				fmt.Errorf("LINKFORGE_SSO_MEMBERSHIPS: no workspace has the slug %q: correct it, or create the "+
					"workspace first", g.Slug))
			continue
		}
		resolved = append(resolved, GroupRole{Group: g.Group, WorkspaceID: ids[g.Slug], Role: Role(g.Role)})
	}
	return resolved, errors.Join(unknown...)
}

// SyncGroups returns a function that makes the memberships that the provider gives an account, in
// the workspaces that the mapping names, those of its groups: the highest role of each workspace,
// and none without a group. Composed and decomposed letters of groups are the same. It leaves
// manual memberships, which UpdateRole also makes of others, and deleted workspaces as they are.
// Invitations of members who leave are revoked, as by RemoveMember. The transaction is one of the
// system's scope. The function returns Unauthenticated if the account has been deleted or disabled
// and would join a workspace.
func (s *Store) SyncGroups(
	mapping []GroupRole,
) func(ctx context.Context, tx bun.Tx, accountID string, groups []string) error {
	return func(ctx context.Context, tx bun.Tx, accountID string, groups []string) error {
		has := make(map[string]bool, len(groups))
		for _, group := range groups {
			has[validate.Normal(group)] = true
		}
		wanted := map[string]Role{} // by workspace; empty for none
		for _, g := range mapping {
			role := wanted[g.WorkspaceID]
			if has[validate.Normal(g.Group)] && rank[g.Role] > rank[role] {
				role = g.Role
			}
			wanted[g.WorkspaceID] = role
		}
		for _, workspaceID := range slices.Sorted(maps.Keys(wanted)) { // in the order of LeaveAll
			to := Member{WorkspaceID: workspaceID, AccountID: accountID, Role: wanted[workspaceID], Source: SSO,
				CreatedAt: s.now()}
			if err := s.syncMember(ctx, tx, to); err != nil {
				return fmt.Errorf("synchronizing the memberships of groups: %w", err)
			}
		}
		return nil
	}
}

// syncMember has the provider give a membership, or take it if the role is empty.
func (s *Store) syncMember(ctx context.Context, tx bun.Tx, to Member) error {
	w := &Workspace{}
	err := s.DB.ForChange(tx.NewSelect().Model(w).Where("id = ?", to.WorkspaceID)).Scan(ctx)
	if err != nil || w.DeletedAt != nil {
		return err
	}
	var before Member
	err = tx.NewSelect().Model(&before).Where("workspace_id = ?", to.WorkspaceID).Where("account_id = ?", to.AccountID).
		Scan(ctx)
	isMember := err == nil
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	event := func(action audit.Action, details audit.Details) *audit.Event {
		return audit.New(to.WorkspaceID, "", action, to.AccountID, details, s.Now())
	}
	switch {
	case before.Source == Manual, before.Role == to.Role: // both roles are empty for no member without a group
		return nil
	case !isMember:
		n, err := db.Affected(tx.NewInsert().Model(&to).On("CONFLICT DO NOTHING").Returning("NULL").Exec(ctx))
		if err != nil || n == 0 { // the user has accepted an invitation meanwhile
			return err
		}
		if err := requireAccount(ctx, tx, to.AccountID); err != nil {
			return err
		}
		return audit.Write(ctx, tx, event(audit.MemberJoined, audit.Details{"role": to.Role, "source": SSO}))
	case to.Role == "":
		if _, err := tx.NewDelete().Model(&before).WherePK().Exec(ctx); err != nil {
			return err
		}
		if err := s.withdraw(ctx, tx, to.WorkspaceID, "", "invited_by = ?", to.AccountID); err != nil {
			return err
		}
		return audit.Write(ctx, tx, event(audit.MemberRemoved, audit.Details{"source": SSO}))
	default:
		if _, err := s.setRole(ctx, tx, to, ""); err != nil {
			return err
		}
		details := audit.Details{"from": before.Role, "to": to.Role, "source": SSO}
		return audit.Write(ctx, tx,
			event(audit.MemberRoleUpdated, details).WithChanges(roleChange(before.Role, to.Role)))
	}
}
