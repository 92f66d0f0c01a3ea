package workspace

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/linkforge/linkforge/internal/event/audit"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/optional"
	"github.com/linkforge/linkforge/internal/platform/page"
)

// LoggedEvent is an event for the caller with the membership.
type LoggedEvent struct {
	*audit.Event
	In Membership
}

func (*LoggedEvent) IsEntity() {} // an entity of Apollo Federation

// Events returns one page of the events that the caller may see, in the order of their commits, and
// the newest one. It returns InvalidInput, Expired, Forbidden, or NotFound for a link outside of
// the fence of an API key.
func (s *Store) Events(ctx context.Context, m Membership, r audit.FeedRequest) (
	p page.Page[*LoggedEvent], head string, err error,
) {
	if ctx, err = m.EnterLink(ctx, ReadLinks, s.DB, r.TargetID); err != nil {
		return p, "", err
	}
	ctx = db.UpToDate(ctx) // a standby may lack the caller's last event
	r.Actions, r.OnlyTarget = m.EventActions(), m.Fence() != nil
	events, head, err := audit.Feed(ctx, s.DB, m.ID(), r, s.Now())
	if err != nil {
		return p, "", err
	}
	return logged(m, events), head, nil
}

// AuditLog returns one page of all events of the workspace, newest first. It returns InvalidInput
// or Forbidden.
func (s *Store) AuditLog(
	ctx context.Context, m Membership, f *audit.Filter, r page.Request,
) (page.Page[*LoggedEvent], error) {
	ctx, err := m.Enter(ctx, ReadAudit)
	if err != nil {
		return page.Page[*LoggedEvent]{}, err
	}
	events, err := audit.List(ctx, s.DB, m.ID(), f, r)
	return logged(m, events), err
}

// EventsByID returns the events with the ids that the caller finds in the audit log, or in the
// event log, which has those of 30 days. Others are missing from the result. It returns Forbidden.
func (s *Store) EventsByID(ctx context.Context, m Membership, ids ...string) (found []*LoggedEvent, err error) {
	if m.May(ReadAudit) {
		ctx, err = m.Enter(ctx, ReadAudit)
	} else {
		ctx, err = m.Enter(ctx, ReadLinks)
	}
	if err != nil {
		return nil, err
	}
	events, err := audit.Many(ctx, s.DB, m.ID(), ids...)
	if err == nil && m.Fence() != nil {
		events, err = s.ofLinksInside(ctx, m, events)
	}
	visible, first := m.EventActions(), s.Now().Add(-audit.FeedRetention)
	for _, e := range events {
		if m.May(ReadAudit) || slices.Contains(visible, e.Action) && e.CreatedAt.After(first) {
			found = append(found, &LoggedEvent{Event: e, In: m})
		}
	}
	return found, err
}

// ofLinksInside returns the events of the links that the membership can see.
func (s *Store) ofLinksInside(ctx context.Context, m Membership, events []*audit.Event) ([]*audit.Event, error) {
	targets := make([]string, 0, len(events))
	for _, e := range events {
		targets = append(targets, e.TargetID)
	}
	sees, err := m.LinksInside(ctx, s.DB, targets...)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(events, func(e *audit.Event) bool { return !sees(e.TargetID) }), nil
}

func logged(m Membership, events page.Page[*audit.Event]) page.Page[*LoggedEvent] {
	return page.Map(events, func(e *audit.Event) *LoggedEvent { return &LoggedEvent{Event: e, In: m} })
}

// EventActions returns the actions that the caller may see in the event log.
func (m Membership) EventActions() (actions []audit.Action) {
	if m.May(ReadLinks) {
		actions = slices.Concat(audit.LinkActions, audit.TaskActions)
	}
	if m.May(ReadDomains) {
		actions = append(actions, audit.DomainActions...)
	}
	if m.May(WriteWebhooks) {
		actions = append(actions, audit.WebhookActions...)
	}
	return actions
}

// AuditLine is an event of the audit log as a line of an export.
type AuditLine struct {
	ID          string          `json:"id"`
	Action      audit.Action    `json:"type"`
	ActorID     string          `json:"actorId,omitempty"`
	TargetID    string          `json:"subjectId"`
	Details     json.RawMessage `json:"details"`
	Version     *int            `json:"version,omitempty"`
	OperationID string          `json:"operationId,omitempty"`
	Changes     json.RawMessage `json:"changes,omitempty"`
	CreatedAt   time.Time       `json:"createdAt"`
}

// Line returns the event as a line of an export.
func (e *LoggedEvent) Line() AuditLine {
	return AuditLine{
		ID: e.ID, Action: e.Action, ActorID: e.ActorID, TargetID: e.TargetID, Details: json.RawMessage(e.Details),
		Version: e.Version, OperationID: optional.Value(e.OperationID),
		Changes: json.RawMessage(optional.Value(e.Changes)), CreatedAt: e.CreatedAt.UTC(),
	}
}
