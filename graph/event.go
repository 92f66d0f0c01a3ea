package graph

import (
	"context"
	"slices"

	"github.com/linkforge/linkforge/graph/gen"
	"github.com/linkforge/linkforge/graph/loader"
	"github.com/linkforge/linkforge/internal/event/audit"
	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/id"
	"github.com/linkforge/linkforge/internal/platform/optional"
	"github.com/linkforge/linkforge/internal/platform/page"
	"github.com/linkforge/linkforge/internal/tenant/account"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
)

func (r *workspaceResolver) AuditLog(
	ctx context.Context, m *workspace.Membership, first *int, after *string, filter *audit.Filter,
) (*gen.EventConnection, error) {
	load := func(
		ctx context.Context, m workspace.Membership, request page.Request,
	) (page.Page[*workspace.LoggedEvent], error) {
		return r.Workspaces.AuditLog(ctx, m, filter, request)
	}
	p, err := list(ctx, *m, newest, id.Event, first, after, load, eventIDs, filter.Check())
	expectEvents(ctx, *m, p.Items)
	return &gen.EventConnection{Connection: *p}, err
}

func eventIDs(e *workspace.LoggedEvent) (eventID, accountID string) { return e.ID, e.ActorID }

func (r *workspaceResolver) Events(
	ctx context.Context, m *workspace.Membership, first *int, after *string, types []audit.Action, linkID *string,
) (*gen.EventConnection, error) {
	size, err := page.Size(first)
	if err = errs.All(err, checkEventFilter(types, linkID)); err != nil {
		return nil, err
	}
	p, head, err := r.Workspaces.Events(ctx, *m, audit.FeedRequest{
		Wanted: types, TargetID: optional.Value(linkID), After: optional.Value(after), Size: size,
	})
	if err != nil {
		return nil, err
	}
	expectEvents(ctx, *m, p.Items)
	c := &gen.EventConnection{Head: optional.Of(head)}
	c.Page = p
	return c, nil
}

// expectEvents expects the links and accounts of events to be requested.
func expectEvents(ctx context.Context, m workspace.Membership, events []*workspace.LoggedEvent) {
	loader.Expect(&loader.Of(ctx).In(m).Links, events,
		func(e *workspace.LoggedEvent) string { return ofType(id.Link, e.TargetID) })
	expectAccounts(ctx, events, eventIDs)
}

// checkEventFilter returns InvalidInput.
func checkEventFilter(types []audit.Action, linkID *string) error {
	known := audit.FeedActions()
	_, typesErr := errs.Map(types, func(t audit.Action) (_ audit.Action, err error) {
		switch {
		case t == audit.LinkClicked:
			err = errs.New(errs.InvalidInput, "Clicks are not part of the event log. Use linkClicked or clicks.")
		case !slices.Contains(known, t):
			err = errs.New(errs.InvalidInput, "%s is not part of the event log. Use auditLog.", t)
		}
		return t, err
	})
	var linkErr error
	if linkID != nil && !id.Valid(id.Link, *linkID) {
		linkErr = errs.New(errs.InvalidInput, "linkId is not the id of a link.").At("linkId")
	}
	return errs.All(errs.Under(typesErr, "types"), linkErr)
}

// eventsByID returns events of a workspace, and expects their links and accounts to be requested.
func (c *Config) eventsByID(
	ctx context.Context, m workspace.Membership, ids ...string,
) ([]*workspace.LoggedEvent, error) {
	events, err := c.Workspaces.EventsByID(ctx, m, ids...)
	expectEvents(ctx, m, events)
	return events, err
}

// eventsOf loads the events of deliveries. Events that the caller may not see are missing.
func (c *Config) eventsOf(
	ctx context.Context, m workspace.Membership, ids ...string,
) (map[string]*workspace.LoggedEvent, error) {
	found, err := mapOf(c.eventsByID, eventIDs)(ctx, m, ids...)
	if errs.Is(err, errs.Forbidden) {
		return nil, nil
	}
	return found, err
}

func (r *eventResolver) ActorID(_ context.Context, e *workspace.LoggedEvent) (*string, error) {
	if e.In.May(workspace.ReadAudit) {
		return optional.Of(e.Event.ActorID), nil
	}
	return visibleActor(e.In, e.ActorID), nil
}

func (r *eventResolver) Actor(ctx context.Context, e *workspace.LoggedEvent) (*account.Account, error) {
	return visibleAccount(ctx, e.In, e.ActorID)
}

func (r *eventResolver) Details(_ context.Context, e *workspace.LoggedEvent) (*string, error) {
	if !e.In.May(workspace.ReadAudit) {
		return nil, nil
	}
	return &e.Event.Details, nil
}

func (r *eventResolver) Link(ctx context.Context, e *workspace.LoggedEvent) (*link.Link, error) {
	return loader.Of(ctx).In(e.In).Links.Get(ctx, ofType(id.Link, e.TargetID))
}
