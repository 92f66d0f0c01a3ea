package upkeep

import (
	"context"
	"fmt"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/event/audit"
	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/id"
)

// lateAfter is how late an expiration is recorded at most if the link was recorded in time. An
// import of a link that had expired, and enabling one, record it later: its tombstone begins then,
// since clean-up would purge it at once.
const lateAfter = 24 * time.Hour

// transition is a change of a link's state that no caller makes. Its mark is null until it is
// recorded, and set in the transaction of the event, so each is recorded exactly once. An edit that
// moves it into the future clears the mark, see package link.
type transition struct {
	action audit.Action
	// due selects the ids of links whose transition has come, in the order of an index that has no
	// others.
	due func() *bun.SelectQuery
	// mark sets the marks of selected links, and returns their fields that the event needs.
	mark func(due *bun.SelectQuery) *bun.UpdateQuery
	// at returns when the transition took effect.
	at func(l *link.Link) time.Time
}

// transitions returns all transitions. Deleted and disabled links have none. Links are exhausted
// once their recorded clicks reach MaxClicks, which is after the redirects have been granted.
func (s *Store) transitions(now time.Time) []transition {
	const isPublished = "link.deleted_at IS NULL AND link.disabled_at IS NULL"
	come := func(instant, mark string) func() *bun.SelectQuery {
		return func() *bun.SelectQuery {
			return s.DB.NewSelect().Model((*link.Link)(nil)).Column("id").Where(isPublished).Order(instant).
				Where("? IS NOT NULL AND ? IS NULL", bun.Ident(instant), bun.Ident(mark)).
				Where("? <= ?", bun.Ident(instant), now)
		}
	}
	set := func(marks ...assignment) func(due *bun.SelectQuery) *bun.UpdateQuery {
		return func(due *bun.SelectQuery) *bun.UpdateQuery {
			return s.setMachine(marks...).Where("id IN (?)", due).Returning("id, workspace_id, starts_at, expires_at")
		}
	}
	return []transition{
		{
			action: audit.LinkStarted, at: func(l *link.Link) time.Time { return *l.StartsAt },
			due: come("starts_at", "started_at"), mark: set(assignment{"started_at", bun.Ident("starts_at")}),
		},
		{
			action: audit.LinkExpired, at: func(l *link.Link) time.Time { return *l.ExpiresAt },
			due: come("expires_at", "expired_at"), mark: set(assignment{"expired_at", bun.Ident("expires_at")},
				assignment{"ended_at", bun.SafeQuery(
					"coalesce(ended_at, CASE WHEN expires_at > ? THEN expires_at ELSE ? END)", now.Add(-lateAfter),
					now)}),
		},
		{
			action: audit.LinkExhausted, at: func(*link.Link) time.Time { return now },
			due: func() *bun.SelectQuery {
				return s.DB.NewSelect().Table("grants").Column("grants.subject_id").
					Join("JOIN links AS link ON link.id = grants.subject_id").Where(isPublished).
					Order("grants.subject_id").
					Where("granted >= grants.max_clicks AND exhausted_at IS NULL AND grants.subject_id = link_id").
					Where("EXISTS (SELECT 1 FROM click_totals AS total WHERE total.subject_id = grants.subject_id " +
						"AND total.clicks >= grants.max_clicks)")
			},
			mark: func(due *bun.SelectQuery) *bun.UpdateQuery { return s.markExhausted(due, now) },
		},
	}
}

func (s *Store) markExhausted(due *bun.SelectQuery, now time.Time) *bun.UpdateQuery {
	return s.DB.NewUpdate().Table("grants").Set("exhausted_at = ?", now).Where("subject_id IN (?)", due).
		Returning("subject_id AS id, workspace_id")
}

// RecordTransitions records that links have started, expired or been exhausted, in batches with a
// transaction each. No state depends on it, but clean-up purges recorded expired links only. It may
// run on several nodes at once.
func (s *Store) RecordTransitions(ctx context.Context) error {
	ctx = db.AsSystem(ctx)
	for _, t := range s.transitions(s.now()) {
		total, n := 0, batchSize
		for n == batchSize {
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

// record records a batch of transitions, and returns how many. Links without an account have no
// events.
func (s *Store) record(ctx context.Context, tx bun.Tx, t transition) (int, error) {
	var links []*link.Link
	if err := t.mark(s.DB.SkipLocked(t.batch(tx))).Conn(tx).Scan(ctx, &links); err != nil {
		return 0, err
	}
	events := make([]*audit.Event, 0, len(links))
	for _, l := range links {
		if l.WorkspaceID != id.PublicWorkspace {
			events = append(events, audit.New(l.WorkspaceID, "", t.action, l.ID, nil, s.Now()).WithEffectiveAt(t.at(l)))
		}
	}
	return len(links), audit.Write(ctx, tx, events...)
}

// batch selects links to mark.
func (t *transition) batch(conn bun.IDB) *bun.SelectQuery {
	return t.due().Conn(conn).Limit(batchSize)
}
