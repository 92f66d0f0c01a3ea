package workspace

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/event/audit"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/id"
	"github.com/linkforge/linkforge/internal/tenant/account"
)

// row names the columns that a Membership shows: no other package can replace them.
type row = Workspace

// Membership proves that an account or API key belongs to a workspace. Only this package creates
// one, so a method that takes a Membership cannot be reached without the check. The zero value is
// of no workspace.
type Membership struct {
	*row
	accountID string
	role      Role
	key       *account.Key // nil for an account
	// isOperator means that the operator acts for the account, so that events have no actor.
	isOperator bool
	// isUnverified means that the account has to verify its address before it changes anything.
	isUnverified bool
	// lacksSecondFactor is that of the actor.
	lacksSecondFactor bool
	// countsGroups is that of the actor.
	countsGroups bool
	// version is that of the workspace's row on PostgreSQL. memory is nil unless the membership is
	// presumed.
	version string
	memory  *remembrance
}

func (*Membership) IsEntity() {} // an entity of Apollo Federation

// Public returns the membership that creates anonymous links. No account has it.
func Public() Membership {
	return Membership{role: Editor, row: &Workspace{
		ID: id.PublicWorkspace, Slug: "public", Name: "Public", DefaultStrategy: "COUNTER", DefaultRedirectStatus: 302,
		CaseSensitiveCodes: true,
	}}
}

// IsPublic reports whether the membership is Public.
func (m Membership) IsPublic() bool { return m.row.ID == id.PublicWorkspace }

// AccountID returns the member's account; empty for an API key and for Public.
func (m Membership) AccountID() string { return m.accountID }

// ActorID returns the ID of the account or API key; empty for Public and for the operator.
func (m Membership) ActorID() string {
	switch {
	case m.isOperator:
		return ""
	case m.key != nil:
		return m.key.ID
	}
	return m.accountID
}

// Responsible returns the ID of the account, or of the one that created the API key: an account may
// have many keys. It is the workspace's if that account was deleted, and for Public.
func (m Membership) Responsible() string {
	if m.key != nil {
		return cmp.Or(m.key.CreatedBy, m.row.ID)
	}
	return cmp.Or(m.accountID, m.row.ID)
}

// Workspace returns the workspace, which must not be changed.
func (m Membership) Workspace() *Workspace { return m.row }

// ID returns the workspace's ID.
func (m Membership) ID() string { return m.row.ID }

// Slug returns the workspace's part of short URLs.
func (m Membership) Slug() string { return m.row.Slug }

// Name returns the workspace's name.
func (m Membership) Name() string { return m.row.Name }

// CreatedAt returns when the workspace was created.
func (m Membership) CreatedAt() time.Time { return m.row.CreatedAt }

// Role returns the member's role; for an API key the lowest one that allows all its scopes.
func (m Membership) Role() Role { return m.role }

// Audit writes an action of the member to the audit log, in the transaction of the change.
func (m Membership) Audit(
	ctx context.Context, tx bun.Tx, at time.Time, action audit.Action, targetID string, d audit.Details,
) error {
	return audit.Write(ctx, tx, m.Event(at, action, targetID, d))
}

// Event returns the audit event of an action of the member.
func (m Membership) Event(at time.Time, action audit.Action, targetID string, d audit.Details) *audit.Event {
	return audit.New(m.ID(), m.ActorID(), action, targetID, d, at)
}

// Require returns the actor's membership of a workspace. Actors without one get NotFound, as for a
// workspace that does not exist.
func (s *Store) Require(ctx context.Context, a account.Actor, workspaceID string) (Membership, error) {
	return s.require(ctx, a, workspaceID, live)
}

// RequireEach returns the actor's memberships by workspace ID. Workspaces without one are missing
// from the result.
func (s *Store) RequireEach(
	ctx context.Context, a account.Actor, workspaceIDs ...string,
) (map[string]Membership, error) {
	workspaceIDs = slices.DeleteFunc(slices.Clone(workspaceIDs), func(spaceID string) bool {
		return !id.Valid(id.Workspace, spaceID)
	})
	if len(workspaceIDs) == 0 {
		return map[string]Membership{}, nil
	}
	return s.requireMany(ctx, a, "workspace.id IN (?)", bun.In(workspaceIDs))
}

// RequireAll returns all memberships of the actor by workspace ID, except those of deleted
// workspaces.
func (s *Store) RequireAll(ctx context.Context, a account.Actor) (map[string]Membership, error) {
	return s.requireMany(ctx, a, "1 = 1")
}

func (s *Store) requireMany(
	ctx context.Context, a account.Actor, where string, args ...any,
) (map[string]Membership, error) {
	ctx, q := s.memberships(ctx, a, nil)
	var rows []membershipRow
	err := q.Model(&rows).Where(where, args...).Where("workspace.deleted_at IS NULL").Scan(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading memberships: %w", err)
	}
	found := make(map[string]Membership, len(rows))
	for _, row := range rows {
		found[row.ID] = row.membership(a)
	}
	return found, nil
}

