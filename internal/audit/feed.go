package audit

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
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
		LinkStarted, LinkExpired, LinkExhausted,
		DestinationFailed, DestinationRecovered,
	}
	DomainActions  = []Action{DomainVerified, DomainFailing, DomainLost}
	WebhookActions = []Action{WebhookDisabled}
)

// FeedActions returns all actions that the feed has.
func FeedActions() []Action { return slices.Concat(LinkActions, DomainActions, WebhookActions) }

// FeedRequest selects a part of the feed of a workspace.
type FeedRequest struct {
	// Actions are those that the caller may read. Wanted selects some of them; nil selects all.
	Actions, Wanted []Action
	// TargetID is empty for all objects.
	TargetID string
	// After is the event after which to continue; empty means the oldest.
	After string
	Size  int
}

// Position is a position in the order of commits. Transactions are zero on SQLite.
type Position struct {
	XID int64 `bun:"xid"`
	Seq int64
}

// Positioned is an event with its position.
type Positioned struct {
	Event `bun:",extend"`

	XID int64 `bun:"xid,scanonly"`
	Seq int64 `bun:",scanonly"`
}

// Feed returns one page of the events of a workspace in the order of their commits, oldest first, which is
// the same on all nodes, and the newest event. On PostgreSQL, transactions commit out of order: only events
// of transactions before the oldest open one are returned, so no event can be added between them. It
// returns InvalidInput, and Expired for an event that is no longer in the feed.
func Feed(ctx context.Context, d *db.DB, workspaceID string, r FeedRequest, now time.Time) (
	p page.Page[*Event], head string, err error,
) {
	f := feed{d, workspaceID, db.Instant(now.Add(-FeedRetention))}
	start, err := f.start(ctx)
	if err != nil {
		return p, "", err
	}
	after := start
	if r.After != "" {
		if after, err = PositionOf(ctx, d, workspaceID, r.After, now); err != nil {
			return p, "", err
		}
	}
	// The newest event is read first, so that a page without further events has all up to it.
	err = withActions(f.events(), r.Actions).Column("id").Where("(xid, seq) > (?, ?)", start.XID, start.Seq).
		Order("xid DESC", "seq DESC").Limit(1).Scan(ctx, &head)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return p, "", fmt.Errorf("reading the newest event: %w", err)
	}
	var rows []*Event
	q := withActions(f.events().Model(&rows), r.Actions).Where("(xid, seq) > (?, ?)", after.XID, after.Seq)
	if r.Wanted != nil {
		q = withActions(q, r.Wanted)
	}
	if r.TargetID != "" {
		q = q.Where("target_id = ?", r.TargetID)
	}
	if err := q.Order("xid", "seq").Limit(int64(r.Size + 1)).Scan(ctx); err != nil {
		return p, "", fmt.Errorf("reading the event log: %w", err)
	}
	if p.HasNext = len(rows) > r.Size; p.HasNext {
		rows = rows[:r.Size]
	}
	p.Items, p.HasPrevious = rows, r.After != ""
	for _, e := range rows {
		p.Cursors = append(p.Cursors, e.ID)
	}
	return p, head, nil
}

// feed is the part of the event log of a workspace since an instant.
type feed struct {
	db          *db.DB
	workspaceID string
	since       time.Time
}

// events selects the events whose position is final.
func (f *feed) events() *bun.SelectQuery {
	q := f.db.NewSelect().Model((*Event)(nil)).Where("workspace_id = ?", f.workspaceID).Where("seq IS NOT NULL").
		Where("created_at > ?", f.since)
	if f.db.Kind == db.Postgres {
		q = q.Where("xid < " + db.OldestTransaction)
	}
	return q
}

// withActions selects events with one of the actions. An empty IN list is not valid SQL.
func withActions(q *bun.SelectQuery, actions []Action) *bun.SelectQuery {
	if len(actions) == 0 {
		return q.Where("1 = 0")
	}
	return q.Where("action IN (?)", bun.In(actions))
}

