package edit

import (
	"context"
	"reflect"
	"time"

	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/link/linkfield"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/route/routing"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
)

// Revert restores a version of a link as a new version. Deletion and disabling stay. Seen is the
// UpdatedAt that the link must have; nil means any. It returns NotFound, Conflict, and the errors
// of Update.
func (s *Store) Revert(
	ctx context.Context, m workspace.Membership, linkID string, number int, seen *time.Time,
) (*link.Link, error) {
	ctx, err := m.Enter(ctx, workspace.WriteLinks)
	if err != nil {
		return nil, err
	}
	version, err := s.versionOf(ctx, m, linkID, number)
	if err != nil {
		return nil, err
	}
	e := link.Edits{IDs: []string{linkID}, Reason: reverted, NeedClicks: version.MaxClicks != nil}
	e.Mutate = func(_ int, l *link.Link) error {
		if err := l.CheckSeen(seen); err != nil {
			return err
		}
		if l.Version == number {
			return nil
		}
		return s.revertTo(version, l)
	}
	return single(s.edit(ctx, m, e))
}

// revertTo gives the link the state of a version, and runs its tests.
func (s *Store) revertTo(v *link.Version, l *link.Link) error {
	now := s.now()
	if err := apply(&v.Snapshot, l, now); err != nil {
		return err
	}
	l.Touch(now)
	return s.RunTests(l)
}

// versionOf returns a version of a link. It returns NotFound.
func (s *Store) versionOf(
	ctx context.Context, m workspace.Membership, linkID string, number int,
) (*link.Version, error) {
	l, err := s.Get(ctx, m, linkID)
	if err != nil {
		return nil, err
	}
	if number == l.Version {
		versions, err := s.UnwrittenVersions(ctx, l)
		if err != nil {
			return nil, err
		}
		return versions[0], nil
	}
	superseded, err := s.superseded(ctx, versionKey{l.ID, number})
	if err != nil {
		return nil, err
	}
	if v := superseded[versionKey{l.ID, number}]; v != nil {
		return v, nil
	}
	return nil, errNoVersion().At("version")
}

func errNoVersion() *errs.Error {
	return errs.New(errs.NotFound, "The link has no such version, or it is no longer stored.")
}

// apply gives the link the fields of a snapshot, except deletion and disabling. The password stays
// if the snapshot had one. It returns the errors of a change of the URLs, and Conflict for a
// password that is not stored any more.
func apply(s *link.Snapshot, l *link.Link, now time.Time) error {
	then, err := s.Routing.WithPasswordOf(l.Routing)
	if err != nil {
		return err
	}
	if l.DisabledAt != nil &&
		(l.OriginalURL != s.OriginalURL || !reflect.DeepEqual(s.Routing.URLs(), l.Routing.URLs())) {
		return link.ErrDisabledURLs()
	}
	if err := l.ChangeURL(s.OriginalURL, now); err != nil {
		return err
	}
	isExpiryChanged := !linkfield.SameInstant(l.ExpiresAt, s.ExpiresAt)
	if then.Equal(l.Routing) {
		then = l.Routing // writeURLs compares pointers
	}
	after := s.Normal()
	after.OriginalURL, after.Routing = l.OriginalURL, then
	if then.HasPassword() {
		after.PasswordHash = l.PasswordHash
	}
	l.Values = after
	if isExpiryChanged {
		l.EndedAt = l.DeletedAt
		if l.Status(now) == routing.Expired { // the tombstone starts again
			l.EndedAt = &now
		}
	}
	return nil
}
