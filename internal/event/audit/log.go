package audit

import (
	"context"
	"fmt"
	"slices"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/feed"
)

// Positioned is an event with its position.
type Positioned struct {
	Event `bun:",extend"`

	XID int64 `bun:"xid,scanonly"`
	Seq int64 `bun:",scanonly"`
}

// Horizon returns the end of the final part of the log: no event can be added before it.
func Horizon(ctx context.Context, d *db.DB) (feed.Position, error) {
	return feed.Horizon(ctx, d, "audit_events", "seq")
}

// LogRequest selects a part of the log of some workspaces.
type LogRequest struct {
	WorkspaceIDs []string
	Actions      []Action
	// TargetID is empty for all objects.
	TargetID string
	// After is exclusive. UpTo is inclusive, and at most the Horizon.
	After, UpTo feed.Position
	Limit       int
}

// Select selects events in the order of their commits, as rows of audit_events AS event. The caller
// adds columns and conditions.
func Select(d *db.DB, r LogRequest) *bun.SelectQuery {
	o := orderOf(r.TargetID)
	return positioned(d).Where("workspace_id IN (?)", bun.In(r.WorkspaceIDs)).
		Apply(about(r.Actions, r.TargetID), between(r.After, r.UpTo, o), first(r.Limit, o))
}

// Read returns the selected events.
func Read(ctx context.Context, d *db.DB, r LogRequest) (events []*Positioned, err error) {
	if err = Select(d, r).Model(&events).ColumnExpr("?TableColumns, xid, seq").Scan(ctx); err != nil {
		return nil, fmt.Errorf("reading the event log: %w", err)
	}
	return events, nil
}

// Written is an event of the log, without its content.
type Written struct {
	feed.Position
	ID       string
	TargetID string
	Action   Action
}

// WrittenAfter returns the positions of the next final events of all workspaces after a position.
func WrittenAfter(ctx context.Context, d *db.DB, after feed.Position, limit int) (rows []feed.Position, err error) {
	q := final(d).Column("xid", "seq").Apply(afterOnly(d, after))
	if d.Kind == db.Postgres {
		q = q.Apply(first(limit, inLog))
	} else {
		q = q.Order("seq").Limit(int64(limit))
	}
	if err := q.Scan(ctx, &rows); err != nil {
		return nil, fmt.Errorf("reading the event log: %w", err)
	}
	return rows, nil
}

// Part selects the events of all workspaces after a position, up to another one, as rows of
// audit_events AS event. The caller adds columns.
func Part(d *db.DB, after, upTo feed.Position) *bun.SelectQuery {
	q := positioned(d).Apply(afterOnly(d, after))
	if d.Kind == db.Postgres {
		return q.Where("(event.xid, event.seq) <= (?, ?)", upTo.XID, upTo.Seq)
	}
	return q.Where("event.seq <= ?", upTo.Seq)
}

// afterOnly selects the events of all workspaces after a position. SQLite has an index of their
// numbers: their transactions are zero.
func afterOnly(d *db.DB, p feed.Position) condition {
	return func(q *bun.SelectQuery) *bun.SelectQuery {
		if d.Kind == db.Postgres {
			return q.Where("(event.xid, event.seq) > (?, ?)", p.XID, p.Seq)
		}
		return q.Where("event.seq > ?", p.Seq)
	}
}

// positioned selects the events that have a position: those from before positions existed have
// none.
func positioned(d *db.DB) *bun.SelectQuery {
	return d.NewSelect().Model((*Event)(nil)).Where("seq IS NOT NULL")
}

// final selects the events whose position is final. On PostgreSQL, transactions commit out of
// order: no event can be added before those of transactions before the oldest open one.
func final(d *db.DB) *bun.SelectQuery {
	q := positioned(d)
	if d.Kind == db.Postgres {
		q = q.Where("xid < " + db.OldestTransaction)
	}
	return q
}

// condition adds a condition to a query.
type condition = func(*bun.SelectQuery) *bun.SelectQuery

// order is the order of the log, as the database reads it.
type order = bun.Safe

const (
	// inLog reads the index of the log.
	inLog order = "xid, seq"
	// sorted hides the columns from the planner, which then reads the index of the objects, and
	// sorts.
	sorted order = "+xid, +seq"
)

// orderOf returns how to read the events about an object; an empty targetID means all objects.
func orderOf(targetID string) order {
	if targetID == "" {
		return inLog
	}
	return sorted
}

// afterPosition selects the events after a position.
func afterPosition(p feed.Position, o order) condition {
	return func(q *bun.SelectQuery) *bun.SelectQuery { return q.Where("(?) > (?, ?)", o, p.XID, p.Seq) }
}

// between selects the events after a position, up to another one.
func between(p, upTo feed.Position, o order) condition {
	return func(q *bun.SelectQuery) *bun.SelectQuery {
		return q.Apply(afterPosition(p, o)).Where("(?) <= (?, ?)", o, upTo.XID, upTo.Seq)
	}
}

// first selects the first events in the order of the log.
func first(limit int, o order) condition {
	return func(q *bun.SelectQuery) *bun.SelectQuery { return q.OrderExpr("?", o).Limit(int64(limit)) }
}

// bulkActions are those of bulk calls. The log has an index of all others.
var bulkActions = []Action{LinkCreated, LinkUpdated, LinkDeleted, LinkRestored, LinkClaimed}

// isRare is the condition of that index, word for word.
const isRare = "action NOT IN ('LINK_CREATED', 'LINK_UPDATED', 'LINK_DELETED', 'LINK_RESTORED', 'LINK_CLAIMED')"

// areRare reports whether the index has all events with the actions.
func areRare(actions []Action) bool {
	return !slices.ContainsFunc(actions, func(a Action) bool { return slices.Contains(bulkActions, a) })
}

// about selects the events with one of the actions, about an object; an empty targetID means all
// objects. Without actions it selects none: an empty list becomes NULL.
func about(actions []Action, targetID string) condition {
	return func(q *bun.SelectQuery) *bun.SelectQuery {
		switch {
		case targetID != "":
			q = q.Where("target_id = ?", targetID).Where("id > ''") // both columns of the index
		case areRare(actions):
			q = q.Where(isRare)
		}
		return q.Where("action IN (?)", bun.In(actions))
	}
}

// AfterRestore orders the events of a database that was restored into another cluster by their
// sequence: their transaction numbers are those of the former cluster.
func AfterRestore(ctx context.Context, d *db.DB) error {
	_, err := d.NewUpdate().Model((*Event)(nil)).Set("xid = 0").Where("xid > 0").Exec(db.AsSystem(ctx))
	if err != nil {
		return fmt.Errorf("ordering restored events: %w", err)
	}
	return nil
}
