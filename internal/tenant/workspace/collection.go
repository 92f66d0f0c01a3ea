package workspace

import (
	"context"
	"fmt"
	"slices"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/id"
	"github.com/linkforge/linkforge/internal/platform/page"
)

// Collection reads the rows of T, a type with a column workspace_id. Lists and lookups by ID share
// its permission check. Packages that own such a type build one for each call.
type Collection[T any] struct {
	DB *db.DB
	// Permission is required to read the rows.
	Permission Permission
	// Prefix is the prefix of the rows' IDs.
	Prefix id.Prefix
	// Column identifies a row within the workspace and orders the rows.
	Column string
	// By is a column that orders the rows before Column, and Position returns both values of a row;
	// nil: Column alone.
	By       string
	Position func(*T) (value any, rowID string)
	// Where limits the rows that are listed; empty lists all rows.
	Where string
	Args  []any
	// Omit are the columns that are not read. Also has a query read what rows have in other tables;
	// nil: nothing.
	Omit []string
	Also func(*bun.SelectQuery) *bun.SelectQuery
	// Fence is the column of folders by which a fence restricts the rows; empty for rows without
	// one.
	Fence string
	// Missing is the error message for an ID that does not exist.
	Missing string
	// In gives a row the membership through which it is read; nil for rows that have none.
	In func(*T, Membership)
}

// List returns one page of the rows in the order of the request. It returns Forbidden.
func (c Collection[T]) List(ctx context.Context, m Membership, r page.Request) (page.Page[*T], error) {
	var rows []*T
	ctx, q, err := c.query(ctx, m, &rows)
	if err != nil {
		return page.Page[*T]{}, err
	}
	if c.Position == nil {
		q = page.Limit(q, r, c.Column)
	} else {
		q = page.LimitBy(q, r, c.By, c.Column)
	}
	if err := q.Scan(ctx); err != nil {
		return page.Page[*T]{}, fmt.Errorf("listing rows of a workspace: %w", err)
	}
	p := page.Cut(r, rows)
	p.Total = func(ctx context.Context) (int64, error) { return c.count(ctx, m) }
	c.giveTo(m, p.Items)
	for _, row := range p.Items {
		if c.Position != nil {
			p.Cursors = append(p.Cursors, r.Order.Cursor(c.Position(row)))
		}
	}
	return p, nil
}

func (c Collection[T]) count(ctx context.Context, m Membership) (int64, error) {
	ctx, q, err := c.query(ctx, m, new([]*T))
	if err != nil {
		return 0, err
	}
	n, err := q.Count(ctx)
	if err != nil {
		return 0, fmt.Errorf("counting rows of a workspace: %w", err)
	}
	return int64(n), nil
}

// ByID returns the listed rows whose column has one of the values. Unknown values are missing from
// the result. It returns Forbidden.
func (c Collection[T]) ByID(ctx context.Context, m Membership, ids ...string) ([]*T, error) {
	var rows []*T
	ctx, q, err := c.query(ctx, m, &rows)
	if err != nil {
		return nil, err
	}
	if c.Prefix != "" { // the databases refuse some texts
		ids = slices.DeleteFunc(slices.Clone(ids), func(one string) bool { return !id.Valid(c.Prefix, one) })
	}
	if len(ids) == 0 {
		return nil, nil
	}
	if err := q.Where("? IN (?)", bun.Ident(c.Column), bun.In(ids)).Scan(ctx); err != nil {
		return nil, fmt.Errorf("looking up rows of a workspace: %w", err)
	}
	c.giveTo(m, rows)
	return rows, nil
}

func (c Collection[T]) giveTo(m Membership, rows []*T) {
	if c.In == nil {
		return
	}
	for _, row := range rows {
		c.In(row, m)
	}
}

