package graph

import (
	"cmp"
	"context"

	"github.com/linkforge/linkforge/graph/gen"
	"github.com/linkforge/linkforge/graph/loader"
	"github.com/linkforge/linkforge/graph/transport"
	"github.com/linkforge/linkforge/internal/click"
	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/link/linklist"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/qr"
	"github.com/linkforge/linkforge/internal/route/routing"
	"github.com/linkforge/linkforge/internal/tenant/account"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
)

func (r *mutationResolver) CreateWorkspace(
	ctx context.Context, in gen.CreateWorkspaceInput,
) (*gen.CreateWorkspacePayload, error) {
	actor, err := account.RequireUser(ctx)
	if err != nil {
		return nil, err
	}
	m, err := r.Workspaces.Create(ctx, actor, in.Name, in.Slug)
	return &gen.CreateWorkspacePayload{Workspace: &m}, err
}

func (r *mutationResolver) UpdateWorkspace(
	ctx context.Context, in gen.UpdateWorkspaceInput,
) (*gen.UpdateWorkspacePayload, error) {
	m, err := r.membership(ctx, in.ID)
	if err != nil {
		return nil, notFoundAt(err, "id")
	}
	c, err := r.workspaceChange(ctx, m, in)
	if err != nil {
		return nil, err
	}
	m, err = r.Workspaces.Update(ctx, m, c)
	r.catchUp(ctx)
	return &gen.UpdateWorkspacePayload{Workspace: &m}, err
}

func (r *mutationResolver) workspaceChange(
	ctx context.Context, m workspace.Membership, in gen.UpdateWorkspaceInput,
) (workspace.Change, error) {
	c := workspace.Change{
		Name: in.Name, Slug: in.Slug,
		DefaultStrategy: (*string)(in.DefaultStrategy), DefaultRedirectStatus: in.DefaultRedirectStatus,
		NotFoundURL: gen.SetOrRemove(in.NotFoundURL), EndedURL: gen.SetOrRemove(in.EndedURL),
		Inspectable: gen.SetOrRemove(in.Inspectable), CaseSensitiveCodes: in.CaseSensitiveCodes,
		RequireSecondFactor: in.RequireSecondFactor,
		FoldCodes:           r.Config.Links.FoldCodes(m),
	}
	if c.RoutingDefaults.Set = in.RoutingDefaults.IsSet(); in.RoutingDefaults.Value() != nil {
		defaults := in.RoutingDefaults.Value()
		c.RoutingDefaults.To = &routing.Change{
			Query: gen.SetOrRemove(defaults.Query), ForwardPath: gen.SetOrRemove(defaults.ForwardPath),
			UTM:  gen.SetOrRemove(defaults.Utm),
			Bots: gen.SetOrRemove(defaults.Bots),
		}
		if err := r.Config.UTMTemplates.Fill(ctx, m, &c.RoutingDefaults.To.UTM.To); err != nil {
			return c, err
		}
	}
	if c.QRStyle.Set = in.QRStyle.IsSet(); c.QRStyle.Set {
		c.QRStyle.To = qrChange(in.QRStyle.Value())
		c.VerifyQR = func(ctx context.Context, style *qr.Style) error {
			return (*resolver)(r).verifyQR(ctx, style, r.qrTexts(m)...)
		}
	}
	if in.PrimaryDomainID.IsSet() {
		c.PrimaryHost = r.Config.Domains.Primary(m, in.PrimaryDomainID.Value())
	}
	return c, nil
}

func (r *mutationResolver) DeleteWorkspace(
	ctx context.Context, in gen.DeleteWorkspaceInput,
) (*gen.DeleteWorkspacePayload, error) {
	m, err := r.membership(ctx, in.ID)
	if err != nil {
		return nil, notFoundAt(err, "id")
	}
	m, err = r.Workspaces.Delete(ctx, m)
	r.catchUp(ctx)
	return &gen.DeleteWorkspacePayload{Workspace: &m, DeletedID: &in.ID}, err
}

func (r *mutationResolver) RestoreWorkspace(
	ctx context.Context, in gen.RestoreWorkspaceInput,
) (*gen.RestoreWorkspacePayload, error) {
	actor, err := account.RequireUser(ctx)
	if err != nil {
		return nil, err
	}
	m, err := r.Workspaces.Restore(ctx, actor, in.ID)
	r.catchUp(ctx)
	return &gen.RestoreWorkspacePayload{Workspace: &m}, notFoundAt(err, "id")
}

func (r *queryResolver) Workspace(ctx context.Context, by *gen.WorkspaceBy) (*workspace.Membership, error) {
	actor, err := account.Current(ctx)
	if err != nil {
		return nil, err // anonymous users must not learn which slugs exist
	}
	var workspaceID string
	switch {
	case by == nil && actor.Key == nil:
		return nil, errs.New(errs.InvalidInput, "Name the workspace by its id or slug: only an API key is of one.").
			At("by")
	case by == nil:
		workspaceID = actor.Key.WorkspaceID
	case by.ID != nil:
		workspaceID = *by.ID
	default:
		if workspaceID, err = r.Workspaces.IDBySlug(ctx, *by.Slug); err != nil {
			return ifFound[workspace.Membership](nil, err)
		}
	}
	m, err := r.membership(ctx, workspaceID)
	return ifFound(&m, err)
}

