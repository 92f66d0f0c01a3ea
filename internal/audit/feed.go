package audit

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/errs"
	"github.com/linkforge/linkforge/internal/id"
	"github.com/linkforge/linkforge/internal/page"
)

// FeedRetention is how long the feed has events.
const FeedRetention = 30 * 24 * time.Hour

// The actions that the feed has, by the permission that they need.
var (
	LinkActions = []Action{
		LinkCreated, LinkUpdated, LinkDeleted, LinkRestored, LinkClaimed, LinkDisabled, LinkEnabled, LinkPurged,
	}
	DomainActions = []Action{DomainVerified, DomainLost}
)

// FeedRequest selects a part of the feed of a workspace.
type FeedRequest struct {
	// Actions are those that the caller may see, Wanted those that are requested; nil means all.
	Actions, Wanted []Action
	// TargetID is empty for all objects.
	TargetID string
	// After is the event after which to continue; empty means the oldest.
	After string
	Size  int
}

// position is a position in the order of commits. Transactions are zero on SQLite.
type position struct {
	XID int64 `bun:"xid"`
	Seq int64
}

// Feed returns one page of the events of a workspace in the order of their commits, oldest first, which is
// the same on all nodes, and the newest event. On PostgreSQL, transactions commit out of order: only events
// of transactions before the oldest open one are returned, so no event can be added between them. It
// returns InvalidInput, and Expired for an event that is no longer in the feed.
func Feed(ctx context.Context, d *db.DB, workspaceID string, r FeedRequest, now time.Time) (
	p page.Page[*Event], head string, err error,
) {
	since := db.Instant(now.Add(-FeedRetention))
	q := feedOf(d, workspaceID).Where("created_at > ?", since).Where("action IN (?)", bun.In(r.Actions))
	if r.Wanted != nil {
		q = q.Where("action IN (?)", bun.In(append(slices.Clone(r.Wanted), "")))
	}
	if r.TargetID != "" {
		q = q.Where("target_id = ?", r.TargetID)
	}
	if r.After != "" {
		after, err := positionOf(ctx, d, workspaceID, r.After, since)
		if err != nil {
			return p, "", err
		}
		q = q.Where("(xid, seq) > (?, ?)", after.XID, after.Seq)
	}
	var rows []*Event
	if err := q.Model(&rows).Order("xid", "seq").Limit(int64(r.Size + 1)).Scan(ctx); err != nil {
		return p, "", fmt.Errorf("reading the event log: %w", err)
	}
	if p.HasNext = len(rows) > r.Size; p.HasNext {
		rows = rows[:r.Size]
	}
	p.Items, p.HasPrevious = rows, r.After != ""
	for _, e := range rows {
		p.Cursors = append(p.Cursors, e.ID)
	}
	err = feedOf(d, workspaceID).Model((*Event)(nil)).Column("id").Where("created_at > ?", since).
		Where("action IN (?)", bun.In(r.Actions)).Order("xid DESC", "seq DESC").Limit(1).Scan(ctx, &head)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return p, "", fmt.Errorf("reading the newest event: %w", err)
	}
	return p, head, nil
}

// feedOf selects the events of a workspace whose position is final.
func feedOf(d *db.DB, workspaceID string) *bun.SelectQuery {
	q := d.NewSelect().Where("workspace_id = ?", workspaceID).Where("seq IS NOT NULL")
	if d.Kind == db.Postgres {
		q = q.Where("xid < pg_snapshot_xmin(pg_current_snapshot())::TEXT::BIGINT")
	}
	return q
}

func positionOf(
	ctx context.Context, d *db.DB, workspaceID, eventID string, since time.Time,
) (at position, err error) {
	if !id.Valid(id.Event, eventID) {
		return at, errs.New(errs.InvalidInput, "The cursor is not the id of an event.").At("after")
	}
	err = feedOf(d, workspaceID).Model((*Event)(nil)).Column("xid", "seq").Where("id = ?", eventID).
		Where("created_at > ?", since).Scan(ctx, &at)
	if errors.Is(err, sql.ErrNoRows) {
		return at, errs.New(errs.Expired, "The event is not in the feed, or no longer. Read the feed from its start, or "+
			"from head.").At("after")
	}
	if err != nil {
		return at, fmt.Errorf("looking up an event: %w", err)
	}
	return at, nil
}

// AfterRestore orders the events of a database that was restored into another cluster by their sequence:
// their transaction numbers are those of the former cluster.
func AfterRestore(ctx context.Context, d *db.DB) error {
	_, err := d.NewUpdate().Model((*Event)(nil)).Set("xid = 0").Where("xid > 0").Exec(db.AsSystem(ctx))
	if err != nil {
		return fmt.Errorf("ordering restored events: %w", err)
	}
	return nil
}
