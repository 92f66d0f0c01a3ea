package graph

import (
	"context"

	"github.com/linkforge/linkforge/graph/gen"
	"github.com/linkforge/linkforge/graph/loader"
	"github.com/linkforge/linkforge/internal/event/audit"
	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/tenant/account"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
)

func (r *mutationResolver) ScheduleLinkChange(
	ctx context.Context, in gen.ScheduleLinkChangeInput,
) (*gen.ScheduleLinkChangePayload, error) {
	workspaceOf := func(ctx context.Context, linkID string) (string, error) {
		workspaceID, err := r.Links.WorkspaceOf(ctx, linkID)
		return workspaceID, notFoundAt(err, "linkId")
	}
	add := func(ctx context.Context, m workspace.Membership, linkID string) (*link.ScheduledChange, error) {
		return r.Schedule.Add(ctx, m, linkID, in.At, changeOf(in.Change.LinkFields, in.Change.URL))
	}
	c, err := forItem(ctx, &r.Config, in.LinkID, workspaceOf, add)
	if err != nil {
		return nil, err
	}
	return &gen.ScheduleLinkChangePayload{ScheduledChange: c, Link: c.Link}, nil
}

func (r *mutationResolver) CancelLinkChange(
	ctx context.Context, in gen.CancelLinkChangeInput,
) (*gen.CancelLinkChangePayload, error) {
	l, err := forItem(ctx, &r.Config, in.ID, r.Schedule.Changes().WorkspaceOf, r.Schedule.Cancel)
	return &gen.CancelLinkChangePayload{Link: l, DeletedID: &in.ID}, err
}

func (r *linkResolver) ScheduledChanges(ctx context.Context, l *link.Link) ([]*link.ScheduledChange, error) {
	if l.NextChangeAt == nil {
		return []*link.ScheduledChange{}, nil
	}
	changes, err := loader.Of(ctx).In(l.In).Scheduled.Get(ctx, l.ID)
	if err != nil {
		return nil, err
	}
	return notNull(l.Pending(changes, r.Now()), nil)
}

func (r *scheduledResolver) Changes(ctx context.Context, c *link.ScheduledChange) ([]*audit.FieldChange, error) {
	var tags []string
	if c.Patch.Tags.Set {
		var err error
		if tags, err = (*linkResolver)(r).Tags(ctx, c.Link); err != nil {
			return nil, err
		}
	}
	return notNull(c.Changes(tags), nil)
}

func (r *scheduledResolver) CreatedBy(ctx context.Context, c *link.ScheduledChange) (*account.Account, error) {
	return visibleAccount(ctx, c.Link.In, c.ActorID)
}

func changeIDs(c *link.ScheduledChange) (changeID, accountID string) { return c.ID, c.ActorID }