// clockSkew is how much the clocks of nodes, and the creation of an id and its event, may differ.
const clockSkew = time.Hour

// start returns a position before all events of the feed, so that older ones are not read: that of the
// newest event which is certainly too old.
func (f *feed) start(ctx context.Context) (Position, error) {
	var at struct{ XID, Seq *int64 }
	err := f.db.NewSelect().Model((*Event)(nil)).Column("xid", "seq").Where("workspace_id = ?", f.workspaceID).
		Where("id < ?", id.From(id.Event, f.since.Add(-clockSkew))).Order("id DESC").Limit(1).Scan(ctx, &at.XID, &at.Seq)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return Position{}, fmt.Errorf("looking up the start of the feed: %w", err)
	}
	if at.XID == nil || at.Seq == nil { // no event is older, or it was written before events had positions
		return Position{XID: -1}, nil
	}
	return Position{*at.XID, *at.Seq}, nil
}

// PositionOf returns the position of an event of a workspace. It returns InvalidInput, and Expired for an
// event that is not or no longer in the feed.
func PositionOf(ctx context.Context, d *db.DB, workspaceID, eventID string, now time.Time) (at Position, err error) {
	if !id.Valid(id.Event, eventID) {
		return at, errs.New(errs.InvalidInput, "The cursor is not the id of an event.").At("after")
	}
	err = d.NewSelect().Model((*Event)(nil)).Column("xid", "seq").Where("workspace_id = ?", workspaceID).
		Where("id = ?", eventID).Where("seq IS NOT NULL").Where("created_at > ?", db.Instant(now.Add(-FeedRetention))).
		Scan(ctx, &at)
	if errors.Is(err, sql.ErrNoRows) {
		return at, errs.New(errs.Expired, "The event is not in the feed, or no longer. Read the feed from its start, or "+
			"from head.").At("after")
	}
	if err != nil {
		return at, fmt.Errorf("looking up an event: %w", err)
	}
	return at, nil
}

// Horizon returns the position up to which the log is final: no event can be added before it.
func Horizon(ctx context.Context, d *db.DB) (at Position, err error) {
	if d.Kind == db.Postgres {
		at.Seq = math.MaxInt64
		err = d.NewSelect().ColumnExpr(db.OldestTransaction+" - 1").Scan(ctx, &at.XID)
	} else {
		err = d.NewSelect().Model((*Event)(nil)).ColumnExpr("coalesce(max(seq), 0)").Where("seq IS NOT NULL").
			Scan(ctx, &at.Seq)
	}
	if err != nil {
		return at, fmt.Errorf("reading the end of the event log: %w", err)
	}
	return at, nil
}

// LogRequest selects a part of the log of some workspaces.
type LogRequest struct {
	WorkspaceIDs []string
	Actions      []Action
	// TargetID is empty for all objects.
	TargetID string
	// After is exclusive. UpTo is inclusive, and not behind the Horizon.
	After, UpTo Position
	Limit       int
}

// Read returns the first of the selected events, in the order of their commits.
func Read(ctx context.Context, d *db.DB, r LogRequest) (events []*Positioned, err error) {
	q := d.NewSelect().Model(&events).ColumnExpr("?TableColumns, xid, seq").
		Where("workspace_id IN (?)", bun.In(r.WorkspaceIDs)).Where("seq IS NOT NULL").
		Where("(xid, seq) > (?, ?)", r.After.XID, r.After.Seq).Where("(xid, seq) <= (?, ?)", r.UpTo.XID, r.UpTo.Seq)
	q = withActions(q, r.Actions)
	if r.TargetID != "" {
		q = q.Where("target_id = ?", r.TargetID)
	}
	if err := q.Order("xid", "seq").Limit(int64(r.Limit)).Scan(ctx); err != nil {
		return nil, fmt.Errorf("reading the event log: %w", err)
	}
	return events, nil
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
