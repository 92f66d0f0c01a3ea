package graph

import (
	"context"

	"github.com/linkforge/linkforge/graph/gen"
	"github.com/linkforge/linkforge/internal/id"
	"github.com/linkforge/linkforge/internal/page"
	"github.com/linkforge/linkforge/internal/workspace"
)

// AddDomain implements gen.MutationResolver.
func (r mutation) AddDomain(ctx context.Context, in gen.AddDomainInput) (*gen.AddDomainPayload, error) {
	var d *workspace.Domain
	m, err := r.membership(ctx, in.WorkspaceID)
	if err == nil {
		d, err = r.Workspaces.AddDomain(ctx, m, in.Host)
	}
	mend, err := userErrors(err)
	return &gen.AddDomainPayload{Domain: d, Errors: mend}, err
}

// VerifyDomain implements gen.MutationResolver.
func (r mutation) VerifyDomain(ctx context.Context, in gen.VerifyDomainInput) (*gen.VerifyDomainPayload, error) {
	d, mend, err := belonging(ctx, r, in.ID, r.Workspaces.WorkspaceOfDomain, r.Workspaces.VerifyDomain)
	r.catchUp(ctx)
	return &gen.VerifyDomainPayload{Domain: d, Errors: mend}, err
}

// RemoveDomain implements gen.MutationResolver.
func (r mutation) RemoveDomain(ctx context.Context, in gen.RemoveDomainInput) (*gen.RemoveDomainPayload, error) {
	d, mend, err := belonging(ctx, r, in.ID, r.Workspaces.WorkspaceOfDomain, r.Workspaces.RemoveDomain)
	r.catchUp(ctx)
	return &gen.RemoveDomainPayload{Domain: d, Errors: mend}, err
}

// SetPrimaryDomain implements gen.MutationResolver.
func (r mutation) SetPrimaryDomain(ctx context.Context, in gen.SetPrimaryDomainInput) (*gen.SetPrimaryDomainPayload, error) {
	m, err := r.membership(ctx, in.WorkspaceID)
	switch {
	case err != nil:
	case in.DomainID == nil:
		m, err = r.Workspaces.ClearPrimaryDomain(ctx, m)
	default:
		m, err = r.Workspaces.SetPrimaryDomain(ctx, m, *in.DomainID)
	}
	w, mend, err := membershipOrErrors(m, err)
	return &gen.SetPrimaryDomainPayload{Workspace: w, Errors: mend}, err
}

// Domains implements gen.WorkspaceResolver.
func (r workspaceResolver) Domains(ctx context.Context, m *workspace.Membership, first *int, after *string) (*gen.DomainConnection, error) {
	edges, info, err := listed(ctx, m, id.Domain, first, after, r.Workspaces.Domains, func(*workspace.Domain) string { return "" },
		func(d *workspace.Domain) (string, *gen.DomainEdge) {
			return d.ID, &gen.DomainEdge{Cursor: page.Cursor(d.ID), Node: d}
		})
	return &gen.DomainConnection{Edges: edges, PageInfo: info}, err
}
