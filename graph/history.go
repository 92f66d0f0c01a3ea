package graph

import (
	"context"
	"time"

	"github.com/linkforge/linkforge/graph/gen"
	"github.com/linkforge/linkforge/graph/loader"
	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/link/edit"
	"github.com/linkforge/linkforge/internal/link/linklist"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/id"
	"github.com/linkforge/linkforge/internal/platform/optional"
	"github.com/linkforge/linkforge/internal/route/routing"
	"github.com/linkforge/linkforge/internal/tenant/account"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
)

func (r *linkResolver) Versions(
	ctx context.Context, l *link.Link, first *int, after *string,
) (*gen.LinkVersionConnection, error) {
	p, err := r.History.Versions(ctx, l, first, optional.Value(after))
	if err != nil {
		return nil, err
	}
	of := func(v *link.Version) *routing.Routing { return v.Routing }
	if err := chargeRead(ctx, r.cost, p.Items, of); err != nil {
		return nil, err
	}
	expectAccounts(ctx, p.Items, func(v *link.Version) (string, string) { return "", v.ActorID })
	loader.Expect(&loader.Of(ctx).In(l.In).Folders, p.Items,
		func(v *link.Version) string { return optional.Value(v.FolderID) })
	return &gen.LinkVersionConnection{Page: p}, nil
}

func (r *linkResolver) AsOf(ctx context.Context, l *link.Link, at time.Time) (*link.Version, error) {
	return r.History.AsOf(ctx, l, at)
}

func (r *queryResolver) ResolvedAt(ctx context.Context, shortURL string, at time.Time) (*link.Version, error) {
	if _, err := account.Current(ctx); err != nil {
		return nil, err
	}
	if err := r.History.CheckNotFuture(at); err != nil {
		return nil, err
	}
	address, err := r.Links.Resolver.ParseShortURL(shortURL)
	if err != nil {
		return ifFound[link.Version](nil, err)
	}
	then, err := r.History.ByPastAddress(ctx, address, at)
	if errs.Is(err, errs.NotFound) { // takes the same statements as a link of another workspace
		then, err = &link.Link{WorkspaceID: id.PublicWorkspace}, nil
	}
	if err != nil {
		return nil, err
	}
	m, err := r.membership(ctx, then.WorkspaceID)
	if err != nil {
		return ifFound[link.Version](nil, err)
	}
	l, err := r.Links.Get(ctx, m, then.ID)
	if err != nil {
		return ifFound[link.Version](nil, err)
	}
	return r.History.ResolvedAt(ctx, l, address, at)
}

// visibleActor returns the id of an actor, if the caller may list the members.
func visibleActor(m workspace.Membership, actorID string) *string {
	if !m.May(workspace.ReadMembers) {
		return nil
	}
	return optional.Of(actorID)
}

// visibleAccount returns the account that an actor is, if the caller may list the members; nil for
// others.
func visibleAccount(ctx context.Context, m workspace.Membership, actorID string) (*account.Account, error) {
	if !m.May(workspace.ReadMembers) {
		return nil, nil
	}
	return loader.Of(ctx).Accounts.Get(ctx, ofType(id.Account, actorID))
}

func (r *linkVersionResolver) ActorID(_ context.Context, v *link.Version) (*string, error) {
	return visibleActor(v.Link.In, v.ActorID), nil
}

func (r *linkVersionResolver) Actor(ctx context.Context, v *link.Version) (*account.Account, error) {
	return visibleAccount(ctx, v.Link.In, v.ActorID)
}

func (r *mutationResolver) RevertLink(ctx context.Context, in gen.RevertLinkInput) (*gen.RevertLinkPayload, error) {
	revert := func(ctx context.Context, m workspace.Membership, linkID string) (*link.Link, error) {
		one := linklist.Keys{IDs: []string{linkID}}
		if err := (*resolver)(r).chargeStored(ctx, m, one, one); err != nil {
			return nil, err
		}
		return r.Edit.Revert(ctx, m, linkID, in.Version, in.UpdatedAt)
	}
	l, err := forItem(ctx, &r.Config, in.ID, r.Links.WorkspaceOf, revert)
	return &gen.RevertLinkPayload{Link: l}, err
}

func (r *mutationResolver) RevertOperation(
	ctx context.Context, in gen.RevertOperationInput,
) (*gen.RevertOperationPayload, error) {
	var undo edit.Undo
	results, _, err := forLinks(ctx, r, in.WorkspaceID, "", func(
		m workspace.Membership,
	) (_ []link.Result, err error) {
		undo, err = r.Edit.RevertOperation(ctx, m, in.OperationID)
		return undo.Results, err
	}, func(i int, reverted link.Result, found []*gen.UserError) *gen.RevertLinkResult {
		return &gen.RevertLinkResult{LinkID: undo.LinkIDs[i], Link: reverted.Link, Errors: found}
	})
	return &gen.RevertOperationPayload{Results: results, Remaining: undo.Remaining}, err
}