// membership proves that the caller is a member of the workspace, which the argument workspaceId
// names.
func (c *Config) membership(ctx context.Context, workspaceID string) (workspace.Membership, error) {
	actor, err := account.Current(ctx)
	if err != nil {
		return workspace.Membership{}, err
	}
	m, err := c.Workspaces.Require(ctx, actor, workspaceID)
	return m, notFoundAt(err, "workspaceId")
}

// forItem calls a method for an object of a workspace that the caller is a member of. An object of
// another workspace is NotFound, like one that does not exist.
func forItem[T any](
	ctx context.Context, c *Config, itemID string,
	workspaceOf func(ctx context.Context, itemID string) (string, error),
	call func(ctx context.Context, m workspace.Membership, itemID string) (*T, error),
) (*T, error) {
	actor, err := account.Current(ctx)
	if err != nil {
		return nil, err
	}
	m, err := c.Workspaces.RequireFor(ctx, actor, itemID, workspaceOf)
	if err != nil {
		return nil, err
	}
	return call(ctx, m, itemID)
}

// outside is a call of forItem that waits for another server, so the operation has no turn of
// expensive operations meanwhile.
func outside[T any](
	call func(ctx context.Context, m workspace.Membership, itemID string) (*T, error),
) func(ctx context.Context, m workspace.Membership, itemID string) (*T, error) {
	return func(ctx context.Context, m workspace.Membership, itemID string) (*T, error) {
		defer transport.EndTurn(ctx)()
		return call(ctx, m, itemID)
	}
}

func (r *workspaceResolver) RoutingDefaults(
	_ context.Context, m *workspace.Membership,
) (*link.LinkRouting, error) {
	return &link.LinkRouting{Routing: routing.OrDefaults(m.Workspace().RoutingDefaults)}, nil
}

func (r *workspaceResolver) HitLimit(_ context.Context, m *workspace.Membership) (int64, error) {
	return r.hitLimit(*m), nil
}

func (c *Config) hitLimit(m workspace.Membership) int64 {
	return *cmp.Or(m.Workspace().HitQuota, &c.HitQuota)
}

func (r *workspaceResolver) Links(
	ctx context.Context, m *workspace.Membership, first *int, after *string, last *int, before *string,
	filter *linklist.Filter, order *linklist.Order,
) (*gen.LinkConnection, error) {
	request, err := order.Page(first, after, last, before)
	if err = errs.All(err, r.LinkList.CheckFilter(*m, filter)); err != nil {
		return nil, err
	}
	leave, err := enterList(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	if filter != nil && filter.Search != nil {
		if err := (*resolver)(r).chargeSize(ctx, *m); err != nil {
			return nil, err
		}
	}
	p, err := r.LinkList.List(ctx, *m, filter, request)
	if err == nil {
		err = chargeRead(ctx, r.cost, p.Items, routingOf)
	}
	if err != nil {
		return nil, err
	}
	loader.Of(ctx).Expect(p.Items)
	p.Total = r.counting(*m, filter, r.LinkList.Count)
	return &gen.LinkConnection{
		Connection: gen.Connection[*link.Link]{Page: p}, Clicks: r.counting(*m, filter, r.LinkList.CountClicks),
	}, nil
}

// counting returns a function that counts what all links that match the filter have, when it is
// requested.
func (r *workspaceResolver) counting(
	m workspace.Membership, filter *linklist.Filter,
	count func(context.Context, workspace.Membership, *linklist.Filter) (int64, error),
) func(context.Context) (int64, error) {
	return func(ctx context.Context) (int64, error) { return r.countLinks(ctx, m, filter, count) }
}

func (r *workspaceResolver) countLinks(
	ctx context.Context, m workspace.Membership, filter *linklist.Filter,
	count func(context.Context, workspace.Membership, *linklist.Filter) (int64, error),
) (int64, error) {
	leave, err := enterList(ctx)
	if err != nil {
		return 0, err
	}
	defer leave()
	if err := (*resolver)(r).chargeSize(ctx, m); err != nil {
		return 0, err
	}
	return count(ctx, m, filter)
}

func (r *workspaceResolver) LinkQuota(ctx context.Context, m *workspace.Membership) (*gen.Quota, error) {
	used, this, err := r.Config.LinkQuotas.Used(ctx, *m)
	if err != nil {
		return nil, err
	}
	return quotaOf(r.Config.LinkQuotas.Limit(*m), used, this), nil
}

func quotaOf(limit, used int64, of click.Month) *gen.Quota {
	return &gen.Quota{Limit: limit, Used: used, Remaining: max(0, limit-used), ResetsAt: of.End()}
}

// catchUp applies a change to the redirects of this node before the client gets the response. If it
// fails, the change feed applies it soon.
func (c *Config) catchUp(ctx context.Context) { _ = c.Links.Feed.CatchUp(ctx) }
