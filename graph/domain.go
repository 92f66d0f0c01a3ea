package graph

import (
	"context"

	"github.com/linkforge/linkforge/graph/gen"
	"github.com/linkforge/linkforge/graph/loader"
	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/platform/id"
	"github.com/linkforge/linkforge/internal/platform/optional"
	"github.com/linkforge/linkforge/internal/tenant/domain"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
)

func (r *mutationResolver) AddDomain(ctx context.Context, in gen.AddDomainInput) (*gen.AddDomainPayload, error) {
	m, err := r.membership(ctx, in.WorkspaceID)
	if err != nil {
		return nil, err
	}
	d, err := r.Domains.Add(ctx, m, in.Host, domain.Codes{Space: in.CodeSpace, CaseSensitive: in.CaseSensitive})
	return &gen.AddDomainPayload{Domain: d}, err
}

func (r *mutationResolver) VerifyDomain(
	ctx context.Context, in gen.VerifyDomainInput,
) (*gen.VerifyDomainPayload, error) {
	d, err := forItem(ctx, &r.Config, in.ID, r.Domains.Rows().WorkspaceOf, outside(r.Domains.Verify))
	r.catchUp(ctx)
	return &gen.VerifyDomainPayload{Domain: d}, err
}

func (r *verifyDomainPayloadResolver) LoopingLinks(
	ctx context.Context, p *gen.VerifyDomainPayload,
) ([]*link.Link, error) {
	if p.Domain == nil {
		return nil, nil
	}
	m, err := r.membership(ctx, p.Domain.WorkspaceID)
	if err != nil {
		return nil, err
	}
	leave, err := enterList(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	links, err := r.LinkList.LeadingTo(ctx, m, p.Domain.Host)
	if err == nil {
		err = chargeRead(ctx, r.cost, links, routingOf)
	}
	loader.Of(ctx).Expect(links)
	return links, err
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
	return list(ctx, *m, newest, id.Domain, first, after, r.Config.Domains.Rows().List, domainIDs)
}

func (r *linkResolver) Domain(ctx context.Context, l *link.Link) (*domain.Domain, error) {
	return loader.Of(ctx).In(l.In).Domains.Get(ctx, optional.Value(l.DomainID))
}

func domainIDs(d *domain.Domain) (domainID, accountID string) { return d.ID, "" }

func (r *mutationResolver) UpdateDomain(
	ctx context.Context, in gen.UpdateDomainInput,
) (*gen.UpdateDomainPayload, error) {
	change := domain.Change{
		RootURL: gen.SetOrRemove(in.RootURL), NotFoundURL: gen.SetOrRemove(in.NotFoundURL),
		EndedURL:   gen.SetOrRemove(in.EndedURL),
		FaviconURL: gen.SetOrRemove(in.FaviconURL), Indexable: gen.SetOrRemove(in.Indexable),
		AppleAppSiteAssociation: gen.SetOrRemove(in.AppleAppSiteAssociation),
		AssetLinks:              gen.SetOrRemove(in.AssetLinks),
	}
	update := func(ctx context.Context, m workspace.Membership, domainID string) (*domain.Domain, error) {
		return r.Domains.Update(ctx, m, domainID, change)
	}
	d, err := forItem(ctx, &r.Config, in.ID, r.Domains.Rows().WorkspaceOf, update)
	r.catchUp(ctx)
	return &gen.UpdateDomainPayload{Domain: d}, err
}
