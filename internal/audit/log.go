package audit

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/db"
)

// Position is a position in the event log of all workspaces: the transaction, zero on SQLite, and the
// sequence.
type Position struct {
	XID int64 `bun:"xid"`
	Seq int64
}

// Positioned is an event with its position.
type Positioned struct {
	Event `bun:",extend"`
	Position
}

// Head returns the position after all events that are final now. Later events follow it.
func Head(ctx context.Context, d *db.DB, conn bun.IDB) (at Position, err error) {
	if d.Kind == db.Postgres {
		at.Seq = math.MaxInt64
		err = conn.NewSelect().ColumnExpr("pg_snapshot_xmin(pg_current_snapshot())::TEXT::BIGINT - 1").Scan(ctx, &at.XID)
	} else {
		err = conn.NewSelect().Model((*Event)(nil)).ColumnExpr("coalesce(max(seq), 0)").Where("seq IS NOT NULL").
			Scan(ctx, &at.Seq)
	}
	if err != nil {
		return at, fmt.Errorf("looking up the end of the event log: %w", err)
	}
	return at, nil
}

// After returns events of a workspace with one of the actions after a position, in the order of the log,
// without those that are no longer in the feed.
func After(
	ctx context.Context, d *db.DB, workspaceID string, after Position, actions []Action, limit int, now time.Time,
) (rows []*Positioned, err error) {
	if len(actions) == 0 {
		return nil, nil
	}
	f := feed{d, workspaceID, db.Instant(now.Add(-FeedRetention))}
	err = f.events().Model(&rows).ColumnExpr("?TableColumns, event.xid, event.seq").
		Where("(xid, seq) > (?, ?)", after.XID, after.Seq).Where("action IN (?)", bun.In(actions)).
		Order("xid", "seq").Limit(int64(limit)).Scan(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading the event log: %w", err)
	}
	return rows, nil
}

// Between returns the ids, targets and actions of at most limit events of a workspace with one of the
// actions, of a span of time, in the order of the log. Events that are no longer in the feed are left out.
func Between(
	ctx context.Context, d *db.DB, workspaceID string, from, to time.Time, actions []Action, limit int, now time.Time,
) (rows []*Event, err error) {
	if len(actions) == 0 {
		return nil, nil
	}
	f := feed{d, workspaceID, db.Instant(now.Add(-FeedRetention))}
	err = f.events().Model(&rows).Column("id", "target_id", "action").Where("created_at >= ?", db.Instant(from)).
		Where("created_at < ?", db.Instant(to)).Where("action IN (?)", bun.In(actions)).
		Order("xid", "seq").Limit(int64(limit)).Scan(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading the event log: %w", err)
	}
	return rows, nil
}

// Written is an event of the log of all workspaces, without its content.
type Written struct {
	Position
	WorkspaceID string
	Action      Action
}

// WrittenAfter returns the events of all workspaces after a position, in the order of the log.
func WrittenAfter(ctx context.Context, d *db.DB, after Position, limit int) (rows []*Written, err error) {
	q := d.NewSelect().Model((*Event)(nil)).Column("xid", "seq", "workspace_id", "action").Where("seq IS NOT NULL")
	if d.Kind == db.Postgres {
		q = q.Where("(xid, seq) > (?, ?)", after.XID, after.Seq).
			Where("xid < pg_snapshot_xmin(pg_current_snapshot())::TEXT::BIGINT").Order("xid", "seq")
	} else {
		q = q.Where("seq > ?", after.Seq).Order("seq")
	}
	if err := q.Limit(int64(limit)).Scan(ctx, &rows); err != nil {
		return nil, fmt.Errorf("reading the event log: %w", err)
	}
	return rows, nil
}
