// Package link holds the short links: how they are made, what state they are in, and where their short URLs
// lead.
package link

import (
	"crypto/sha256"
	"strings"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/errs"
	"github.com/linkforge/linkforge/internal/text"
	"github.com/linkforge/linkforge/internal/urlnorm"
	"github.com/linkforge/linkforge/internal/workspace"
)

// Strategy is how a link's code is made.
type Strategy string

// The strategies.
const (
	// Deterministic computes the code from the canonical URL and the workspace: the same URL in the same
	// workspace is always the same link.
	Deterministic Strategy = "DETERMINISTIC"
	// Counter numbers links through, and writes the number as a code that tells nothing of it.
	Counter Strategy = "COUNTER"
	// Random draws the code.
	Random Strategy = "RANDOM"
	// Custom takes the caller's words.
	Custom Strategy = "CUSTOM"
)

// idempotent says whether creating the same link again answers with the one that is there.
func (s Strategy) idempotent() bool { return s == Deterministic || s == Custom }

// Status is the state that a link is in at an instant.
type Status string

// The states.
const (
	Scheduled Status = "SCHEDULED" // StartsAt is still to come
	Active    Status = "ACTIVE"
	Expired   Status = "EXPIRED"  // ExpiresAt has come
	Deleted   Status = "DELETED"  // by a member
	Disabled  Status = "DISABLED" // by the operator
)

// DefaultRedirectStatus is the HTTP status of a redirect whose link does not choose one.
const DefaultRedirectStatus = 302

// Link is a short link.
type Link struct {
	bun.BaseModel `bun:"table:links"`

	ID          string `bun:",pk"`
	WorkspaceID string
	// Code is the last segment of the short URL. RootCode is the same when the code answers at the root, where it
	// is unique over the instance; else it is nil.
	Code     string
	RootCode *string
	Strategy Strategy
	// OriginalURL is the URL as it was given, CanonicalURL its canonical form.
	OriginalURL   string
	CanonicalURL  string
	CanonicalHash []byte
	Title         *string
	// RedirectStatus is 301, 302, 307 or 308.
	RedirectStatus int
	// StartsAt and ExpiresAt bound the time in which the link redirects; nil means open.
	StartsAt  *time.Time
	ExpiresAt *time.Time
	// CreatedBy is the account that made the link.
	CreatedBy *string
	CreatedAt time.Time
	UpdatedAt time.Time
	// DeletedAt and DisabledAt are when a member or the operator took the link down.
	DeletedAt  *time.Time
	DisabledAt *time.Time

	// In is the membership by which the link was reached.
	In workspace.Membership `bun:"-"`
}

// Status is the state that the link is in at the instant.
func (l *Link) Status(now time.Time) Status {
	switch {
	case l.DisabledAt != nil:
		return Disabled
	case l.DeletedAt != nil:
		return Deleted
	case l.ExpiresAt != nil && !now.Before(*l.ExpiresAt):
		return Expired
	case l.StartsAt != nil && now.Before(*l.StartsAt):
		return Scheduled
	}
	return Active
}

// New is what a caller says of a link to be made.
type New struct {
	// URL is the destination as the caller wrote it.
	URL string
	// Strategy says how the code is made; nil means Custom when a code is given, else Deterministic.
	Strategy *Strategy
	// CustomCode is the code of a Custom link.
	CustomCode *string
	Title      *string
	// RedirectStatus is 301, 302, 307 or 308; nil means DefaultRedirectStatus.
	RedirectStatus *int
	StartsAt       *time.Time
	ExpiresAt      *time.Time
}

// maxTitle is the longest title, in characters.
const maxTitle = 200

// draft checks what the caller says and makes a link of it that has no code yet. It returns InvalidInput,
// InvalidURL or UnsafeURL.
func (s *Store) draft(in New, now time.Time) (*Link, error) {
	l := &Link{
		Strategy:       in.strategy(),
		RedirectStatus: DefaultRedirectStatus,
		StartsAt:       in.StartsAt,
		ExpiresAt:      in.ExpiresAt,
	}
	if err := s.lead(l, in.URL); err != nil {
		return nil, err
	}
	if in.RedirectStatus != nil {
		l.RedirectStatus = *in.RedirectStatus
	}
	var err error
	if l.Title, err = checkTitle(in.Title); err != nil {
		return nil, err
	}
	if err := l.checkExpiry(now); err != nil {
		return nil, err
	}
	return l, l.check()
}

// lead makes the link lead to a URL.
func (s *Store) lead(l *Link, raw string) error {
	canonical, err := s.destination(raw)
	if err != nil {
		return err
	}
	hash := sha256.Sum256([]byte(canonical.String()))
	l.OriginalURL = strings.ReplaceAll(raw, "\x00", "") // only at its ends, and no database keeps it
	l.CanonicalURL, l.CanonicalHash = canonical.String(), hash[:]
	return nil
}

func (in New) strategy() Strategy {
	switch {
	case in.Strategy != nil:
		return *in.Strategy
	case in.CustomCode != nil:
		return Custom
	}
	return Deterministic
}

// destination checks a URL that a link is to lead to.
func (s *Store) destination(raw string) (urlnorm.URL, error) {
	u, err := canonical(raw)
	if err != nil {
		return urlnorm.URL{}, err
	}
	if s.isOwn(u) {
		return urlnorm.URL{}, errs.New(errs.UnsafeURL, "A short URL cannot lead to this service itself: it would go in circles.").At("url")
	}
	return u, nil
}

// isOwn reports whether a URL leads to this instance. Behind the default ports, http leads to https.
func (s *Store) isOwn(u urlnorm.URL) bool {
	isDefault := func(port uint16) bool { return port == 80 || port == 443 }
	samePort := u.Port() == s.publicURL.Port() || isDefault(u.Port()) && isDefault(s.publicURL.Port())
	return u.Host() == s.publicURL.Host() && samePort
}

func checkTitle(title *string) (*string, error) {
	if title == nil {
		return nil, nil
	}
	line, err := text.Line("The title", *title, 0, maxTitle)
	if err != nil {
		return nil, errs.From(err).At("title")
	}
	if line == "" {
		return nil, nil
	}
	return &line, nil
}

func (l *Link) checkExpiry(now time.Time) error {
	if l.ExpiresAt != nil && !l.ExpiresAt.After(now) {
		return errs.New(errs.InvalidInput, "expiresAt must be in the future.").At("expiresAt")
	}
	return nil
}

// check checks what must hold of every link.
func (l *Link) check() error {
	switch l.RedirectStatus {
	case 301, 302, 307, 308:
	default:
		return errs.New(errs.InvalidInput, "redirectStatus must be 301, 302, 307 or 308.").At("redirectStatus")
	}
	if l.StartsAt != nil && l.ExpiresAt != nil && !l.StartsAt.Before(*l.ExpiresAt) {
		return errs.New(errs.InvalidInput, "startsAt must be before expiresAt.").At("startsAt")
	}
	return nil
}
