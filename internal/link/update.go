package link

import (
	"context"
	"slices"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/errs"
	"github.com/linkforge/linkforge/internal/workspace"
)

// Edit is a change to one field: To replaces what is there, also by nothing. Without Set the field stays.
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
	// Seen is the UpdatedAt of the link that the caller looked at; nil means whichever.
	Seen *time.Time
}

// Update is UpdateMany of one link.
func (s *Store) Update(ctx context.Context, m workspace.Membership, c Change) (*Link, error) {
	return only(s.UpdateMany(ctx, m, []Change{c}, SkipFailed))
}

// UpdateMany changes up to MaxBatch links, with a result each, in the order of the changes. A link stays as it is
// when the caller says which state it has seen, and it has been changed since. The results' errors are NotFound,
// InvalidInput, InvalidURL, UnsafeURL, Immutable and Conflict. An error means that nothing was done: InvalidInput or
// Forbidden.
func (s *Store) UpdateMany(ctx context.Context, m workspace.Membership, changes []Change, policy Policy) ([]Result, error) {
	ids := make([]string, 0, len(changes))
	for _, c := range changes {
		ids = append(ids, c.ID)
	}
	if slices.ContainsFunc(changes, func(c Change) bool { return c.MaxClicks.Set }) {
		// What this node has answered counts towards the new limit.
		if err := s.Clicks.Flush(ctx); err != nil {
			return nil, err
		}
	}
	return s.edit(ctx, m, ids, policy, func(ctx context.Context, tx bun.Tx, i int, l *Link) error {
		return s.change(ctx, tx, l, changes[i])
	})
}

// change applies what the caller wants, and checks what it comes to.
func (s *Store) change(ctx context.Context, tx bun.Tx, l *Link, c Change) (err error) {
	if c.Seen != nil && !c.Seen.Equal(l.UpdatedAt) {
		return errs.New(errs.Conflict, "The link has been changed since. Look at it again.").At("updatedAt")
	}
	if c.URL.Set && c.URL.To != l.OriginalURL {
		if err := s.redirectTo(ctx, tx, l, c.URL.To); err != nil {
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
		if l.tags, err = checkTags(c.Tags.To); err != nil {
			return err
		}
	}
	now := s.now()
	c.StartsAt.apply(&l.StartsAt)
	c.ExpiresAt.apply(&l.ExpiresAt)
	c.RedirectStatus.apply(&l.RedirectStatus)
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
	if c.MaxClicks.Set {
		if err := s.limit(ctx, tx, l, c.MaxClicks.To); err != nil {
			return err
		}
	}
	l.touch(now)
	return l.check()
}

// redirectTo gives the link another destination, unless its code is computed from the one it has.
func (s *Store) redirectTo(ctx context.Context, tx bun.Tx, l *Link, url string) error {
	if l.Strategy == Deterministic {
		return errs.New(errs.Immutable, "The code of this link is computed from its URL, which cannot change. Create another link.").At("url")
	}
	if err := s.lead(l, url); err != nil {
		return err
	}
	now := s.now()
	l.DestinationStatus, l.LastCheckedAt, l.CheckAt, l.CheckFailures = nil, nil, &now, 0
	return s.refuseBlocked(ctx, tx, l)
}

// limit sets how many redirects the link answers. What it has answered while there was no limit counts too.
func (s *Store) limit(ctx context.Context, tx bun.Tx, l *Link, maxClicks *int64) error {
	if l.MaxClicks == nil && maxClicks != nil {
		counts, err := s.Clicks.Counts(ctx, tx, l.ID)
		if err != nil {
			return err
		}
		l.Granted = counts[l.ID]
	}
	l.MaxClicks = maxClicks
	return nil
}

// Delete is DeleteMany of one link.
func (s *Store) Delete(ctx context.Context, m workspace.Membership, linkID string) (*Link, error) {
	return only(s.DeleteMany(ctx, m, []string{linkID}, SkipFailed))
}

// DeleteMany takes up to MaxBatch links down; their codes stay reserved for them. Deleting a link again changes
// nothing. The results' errors are NotFound and Conflict. An error means that nothing was done: InvalidInput or
// Forbidden.
func (s *Store) DeleteMany(ctx context.Context, m workspace.Membership, ids []string, policy Policy) ([]Result, error) {
	return s.edit(ctx, m, ids, policy, func(_ context.Context, _ bun.Tx, _ int, l *Link) error {
		if l.DeletedAt == nil {
			now := s.now()
			l.DeletedAt, l.EndedAt = &now, &now
			l.touch(now)
		}
		return nil
	})
}

// Restore brings a deleted link back as it was. Restoring it again changes nothing. It returns NotFound, UnsafeURL
// for a link that the operator has disabled or whose destination is blocked, or Forbidden.
func (s *Store) Restore(ctx context.Context, m workspace.Membership, linkID string) (*Link, error) {
	return only(s.edit(ctx, m, []string{linkID}, SkipFailed, func(ctx context.Context, tx bun.Tx, _ int, l *Link) error {
		if l.DisabledAt != nil {
			return errDisabled()
		}
		if l.DeletedAt == nil {
			return nil
		}
		l.DeletedAt, l.EndedAt = nil, nil
		l.touch(s.now())
		return s.refuseBlocked(ctx, tx, l)
	}))
}

// touch makes the link's state another one: later than before, whatever the clock says, since the instant tells
// one from the next.
func (l *Link) touch(now time.Time) {
	l.UpdatedAt = l.UpdatedAt.Add(time.Microsecond)
	if now.After(l.UpdatedAt) {
		l.UpdatedAt = now
	}
}

func errDisabled() *errs.Error {
	return errs.New(errs.UnsafeURL, "The operator has disabled the short link to this URL.")
}
