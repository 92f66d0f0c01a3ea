package workspace

import (
	"context"

	"github.com/linkforge/linkforge/internal/audit"
	"github.com/linkforge/linkforge/internal/db/replica"
	"github.com/linkforge/linkforge/internal/page"
)

// LoggedEvent is an event of the event log, for the caller with the membership.
type LoggedEvent struct {
	*audit.Event
	In Membership
	// ShowsActor says that the reader sees the id of the actor without the permission to list members.
	ShowsActor bool
}

// Events returns one page of the events that the caller may see, in the order of their commits, and the
// newest one. It returns InvalidInput, Expired or Forbidden.
func (s *Store) Events(ctx context.Context, m Membership, r audit.FeedRequest) (
	p page.Page[*LoggedEvent], head string, err error,
) {
	if ctx, err = m.Enter(ctx, ReadLinks); err != nil {
		return p, "", err
	}
	ctx = replica.UpToDate(ctx) // a standby may lack the caller's last event
	r.Actions = m.EventActions()
	events, head, err := audit.Feed(ctx, s.DB, m.ID(), r, s.Now())
	if err != nil {
		return p, "", err
	}
	p = page.Page[*LoggedEvent]{
		Cursors: events.Cursors, HasNext: events.HasNext, HasPrevious: events.HasPrevious, End: events.End,
	}
	for _, e := range events.Items {
		p.Items = append(p.Items, &LoggedEvent{Event: e, In: m})
	}
	return p, head, nil
}

// EventActions returns the actions that the caller may see in the event log.
func (m Membership) EventActions() (actions []audit.Action) {
	if m.May(ReadLinks) {
		actions = append(actions, audit.LinkActions...)
	}
	if m.May(ReadDomains) {
		actions = append(actions, audit.DomainActions...)
	}
	if m.May(WriteWebhooks) {
		actions = append(actions, audit.WebhookActions...)
	}
	return actions
}
