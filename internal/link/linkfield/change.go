package linkfield

import (
	"time"

	"github.com/linkforge/linkforge/internal/platform/optional"
	"github.com/linkforge/linkforge/internal/route/routing"
)

// Change is the input for updating a link. Fields without Set stay. A scheduled change is stored as
// JSON, once it is validated; packages link and resolve apply it to rows, so that the API and
// redirects agree.
type Change struct {
	ID string `json:"-"`
	// URL cannot change in deterministic links.
	URL       optional.Edit[string]     `json:"url,omitzero"`
	Title     optional.Edit[*string]    `json:"title,omitzero"`
	Note      optional.Edit[*string]    `json:"note,omitzero"`
	Tags      optional.Edit[[]string]   `json:"tags,omitzero"`
	FolderID  optional.Edit[*string]    `json:"folderId,omitzero"`
	StartsAt  optional.Edit[*time.Time] `json:"startsAt,omitzero"`
	ExpiresAt optional.Edit[*time.Time] `json:"expiresAt,omitzero"`
	// MaxClicks counts from the link's first redirect, whenever it is set.
	MaxClicks      optional.Edit[*int64]  `json:"maxClicks,omitzero"`
	RedirectStatus optional.Edit[int]     `json:"redirectStatus,omitzero"`
	Archived       optional.Edit[bool]    `json:"archived,omitzero"`
	StatsPublic    optional.Edit[bool]    `json:"statsPublic,omitzero"`
	ExternalID     optional.Edit[*string] `json:"externalId,omitzero"`
	Metadata       optional.Edit[[]*Pair] `json:"metadata,omitzero"`
	// Routing makes the link plain if it is set to nil. Of a scheduled change, its rules and targets
	// have ids.
	Routing optional.Edit[*routing.Change] `json:"routing,omitzero"`
	// KeepsPast permits an ExpiresAt in the past, as imported links have.
	KeepsPast bool `json:"-"`
	// Seen is the UpdatedAt that the link must have; nil means any.
	Seen *time.Time `json:"-"`
}

// Apply applies what redirects depend on: the URL and the settings. It cannot fail for a
// validated change.
func (c *Change) Apply(url *string, settings *routing.Settings) {
	c.URL.Apply(url)
	c.RedirectStatus.Apply(&settings.RedirectStatus)
	if !c.Routing.Set {
		return
	}
	if after := c.Routing.To.Merge(settings.Routing); !after.Equal(settings.Routing) {
		settings.Routing = after
	}
	settings.PasswordHash = c.Routing.To.PasswordHash(settings.PasswordHash)
}

// NeedsValidStates reports whether the pending changes of the link must be validated again after
// this change.
func (c *Change) NeedsValidStates() bool {
	return c.URL.Set || c.Routing.Set || c.RedirectStatus.Set || c.StartsAt.Set || c.ExpiresAt.Set || c.MaxClicks.Set
}

// DropNulls leaves out the fields that the change sets to no value.
func (c *Change) DropNulls() {
	for _, f := range Fields {
		if f.IsNull(c) {
			*f.IsSet(c) = false
		}
	}
}

// Names are the names of the fields that the change sets.
func (c *Change) Names() (names []string) {
	for _, f := range Fields {
		if *f.IsSet(c) {
			names = append(names, f.Name)
		}
	}
	return names
}
