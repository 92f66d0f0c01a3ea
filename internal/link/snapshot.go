package link

import (
	"time"

	"github.com/linkforge/linkforge/internal/event/audit"
	"github.com/linkforge/linkforge/internal/link/linkfield"
	"github.com/linkforge/linkforge/internal/platform/db"
)

// Snapshot is everything that users can see and change of a link, in one version. It is stored as
// JSON.
type Snapshot struct {
	linkfield.Values
	Deleted  bool `json:"deleted,omitempty"`
	Disabled bool `json:"disabled,omitempty"`
}

// Snapshot returns the present state of the link, which has the tags.
func (l *Link) Snapshot(tags []string) *Snapshot {
	s := &Snapshot{Values: l.Values, Deleted: l.DeletedAt != nil, Disabled: l.DisabledAt != nil}
	s.StartsAt, s.ExpiresAt, s.PasswordHash = utc(l.StartsAt), utc(l.ExpiresAt), nil
	if s.Tags = nil; len(tags) > 0 {
		s.Tags = tags
	}
	return s
}

// snapshotWith is Snapshot for a link whose new tags, if it has some, are not written yet.
func (l *Link) snapshotWith(stored []string) *Snapshot {
	if l.Tags != nil {
		return l.Snapshot(l.Tags)
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

// Fields are the fields that a change lists. Deletion and disabling have event types of their own.
func (s *Snapshot) Fields() (all []audit.Field) {
	for _, f := range linkfield.Fields {
		all = append(all, audit.Field{Name: f.Name, Value: f.Value(&s.Values)})
	}
	return all
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
