package graph

import (
	"context"

	"github.com/linkforge/linkforge/graph/gen"
	"github.com/linkforge/linkforge/internal/domain"
	"github.com/linkforge/linkforge/internal/id"
	"github.com/linkforge/linkforge/internal/workspace"
)

func (r *mutationResolver) AddDomain(ctx context.Context, in gen.AddDomainInput) (*gen.AddDomainPayload, error) {
	m, err := r.membership(ctx, in.WorkspaceID)
	if err != nil {
		return nil, err
	}
	d, err := r.Domains.Add(ctx, m, in.Host)
	return &gen.AddDomainPayload{Domain: d}, err
}

func (r *mutationResolver) VerifyDomain(
	ctx context.Context, in gen.VerifyDomainInput,
) (*gen.VerifyDomainPayload, error) {
	d, err := forItem(ctx, &r.Config, in.ID, r.Domains.Rows().WorkspaceOf, r.Domains.Verify)
	r.catchUp(ctx)
	return &gen.VerifyDomainPayload{Domain: d}, err
}

func (r *mutationResolver) RemoveDomain(
	ctx context.Context, in gen.RemoveDomainInput,
) (*gen.RemoveDomainPayload, error) {
	_, err := forItem(ctx, &r.Config, in.ID, r.Domains.Rows().WorkspaceOf, r.Domains.Remove)
	r.catchUp(ctx)
	return &gen.RemoveDomainPayload{DeletedID: &in.ID}, err
}

func (r *workspaceResolver) Domains(
	ctx context.Context, m *workspace.Membership, first *int, after *string,
) (*gen.DomainConnection, error) {
	edges, nodes, info, err := list(ctx, *m, id.Domain, first, after, r.Config.Domains.Rows().List, domainIDs,
		func(cursor string, d *domain.Domain) *gen.DomainEdge { return &gen.DomainEdge{Cursor: cursor, Node: d} })
	return &gen.DomainConnection{Edges: edges, Nodes: nodes, PageInfo: info}, err
}

func domainIDs(d *domain.Domain) (domainID, accountID string) { return d.ID, "" }
