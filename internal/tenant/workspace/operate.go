package workspace

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/event/audit"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/id"
)

// Tenant is a workspace as listed for the operator.
type Tenant struct {
	Workspace `bun:",extend"`

	Members int64 `bun:",scanonly"`
	// Owners are the addresses of the owners, in their order.
	Owners []string `bun:"-"`
}

// AdminList lists at most limit workspaces after an ID, oldest first, with deleted ones that are
// not purged. A slug selects the workspace that has or had it. It is for the operator.
func (s *Store) AdminList(ctx context.Context, slug, after string, limit int) ([]Tenant, error) {
	tenants := []Tenant{}
	members := s.DB.NewSelect().Table("members").ColumnExpr("COUNT(*)").Where("members.workspace_id = workspace.id")
	q := s.DB.NewSelect().Model((*Workspace)(nil)).ColumnExpr("?TableColumns").ColumnExpr("(?) AS members", members).
		Where("workspace.id <> ?", id.PublicWorkspace).Where("purged_at IS NULL").Where("workspace.id > ?", after).
		Order("workspace.id").Limit(int64(limit))
	if slug != "" {
		q = q.Where("workspace.id IN (SELECT workspace_id FROM slugs WHERE slug = ?)", slug)
	}
	if err := q.Scan(db.AsSystem(ctx), &tenants); err != nil {
		return nil, fmt.Errorf("listing workspaces: %w", err)
	}
	return tenants, s.nameOwners(ctx, tenants)
}

func (s *Store) nameOwners(ctx context.Context, tenants []Tenant) error {
	byID, ids := map[string]*Tenant{}, make([]string, len(tenants))
	for i := range tenants {
		ids[i] = tenants[i].ID
		byID[ids[i]] = &tenants[i]
	}
	for some := range slices.Chunk(ids, ownersBatch) {
		var owners []struct{ WorkspaceID, Email string }
		err := s.DB.NewSelect().Table("members").ColumnExpr("members.workspace_id, account.email").
			Join("JOIN accounts AS account ON account.id = members.account_id").
			Where("members.workspace_id IN (?)", bun.In(some)).Where("members.role = ?", Owner).
			OrderExpr("account.email").Scan(db.AsSystem(ctx), &owners)
		if err != nil {
			return fmt.Errorf("listing the owners of workspaces: %w", err)
		}
		for _, o := range owners {
			byID[o.WorkspaceID].Owners = append(byID[o.WorkspaceID].Owners, o.Email)
		}
	}
	return nil
}

// ownersBatch is of how many workspaces a statement lists the owners.
const ownersBatch = 1000

// Limit is a monthly quota of a workspace; a nil Of selects the instance's.
type Limit struct{ Of *int64 }

// MaxLimit bounds a quota, as in the configuration.
const MaxLimit = 1 << 50

// SetLimits sets quotas of a workspace; a nil limit stays. It is for the operator and returns
// NotFound or InvalidInput.
func (s *Store) SetLimits(ctx context.Context, slug string, hits, links *Limit) (*Workspace, error) {
	details := audit.Details{}
	for field, limit := range map[string]*Limit{"hitQuota": hits, "linkQuota": links} {
		if limit == nil {
			continue
		}
		if limit.Of != nil && (*limit.Of < 0 || *limit.Of > MaxLimit) {
			return nil, errs.New(errs.InvalidInput, "An allowance is a whole number from 0 to %d.", int64(MaxLimit)).
				At(field)
		}
		details[field] = limit.Of
	}
	return s.operate(ctx, slug, audit.WorkspaceUpdated, details, func(w *Workspace, q *bun.UpdateQuery) error {
		if w.DeletedAt != nil {
			return errDeleted()
		}
		if hits != nil {
			w.HitQuota = hits.Of
		}
		if links != nil {
			w.LinkQuota = links.Of
		}
		q.Set("hit_quota = ?", w.HitQuota).Set("link_quota = ?", w.LinkQuota)
		return nil
	})
}