// Get returns the listed row with the ID. It returns NotFound or Forbidden.
func (c Collection[T]) Get(ctx context.Context, m Membership, rowID string) (*T, error) {
	if !id.Valid(c.Prefix, rowID) {
		return nil, c.NotFound()
	}
	rows, err := c.ByID(ctx, m, rowID)
	if err == nil && len(rows) == 0 {
		err = c.NotFound()
	}
	if err != nil {
		return nil, err
	}
	return rows[0], nil
}

// Lock returns the row with the ID, as its last change left it, and locks it until the transaction
// ends. The context has the permission to change it. It returns NotFound.
func (c Collection[T]) Lock(ctx context.Context, tx bun.Tx, m Membership, rowID string) (*T, error) {
	if !id.Valid(c.Prefix, rowID) {
		return nil, c.NotFound()
	}
	row := new(T)
	q := tx.NewSelect().Model(row).Where("workspace_id = ?", m.ID()).Where("? = ?", bun.Ident(c.Column), rowID)
	if err := c.DB.ForUpdate(q).Scan(ctx); err != nil {
		return nil, db.NoRowsAs(c.NotFound(), err, "locking a row of a workspace")
	}
	c.giveTo(m, []*T{row})
	return row, nil
}

// query returns a query for the rows and a context that may read them.
func (c Collection[T]) query(ctx context.Context, m Membership, into *[]*T) (context.Context, *bun.SelectQuery, error) {
	ctx, err := m.Enter(ctx, c.Permission)
	if err != nil {
		return ctx, nil, err
	}
	q := c.DB.NewSelect().Model(into).ExcludeColumn(c.Omit...).Where("workspace_id = ?", m.ID())
	if c.Also != nil {
		q = q.Apply(c.Also)
	}
	if c.Where != "" {
		q = q.Where(c.Where, c.Args...)
	}
	if c.Fence != "" {
		q = q.Apply(m.Inside(c.Fence))
	}
	return ctx, q, nil
}

// WorkspacesOf returns the workspaces of the rows that exist, by row ID. IDs of other types are
// ignored. It does not check permissions: call RequireEach.
func (c Collection[T]) WorkspacesOf(ctx context.Context, ids ...string) (map[string]string, error) {
	ids = slices.DeleteFunc(slices.Clone(ids), func(one string) bool { return !id.Valid(c.Prefix, one) })
	spaces := make(map[string]string, len(ids))
	if len(ids) == 0 {
		return spaces, nil
	}
	var rows []struct{ ID, WorkspaceID string }
	err := c.DB.NewSelect().Model((*T)(nil)).Column("id", "workspace_id").Where("id IN (?)", bun.In(ids)).
		Scan(db.AsResolver(ctx), &rows)
	if err != nil {
		return nil, fmt.Errorf("looking up workspaces: %w", err)
	}
	for _, row := range rows {
		spaces[row.ID] = row.WorkspaceID
	}
	return spaces, nil
}

// WorkspaceOf returns the workspace of a row. It does not check permissions: call Require. It
// returns NotFound.
func (c Collection[T]) WorkspaceOf(ctx context.Context, rowID string) (string, error) {
	spaces, err := c.WorkspacesOf(ctx, rowID)
	if err != nil {
		return "", err
	}
	workspaceID, ok := spaces[rowID]
	if !ok {
		return "", c.NotFound()
	}
	return workspaceID, nil
}

// NotFound returns the error for an ID that does not exist.
func (c Collection[T]) NotFound() *errs.Error {
	return errs.New(errs.NotFound, "%s", c.Missing).At("id")
}

// Purge deletes all rows of a workspace that is being purged. The context must have the scope of
// the system.
func (c Collection[T]) Purge(ctx context.Context, workspaceID string) error {
	return purgeRows(ctx, c.DB, (*T)(nil), workspaceID)
}

func purgeRows(ctx context.Context, conn bun.IDB, model any, workspaceID string) error {
	_, err := conn.NewDelete().Model(model).Where("workspace_id = ?", workspaceID).Exec(ctx)
	return err
}
