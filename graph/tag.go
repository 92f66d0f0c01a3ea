package graph

import (
	"context"

	"github.com/linkforge/linkforge/graph/gen"
	"github.com/linkforge/linkforge/internal/link/linklist"
	"github.com/linkforge/linkforge/internal/platform/optional"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
)

func (r *workspaceResolver) Tags(
	ctx context.Context, m *workspace.Membership, first *int, after, prefix *string,
) (*gen.TagConnection, error) {
	request, err := linklist.TagOrder.Parse("", first, after, nil, nil)
	if err != nil {
		return nil, err
	}
	leave, err := enterList(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	if err := (*resolver)(r).chargeSize(ctx, *m); err != nil {
		return nil, err
	}
	p, err := r.LinkList.ListTags(ctx, *m, optional.Value(prefix), request)
	if err != nil {
		return nil, err
	}
	edges := make([]*gen.TagEdge, 0, len(p.Items))
	for i, tag := range p.Items {
		edges = append(edges, &gen.TagEdge{Cursor: p.Cursors[i], Node: tag})
	}
	return &gen.TagConnection{Edges: edges, Nodes: p.Items, PageInfo: pageInfo(p, p.Cursors)}, nil
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