// AdminCreate is Create for the operator: an account owns the workspace, whether or not its address
// is verified.
func (s *Store) AdminCreate(ctx context.Context, ownerID, name, slug string) (*Workspace, error) {
	m, err := s.create(ctx, Membership{accountID: ownerID, role: Owner, isOperator: true}, name, slug)
	return m.row, err
}

// AdminRequire returns the operator's membership of the workspace with the ID or with a slug that it
// has or had. It has the account of the longest-standing owner. It returns NotFound, also for a
// deleted workspace.
func (s *Store) AdminRequire(ctx context.Context, slug string) (Membership, error) {
	w, err := s.AdminGet(ctx, slug)
	if err == nil && w.DeletedAt != nil {
		err = errDeleted()
	}
	if err != nil {
		return Membership{}, err
	}
	m := Membership{row: w, role: Owner, isOperator: true}
	err = s.DB.NewSelect().Model((*Member)(nil)).Column("account_id").Where("workspace_id = ?", w.ID).
		Where("role = ?", Owner).Order("created_at", "account_id").Limit(1).Scan(db.AsSystem(ctx), &m.accountID)
	if err != nil {
		return Membership{}, fmt.Errorf("looking up an owner: %w", err)
	}
	return m, nil
}

// AdminDelete is Delete for the operator. It returns NotFound, or Conflict for a deleted workspace.
func (s *Store) AdminDelete(ctx context.Context, slug string) (*Workspace, error) {
	return s.operate(ctx, slug, audit.WorkspaceDeleted, nil, func(w *Workspace, q *bun.UpdateQuery) error {
		if w.DeletedAt != nil {
			return errs.New(errs.Conflict, "This workspace is deleted already, since %s.", w.DeletedAt.UTC().
				Format(time.RFC3339))
		}
		now := s.now()
		w.DeletedAt = &now
		q.Set("deleted_at = ?", now)
		return nil
	})
}

// AdminRestore is Restore for the operator. It returns NotFound, Expired if the workspace is about
// to be purged, or Conflict if it is not deleted.
func (s *Store) AdminRestore(ctx context.Context, slug string) (*Workspace, error) {
	return s.operate(ctx, slug, audit.WorkspaceRestored, nil, func(w *Workspace, q *bun.UpdateQuery) error {
		if w.DeletedAt == nil {
			return errs.New(errs.Conflict, "This workspace is not deleted.")
		}
		if !s.now().Before(w.DeletedAt.Add(Undo)) {
			return errs.New(errs.Expired, "This workspace was deleted more than %d days ago, and is being purged.",
				int(Undo.Hours()/24))
		}
		w.DeletedAt = nil
		q.Set("deleted_at = NULL")
		return nil
	})
}

// AdminAddOwner makes an account, which the transaction of the system's scope has created, an owner
// of the workspace. It returns NotFound, also for a deleted workspace.
func (s *Store) AdminAddOwner(ctx context.Context, tx bun.Tx, slug, accountID string) error {
	var workspaceID string
	q := tx.NewSelect().Model((*Workspace)(nil)).Column("id").Where("workspace.id <> ?", id.PublicWorkspace)
	err := s.DB.ForChange(whereSlug(q, slug).Where("deleted_at IS NULL")).Scan(ctx, &workspaceID)
	if errors.Is(err, sql.ErrNoRows) {
		return errNoSlug()
	}
	if err != nil {
		return err
	}
	owner := &Member{WorkspaceID: workspaceID, AccountID: accountID, Role: Owner, CreatedAt: s.now()}
	if _, err := tx.NewInsert().Model(owner).Exec(ctx); err != nil {
		return err
	}
	return audit.Write(ctx, tx, audit.New(workspaceID, "", audit.MemberJoined, accountID,
		audit.Details{"role": Owner}, s.Now()))
}

