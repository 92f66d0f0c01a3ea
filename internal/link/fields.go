package link

import (
	"crypto/sha256"
	"slices"
	"time"

	"github.com/linkforge/linkforge/internal/errs"
	"github.com/linkforge/linkforge/internal/optional"
	"github.com/linkforge/linkforge/internal/urlnorm"
	"github.com/linkforge/linkforge/internal/validate"
)

const (
	// maxTitle, maxNote and maxTag are lengths in characters, maxTags is a number of tags.
	maxTitle = 200
	maxNote  = 2000
	maxTags  = 20
	maxTag   = 50
)

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

// checkTitle and checkNote return nil for blank text.
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

// check validates the settings of a link.
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
