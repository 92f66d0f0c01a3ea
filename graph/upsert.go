package graph

import (
	"context"

	"github.com/99designs/gqlgen/graphql"

	"github.com/linkforge/linkforge/graph/gen"
	"github.com/linkforge/linkforge/graph/loader"
	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/link/creation"
	"github.com/linkforge/linkforge/internal/link/linklist"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/optional"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
)

func (r *mutationResolver) UpsertLink(ctx context.Context, in gen.UpsertLinkInput) (*gen.UpsertLinkPayload, error) {
	m, err := r.membership(ctx, in.WorkspaceID)
	if err != nil {
		return nil, err
	}
	u := upsertOf(m, in.Link)
	if err := r.chargeUpserts(ctx, m, u); err != nil {
		return nil, err
	}
	upserted, err := r.Creation.Upsert(ctx, m, u)
	if err != nil {
		if e := errs.From(err); len(e.Field) > 0 { // it is about a field of the link
			err = e.Under("link")
		}
		return nil, err
	}
	return &gen.UpsertLinkPayload{Link: upserted.Link, Outcome: &upserted.Outcome}, nil
}

func (r *mutationResolver) UpsertLinks(ctx context.Context, in gen.UpsertLinksInput) (*gen.UpsertLinksPayload, error) {
	m, err := r.membership(ctx, in.WorkspaceID)
	if err != nil {
		return nil, err
	}
	links := make([]*creation.Input, 0, len(in.Links))
	for _, fields := range in.Links {
		links = append(links, upsertOf(m, fields))
	}
	if err := r.chargeUpserts(ctx, m, links...); err != nil {
		return nil, err
	}
	upserted, err := r.Creation.UpsertMany(ctx, m, links, optional.Or(in.OnError, link.SkipFailed))
	results, found := make([]*gen.UpsertLinkPayload, 0, len(upserted)), []*link.Link{}
	for _, u := range upserted {
		errors, _ := userErrors(u.Err, "NewLinkInput") // UpsertMany returns other errors for the whole call
		results = append(results, &gen.UpsertLinkPayload{Link: u.Link, Outcome: optional.Of(u.Outcome), Errors: errors})
		if u.Link != nil {
			found = append(found, u.Link)
		}
	}
	loader.Of(ctx).Expect(found)
	return &gen.UpsertLinksPayload{Results: results, OperationID: link.OperationOf(upserted)}, err
}

// chargeUpserts is chargeStored for upserts.
func (r *mutationResolver) chargeUpserts(
	ctx context.Context, m workspace.Membership, upserts ...*creation.Input,
) error {
	var all, pending linklist.Keys
	for _, u := range upserts {
		externalID := optional.Value(u.Fields.ExternalID.To)
		if all.ExternalIDs = append(all.ExternalIDs, externalID); u.Fields.NeedsValidStates() {
			pending.ExternalIDs = append(pending.ExternalIDs, externalID)
		}
	}
	return (*resolver)(r).chargeStored(ctx, m, all, pending)
}

// upsertOf returns the input of an upsert, in which null resets what always has a value to its default.
func upsertOf(m workspace.Membership, in *gen.NewLinkInput) *creation.Input {
	l := linkInput(in)
	resetIfNull(&l.Fields.RedirectStatus, in.RedirectStatus, m.Workspace().DefaultRedirectStatus)
	resetIfNull(&l.Fields.Archived, in.Archived, false)
	resetIfNull(&l.Fields.StatsPublic, in.StatsPublic, false)
	return l
}

func resetIfNull[T any](field *optional.Edit[T], given graphql.Omittable[*T], to T) {
	if given.IsSet() && given.Value() == nil {
		*field = optional.Set(to)
	}
}