// whereSlug selects the workspace with the ID or with a slug that it has or had.
func whereSlug(q *bun.SelectQuery, slug string) *bun.SelectQuery {
	if id.Valid(id.Workspace, slug) {
		return q.Where("workspace.id = ?", slug)
	}
	return q.Where("workspace.id IN (SELECT workspace_id FROM slugs WHERE slug = ?)", slug)
}

func errNoSlug() error {
	return errs.New(errs.NotFound, "There is no workspace with this slug. This lists them: linkforge workspaces list.")
}

func errDeleted() error {
	return errs.New(errs.NotFound, "This workspace is deleted: restore it first.")
}

// AdminGet returns the workspace with the ID or with a slug that it has or had, for the operator. It
// returns NotFound.
func (s *Store) AdminGet(ctx context.Context, slug string) (*Workspace, error) {
	var w Workspace
	q := s.DB.NewSelect().Model(&w).Where("workspace.id <> ?", id.PublicWorkspace).Where("purged_at IS NULL")
	err := whereSlug(q, slug).Scan(db.AsSystem(ctx))
	if errors.Is(err, sql.ErrNoRows) {
		return nil, errNoSlug()
	}
	return &w, err
}

// lockBySlug locks the workspace with the ID or with a slug that it has or had. It returns
// NotFound.
func (s *Store) lockBySlug(ctx context.Context, tx bun.Tx, slug string, into *Workspace) error {
	q := tx.NewSelect().Model(into).Where("workspace.id <> ?", id.PublicWorkspace).Where("purged_at IS NULL")
	err := s.DB.ForChange(whereSlug(q, slug)).Scan(ctx)
	if errors.Is(err, sql.ErrNoRows) {
		return errNoSlug()
	}
	return err
}

// AdminChange has work change what belongs to a workspace, in a transaction of the system's scope
// that has locked it, and writes an event with the details that work returns. It returns NotFound,
// and the errors of work.
func (s *Store) AdminChange(
	ctx context.Context, slug string, work func(ctx context.Context, tx bun.Tx, w *Workspace) (audit.Details, error),
) (*Workspace, error) {
	var w Workspace
	err := s.DB.Tx(db.AsSystem(ctx), func(ctx context.Context, tx bun.Tx) error {
		w = Workspace{}
		if err := s.lockBySlug(ctx, tx, slug, &w); err != nil {
			return err
		}
		details, err := work(ctx, tx, &w)
		if err != nil {
			return err
		}
		return audit.Write(ctx, tx, audit.New(w.ID, "", audit.WorkspaceUpdated, w.ID, details, s.Now()))
	})
	if err != nil {
		return nil, fmt.Errorf("changing a workspace: %w", err)
	}
	return &w, nil
}

// operate changes the workspace with the ID or with a slug that it has or had. change receives the
// locked workspace and adds to the update.
func (s *Store) operate(
	ctx context.Context, slug string, action audit.Action, details audit.Details,
	change func(w *Workspace, q *bun.UpdateQuery) error,
) (*Workspace, error) {
	var w Workspace
	err := s.DB.Tx(db.AsSystem(ctx), func(ctx context.Context, tx bun.Tx) error {
		w = Workspace{}
		if err := s.lockBySlug(ctx, tx, slug, &w); err != nil {
			return err
		}
		before := w
		w.UpdatedAt = s.now()
		update := tx.NewUpdate().Model((*Workspace)(nil)).Set("updated_at = ?", w.UpdatedAt).Where("id = ?", w.ID)
		if err := change(&w, update); err != nil {
			return err
		}
		if _, err := update.Exec(ctx); err != nil {
			return err
		}
		event := audit.New(w.ID, "", action, w.ID, details, s.Now())
		return audit.Write(ctx, tx, event.WithChanges(w.changes(&before)))
	})
	if err != nil {
		return nil, fmt.Errorf("changing a workspace: %w", err)
	}
	return &w, nil
}
