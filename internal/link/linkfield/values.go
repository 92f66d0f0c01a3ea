package linkfield

import (
	"github.com/linkforge/linkforge/internal/platform/validate"
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

// Normal returns the values with texts in validate.Normal form, and with tags. Versions keep the form
// that texts had.
func (v Values) Normal() Values {
	for _, text := range []**string{&v.Title, &v.Note, &v.ExternalID} {
		if *text != nil {
			*text = new(validate.Normal(**text))
		}
	}
	v.Metadata = Metadata(validate.Normal(string(v.Metadata)))
	tags := make([]string, 0, len(v.Tags))
	for _, tag := range v.Tags {
		tags = append(tags, validate.Normal(tag))
	}
	v.Tags = sorted(tags)
	return v
}
