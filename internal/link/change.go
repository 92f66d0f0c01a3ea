package link

import (
	"crypto/sha256"
	"time"

	"github.com/linkforge/linkforge/internal/link/linkfield"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/urlnorm"
	"github.com/linkforge/linkforge/internal/route/routing"
)

// Mutate applies a change to the link, validates the result, and runs the link's tests.
func (s *Store) Mutate(c *linkfield.Change, l *Link) error {
	before := l.OriginalURL
	if err := l.SetFields(c, s.now()); err != nil {
		return err
	}
	if c.Routing.Set || l.OriginalURL != before {
		return s.RunTests(l)
	}
	return nil
}

// SetFields validates and sets all fields of the change, and checks what depends on the link, such as
// Seen, if they are valid. Whether the folder exists is not known here.
func (l *Link) SetFields(c *linkfield.Change, now time.Time) error {
	newURL := c.URL.Set && c.URL.To != l.OriginalURL
	if err := l.checkFields(c, newURL, now); err != nil {
		return err
	}
	if err := l.CheckSeen(c.Seen); err != nil {
		return err
	}
	if newURL {
		if err := l.changeDestination(c.URL.To, now); err != nil {
			return err
		}
	}
	l.Touch(now)
	return nil
}

// checkFields validates the fields of a change, and sets those that depend on nothing else.
func (l *Link) checkFields(c *linkfield.Change, newURL bool, now time.Time) error {
	var checks []error
	if newURL {
		_, err := Canonical(c.URL.To)
		checks = append(checks, err)
	}
	before := l.ExpiresAt
	for _, f := range linkfield.Fields {
		checks = append(checks, f.Set(&l.Values, c))
	}
	if c.ExpiresAt.Set && !linkfield.SameInstant(before, l.ExpiresAt) {
		if l.ExpiresAt != nil && !l.ExpiresAt.After(now) && !c.KeepsPast {
			checks = append(checks, errs.New(errs.InvalidInput, "expiresAt must be in the future.").At("expiresAt"))
		}
		l.EndedAt = l.DeletedAt // RecordTransitions sets it again
	}
	checks = append(checks, linkfield.CheckPeriod(l.StartsAt, l.ExpiresAt))
	if c.Routing.Set {
		checks = append(checks, l.ChangeRouting(c.Routing.To))
	}
	return errs.All(checks...)
}

// changeDestination changes the URL, unless the code is computed from it or the operator has
// disabled the link because of it.
func (l *Link) changeDestination(url string, now time.Time) error {
	if l.Strategy == Deterministic {
		return errs.New(errs.Immutable, "The code of this link is computed from its URL, which cannot change. Create "+
			"another link.").At("url")
	}
	if l.DisabledAt != nil {
		return ErrDisabled().At("url")
	}
	l.Check = Check{CheckAt: &now}
	return l.SetDestination(url)
}

// ChangeURL changes the URL; that of a deterministic link may change its spelling only.
func (l *Link) ChangeURL(url string, now time.Time) error {
	if url == l.OriginalURL {
		return nil
	}
	u, err := Canonical(url)
	switch {
	case err != nil:
		return err
	case u.String() == l.CanonicalURL && l.DisabledAt == nil:
		return l.SetDestination(url)
	}
	return l.changeDestination(url, now)
}

// MarkDeleted deletes the link, unless it is deleted.
func (l *Link) MarkDeleted(now time.Time) {
	if l.DeletedAt == nil {
		l.DeletedAt, l.EndedAt = &now, &now
		l.Touch(now)
	}
}

// UnmarkDeleted restores the link, unless it is not deleted. It returns UnsafeURL for a disabled
// link.
func (l *Link) UnmarkDeleted(now time.Time) error {
	if l.DisabledAt != nil {
		return ErrDisabled()
	}
	if l.DeletedAt == nil {
		return nil
	}
	if l.OwnAddress != nil && l.DomainID == nil {
		return errs.New(errs.Conflict, "The domain of this link was removed. Create another link.").At("id")
	}
	l.DeletedAt, l.EndedAt = nil, nil
	l.AssignCodeKey()
	if l.Status(now) == routing.Expired { // the tombstone starts again
		l.EndedAt = &now
	}
	l.Touch(now)
	return nil
}

// CheckSeen returns Conflict if the link does not have the UpdatedAt; nil means any.
func (l *Link) CheckSeen(seen *time.Time) error {
	if seen != nil && !seen.Equal(l.UpdatedAt) {
		return errs.New(errs.Conflict, "The link has changed since you read it. Read it again, and repeat the call.").
			At("updatedAt")
	}
	return nil
}

// Touch advances UpdatedAt, which identifies the version of a link, even if the clock does not.
func (l *Link) Touch(now time.Time) {
	l.UpdatedAt = l.UpdatedAt.Add(time.Microsecond)
	if now.After(l.UpdatedAt) {
		l.UpdatedAt = now
	}
}

// ErrDisabled refuses a link that the operator has disabled.
func ErrDisabled() *errs.Error {
	return errs.New(errs.UnsafeURL, "The operator has disabled the short link to this URL.")
}

// ErrDisabledURLs refuses other URLs of a link that the operator has disabled.
func ErrDisabledURLs() *errs.Error {
	return errs.New(errs.UnsafeURL, "The operator has disabled this link. Its URLs cannot change.").At("routing")
}

// SetDestination sets the URL. Whether the link may redirect there is checked by Store.refused.
func (l *Link) SetDestination(raw string) error {
	canonical, err := Canonical(raw)
	if err != nil {
		return err
	}
	hash := sha256.Sum256([]byte(canonical.String()))
	l.OriginalURL = urlnorm.Trim(raw)
	l.CanonicalURL, l.CanonicalHash = canonical.String(), hash[:]
	return nil
}
