package graph

import (
	"context"

	"github.com/linkforge/linkforge/internal/platform/optional"
	"github.com/linkforge/linkforge/internal/platform/page"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
	"github.com/linkforge/linkforge/internal/visit/unmatched"
)

func (r *workspaceResolver) UnmatchedRequests(
	ctx context.Context, m *workspace.Membership, first *int,
) ([]*unmatched.Request, error) {
	return r.Config.Unmatched.List(ctx, *m, optional.Or(first, page.Default))
}

func (r *unmatchedResolver) Code(_ context.Context, u *unmatched.Request) (*string, error) {
	return optional.Of(u.Code), nil
}
