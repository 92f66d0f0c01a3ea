package link

import (
	"context"
	"fmt"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/link/linkfield"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/optional"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
)

// WriteDue writes the scheduled changes of links that have taken effect, with one version for all
// changes of an instant. It also loads the remaining pending changes, which Hosts needs, and
// Granted. The caller has locked the links in the transaction.
func (s *Store) WriteDue(ctx context.Context, tx bun.Tx, links ...*Link) error {
	if err := loadPending(ctx, tx, links...); err != nil {
		return err
	}
	if err := LoadGranted(ctx, tx, links...); err != nil {
		return err
	}
	now := s.now()
	for {
		var rewrites []Rewrite
		var written []*ScheduledChange
		for _, l := range links {
			due := l.takeDue(now)
			if len(due) == 0 {
				continue
			}
			before := *l
			for _, c := range due {
				l.applyPatch(&c.Patch, now)
			}
			l.Touch(now)
			rewrites = append(rewrites, Rewrite{Before: &before, After: l, scheduled: due[len(due)-1]})
			written = append(written, due...)
		}
		if len(written) == 0 {
			return nil
		}
		if err := s.deletePending(ctx, tx, written...); err != nil {
			return err
		}
		if err := s.Apply(ctx, tx, bySchedule, rewrites); err != nil {
			return err
		}
		for _, l := range links {
			l.Tags = nil // they are written
		}
	}
}

// takeDue removes and returns the pending changes of the soonest instant, if it has come.
func (l *Link) takeDue(now time.Time) (due []*ScheduledChange) {
	for len(l.pending) > 0 && l.pending[0].isDue(now) &&
		(len(due) == 0 || l.pending[0].DueAt.Equal(due[0].DueAt)) {
		due, l.pending = append(due, l.pending[0]), l.pending[1:]
	}
	l.setNextChange()
	return due
}

// dueRow is the row of a link with one of its due changes, if there is one.
type dueRow struct {
	Link `bun:",extend"`

	DueAt         *time.Time        `bun:",scanonly"`
	ScheduledBy   *string           `bun:",scanonly"`
	ScheduledWhat *linkfield.Change `bun:",scanonly"`
}

// dueState is a state of a link that has begun, and is not written yet.
type dueState struct {
	link *Link
	// at is the planned instant.
	at    time.Time
	actor string
}

// Complete brings links that were read to their state at an instant, with the scheduled changes
// that have taken effect and are not written yet, and loads Granted. Version, UpdatedAt, lists and
// searches follow once they are.
func Complete(ctx context.Context, conn bun.IDB, now time.Time, links ...*Link) error {
	if err := applyDue(ctx, conn, now, links...); err != nil {
		return err
	}
	return LoadGranted(ctx, conn, links...)
}

// applyDue applies due changes. A link and its changes are read again by one statement, in case
// they are written meanwhile.
func applyDue(ctx context.Context, conn bun.IDB, now time.Time, links ...*Link) error {
	byID, ids := map[string][]*Link{}, []string{}
	for _, l := range links {
		if l.NextChangeAt != nil && !l.NextChangeAt.After(now) {
			byID[l.ID], ids = append(byID[l.ID], l), append(ids, l.ID)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	var rows []dueRow
	err := conn.NewSelect().Model(&rows).ColumnExpr("?TableColumns").
		ColumnExpr("scheduled.due_at, scheduled.actor_id AS scheduled_by, scheduled.patch AS scheduled_what").
		Join("LEFT JOIN scheduled_changes AS scheduled ON scheduled.link_id = ?TableAlias.id AND scheduled.due_at <= ?",
			db.Instant(now)).
		Where("?TableAlias.id IN (?)", bun.In(ids)).OrderExpr("?TableAlias.id, scheduled.due_at, scheduled.id").
		Scan(ctx)
	if err != nil {
		return fmt.Errorf("reading due changes: %w", err)
	}
	for len(rows) > 0 {
		n := 1
		for n < len(rows) && rows[n].ID == rows[0].ID {
			n++
		}
		for _, l := range byID[rows[0].ID] {
			l.applyRows(rows[:n])
		}
		rows = rows[n:]
	}
	return nil
}

// applyRows makes the link the one of the rows, with the changes of the rows.
func (l *Link) applyRows(rows []dueRow) {
	stored := rows[0].Link
	stored.In = l.In
	*l = stored
	for _, row := range rows {
		if row.DueAt == nil {
			continue
		}
		l.applyPatch(row.ScheduledWhat, *row.DueAt)
		if n := len(l.due); n > 0 && l.due[n-1].at.Equal(*row.DueAt) {
			l.due = l.due[:n-1] // one version for all changes of an instant
		}
		state := *l
		state.due = nil
		l.due = append(l.due, dueState{&state, *row.DueAt, optional.Value(row.ScheduledBy)})
	}
	if len(l.due) > 0 {
		l.stored = &stored
	}
}

// Advance gives a link the state that it will have at an instant, by its pending changes. Those
// that are due now are applied already.
func (s *Store) Advance(ctx context.Context, l *Link, at time.Time) error {
	now := s.now()
	if l.NextChangeAt == nil || l.NextChangeAt.After(at) {
		return nil
	}
	ctx, err := l.In.Enter(ctx, workspace.ReadLinks)
	if err != nil {
		return err
	}
	if err := loadPending(ctx, s.DB, l); err != nil {
		return err
	}
	for _, c := range l.pending {
		if c.isDue(at) && !c.isDue(now) {
			l.applyPatch(&c.Patch, c.DueAt)
		}
	}
	return nil
}
