package link

import (
	"context"
	"fmt"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/audit"
	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/workspace"
)

// transition is a change of a link's state that no caller makes. Its mark is null until it is recorded, and
// set in the transaction of the event, so each is recorded exactly once. An edit that moves it into the
// future clears the mark, see clearMarks.
type transition struct {
	action audit.Action
	// due are the conditions on links whose transition has come. The first is that of the index which
	// orders them by the column order.
	due   []condition
	order string
	// marks are the columns to set.
	marks []assignment
	// at returns when the transition took effect.
	at func(l *Link) time.Time
}

// condition is a condition of a query.
type condition struct {
	text string
	args []any
}

// transitions returns all transitions. Links are exhausted once their recorded clicks reach MaxClicks, which
// is after the redirects have been granted.
func (s *Store) transitions(now time.Time) []transition {
	counted := s.DB.NewSelect().Table("click_totals").ColumnExpr("1").Where("subject_id = link.id").
		Where("clicks >= link.max_clicks")
	endedAt := bun.Safe("coalesce(ended_at, expires_at)")
	return []transition{
		{
			action: audit.LinkStarted, order: "starts_at", at: func(l *Link) time.Time { return *l.StartsAt },
			due:   []condition{{"starts_at IS NOT NULL AND started_at IS NULL", nil}, {"starts_at <= ?", []any{now}}},
			marks: []assignment{{"started_at", bun.Ident("starts_at")}},
		},
		{
			action: audit.LinkExpired, order: "expires_at", at: func(l *Link) time.Time { return *l.ExpiresAt },
			due:   []condition{{"expires_at IS NOT NULL AND expired_at IS NULL", nil}, {"expires_at <= ?", []any{now}}},
			marks: []assignment{{"expired_at", bun.Ident("expires_at")}, {"ended_at", endedAt}},
		},
		{
			action: audit.LinkExhausted, order: "id", at: func(*Link) time.Time { return now },
			due:   []condition{{"granted >= max_clicks AND exhausted_at IS NULL", nil}, {"EXISTS (?)", []any{counted}}},
			marks: []assignment{{"exhausted_at", now}},
		},
	}
}

// RecordTransitions records that links have started, expired or been exhausted, in batches with a
// transaction each. No state depends on it, but clean-up purges recorded expired links only. It may run on
// several nodes at once.
func (s *Store) RecordTransitions(ctx context.Context) error {
	ctx = db.AsSystem(ctx)
	for _, t := range s.transitions(s.now()) {
		total, n := 0, sweepBatch
		for n == sweepBatch {
			err := s.DB.Tx(ctx, func(ctx context.Context, tx bun.Tx) (err error) {
				n, err = s.record(ctx, tx, t)
				return err
			})
			if err != nil {
				return fmt.Errorf("recording %s: %w", t.action, err)
			}
			total += n
		}
		if total > 0 {
			s.Log.InfoContext(ctx, "recording transitions", "action", t.action, "count", total)
		}
	}
	return nil
}

// record records a batch of transitions, and returns how many. Links without an account have no events.
func (s *Store) record(ctx context.Context, tx bun.Tx, t transition) (int, error) {
	q := s.applyMachine(t.marks...).Conn(tx).Where("id IN (?)", s.DB.SkipLocked(t.batch(tx)))
	for _, c := range t.conditions() {
		q = q.Where(c.text, c.args...)
	}
	var links []*Link
	err := q.Returning("id, workspace_id, starts_at, expires_at").Scan(ctx, &links)
	if err != nil {
		return 0, err
	}
	events := make([]*audit.Event, 0, len(links))
	for _, l := range links {
		if l.WorkspaceID != workspace.PublicID {
			events = append(events, audit.New(l.WorkspaceID, "", t.action, l.ID, nil, s.Now()).WithEffectiveAt(t.at(l)))
		}
	}
	return len(links), audit.Write(ctx, tx, events...)
}

// batch selects links to mark.
func (t *transition) batch(conn bun.IDB) *bun.SelectQuery {
	q := conn.NewSelect().Model((*Link)(nil)).Column("id").Order(t.order).Limit(sweepBatch)
	for _, c := range t.conditions() {
		q = q.Where(c.text, c.args...)
	}
	return q
}

// conditions returns the conditions on the links to mark. Deleted and disabled links have no transitions.
func (t *transition) conditions() []condition {
	return append([]condition{{"deleted_at IS NULL AND disabled_at IS NULL", nil}}, t.due...)
}

// clearMarks lets transitions be recorded again that a change has moved into the future.
func (l *Link) clearMarks(now time.Time) {
	if l.StartsAt == nil || l.StartsAt.After(now) {
		l.StartedAt = nil
	}
	if l.ExpiresAt == nil || l.ExpiresAt.After(now) {
		l.ExpiredAt = nil
	}
	if l.MaxClicks == nil || l.Granted < *l.MaxClicks {
		l.ExhaustedAt = nil
	}
}
