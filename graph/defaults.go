package graph

import (
	"context"

	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/route/routing"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
)

// This file has what members set for all links of a workspace.

func (r *workspaceResolver) RoutingDefaults(
	_ context.Context, m *workspace.Membership,
) (*link.LinkRouting, error) {
	return &link.LinkRouting{Routing: routing.OrDefaults(m.Workspace().RoutingDefaults)}, nil
}

func (r *workspaceResolver) NotFoundURL(_ context.Context, m *workspace.Membership) (*string, error) {
	return m.Workspace().NotFoundURL, nil
}

func (r *workspaceResolver) EndedURL(_ context.Context, m *workspace.Membership) (*string, error) {
	return m.Workspace().EndedURL, nil
}

func (r *workspaceResolver) CaseSensitiveCodes(_ context.Context, m *workspace.Membership) (bool, error) {
	return m.Workspace().CaseSensitiveCodes, nil
}

func (r *workspaceResolver) Inspectable(_ context.Context, m *workspace.Membership) (bool, error) {
	return m.Workspace().Inspectable, nil
}

func (r *workspaceResolver) RequireSecondFactor(_ context.Context, m *workspace.Membership) (bool, error) {
	return m.Workspace().RequireSecondFactor, nil
}
