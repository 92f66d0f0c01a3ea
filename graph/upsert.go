package graph

import (
	"context"

	"github.com/99designs/gqlgen/graphql"

	"github.com/linkforge/linkforge/graph/gen"
	"github.com/linkforge/linkforge/graph/loader"
	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/link/creation"
	"github.com/linkforge/linkforge/internal/link/linkfield"
	"github.com/linkforge/linkforge/internal/link/linklist"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/optional"
	"github.com/linkforge/linkforge/internal/route/routing"
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
	links := make([]*creation.Upsert, 0, len(in.Links))
	for _, fields := range in.Links {
		links = append(links, upsertOf(m, fields))
	}
	if err := r.chargeUpserts(ctx, m, links...); err != nil {
		return nil, err
	}
	upserted, err := r.Creation.UpsertMany(ctx, m, links, optional.Or(in.OnError, link.SkipFailed))
	results, found := make([]*gen.UpsertLinkPayload, 0, len(upserted)), []*link.Link{}
	for _, u := range upserted {
		errors, _ := userErrors(u.Err) // UpsertMany returns other errors for the whole call
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
	ctx context.Context, m workspace.Membership, upserts ...*creation.Upsert,
) error {
	var all, pending linklist.Keys
	for _, u := range upserts {
		if all.ExternalIDs = append(all.ExternalIDs, u.ExternalID); u.Fields.NeedsValidStates() {
			pending.ExternalIDs = append(pending.ExternalIDs, u.ExternalID)
		}
	}
	return (*resolver)(r).chargeStored(ctx, m, all, pending)
}

func upsertOf(m workspace.Membership, in *gen.NewLinkInput) *creation.Upsert {
	return &creation.Upsert{
		ExternalID: optional.Value(in.ExternalID), URL: in.URL, Strategy: in.Strategy, CustomCode: in.CustomCode,
		DomainID: in.DomainID,
		Fields: linkfield.Change{
			Title:          setOrRemove(in.Title),
			Note:           setOrRemove(in.Note),
			Tags:           setOrRemove(in.Tags),
			FolderID:       setOrRemove(in.FolderID),
			Metadata:       setOrRemove(in.Metadata),
			StartsAt:       setOrRemove(in.StartsAt),
			ExpiresAt:      setOrRemove(in.ExpiresAt),
			MaxClicks:      setOrRemove(in.MaxClicks),
			RedirectStatus: setOrDefault(in.RedirectStatus, m.Workspace().DefaultRedirectStatus),
			Archived:       setOrDefault(in.Archived, false),
			StatsPublic:    setOrDefault(in.StatsPublic, false),
			Routing: optional.Edit[*routing.Change]{Set: in.Routing.IsSet(),
				To: routingChange(in.Routing.Value())},
		},
	}
}

// setOrDefault is the change of a field that null resets to a default.
func setOrDefault[T any](value graphql.Omittable[*T], otherwise T) optional.Edit[T] {
	return optional.Edit[T]{Set: value.IsSet(), To: optional.Or(value.Value(), otherwise)}
}
