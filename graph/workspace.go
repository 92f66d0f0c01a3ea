package graph

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/99designs/gqlgen/graphql"

	"github.com/linkforge/linkforge/graph/gen"
	"github.com/linkforge/linkforge/graph/loader"
	"github.com/linkforge/linkforge/internal/account"
	"github.com/linkforge/linkforge/internal/audit"
	"github.com/linkforge/linkforge/internal/id"
	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/page"
	"github.com/linkforge/linkforge/internal/workspace"
)

// CreateWorkspace implements gen.MutationResolver.
func (r mutation) CreateWorkspace(ctx context.Context, in gen.CreateWorkspaceInput) (*gen.CreateWorkspacePayload, error) {
	actor, err := account.Person(ctx)
	if err != nil {
		return nil, err
	}
	m, err := r.Workspaces.Create(ctx, actor, in.Name, in.Slug)
	w, mend, err := membershipOrErrors(m, err)
	return &gen.CreateWorkspacePayload{Workspace: w, Errors: mend}, err
}

// membershipOrErrors is what a payload says of a workspace: the membership, or what to mend.
func membershipOrErrors(m workspace.Membership, err error) (*workspace.Membership, []*gen.UserError, error) {
	if err != nil {
		mend, err := userErrors(err)
		return nil, mend, err
	}
	return &m, []*gen.UserError{}, nil
}

// UpdateWorkspace implements gen.MutationResolver.
func (r mutation) UpdateWorkspace(ctx context.Context, in gen.UpdateWorkspaceInput) (*gen.UpdateWorkspacePayload, error) {
	m, err := r.membership(ctx, in.ID)
	if err == nil {
		m, err = r.Workspaces.Update(ctx, m, workspace.Change{
			Name: in.Name, Slug: in.Slug, DefaultStrategy: (*string)(in.DefaultStrategy), DefaultRedirectStatus: in.DefaultRedirectStatus,
		})
	}
	w, mend, err := membershipOrErrors(m, err)
	r.catchUp(ctx)
	return &gen.UpdateWorkspacePayload{Workspace: w, Errors: mend}, err
}

// DeleteWorkspace implements gen.MutationResolver.
func (r mutation) DeleteWorkspace(ctx context.Context, in gen.DeleteWorkspaceInput) (*gen.DeleteWorkspacePayload, error) {
	m, err := r.membership(ctx, in.ID)
	if err == nil {
		m, err = r.Workspaces.Delete(ctx, m)
	}
	w, mend, err := membershipOrErrors(m, err)
	r.catchUp(ctx)
	return &gen.DeleteWorkspacePayload{Workspace: w, Errors: mend}, err
}

// RestoreWorkspace implements gen.MutationResolver.
func (r mutation) RestoreWorkspace(ctx context.Context, in gen.RestoreWorkspaceInput) (*gen.RestoreWorkspacePayload, error) {
	actor, err := account.Person(ctx)
	if err != nil {
		return nil, err
	}
	m, err := r.Workspaces.Restore(ctx, actor, in.ID)
	w, mend, err := membershipOrErrors(m, err)
	r.catchUp(ctx)
	return &gen.RestoreWorkspacePayload{Workspace: w, Errors: mend}, err
}

// Workspace implements gen.QueryResolver.
func (r query) Workspace(ctx context.Context, by gen.WorkspaceBy) (*workspace.Membership, error) {
	if _, err := account.Current(ctx); err != nil {
		return nil, err // nobody learns which slugs there are
	}
	if by.ID != nil {
		return r.workspace(ctx, *by.ID)
	}
	workspaceID, err := r.Workspaces.IDBySlug(ctx, *by.Slug)
	if err != nil {
		return orNull[workspace.Membership](nil, err)
	}
	return r.workspace(ctx, workspaceID)
}

// workspace is the caller's membership; null when there is none.
func (r *Config) workspace(ctx context.Context, workspaceID string) (*workspace.Membership, error) {
	m, err := r.membership(ctx, workspaceID)
	return orNull(&m, err)
}

// membership proves that the caller is a member of the workspace.
func (r *Config) membership(ctx context.Context, workspaceID string) (workspace.Membership, error) {
	actor, err := account.Current(ctx)
	if err != nil {
		return workspace.Membership{}, err
	}
	return r.Workspaces.Require(ctx, actor, workspaceID)
}

// DefaultStrategy implements gen.WorkspaceResolver.
func (r workspaceResolver) DefaultStrategy(_ context.Context, m *workspace.Membership) (link.Strategy, error) {
	return link.Strategy(m.Workspace().DefaultStrategy), nil
}

