package linkfield

import (
	"github.com/linkforge/linkforge/internal/platform/optional"
	"github.com/linkforge/linkforge/internal/route/routing"
)

// Patch is a change of a link. Fields without Set stay. It is stored as JSON. Packages link and
// resolve apply it to rows, so that the API and redirects agree. It is completed and validated
// before it is stored.
type Patch struct {
	URL            optional.Edit[string]   `json:"url,omitzero"`
	Title          optional.Edit[*string]  `json:"title,omitzero"`
	Note           optional.Edit[*string]  `json:"note,omitzero"`
	Tags           optional.Edit[[]string] `json:"tags,omitzero"`
	FolderID       optional.Edit[*string]  `json:"folderId,omitzero"`
	RedirectStatus optional.Edit[int]      `json:"redirectStatus,omitzero"`
	// Routing makes the link plain if it is set to nil. Its rules and targets have ids.
	Routing optional.Edit[*routing.Change] `json:"routing,omitzero"`
}

// Apply applies what redirects depend on: the URL and the settings. It cannot fail.
func (p *Patch) Apply(url *string, settings *routing.Settings) {
	p.URL.Apply(url)
	p.RedirectStatus.Apply(&settings.RedirectStatus)
	if !p.Routing.Set {
		return
	}
	if after := p.Routing.To.Merge(settings.Routing); !after.Equal(settings.Routing) {
		settings.Routing = after
	}
	settings.PasswordHash = p.Routing.To.PasswordHash(settings.PasswordHash)
}

// Names are the names of the fields that the patch sets, as in the API.
func (p *Patch) Names() (names []string) {
	for _, field := range []struct {
		name string
		set  bool
	}{
		{"url", p.URL.Set}, {"title", p.Title.Set}, {"note", p.Note.Set}, {"tags", p.Tags.Set},
		{"folderId", p.FolderID.Set}, {"redirectStatus", p.RedirectStatus.Set}, {"routing", p.Routing.Set},
	} {
		if field.set {
			names = append(names, field.name)
		}
	}
	return names
}
