package folder

import (
	"context"
	"fmt"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/event/audit"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/id"
	"github.com/linkforge/linkforge/internal/platform/page"
	"github.com/linkforge/linkforge/internal/platform/validate"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
)

// Order is the order of lists.
var Order = page.Order{Name: "NAME", Ascending: true}

// Named has the columns of a row with a name that is unique in its workspace.
type Named struct {
	ID          string `bun:",pk"`
	WorkspaceID string
	Name        string
	// NameKey is validate.Fold of the name, which is unique in the workspace.
	NameKey   string
	CreatedAt time.Time
}

func newNamed(p id.Prefix, m workspace.Membership, now time.Time) Named {
	return Named{ID: id.New(p), WorkspaceID: m.ID(), CreatedAt: db.Instant(now)}
}

func (n *Named) named() *Named { return n }

// setName gives the row a name. It returns InvalidInput.
func (n *Named) setName(name string) error {
	name, err := validate.Line("The name", name, 1, 100)
	if err != nil {
		return errs.From(err).At("name")
	}
	n.Name, n.NameKey = name, validate.Fold(name)
	return nil
}

// row is a pointer to a row of a collection.
type row[T any] interface {
	*T
	named() *Named
	// fields are the values that the audit log compares; null for a row that does not exist.
	fields() []audit.Field
}

// collection writes the rows of workspaces, and their events.
type collection[T any, R row[T]] struct {
	db  *db.DB
	now func() time.Time
	// noun names a row in messages.
	noun string
	// set lists the assignments of an update. An update without effect writes nothing, unless
	// writesAll.
	set       string
	writesAll bool
}

// write applies a change to a row that the transaction finds, or to a new one. It returns Conflict
// for a name in use, or Forbidden.
func (c collection[T, R]) write(
	ctx context.Context, m workspace.Membership, action audit.Action,
	find func(ctx context.Context, tx bun.Tx) (*T, error), change func(*T) error,
) (r *T, err error) {
	if ctx, err = m.EnterWhole(ctx, workspace.WriteLinks); err != nil {
		return nil, err
	}
	if err := change(new(T)); err != nil { // before a look-up
		return nil, err
	}
	err = c.db.Tx(ctx, func(ctx context.Context, tx bun.Tx) error {
		if r, err = find(ctx, tx); err != nil {
			return err
		}
		before := R(r).fields()
		if err := change(r); err != nil {
			return err
		}
		if len(audit.Compare(before, R(r).fields())) == 0 && !c.writesAll {
			return nil
		}
		if _, err := tx.NewInsert().Model(r).On("CONFLICT (id) DO UPDATE").Set(c.set).Exec(ctx); err != nil {
			return err
		}
		return audit.Write(ctx, tx, c.event(m, action, r, before, R(r).fields()))
	})
	if db.IsUniqueViolation(err) {
		return nil, errs.New(errs.Conflict, "Another %s of the workspace has this name.", c.noun).At("name")
	}
	if err != nil {
		return nil, fmt.Errorf("writing a %s: %w", c.noun, err)
	}
	return r, nil
}

// delete deletes a row that the transaction has locked.
func (c collection[T, R]) delete(
	ctx context.Context, tx bun.Tx, m workspace.Membership, action audit.Action, r *T,
) error {
	if _, err := tx.NewDelete().Model(r).WherePK().Exec(ctx); err != nil {
		return fmt.Errorf("deleting a %s: %w", c.noun, err)
	}
	return audit.Write(ctx, tx, c.event(m, action, r, R(r).fields(), R(new(T)).fields()))
}

func (c collection[T, R]) event(
	m workspace.Membership, action audit.Action, r R, before, after []audit.Field,
) *audit.Event {
	n := r.named()
	return m.Event(c.now(), action, n.ID, audit.Details{"name": n.Name}).WithChanges(audit.Compare(before, after))
}

// byName is the position of a row, see workspace.Collection.
func byName[T any, R row[T]](r *T) (value any, itemID string) {
	return R(r).named().NameKey, R(r).named().ID
}