// RequireFor returns the actor's membership of the workspace of an item. Actors without one get the
// error that workspaceOf returns for an unknown ID.
func (s *Store) RequireFor(
	ctx context.Context, a account.Actor, itemID string,
	workspaceOf func(ctx context.Context, itemID string) (string, error),
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

// live is the condition of Require.
const live = "workspace.deleted_at IS NULL"

// proofKey identifies a lookup of a membership; concurrent calls with equal keys share a statement.
type proofKey struct {
	accountID, keyID, workspaceID, condition string
	countsGroups                             bool
}

func (s *Store) require(ctx context.Context, a account.Actor, workspaceID, condition string) (Membership, error) {
	if !id.Valid(id.Workspace, workspaceID) || a.Key != nil && a.Key.WorkspaceID != workspaceID {
		return Membership{}, errNotFound()
	}
	key := keyOf(a, workspaceID, condition)
	row, err := s.proofs.Do(ctx, key, struct{}{},
		func(ctx context.Context, _ []struct{}) (row membershipRow, err error) {
			p := s.DB.Params()
			ctx, q := s.memberships(ctx, a, p)
			if p != nil {
				q = q.ColumnExpr("workspace.xmin::TEXT AS row_version")
			}
			err = q.Model(&row).Where("workspace.id = ?", p.Of(workspaceID)).Where(condition).Scan(p.Bind(ctx))
			s.remember(key, row, err)
			return row, err
		})
	if err != nil {
		return Membership{}, db.NoRowsAs(errNotFound(), err, "reading a membership")
	}
	return row.membership(a), nil
}

func keyOf(a account.Actor, workspaceID, condition string) proofKey {
	key := proofKey{accountID: a.AccountID, workspaceID: workspaceID, condition: condition,
		countsGroups: a.CountsGroups()}
	if a.Key != nil {
		key.keyID = a.Key.ID
	}
	return key
}

// Observe returns a membership with permission to read stats, for a caller without membership. The
// caller has checked that the link's stats are public. It returns NotFound.
func (s *Store) Observe(ctx context.Context, workspaceID string) (Membership, error) {
	w := &Workspace{}
	err := s.DB.NewSelect().Model(w).Where("id = ?", workspaceID).Where("deleted_at IS NULL").Scan(db.AsResolver(ctx))
	if err != nil {
		return Membership{}, db.NoRowsAs(errNotFound(), err, "reading a workspace")
	}
	key := &account.Key{WorkspaceID: w.ID, Scopes: []string{string(ReadStats)}}
	return Membership{row: w, role: Viewer, key: key}, nil
}

// membershipRow is a workspace and an account's role in it.
type membershipRow struct {
	Workspace `bun:",extend"`

	Role         Role   `bun:",scanonly"`
	RowVersion   string `bun:",scanonly"`
	IsUnverified bool   `bun:",scanonly"`
}

func (r membershipRow) membership(a account.Actor) Membership {
	m := Membership{
		row: &r.Workspace, accountID: a.AccountID, role: r.Role, key: a.Key, isUnverified: r.IsUnverified,
		lacksSecondFactor: a.LacksSecondFactor(), countsGroups: a.CountsGroups(), version: r.RowVersion,
	}
	if m.key != nil {
		m.role = roleFor(m.key)
	}
	return m
}

// memberships returns a query for the actor's workspaces and a context that sees them. Memberships
// by groups of the provider are left out unless they count. It reads from the primary database: a
// removed member must lose access at once.
func (s *Store) memberships(ctx context.Context, a account.Actor, p *db.Params) (context.Context, *bun.SelectQuery) {
	ctx = db.UpToDate(ctx)
	if a.Key != nil {
		return db.InWorkspace(ctx, a.Key.WorkspaceID, ""), s.DB.NewSelect().
			ColumnExpr("?TableColumns, '' AS role").Where("workspace.id = ?", p.Of(a.Key.WorkspaceID))
	}
	q := s.DB.NewSelect().ColumnExpr("?TableColumns, member.role").
		Join("JOIN members AS member ON member.workspace_id = workspace.id").
		Where("member.account_id = ?", p.Of(a.AccountID))
	if !a.CountsGroups() {
		q = q.Where("member.source <> ?", p.Of(SSO))
	}
	if s.sendsMail() {
		q = q.ColumnExpr("account.email_verified_at IS NULL AS is_unverified").
			Join("JOIN accounts AS account ON account.id = member.account_id")
	}
	return db.AsAccount(ctx, a.AccountID), q
}

func errNotFound() error {
	return errs.New(errs.NotFound, "There is no such workspace, or you are not a member of it.")
}

// WorkspacesOf returns the workspaces of members, invitations and workspaces, by the ID of each.
// Other and unknown IDs are missing. It does not check permissions: call RequireEach.
func (s *Store) WorkspacesOf(ctx context.Context, ids ...string) (map[string]string, error) {
	spaces, err := s.Invitations().WorkspacesOf(ctx, ids...)
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

// ForDeliveries returns the membership that renders what webhooks of a workspace receive: it may
// read links and stats, and nothing about users. It returns NotFound for a deleted workspace.
func (s *Store) ForDeliveries(ctx context.Context, workspaceID string) (Membership, error) {
	m, err := s.Observe(ctx, workspaceID)
	if err == nil {
		m.key.Scopes = []string{string(ReadLinks), string(ReadStats)}
	}
	return m, err
}

// AdminAddresses returns the email addresses of the owners and admins of a workspace.
func (s *Store) AdminAddresses(ctx context.Context, workspaceID string) (addresses []string, err error) {
	err = s.DB.NewSelect().Table("members").ColumnExpr("account.email").
		Join("JOIN accounts AS account ON account.id = members.account_id").
		Where("members.workspace_id = ?", workspaceID).Where("members.role IN (?)", bun.In([]Role{Owner, Admin})).
		Where("account.deleted_at IS NULL").Where("account.disabled_at IS NULL").OrderExpr("account.email").
		Scan(db.AsSystem(ctx), &addresses)
	if err != nil {
		return nil, fmt.Errorf("looking up the admins of a workspace: %w", err)
	}
	return addresses, nil
}
