package graph

import (
	"context"

	"github.com/linkforge/linkforge/graph/gen"
	"github.com/linkforge/linkforge/internal/domain"
	"github.com/linkforge/linkforge/internal/id"
	"github.com/linkforge/linkforge/internal/page"
	"github.com/linkforge/linkforge/internal/workspace"
)

// AddDomain implements gen.MutationResolver.
func (r mutation) AddDomain(ctx context.Context, in gen.AddDomainInput) (*gen.AddDomainPayload, error) {
	var d *domain.Domain
	m, err := r.membership(ctx, in.WorkspaceID)
	if err == nil {
		d, err = r.Domains.Add(ctx, m, in.Host)
	}
	mend, err := userErrors(err)
	return &gen.AddDomainPayload{Domain: d, Errors: mend}, err
}

// VerifyDomain implements gen.MutationResolver.
func (r mutation) VerifyDomain(ctx context.Context, in gen.VerifyDomainInput) (*gen.VerifyDomainPayload, error) {
	d, mend, err := belonging(ctx, r, in.ID, r.Domains.WorkspaceOf, r.Domains.Verify)
	r.catchUp(ctx)
	return &gen.VerifyDomainPayload{Domain: d, Errors: mend}, err
}

// RemoveDomain implements gen.MutationResolver.
func (r mutation) RemoveDomain(ctx context.Context, in gen.RemoveDomainInput) (*gen.RemoveDomainPayload, error) {
	d, mend, err := belonging(ctx, r, in.ID, r.Domains.WorkspaceOf, r.Domains.Remove)
	r.catchUp(ctx)
	return &gen.RemoveDomainPayload{Domain: d, Errors: mend}, err
}

// SetPrimaryDomain implements gen.MutationResolver.
func (r mutation) SetPrimaryDomain(ctx context.Context, in gen.SetPrimaryDomainInput) (*gen.SetPrimaryDomainPayload, error) {
	m, err := r.membership(ctx, in.WorkspaceID)
	switch {
	case err != nil:
	case in.DomainID == nil:
		m, err = r.Domains.ClearPrimary(ctx, m)
	default:
		m, err = r.Domains.SetPrimary(ctx, m, *in.DomainID)
	}
	w, mend, err := membershipOrErrors(m, err)
	return &gen.SetPrimaryDomainPayload{Workspace: w, Errors: mend}, err
}

// Domains implements gen.WorkspaceResolver.
func (r workspaceResolver) Domains(ctx context.Context, m *workspace.Membership, first *int, after *string) (*gen.DomainConnection, error) {
	edges, info, err := listed(ctx, m, id.Domain, first, after, r.Config.Domains.List, func(*domain.Domain) string { return "" },
		func(d *domain.Domain) (string, *gen.DomainEdge) {
			return d.ID, &gen.DomainEdge{Cursor: page.Cursor(d.ID), Node: d}
		})
	return &gen.DomainConnection{Edges: edges, PageInfo: info}, err
}
