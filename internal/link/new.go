package link

import (
	"crypto/sha256"
	"slices"
	"strings"
	"time"

	"github.com/linkforge/linkforge/internal/errs"
	"github.com/linkforge/linkforge/internal/optional"
	"github.com/linkforge/linkforge/internal/routing"
	"github.com/linkforge/linkforge/internal/validate"
	"github.com/linkforge/linkforge/internal/workspace"
)

// New is what a caller says of a link to be made.
type New struct {
	// URL is the destination as the caller wrote it.
	URL string
	// Strategy says how the code is made; nil means Custom when a code is given, else the workspace's
	// default.
	Strategy *Strategy
	// CustomCode is the code of a Custom link.
	CustomCode *string
	Title      *string
	Note       *string
	Tags       []string
	// RedirectStatus is 301, 302, 307 or 308; nil means the workspace's default.
	RedirectStatus *int
	StartsAt       *time.Time
	ExpiresAt      *time.Time
	// MaxClicks is how many redirects the link answers; nil means any number.
	MaxClicks *int64

	claimHash []byte
}

const (
	// maxTitle and maxNote are the longest title and note, in characters.
	maxTitle = 200
	maxNote  = 2000
	// maxTags is how many tags a link may have, maxTag how many characters one.
	maxTags = 20
	maxTag  = 50
)

// draft checks what the caller says and makes a link of it that has no code yet. It returns
// InvalidInput or InvalidURL.
func (s *Store) draft(m workspace.Membership, in New, now time.Time) (*Link, error) {
	l := &Link{
		In:          m,
		WorkspaceID: m.ID(),
		Strategy:    in.strategy(m),
		Settings:    in.settings(m),
		ClaimHash:   in.claimHash,
		CreatedAt:   now,
		UpdatedAt:   now,
		CheckAt:     &now,
		CreatedBy:   optional.Of(m.AccountID()),
	}
	if err := l.lead(in.URL); err != nil {
		return nil, err
	}
	if err := l.describe(in.Title, in.Note, in.Tags); err != nil {
		return nil, err
	}
	if err := l.checkExpiry(now); err != nil {
		return nil, err
	}
	return l, l.check()
}

// settings returns the settings, with the workspace's defaults for those that are absent.
func (in New) settings(m workspace.Membership) routing.Settings {
	return routing.Settings{
		RedirectStatus: optional.Or(in.RedirectStatus, m.Workspace().DefaultRedirectStatus),
		StartsAt:       in.StartsAt,
		ExpiresAt:      in.ExpiresAt,
		MaxClicks:      in.MaxClicks,
	}
}

// describe gives the link its title, its note and its tags.
func (l *Link) describe(title, note *string, tags []string) (err error) {
	if l.Title, err = checkTitle(title); err != nil {
		return err
	}
	if l.Note, err = checkNote(note); err != nil {
		return err
	}
	l.tags, err = CheckTags(tags)
	return err
}

// lead makes the link lead to a URL. Whether it may, refused says.
func (l *Link) lead(raw string) error {
	canonical, err := canonical(raw)
	if err != nil {
		return err
	}
	hash := sha256.Sum256([]byte(canonical.String()))
	l.OriginalURL = strings.ReplaceAll(raw, "\x00", "") // only at its ends, and no database keeps it
	l.CanonicalURL, l.CanonicalHash = canonical.String(), hash[:]
	return nil
}

func (in New) strategy(m workspace.Membership) Strategy {
	switch {
	case in.Strategy != nil:
		return *in.Strategy
	case in.CustomCode != nil:
		return Custom
	}
	return Strategy(m.Workspace().DefaultStrategy)
}

// checkTitle and checkNote take text of nothing for no text.
func checkTitle(title *string) (*string, error) {
	line, err := validate.Line("The title", optional.Value(title), 0, maxTitle)
	if err != nil {
		return nil, errs.From(err).At("title")
	}
	return optional.Of(line), nil
}

func checkNote(note *string) (*string, error) {
	lines, err := validate.Lines("The note", optional.Value(note), 0, maxNote)
	if err != nil {
		return nil, errs.From(err).At("note")
	}
	return optional.Of(lines), nil
}

// CheckTags validates tags, sorts them and removes duplicates. It never returns nil. It returns
// InvalidInput.
func CheckTags(tags []string) ([]string, error) {
	checked := make([]string, 0, len(tags))
	for _, tag := range tags {
		tag, err := validate.Line("A tag", tag, 1, maxTag)
		if err != nil {
			return nil, errs.From(err).At("tags")
		}
		checked = append(checked, tag)
	}
	slices.Sort(checked)
	checked = slices.Compact(checked)
	if len(checked) > maxTags {
		return nil, errs.New(errs.InvalidInput, "A link can have %d tags; these are %d.", maxTags, len(checked)).At("tags")
	}
	return checked, nil
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
	if l.MaxClicks != nil && *l.MaxClicks < 1 {
		return errs.New(errs.InvalidInput, "maxClicks must be at least 1.").At("maxClicks")
	}
	if l.StartsAt != nil && l.ExpiresAt != nil && !l.StartsAt.Before(*l.ExpiresAt) {
		return errs.New(errs.InvalidInput, "startsAt must be before expiresAt.").At("startsAt")
	}
	return nil
}
