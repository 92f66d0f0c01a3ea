package audit

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/feed"
	"github.com/linkforge/linkforge/internal/platform/id"
	"github.com/linkforge/linkforge/internal/platform/page"
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
	TaskActions    = []Action{TaskFinished}
)

// FeedActions returns all actions that the feed has.
func FeedActions() []Action {
	return slices.Concat(LinkActions, DomainActions, WebhookActions, TaskActions)
}

// FeedRequest selects a part of the feed of a workspace.
type FeedRequest struct {
	// Actions are the actions that the caller may read. Wanted selects some of them; nil selects
	// all.
	Actions, Wanted []Action
	// TargetID is empty for all objects.
	TargetID string
	// OnlyTarget means that the caller may see the events of TargetID only: neither the newest
	// event nor After is another's.
	OnlyTarget bool
	// After is the event after which to continue; empty means the oldest.
	After string
	Size  int
}

// Feed returns one page of the events of a workspace in the order of their commits, oldest first,
// which is the same on all nodes, and the newest event. On PostgreSQL, transactions commit out of
// order: only events of transactions before the oldest open one are returned, so no event can be
// added between them. A page may have fewer events than its size, or none, although more follow its
// End. It returns InvalidInput, and Expired for an event that is no longer in the feed.
func Feed(ctx context.Context, d *db.DB, workspaceID string, r FeedRequest, now time.Time) (
	p page.Page[*Event], head string, err error,
) {
	f := recent{d, workspaceID, db.Instant(now.Add(-FeedRetention))}
	start, err := f.start(ctx)
	if err != nil {
		return p, "", err
	}
	after, only := start, ""
	if r.OnlyTarget {
		only = r.TargetID
	}
	if r.After != "" {
		if after, err = PositionOf(ctx, d, workspaceID, only, r.After, now); err != nil {
			return p, "", err
		}
	}
	// The newest event is read first, so that a page without further events has all up to it.
	err = f.events().Column("id").Apply(afterPosition(start, inLog)).Where("action IN (?)", bun.In(r.Actions)).
		Apply(ofTarget(only)).Order("xid DESC", "seq DESC").Limit(1).Scan(ctx, &head)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return p, "", fmt.Errorf("reading the newest event: %w", err)
	}
	var rows []*Event
	actions := r.Actions
	if r.Wanted != nil {
		actions = slices.DeleteFunc(slices.Clone(actions), func(a Action) bool { return !slices.Contains(r.Wanted, a) })
	}
	o := orderOf(r.TargetID)
	q := f.events().Model(&rows).Apply(about(actions, r.TargetID), afterPosition(after, o), first(r.Size+1, o))
	end := &Written{}
	if r.Wanted != nil && r.TargetID == "" && !areRare(actions) {
		if end, err = f.farthest(ctx, after); err != nil {
			return p, "", err
		}
	}
	if end.ID != "" {
		q = q.Where("(xid, seq) <= (?, ?)", end.XID, end.Seq)
	}
	if err := q.Scan(ctx); err != nil {
		return p, "", fmt.Errorf("reading the event log: %w", err)
	}
	if p.HasNext = len(rows) > r.Size; p.HasNext {
		rows = rows[:r.Size]
	} else {
		p.HasNext, p.End = end.ID != "", end.ID
	}
	p.Items, p.HasPrevious = rows, r.After != ""
	for _, e := range rows {
		p.Cursors = append(p.Cursors, e.ID)
	}
	return p, head, nil
}

// recent is the part of the event log of a workspace since an instant.
type recent struct {
	db          *db.DB
	workspaceID string
	since       time.Time
}

// events selects the events whose position is final.
func (f *recent) events() *bun.SelectQuery {
	return final(f.db).Where("workspace_id = ?", f.workspaceID).Where("created_at > ?", f.since)
}

// maxScanned is how many events are read for a page. One that finds too few that the caller wants
// stops there.
const maxScanned = 5000

// farthest returns the event at which a page after a position stops; an empty one if the log has
// fewer events.
func (f *recent) farthest(ctx context.Context, after feed.Position) (*Written, error) {
	end := &Written{}
	err := final(f.db).Column("id", "xid", "seq").Where("workspace_id = ?", f.workspaceID).
		Apply(afterPosition(after, inLog), first(1, inLog)).Offset(maxScanned-1).Scan(ctx, end)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return nil, fmt.Errorf("looking up the end of a page: %w", err)
	}
	return end, nil
}

// clockSkew is how much the clocks of nodes, and the creation of an id and its event, may differ.
const clockSkew = time.Hour

// start returns a position before all events of the feed, so that older ones are not read: that of
// the newest event which is certainly too old.
func (f *recent) start(ctx context.Context) (feed.Position, error) {
	var at struct{ XID, Seq *int64 }
	err := f.db.NewSelect().Model((*Event)(nil)).Column("xid", "seq").Where("workspace_id = ?", f.workspaceID).
		Where("id < ?", id.From(id.Event, f.since.Add(-clockSkew))).Order("id DESC").Limit(1).
		Scan(ctx, &at.XID, &at.Seq)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return feed.Position{}, fmt.Errorf("looking up the start of the feed: %w", err)
	}
	if at.XID == nil || at.Seq == nil { // no event is older, or it was written before events had positions
		return feed.Position{XID: -1}, nil
	}
	return feed.Position{XID: *at.XID, Seq: *at.Seq}, nil
}

// ofTarget selects the events of an object; an empty id selects all.
func ofTarget(targetID string) func(*bun.SelectQuery) *bun.SelectQuery {
	return func(q *bun.SelectQuery) *bun.SelectQuery {
		if targetID == "" {
			return q
		}
		return q.Where("target_id = ?", targetID)
	}
}

// PositionOf returns the position of an event of a workspace or, if the id is not empty, of an
// object in it. It returns InvalidInput, and Expired for an event that is not or no longer in the
// feed.
func PositionOf(
	ctx context.Context, d *db.DB, workspaceID, targetID, eventID string, now time.Time,
) (at feed.Position, err error) {
	if !id.Valid(id.Event, eventID) {
		return at, errs.New(errs.InvalidInput, "after must be the id of an event.").At("after")
	}
	err = d.NewSelect().Model((*Event)(nil)).Column("xid", "seq").Where("workspace_id = ?", workspaceID).
		Where("id = ?", eventID).Apply(ofTarget(targetID)).Where("seq IS NOT NULL").Where("created_at > ?",
		db.Instant(now.Add(-FeedRetention))).
		Scan(ctx, &at)
	if errors.Is(err, sql.ErrNoRows) {
		return at, errs.New(errs.Expired,
			"after is not an event of the last %d days. Read Workspace.events without after "+
				"for all events of that time, or continue after its head.", int(FeedRetention/(24*time.Hour))).
			At("after")
	}
	if err != nil {
		return at, fmt.Errorf("looking up an event: %w", err)
	}
	return at, nil
}
