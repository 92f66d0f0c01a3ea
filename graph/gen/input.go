package gen

import (
	"time"

	"github.com/99designs/gqlgen/graphql"

	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/link/linkfield"
	"github.com/linkforge/linkforge/internal/platform/optional"
	"github.com/linkforge/linkforge/internal/route/routing"
)

// LinkFields are the fields that the inputs of links have in common. gqlgen would repeat them in each.
type LinkFields struct {
	Title, Note, FolderID, ExternalID graphql.Omittable[*string]
	Tags                              graphql.Omittable[[]string]
	StartsAt, ExpiresAt               graphql.Omittable[*time.Time]
	MaxClicks                         graphql.Omittable[*int64]
	RedirectStatus                    graphql.Omittable[*int]
	Archived, StatsPublic             graphql.Omittable[*bool]
	Metadata                          graphql.Omittable[[]*linkfield.Pair]
	Routing                           graphql.Omittable[*LinkRoutingInput]
}

// NewLinkInput is a link of createLinks and upsertLink(s).
type NewLinkInput struct {
	LinkFields
	URL                  string
	Strategy             *link.Strategy
	CustomCode, DomainID *string
}

// CreateLinkInput is the input of createLink.
type CreateLinkInput struct {
	NewLinkInput
	WorkspaceID    string
	IdempotencyKey *string
}

// UpdateLinkInput is the input of updateLink, and a link of updateLinks.
type UpdateLinkInput struct {
	LinkFields
	ID        string
	URL       *string
	UpdatedAt *time.Time
}

// LinkChangeInput is the change of scheduleLinkChange, which has some of the fields.
type LinkChangeInput struct {
	LinkFields
	URL *string
}

// Change is the change to the fields, with the given one of the routing. Null removes a value; a field
// that always has one stays.
func (f *LinkFields) Change(url *string, to *routing.Change) linkfield.Change {
	return linkfield.Change{
		URL: SetUnlessNull(url), Title: SetOrRemove(f.Title), Note: SetOrRemove(f.Note), Tags: SetOrRemove(f.Tags),
		FolderID: SetOrRemove(f.FolderID), StartsAt: SetOrRemove(f.StartsAt), ExpiresAt: SetOrRemove(f.ExpiresAt),
		MaxClicks: SetOrRemove(f.MaxClicks), RedirectStatus: SetUnlessNull(f.RedirectStatus.Value()),
		Archived: SetUnlessNull(f.Archived.Value()), StatsPublic: SetUnlessNull(f.StatsPublic.Value()),
		ExternalID: SetOrRemove(f.ExternalID), Metadata: SetOrRemove(f.Metadata),
		Routing: optional.Edit[*routing.Change]{Set: f.Routing.IsSet(), To: to},
	}
}

// SetOrRemove is the change of a field that null removes.
func SetOrRemove[T any](value graphql.Omittable[T]) optional.Edit[T] {
	return optional.Edit[T]{Set: value.IsSet(), To: value.Value()}
}

// SetUnlessNull is the change of a field that null does not change.
func SetUnlessNull[T any](value *T) optional.Edit[T] {
	return optional.Edit[T]{Set: value != nil, To: optional.Value(value)}
}
