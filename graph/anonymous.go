package graph

import (
	"context"

	"github.com/linkforge/linkforge/graph/gen"
	"github.com/linkforge/linkforge/graph/loader"
	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/web"
)

// CreateAnonymousLink implements gen.MutationResolver.
func (r mutation) CreateAnonymousLink(ctx context.Context, in gen.CreateAnonymousLinkInput) (*gen.CreateAnonymousLinkPayload, error) {
	l, token, err := r.Links.CreateAnonymous(ctx, web.AddressOf(ctx), in.URL)
	mend, err := userErrors(err)
	payload := &gen.CreateAnonymousLinkPayload{Link: l, Errors: mend}
	if l != nil {
		payload.ClaimToken = &token
	}
	return payload, err
}

// ClaimLinks implements gen.MutationResolver.
func (r mutation) ClaimLinks(ctx context.Context, in gen.ClaimLinksInput) (*gen.ClaimLinksPayload, error) {
	claims, err := r.claimLinks(ctx, in)
	mend, err := userErrors(err)
	payload := &gen.ClaimLinksPayload{Results: []*gen.ClaimLinkResult{}, Errors: mend}
	var links []*link.Link
	for _, c := range claims {
		mend, _ := userErrors(c.Err) // what cannot be mended is an error of the whole call
		payload.Results = append(payload.Results, &gen.ClaimLinkResult{Status: c.Status, Link: c.Link, Errors: mend})
		if c.Link != nil {
			links = append(links, c.Link)
		}
	}
	loader.Of(ctx).Expect(links)
	return payload, err
}

func (r mutation) claimLinks(ctx context.Context, in gen.ClaimLinksInput) ([]link.Claim, error) {
	m, err := r.membership(ctx, in.WorkspaceID)
	if err != nil {
		return nil, err
	}
	return r.Links.Claim(ctx, m, in.ClaimTokens)
}

// ReportLink implements gen.MutationResolver.
func (r mutation) ReportLink(ctx context.Context, in gen.ReportLinkInput) (*gen.ReportLinkPayload, error) {
	err := r.Links.Report(ctx, web.AddressOf(ctx), in.ShortURL, in.Reason, in.Details)
	reported := err == nil
	mend, err := userErrors(err)
	return &gen.ReportLinkPayload{Reported: reported, Errors: mend}, err
}
