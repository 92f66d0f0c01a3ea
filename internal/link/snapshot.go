package link

import (
	"time"

	"github.com/linkforge/linkforge/internal/event/audit"
	"github.com/linkforge/linkforge/internal/link/linkfield"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/route/routing"
)

// Snapshot is everything that users can see and change of a link, in one version. It is stored as
// JSON.
type Snapshot struct {
	URL            string             `json:"url"`
	Title          *string            `json:"title,omitempty"`
	Note           *string            `json:"note,omitempty"`
	Tags           []string           `json:"tags,omitempty"`
	FolderID       *string            `json:"folderId,omitempty"`
	ExternalID     *string            `json:"externalId,omitempty"`
	Metadata       linkfield.Metadata `json:"metadata,omitempty"`
	Archived       bool               `json:"archived,omitempty"`
	StatsPublic    bool               `json:"statsPublic,omitempty"`
	StartsAt       *time.Time         `json:"startsAt,omitempty"`
	ExpiresAt      *time.Time         `json:"expiresAt,omitempty"`
	MaxClicks      *int64             `json:"maxClicks,omitempty"`
	RedirectStatus int                `json:"redirectStatus"`
	Routing        *routing.Routing   `json:"routing,omitempty"`
	Deleted        bool               `json:"deleted,omitempty"`
	Disabled       bool               `json:"disabled,omitempty"`
}

// Snapshot returns the present state of the link, which has the tags.
func (l *Link) Snapshot(tags []string) *Snapshot {
	s := &Snapshot{
		URL: l.OriginalURL, Title: l.Title, Note: l.Note, FolderID: l.FolderID, ExternalID: l.ExternalID,
		Metadata: l.Metadata,
		Archived: l.Archived(), StatsPublic: l.StatsPublic,
		StartsAt: utc(l.StartsAt), ExpiresAt: utc(l.ExpiresAt), MaxClicks: l.MaxClicks,
		RedirectStatus: l.RedirectStatus,
		Routing:        l.Routing, Deleted: l.DeletedAt != nil, Disabled: l.DisabledAt != nil,
	}
	if len(tags) > 0 {
		s.Tags = tags
	}
	return s
}

// snapshotWith is Snapshot for a link whose new tags, if it has some, are not written yet.
func (l *Link) snapshotWith(stored []string) *Snapshot {
	if l.NewTags != nil {
		return l.Snapshot(l.NewTags)
	}
	return l.Snapshot(stored)
}

// utc returns an instant as the database stores it.
func utc(at *time.Time) *time.Time {
	if at == nil {
		return nil
	}
	return new(db.Instant(*at))
}

// Fields are the fields that a change lists, by their names in the API. Deletion and disabling have
// event types of their own.
func (s *Snapshot) Fields() []audit.Field {
	tags := s.Tags
	if tags == nil {
		tags = []string{}
	}
	return []audit.Field{
		{Name: "url", Value: s.URL}, {Name: "title", Value: s.Title}, {Name: "note", Value: s.Note},
		{Name: "tags", Value: tags}, {Name: "folderId", Value: s.FolderID}, {Name: "externalId", Value: s.ExternalID},
		{Name: "metadata", Value: s.Metadata},
		{Name: "archived", Value: s.Archived}, {Name: "statsPublic", Value: s.StatsPublic},
		{Name: "startsAt", Value: s.StartsAt}, {Name: "expiresAt", Value: s.ExpiresAt},
		{Name: "maxClicks", Value: s.MaxClicks}, {Name: "redirectStatus", Value: s.RedirectStatus},
		{Name: "routing", Value: s.Routing},
	}
}

// IsSame reports whether nothing that users see differs between two states of a link with the
// stored tags.
func IsSame(before, after *Link, stored []string) bool {
	isSame, _ := compare(before.Snapshot(stored), after.snapshotWith(stored))
	return isSame
}

// compare returns the fields that differ between two states of a link, and whether nothing differs.
func compare(before, after *Snapshot) (isSame bool, fields []*audit.FieldChange) {
	fields = audit.Compare(before.Fields(), after.Fields())
	return len(fields) == 0 && before.Deleted == after.Deleted && before.Disabled == after.Disabled, fields
}
