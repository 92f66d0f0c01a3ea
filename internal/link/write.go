package link

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"slices"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/audit"
	"github.com/linkforge/linkforge/internal/workspace"
)

// change is a link before and after a write. The caller has locked its row in the transaction.
type change struct{ before, after *Link }

// observers see all changes of one write, in its transaction. Who made a change is after.In; a link
// without it was changed by the server or the operator.
var observers = []func(s *Store, ctx context.Context, tx bun.Tx, cause audit.Action, changes []change) error{
	(*Store).auditChanges,
}

// apply is the only way to change columns of links that users see: it writes the changed links in
// one statement, and their tags. The cause is empty for changes that no observer records.
func (s *Store) apply(ctx context.Context, tx bun.Tx, cause audit.Action, changes []change) error {
	slices.SortFunc(changes, func(a, b change) int { return cmp.Compare(a.after.ID, b.after.ID) })
	rows := make([]*record, 0, len(changes))
	for _, c := range changes {
		rows = append(rows, recordOf(c.after))
	}
	for chunk := range statements(rows) {
		q := tx.NewUpdate().With("after", tx.NewValues(&chunk)).Model((*Link)(nil)).TableExpr("after").
			Where("link.id = after.id")
		for _, column := range s.mutableColumns() {
			q = q.Set("? = after.?", bun.Ident(column), bun.Ident(column))
		}
		if _, err := q.Exec(ctx); err != nil {
			return fmt.Errorf("writing links: %w", err)
		}
	}
	if err := s.writeTags(ctx, tx, rows); err != nil {
		return err
	}
	if err := s.writeRouting(ctx, tx, changes); err != nil {
		return err
	}
	for _, observe := range observers {
		if err := observe(s, ctx, tx, cause, changes); err != nil {
			return err
		}
	}
	return nil
}

// mutableColumns returns the columns of a link that can change.
func (s *Store) mutableColumns() (columns []string) {
	for _, field := range s.DB.Dialect().Tables().Get(reflect.TypeFor[*record]()).Fields {
		switch field.Name {
		case "id", "code", "root_code", "strategy", "claim_hash", "created_at":
		default:
			columns = append(columns, field.Name)
		}
	}
	return columns
}

// auditChanges records who has changed which fields of the links. Anonymous links have no audit
// log.
func (s *Store) auditChanges(
	ctx context.Context, tx bun.Tx, cause audit.Action, changes []change,
) error {
	if cause == "" {
		return nil
	}
	events := make([]*audit.Event, 0, len(changes))
	for _, c := range changes {
		var details audit.Details
		if cause == audit.LinkUpdated {
			fields := changedFields(c.before, c.after)
			if len(fields) == 0 {
				continue
			}
			details = audit.Details{"fields": fields}
		}
		if l := c.after; l.WorkspaceID != workspace.PublicID {
			events = append(events, audit.New(l.WorkspaceID, l.In.ActorID(), cause, l.ID, details, s.Now()))
		}
	}
	return audit.Write(ctx, tx, events...)
}

// machineColumns are the columns that applyMachine may write: no user changes them, and no observer
// sees the change. The other one is granted, which belongs to hitquota.
var machineColumns = []string{"ended_at", "destination_status", "last_checked_at", "check_at", "check_failures"}

// assignment is a column and its new value.
type assignment struct {
	column string
	value  any
}

// applyMachine prepares an update of machine-owned columns; the caller adds the condition.
func (s *Store) applyMachine(assignments ...assignment) *bun.UpdateQuery {
	for _, c := range assignments {
		if !slices.Contains(machineColumns, c.column) {
			panic("link: " + c.column + " is no machine-owned column")
		}
	}
	return setColumns(s.DB.NewUpdate().Model((*Link)(nil)), assignments)
}

func setColumns(q *bun.UpdateQuery, assignments []assignment) *bun.UpdateQuery {
	for _, c := range assignments {
		q = q.Set("? = ?", bun.Ident(c.column), c.value)
	}
	return q
}
