// Package linkfield has what members give links, as one table: linkfield.go has the values, the changes
// and Fields, which states how each is read, set and compared. check.go checks values, and returns the
// normal forms that are stored and compared.
package linkfield

import (
	"time"

	"github.com/linkforge/linkforge/internal/platform/optional"
	"github.com/linkforge/linkforge/internal/route/routing"
)

// Values are what members give a link, apart from its address. Their JSON is that of versions, with
// the names of the API.
type Values struct {
	// OriginalURL is the URL as it was given.
	OriginalURL string  `json:"url"`
	Title       *string `json:"title,omitempty"`
	// Note is visible to members only.
	Note *string `json:"note,omitempty"`
	// Tags are sorted. They have a table of their own: nil means those that are stored.
	Tags []string `json:"tags,omitempty" bun:"-"`
	// FolderID is the folder that the link is in; nil for none.
	FolderID *string `json:"folderId,omitempty"`
	// ExternalID is the caller's own id: unique among the links of the workspace that are not
	// purged.
	ExternalID *string `json:"externalId,omitempty"`
	// Metadata is the caller's own data.
	Metadata Metadata `json:"metadata,omitempty"`
	// Archived links redirect.
	Archived bool `json:"archived,omitempty"`
	// StatsPublic makes the link's stats public.
	StatsPublic bool `json:"statsPublic,omitempty"`
	routing.Settings
}

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

// Fields are the fields in the order in which changes are listed.
var Fields = []Field{
	planned(setByLink("url", func(v *Values) *string { return &v.OriginalURL },
		func(c *Change) *optional.Edit[string] { return &c.URL })),
	planned(field("title", func(v *Values) **string { return &v.Title },
		func(c *Change) *optional.Edit[*string] { return &c.Title }, CheckTitle)),
	planned(field("note", func(v *Values) **string { return &v.Note },
		func(c *Change) *optional.Edit[*string] { return &c.Note }, CheckNote)),
	planned(shown(field("tags", func(v *Values) *[]string { return &v.Tags },
		func(c *Change) *optional.Edit[[]string] { return &c.Tags }, CheckTags),
		func(v *Values) any { return append([]string{}, v.Tags...) })),
	planned(field("folderId", func(v *Values) **string { return &v.FolderID },
		func(c *Change) *optional.Edit[*string] { return &c.FolderID }, unchecked)), // link.Store knows folders
	field("externalId", func(v *Values) **string { return &v.ExternalID },
		func(c *Change) *optional.Edit[*string] { return &c.ExternalID }, checkExternalID),
	field("metadata", func(v *Values) *Metadata { return &v.Metadata },
		func(c *Change) *optional.Edit[[]*Pair] { return &c.Metadata }, NewMetadata),
	field("archived", func(v *Values) *bool { return &v.Archived },
		func(c *Change) *optional.Edit[bool] { return &c.Archived }, unchecked),
	field("statsPublic", func(v *Values) *bool { return &v.StatsPublic },
		func(c *Change) *optional.Edit[bool] { return &c.StatsPublic }, unchecked),
	restricting(field("startsAt", func(v *Values) **time.Time { return &v.StartsAt },
		func(c *Change) *optional.Edit[*time.Time] { return &c.StartsAt }, unchecked)),
	restricting(field("expiresAt", func(v *Values) **time.Time { return &v.ExpiresAt },
		func(c *Change) *optional.Edit[*time.Time] { return &c.ExpiresAt }, unchecked)),
	restricting(field("maxClicks", func(v *Values) **int64 { return &v.MaxClicks },
		func(c *Change) *optional.Edit[*int64] { return &c.MaxClicks }, CheckMaxClicks)),
	planned(field("redirectStatus", func(v *Values) *int { return &v.RedirectStatus },
		func(c *Change) *optional.Edit[int] { return &c.RedirectStatus }, CheckRedirectStatus)),
	planned(setByLink("routing", func(v *Values) **routing.Routing { return &v.Routing },
		func(c *Change) *optional.Edit[*routing.Change] { return &c.Routing })),
}
