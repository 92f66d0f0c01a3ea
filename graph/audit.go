package graph

import (
	"context"

	"github.com/linkforge/linkforge/graph/gen"
	"github.com/linkforge/linkforge/graph/loader"
	"github.com/linkforge/linkforge/internal/account"
	"github.com/linkforge/linkforge/internal/audit"
	"github.com/linkforge/linkforge/internal/id"
	"github.com/linkforge/linkforge/internal/optional"
	"github.com/linkforge/linkforge/internal/page"
	"github.com/linkforge/linkforge/internal/workspace"
)

func (r *workspaceResolver) AuditLog(
	ctx context.Context, m *workspace.Membership, first *int, after *string, filter *audit.Filter,
) (*gen.AuditEventConnection, error) {
	edges, nodes, info, err := list(ctx, *m, id.Event, first, after,
		func(ctx context.Context, m workspace.Membership, request page.Request) (page.Page[*audit.Event], error) {
			return r.Workspaces.AuditLog(ctx, m, filter, request)
		}, eventIDs,
		func(cursor string, e *audit.Event) *gen.AuditEventEdge {
			return &gen.AuditEventEdge{Cursor: cursor, Node: e}
		})
	return &gen.AuditEventConnection{Edges: edges, Nodes: nodes, PageInfo: info}, err
}

func eventIDs(e *audit.Event) (eventID, accountID string) { return e.ID, e.ActorID }

func (r *auditEventResolver) ActorID(_ context.Context, e *audit.Event) (*string, error) {
	return optional.Of(e.ActorID), nil
}

func (r *auditEventResolver) Actor(ctx context.Context, e *audit.Event) (*account.Account, error) {
	if !id.Valid(id.Account, e.ActorID) { // an API key, or anonymous
		return nil, nil
	}
	return loader.Of(ctx).Accounts.Get(ctx, e.ActorID)
}
