package link

import (
	"context"
	"time"

	"github.com/linkforge/linkforge/internal/audit"
	"github.com/linkforge/linkforge/internal/errs"
	"github.com/linkforge/linkforge/internal/optional"
	"github.com/linkforge/linkforge/internal/routing"
	"github.com/linkforge/linkforge/internal/workspace"
)

// Edit is a change to one field: To replaces what is there, also by nothing. Without Set the field
// stays.
type Edit[T any] struct {
	Set bool
	To  T
}

// apply makes the change.
func (e Edit[T]) apply(field *T) {
	if e.Set {
		*field = e.To
	}
}

// Change is what a caller wants of a link to be different.
type Change struct {
	// ID is the link's.
	ID string
	// URL is the destination; that of a deterministic link cannot change.
	URL       Edit[string]
	Title     Edit[*string]
	Note      Edit[*string]
	Tags      Edit[[]string]
	StartsAt  Edit[*time.Time]
	ExpiresAt Edit[*time.Time]
	// MaxClicks counts from the link's first redirect on, whenever it is set.
	MaxClicks      Edit[*int64]
	RedirectStatus Edit[int]
	Archived       Edit[bool]
	// StatsPublic lets everybody look at the link's stats.
	StatsPublic Edit[bool]
	// Seen is the UpdatedAt of the link that the caller looked at; nil means whichever.
	Seen *time.Time
}

// Update is UpdateMany of one link.
func (s *Store) Update(ctx context.Context, m workspace.Membership, c Change) (*Link, error) {
	return only(s.UpdateMany(ctx, m, []Change{c}, SkipFailed))
}

// UpdateMany changes up to MaxBatch links, with a result each, in the order of the changes. A link
// stays as it is when the caller says which state it has seen, and it has been changed since. The
// results' errors are NotFound, InvalidInput, InvalidURL, UnsafeURL, Immutable and Conflict. An
// error means that nothing was done: InvalidInput or Forbidden.
func (s *Store) UpdateMany(
	ctx context.Context, m workspace.Membership, changes []Change, policy Policy,
) ([]Result, error) {
	ctx, err := m.Enter(ctx, workspace.WriteLinks)
	if err != nil {
		return nil, err
	}
	e := edits{policy: policy, field: "links", action: audit.LinkUpdated}
	for _, c := range changes {
		e.ids = append(e.ids, c.ID)
		e.limits = e.limits || c.MaxClicks.Set
	}
	e.change = func(i int, l *Link) error { return s.change(l, changes[i]) }
	if e.limits { // what this node has answered counts towards the new limit
		if err := s.Clicks.Flush(ctx); err != nil {
			return nil, err
		}
	}
	return s.edit(ctx, m, e)
}

// change applies what the caller wants, and checks what it comes to.
func (s *Store) change(l *Link, c Change) (err error) {
	if c.Seen != nil && !c.Seen.Equal(l.UpdatedAt) {
		return errs.New(errs.Conflict, "The link has been changed since. Look at it again.").At("updatedAt")
	}
	now := s.now()
	if c.URL.Set && c.URL.To != l.OriginalURL {
		if err := s.redirectTo(l, c.URL.To, now); err != nil {
			return err
		}
	}
	if c.Title.Set {
		if l.Title, err = checkTitle(c.Title.To); err != nil {
			return err
		}
	}
	if c.Note.Set {
		if l.Note, err = checkNote(c.Note.To); err != nil {
			return err
		}
	}
	if c.Tags.Set {
		if l.tags, err = CheckTags(c.Tags.To); err != nil {
			return err
		}
	}
	c.StartsAt.apply(&l.StartsAt)
	c.ExpiresAt.apply(&l.ExpiresAt)
	c.MaxClicks.apply(&l.MaxClicks)
	c.RedirectStatus.apply(&l.RedirectStatus)
	c.StatsPublic.apply(&l.StatsPublic)
	if c.Archived.Set && c.Archived.To != l.Archived() {
		l.ArchivedAt = nil
		if c.Archived.To {
			l.ArchivedAt = &now
		}
	}
	if c.ExpiresAt.Set {
		if err := l.checkExpiry(now); err != nil {
			return err
		}
		l.EndedAt = l.DeletedAt // the clean-up looks again
	}
	l.touch(now)
	return l.check()
}

