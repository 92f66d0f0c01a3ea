package graph

import (
	"context"

	"github.com/linkforge/linkforge/graph/gen"
	"github.com/linkforge/linkforge/graph/loader"
	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/platform/web"
)

func (r *mutationResolver) CreateAnonymousLink(
	ctx context.Context, in gen.CreateAnonymousLinkInput,
) (*gen.CreateAnonymousLinkPayload, error) {
	l, token, err := r.Creation.CreateAnonymous(ctx, web.AddressOf(ctx), in.URL)
	return &gen.CreateAnonymousLinkPayload{Link: l, ClaimToken: &token}, err
}

func (r *mutationResolver) ClaimLinks(ctx context.Context, in gen.ClaimLinksInput) (*gen.ClaimLinksPayload, error) {
	m, err := r.membership(ctx, in.WorkspaceID)
	if err != nil {
		return nil, err
	}
	claims, err := r.Edit.Claim(ctx, m, in.ClaimTokens)
	payload := &gen.ClaimLinksPayload{}
	var links []*link.Link
	for _, c := range claims {
		found, _ := userErrors(c.Err, "") // Claim returns other errors for the whole call
		payload.Results = append(payload.Results, &gen.ClaimLinkResult{Status: c.Status, Link: c.Link, Errors: found})
		if c.Link != nil {
			links = append(links, c.Link)
		}
	}
	loader.Of(ctx).Expect(links)
	return payload, err
}

func (r *mutationResolver) ReportLink(ctx context.Context, in gen.ReportLinkInput) (*gen.ReportLinkPayload, error) {
	err := r.Moderation.Report(ctx, web.AddressOf(ctx), in.ShortURL, in.Reason, in.Details)
	return &gen.ReportLinkPayload{Reported: true}, err
}
