package graph

import (
	"context"

	"github.com/linkforge/linkforge/internal/optional"
	"github.com/linkforge/linkforge/internal/page"
	"github.com/linkforge/linkforge/internal/unmatched"
	"github.com/linkforge/linkforge/internal/workspace"
)

func (r *workspaceResolver) Orphans(
	ctx context.Context, m *workspace.Membership, first *int,
) ([]*unmatched.Request, error) {
	return r.Config.Unmatched.List(ctx, *m, optional.Or(first, page.Default))
}

func (r *orphanResolver) Code(_ context.Context, o *unmatched.Request) (*string, error) {
	return optional.Of(o.Code), nil
}