// DefaultRedirectStatus implements gen.WorkspaceResolver.
func (r workspaceResolver) DefaultRedirectStatus(_ context.Context, m *workspace.Membership) (int, error) {
	return m.Workspace().DefaultRedirectStatus, nil
}

// HitQuota implements gen.WorkspaceResolver.
func (r workspaceResolver) HitQuota(_ context.Context, m *workspace.Membership) (int64, error) {
	return r.hitLimit(*m), nil
}

func (r *Config) hitLimit(m workspace.Membership) int64 {
	return *cmp.Or(m.Workspace().HitQuota, &r.HitQuota)
}

// LinkQuota implements gen.WorkspaceResolver.
func (r workspaceResolver) LinkQuota(_ context.Context, m *workspace.Membership) (int64, error) {
	return r.Config.Links.QuotaOf(*m), nil
}

// PrimaryHost implements gen.WorkspaceResolver.
func (r workspaceResolver) PrimaryHost(_ context.Context, m *workspace.Membership) (*string, error) {
	return m.Workspace().PrimaryHost, nil
}

// DeletedAt implements gen.WorkspaceResolver.
func (r workspaceResolver) DeletedAt(_ context.Context, m *workspace.Membership) (*time.Time, error) {
	return m.Workspace().DeletedAt, nil
}

// AuditLog implements gen.WorkspaceResolver.
func (r workspaceResolver) AuditLog(
	ctx context.Context, m *workspace.Membership, first *int, after *string, filter *audit.Filter,
) (*gen.AuditEventConnection, error) {
	edges, info, err := listed(ctx, m, id.Event, first, after,
		func(ctx context.Context, m workspace.Membership, request page.Request) (page.Page[*audit.Event], error) {
			return r.Workspaces.AuditLog(ctx, m, filter, request)
		},
		func(e *audit.Event) string { return e.ActorID },
		func(e *audit.Event) (string, *gen.AuditEventEdge) {
			return e.ID, &gen.AuditEventEdge{Cursor: page.Cursor(e.ID), Node: e}
		})
	return &gen.AuditEventConnection{Edges: edges, PageInfo: info}, err
}

// ActorID implements gen.AuditEventResolver.
func (r eventResolver) ActorID(_ context.Context, e *audit.Event) (*string, error) {
	if e.ActorID == "" {
		return nil, nil
	}
	return &e.ActorID, nil
}

// Actor implements gen.AuditEventResolver.
func (r eventResolver) Actor(ctx context.Context, e *audit.Event) (*account.Account, error) {
	if !id.Valid(id.Account, e.ActorID) { // an API key's, or nobody's
		return nil, nil
	}
	return loader.Of(ctx).Accounts.Get(ctx, e.ActorID)
}

// Links implements gen.WorkspaceResolver.
func (r workspaceResolver) Links(
	ctx context.Context, m *workspace.Membership, first *int, after *string, last *int, before *string,
	filter *link.Filter, order *link.Order,
) (*gen.LinkConnection, error) {
	request, err := order.Page(first, after, last, before)
	if err != nil {
		return nil, err
	}
	p, err := r.Config.Links.List(ctx, *m, filter, request)
	if err != nil {
		return nil, err
	}
	loader.Of(ctx).Expect(p.Items)
	edges := make([]*gen.LinkEdge, 0, len(p.Items))
	for i, l := range p.Items {
		edges = append(edges, &gen.LinkEdge{Cursor: p.Cursors[i], Node: l})
	}
	connection := &gen.LinkConnection{Edges: edges, PageInfo: pageInfo(p, func(i int) string { return p.Cursors[i] })}
	if slices.Contains(graphql.CollectAllFields(ctx), "totalCount") {
		connection.TotalCount, err = r.Config.Links.Count(ctx, *m, filter)
	}
	return connection, err
}

// Usage implements gen.WorkspaceResolver.
func (r workspaceResolver) Usage(ctx context.Context, m *workspace.Membership) (*gen.Usage, error) {
	links, month, err := r.Config.Links.Usage(ctx, *m)
	if err != nil {
		return nil, err
	}
	limit := r.Config.Links.QuotaOf(*m)
	return &gen.Usage{Links: links, Limit: limit, Remaining: max(0, limit-links), ResetsAt: month.End}, nil
}

// catchUp lets redirects of this node go by what has just changed, before the caller hears of it. Should it not work, they
// do in a moment.
func (r *Config) catchUp(ctx context.Context) { _ = r.Links.CatchUp(ctx) }
