package workspace

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/account"
	"github.com/linkforge/linkforge/internal/audit"
	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/errs"
	"github.com/linkforge/linkforge/internal/id"
)

// Membership proves that somebody belongs to a workspace. Only this package can make one, so a method that
// takes a Membership cannot be reached without the check. The zero value is of no workspace.
type Membership struct {
	workspace *Workspace
	accountID string
	role      Role
	key       *account.Key // nil for a person
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

// AccountID is the member's account; empty for an API key and for nobody.
func (m Membership) AccountID() string { return m.accountID }

// ActorID is the account's or the API key's; empty for nobody.
func (m Membership) ActorID() string {
	if m.key != nil {
		return m.key.ID
	}
	return m.accountID
}

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

// Role is the member's role; for an API key the least that allows all its scopes.
func (m Membership) Role() Role { return m.role }

// Audit keeps what the member has done, in the transaction in which it is done.
func (m Membership) Audit(ctx context.Context, tx bun.Tx, at time.Time, action audit.Action, targetID string, d audit.Details) error {
	return audit.Write(ctx, tx, m.Event(at, action, targetID, d))
}

// Event describes what the member has done.
func (m Membership) Event(at time.Time, action audit.Action, targetID string, d audit.Details) *audit.Event {
	return audit.New(m.ID(), m.ActorID(), action, targetID, d, at)
}

// Require proves that the actor is a member, or a key of the workspace. Whoever is not gets NotFound, the same as for a
// workspace that does not exist.
func (s *Store) Require(ctx context.Context, a account.Actor, workspaceID string) (Membership, error) {
	return s.require(ctx, a, workspaceID, "workspace.deleted_at IS NULL")
}

// RequireEach proves of each workspace whether the actor belongs to it: those that it does not are missing from the answer.
func (s *Store) RequireEach(ctx context.Context, a account.Actor, workspaceIDs ...string) (map[string]Membership, error) {
	workspaceIDs = slices.DeleteFunc(slices.Clone(workspaceIDs), func(spaceID string) bool { return !id.Valid(id.Workspace, spaceID) })
	if len(workspaceIDs) == 0 {
		return map[string]Membership{}, nil
	}
	return s.requireMany(ctx, a, "workspace.id IN (?)", bun.In(workspaceIDs))
}

// RequireAll returns the actor's memberships of all workspaces, by workspace id; deleted workspaces
// are missing.
func (s *Store) RequireAll(ctx context.Context, a account.Actor) (map[string]Membership, error) {
	return s.requireMany(ctx, a, "1 = 1")
}

func (s *Store) requireMany(ctx context.Context, a account.Actor, where string, args ...any) (map[string]Membership, error) {
	ctx, q := s.memberships(ctx, a, nil)
	var rows []membershipRow
	err := q.Model(&rows).Where(where, args...).Where("workspace.deleted_at IS NULL").Scan(ctx)
	if err != nil {
		return nil, fmt.Errorf("looking for memberships: %w", err)
	}
	found := make(map[string]Membership, len(rows))
	for _, row := range rows {
		found[row.ID] = row.membership(a)
	}
	return found, nil
}

// RequireFor proves that the actor belongs to the workspace of something that is known by its id. Whoever does not hears
// what workspaceOf says of an id that does not exist.
func (s *Store) RequireFor(
	ctx context.Context, a account.Actor, itemID string, workspaceOf func(ctx context.Context, itemID string) (string, error),
) (Membership, error) {
	workspaceID, err := workspaceOf(ctx, itemID)
	if err != nil {
		return Membership{}, err
	}
	m, err := s.Require(ctx, a, workspaceID)
	if errs.Is(err, errs.NotFound) {
		_, unknown := workspaceOf(ctx, "")
		return Membership{}, unknown
	}
	return m, err
}

// asked are the memberships that somebody asks for by one statement; those who do so at the same time share it.
type asked struct{ accountID, keyID, workspaceID, condition string }

func (s *Store) require(ctx context.Context, a account.Actor, workspaceID, condition string) (Membership, error) {
	if !id.Valid(id.Workspace, workspaceID) || a.Key != nil && a.Key.WorkspaceID != workspaceID {
		return Membership{}, errNotFound()
	}
	q := asked{accountID: a.AccountID, workspaceID: workspaceID, condition: condition}
	if a.Key != nil {
		q.keyID = a.Key.ID
	}
	row, err := s.proofs.Do(ctx, q, struct{}{}, func(ctx context.Context, _ []struct{}) (membershipRow, error) {
		return s.look(ctx, a, workspaceID, condition)
	})
	if errors.Is(err, sql.ErrNoRows) {
		return Membership{}, errNotFound()
	}
	if err != nil {
		return Membership{}, fmt.Errorf("looking for a membership: %w", err)
	}
	return row.membership(a), nil
}

func (s *Store) look(ctx context.Context, a account.Actor, workspaceID, condition string) (row membershipRow, err error) {
	p := s.DB.Params()
	ctx, q := s.memberships(ctx, a, p)
	err = q.Model(&row).Where("workspace.id = ?", p.Of(workspaceID)).Where(condition).Scan(p.Bind(ctx))
	return row, err
}

// membershipRow is a workspace and the role that one account has in it.
type membershipRow struct {
	Workspace `bun:",extend"`

	Role Role `bun:",scanonly"`
}

func (r membershipRow) membership(a account.Actor) Membership {
	m := Membership{workspace: &r.Workspace, accountID: a.AccountID, role: r.Role, key: a.Key}
	if m.key != nil {
		m.role = nearest(m.key)
	}
	return m
}

// memberships asks for the workspaces that the actor has to do with, in a context that sees them: as they are now, since whoever
// was removed is to see nothing any more.
func (s *Store) memberships(ctx context.Context, a account.Actor, p *db.Params) (context.Context, *bun.SelectQuery) {
	ctx = db.UpToDate(ctx)
	if a.Key != nil {
		return db.InWorkspace(ctx, a.Key.WorkspaceID, ""), s.DB.NewSelect().
			ColumnExpr("?TableColumns, '' AS role").Where("workspace.id = ?", p.Of(a.Key.WorkspaceID))
	}
	return db.AsAccount(ctx, a.AccountID), s.DB.NewSelect().
		ColumnExpr("?TableColumns, member.role").
		Join("JOIN members AS member ON member.workspace_id = workspace.id").
		Where("member.account_id = ?", p.Of(a.AccountID))
}

func errNotFound() error {
	return errs.New(errs.NotFound, "There is no such workspace, or you are not a member of it.")
}

// WorkspacesOf returns the workspaces of members, invitations and workspaces, by the ID of each.
// Other and unknown IDs are missing. It does not check permissions: call RequireEach.
func (s *Store) WorkspacesOf(ctx context.Context, ids ...string) (map[string]string, error) {
	spaces, err := s.invitations().WorkspacesOf(ctx, ids...)
	if err != nil {
		return nil, err
	}
	for _, one := range ids {
		if _, workspaceID, ok := id.SplitPair(id.Member, one, id.Account, id.Workspace); ok {
			spaces[one] = workspaceID
		}
		if id.Valid(id.Workspace, one) {
			spaces[one] = one
		}
	}
	return spaces, nil
}
