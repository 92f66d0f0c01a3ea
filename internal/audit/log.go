package audit

import (
	"context"
	"fmt"
	"time"

	"github.com/linkforge/linkforge/internal/db"
)

// Between returns the ids, targets and actions of at most limit events of a workspace with one of the
// actions, of a span of time, in the order of the log. Events that are no longer in the feed are left out.
func Between(
	ctx context.Context, d *db.DB, workspaceID string, from, to time.Time, actions []Action, limit int, now time.Time,
) (rows []*Event, err error) {
	f := feed{d, workspaceID, db.Instant(now.Add(-FeedRetention))}
	err = withActions(f.events(), actions).Model(&rows).Column("id", "target_id", "action").
		Where("created_at >= ?", db.Instant(from)).Where("created_at < ?", db.Instant(to)).
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
			Where("xid < "+db.OldestTransaction).Order("xid", "seq")
	} else {
		q = q.Where("seq > ?", after.Seq).Order("seq")
	}
	if err := q.Limit(int64(limit)).Scan(ctx, &rows); err != nil {
		return nil, fmt.Errorf("reading the event log: %w", err)
	}
	return rows, nil
}
