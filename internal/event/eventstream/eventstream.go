// Package eventstream delivers committed events to subscriptions, in the order of the event log,
// which is the same on every node. Package audit owns the log. GraphQL subscriptions call it.
package eventstream

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/linkforge/linkforge/internal/event/audit"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/feed"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
)

const (
	// readDeadline bounds one read, maxEvents the events of it.
	readDeadline = 5 * time.Second
	maxEvents    = 500
)

// Live delivers events of all nodes to the watches of this node, each once and in the same order on
// every node.
type Live struct {
	*feed.Live[*audit.Event]

	events eventLog
}

// New returns a Live that does not run yet.
func New(d *db.DB, log *slog.Logger, now func() time.Time) *Live {
	l := &Live{events: eventLog{db: d, now: now, actions: audit.FeedActions()}}
	l.Live = feed.NewLive(&l.events, now, log, "reading new events for subscriptions failed")
	return l
}

// Filter selects events of a workspace.
type Filter struct {
	// Actions are nil for all.
	Actions []audit.Action
	// TargetID is empty for all objects.
	TargetID string
}

func (f *Filter) wants(e *audit.Event) bool {
	return (f.Actions == nil || slices.Contains(f.Actions, e.Action)) && (f.TargetID == "" || f.TargetID == e.TargetID)
}

// Watch starts after the event with the id after or, if it is empty, with new events. The caller
// leaves out what its membership, as it is then, does not permit (EventActions). Watch returns
// Forbidden, InvalidInput for an invalid id, Expired for an event that the workspace does not have,
// or that is too old, and NotFound for a link outside of the fence of an API key. The caller closes
// the watch.
func (l *Live) Watch(
	ctx context.Context, m workspace.Membership, f Filter, after string,
) (*feed.Watch[*audit.Event], error) {
	ctx, err := m.EnterLink(ctx, workspace.ReadLinks, l.events.db, f.TargetID)
	if err != nil {
		return nil, err
	}
	log := l.events
	log.targetID = f.TargetID
	if f.Actions != nil {
		log.actions = f.Actions
	}
	start, err := log.begin(ctx, m, after)
	if err != nil {
		return nil, err
	}
	subject := feed.Subject[*audit.Event]{WorkspaceID: m.ID(), Wants: f.wants, Log: &log}
	return l.Live.Watch(subject, start, after == ""), nil
}

// eventLog has the events with the actions, of all objects or of one.
type eventLog struct {
	db       *db.DB
	now      func() time.Time
	actions  []audit.Action
	targetID string
}

// begin returns the position after an event, or after all events.
func (l *eventLog) begin(ctx context.Context, m workspace.Membership, after string) (feed.Position, error) {
	ctx, cancel := context.WithTimeout(ctx, readDeadline)
	defer cancel()
	if after == "" {
		return audit.Horizon(ctx, l.db)
	}
	only := ""
	if m.Fence() != nil {
		only = l.targetID
	}
	return audit.PositionOf(db.UpToDate(ctx), l.db, m.ID(), only, after, l.now())
}

// After implements feed.Log.
func (l *eventLog) After(
	ctx context.Context, after feed.Position, workspaceIDs []string,
) (s feed.Step[*audit.Event], err error) {
	ctx, cancel := context.WithTimeout(db.AsSystem(ctx), readDeadline)
	defer cancel()
	s.Reached, err = audit.Horizon(ctx, l.db)
	if err != nil {
		return s, err
	}
	if s.Reached.Compare(after) <= 0 { // no transaction has ended since
		s.Reached = after
		return s, nil
	}
	events, err := audit.Read(ctx, l.db, audit.LogRequest{
		WorkspaceIDs: workspaceIDs, Actions: l.actions, TargetID: l.targetID,
		After: after, UpTo: s.Reached, Limit: maxEvents,
	})
	if err != nil {
		return s, err
	}
	for _, e := range events {
		at := feed.Position{XID: e.XID, Seq: e.Seq}
		s.Items = append(s.Items, feed.Item[*audit.Event]{Value: &e.Event, WorkspaceID: e.WorkspaceID, Position: at})
	}
	if s.More = len(events) == maxEvents; s.More {
		s.Reached = s.Items[maxEvents-1].Position
	}
	return s, nil
}