// changedFields are the fields, as callers know them, in which two states of a link differ.
func changedFields(before, after *Link) (fields []string) {
	for _, field := range []struct {
		name    string
		changed bool
	}{
		{"url", before.OriginalURL != after.OriginalURL},
		{"title", optional.Value(before.Title) != optional.Value(after.Title)},
		{"note", optional.Value(before.Note) != optional.Value(after.Note)},
		{"tags", after.tags != nil},
		{"startsAt", !sameInstant(before.StartsAt, after.StartsAt)},
		{"expiresAt", !sameInstant(before.ExpiresAt, after.ExpiresAt)},
		{"maxClicks", (before.MaxClicks == nil) != (after.MaxClicks == nil) || before.MaxClicks != nil &&
			*before.MaxClicks != *after.MaxClicks},
		{"redirectStatus", before.RedirectStatus != after.RedirectStatus},
		{"archived", before.Archived() != after.Archived()},
		{"statsPublic", before.StatsPublic != after.StatsPublic},
	} {
		if field.changed {
			fields = append(fields, field.name)
		}
	}
	return fields
}

func sameInstant(a, b *time.Time) bool {
	return a == b || a != nil && b != nil && a.Equal(*b)
}

// redirectTo gives the link another destination, unless its code is computed from the one it has,
// or the operator has disabled it for that one.
func (s *Store) redirectTo(l *Link, url string, now time.Time) error {
	if l.Strategy == Deterministic {
		return errs.New(errs.Immutable, "The code of this link is computed from its URL, which cannot change. Create "+
			"another link.").At("url")
	}
	if l.DisabledAt != nil {
		return errDisabled().At("url")
	}
	l.DestinationStatus, l.LastCheckedAt, l.CheckAt, l.CheckFailures = nil, nil, &now, 0
	return l.lead(url)
}

// Delete is DeleteMany of one link.
func (s *Store) Delete(ctx context.Context, m workspace.Membership, linkID string) (*Link, error) {
	return only(s.DeleteMany(ctx, m, []string{linkID}, SkipFailed))
}

// DeleteMany takes up to MaxBatch links down; their codes stay reserved for them. Deleting a link
// again changes nothing. The results' errors are NotFound and Conflict. An error means that nothing
// was done: InvalidInput or Forbidden.
func (s *Store) DeleteMany(ctx context.Context, m workspace.Membership, ids []string, policy Policy) ([]Result, error) {
	ctx, err := m.Enter(ctx, workspace.WriteLinks)
	if err != nil {
		return nil, err
	}
	return s.edit(ctx, m, edits{ids: ids, policy: policy, field: "ids", action: audit.LinkDeleted,
		change: func(_ int, l *Link) error {
			if l.DeletedAt == nil {
				now := s.now()
				l.DeletedAt, l.EndedAt = &now, &now
				l.touch(now)
			}
			return nil
		}})
}

// Restore brings a deleted link back as it was. Restoring it again changes nothing. It returns
// NotFound, UnsafeURL for a link that the operator has disabled or whose destination is refused, or
// Forbidden.
func (s *Store) Restore(ctx context.Context, m workspace.Membership, linkID string) (*Link, error) {
	ctx, err := m.Enter(ctx, workspace.WriteLinks)
	if err != nil {
		return nil, err
	}
	return only(s.edit(ctx, m, edits{ids: []string{linkID}, field: "id", action: audit.LinkRestored,
		change: func(_ int, l *Link) error {
			if l.DisabledAt != nil {
				return errDisabled()
			}
			if l.DeletedAt == nil {
				return nil
			}
			now := s.now()
			l.DeletedAt, l.EndedAt = nil, nil
			if l.Status(now) == routing.Expired { // its tombstone stands anew
				l.EndedAt = &now
			}
			l.touch(now)
			return nil
		}}))
}

// touch makes the link's state another one: later than before, whatever the clock says, since the
// instant tells one from the next.
func (l *Link) touch(now time.Time) {
	l.UpdatedAt = l.UpdatedAt.Add(time.Microsecond)
	if now.After(l.UpdatedAt) {
		l.UpdatedAt = now
	}
}

func errDisabled() *errs.Error {
	return errs.New(errs.UnsafeURL, "The operator has disabled the short link to this URL.")
}
