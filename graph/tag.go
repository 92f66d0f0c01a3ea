package graph

import (
	"context"

	"github.com/linkforge/linkforge/graph/gen"
	"github.com/linkforge/linkforge/internal/link/linkfield"
	"github.com/linkforge/linkforge/internal/link/linklist"
	"github.com/linkforge/linkforge/internal/platform/optional"
	"github.com/linkforge/linkforge/internal/platform/page"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
)

func (r *workspaceResolver) Tags(
	ctx context.Context, m *workspace.Membership, first *int, after, prefix *string,
) (*gen.TagConnection, error) {
	load := func(
		ctx context.Context, m workspace.Membership, request page.Request,
	) (p page.Page[*linklist.Tag], err error) {
		leave, err := enterList(ctx)
		if err != nil {
			return p, err
		}
		defer leave()
		if err := (*resolver)(r).chargeSize(ctx, m); err != nil {
			return p, err
		}
		return r.LinkList.ListTags(ctx, m, optional.Value(prefix), request)
	}
	_, err := linkfield.CheckTagPrefix(optional.Value(prefix))
	return list(ctx, *m, linklist.TagOrder, "", first, after, load, nil, err)
}

func (r *mutationResolver) ReplaceTags(ctx context.Context, in gen.ReplaceTagsInput) (*gen.ReplaceTagsPayload, error) {
	m, err := r.membership(ctx, in.WorkspaceID)
	if err != nil {
		return nil, err
	}
	if err := (*resolver)(r).chargeSize(ctx, m); err != nil {
		return nil, err
	}
	replaced, err := r.Edit.ReplaceTags(ctx, m, in.From, in.To)
	return &gen.ReplaceTagsPayload{
		Changed: replaced.Changed, Remaining: replaced.Remaining, OperationID: replaced.OperationID,
	}, err
}
