package link

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/errs"
	"github.com/linkforge/linkforge/internal/id"
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
	// URL is the destination; that of a deterministic link cannot change.
	URL            Edit[string]
	Title          Edit[*string]
	StartsAt       Edit[*time.Time]
	ExpiresAt      Edit[*time.Time]
	RedirectStatus Edit[int]
	// Seen is the UpdatedAt of the link that the caller looked at; nil means whichever.
	Seen *time.Time
}

// Update changes a link. When the caller says which state it has seen, and the link has been changed since, it
// stays as it is. It returns NotFound, InvalidInput, InvalidURL, UnsafeURL, Immutable, Conflict or Forbidden.
func (s *Store) Update(ctx context.Context, m workspace.Membership, linkID string, c Change) (*Link, error) {
	if err := m.Need(workspace.Editor); err != nil {
		return nil, err
	}
	for {
		l, err := s.Get(ctx, m, linkID)
		if err != nil {
			return nil, err
		}
		if c.Seen != nil && !c.Seen.Equal(l.UpdatedAt) {
			return nil, errs.New(errs.Conflict, "The link has been changed since. Look at it again.").At("updatedAt")
		}
		seen := l.UpdatedAt
		if err := s.change(l, c); err != nil {
			return nil, err
		}
		written, err := s.write(ctx, l, seen)
		if !errors.Is(err, sql.ErrNoRows) {
			return written, err
		}
		// Somebody changed the link in between: what the caller wants is applied to what it is now.
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("changing a link: %w", err)
		}
	}
}

// Restore brings a deleted link back as it was. Restoring it again changes nothing. It returns NotFound, UnsafeURL
// for a link that the operator has disabled, or Forbidden.
func (s *Store) Restore(ctx context.Context, m workspace.Membership, linkID string) (*Link, error) {
	if err := m.Need(workspace.Editor); err != nil {
		return nil, err
	}
	if !id.Valid(id.Link, linkID) {
		return nil, errNotFound()
	}
	_, err := s.DB.NewUpdate().Model((*Link)(nil)).
		Set("deleted_at = NULL").Set("updated_at = ?", db.Instant(s.Now())).
		Where("id = ?", linkID).Where("workspace_id = ?", m.ID()).
		Where("deleted_at IS NOT NULL").Where("disabled_at IS NULL").
		Exec(ctx)
	if err != nil {
		return nil, fmt.Errorf("restoring a link: %w", err)
	}
	l, err := s.Get(ctx, m, linkID)
	if err == nil && l.DisabledAt != nil {
		return nil, errDisabled()
	}
	return l, err
}

// change applies what the caller wants, and checks what it comes to.
func (s *Store) change(l *Link, c Change) (err error) {
	now := db.Instant(s.Now())
	if c.URL.Set && c.URL.To != l.OriginalURL {
		if l.Strategy == Deterministic {
			return errs.New(errs.Immutable, "The code of this link is computed from its URL, which cannot change. Create another link.").At("url")
		}
		if err := s.lead(l, c.URL.To); err != nil {
			return err
		}
	}
	if c.Title.Set {
		if l.Title, err = checkTitle(c.Title.To); err != nil {
			return err
		}
	}
	c.StartsAt.apply(&l.StartsAt)
	c.ExpiresAt.apply(&l.ExpiresAt)
	c.RedirectStatus.apply(&l.RedirectStatus)
	if c.ExpiresAt.Set {
		if err := l.checkExpiry(now); err != nil {
			return err
		}
	}
	// Later than before, whatever the clock says: the instant tells one state from the next.
	l.UpdatedAt = l.UpdatedAt.Add(time.Microsecond)
	if now.After(l.UpdatedAt) {
		l.UpdatedAt = now
	}
	return l.check()
}

// write keeps a changed link, unless its state is not the one that was seen: then it returns sql.ErrNoRows.
func (s *Store) write(ctx context.Context, l *Link, seen time.Time) (*Link, error) {
	written := &Link{In: l.In}
	_, err := s.DB.NewUpdate().Model(l).
		Column("original_url", "canonical_url", "canonical_hash", "title", "redirect_status", "starts_at", "expires_at", "updated_at").
		Where("id = ?", l.ID).Where("workspace_id = ?", l.WorkspaceID).Where("updated_at = ?", seen).
		Returning("*").Exec(ctx, written)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return nil, fmt.Errorf("changing a link: %w", err)
	}
	return written, err
}

func errDisabled() *errs.Error {
	return errs.New(errs.UnsafeURL, "The operator has disabled the short link to this URL.")
}
