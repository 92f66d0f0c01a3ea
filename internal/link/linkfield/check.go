package linkfield

import (
	"slices"
	"time"
	"unicode/utf8"

	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/optional"
	"github.com/linkforge/linkforge/internal/platform/validate"
)

const (
	// maxTitle, MaxNote and maxTag are lengths in characters, MaxTags is a number of tags.
	maxTitle = 200
	MaxNote  = 2000
	MaxTags  = 20
	maxTag   = 50
)

// maxExternalID is a length in characters.
const maxExternalID = 255

// line returns the check of a field that is a line of text: it returns the normal form, or nil for a
// blank one, or InvalidInput.
func line(field string, maxLength int) func(*string) (*string, error) {
	return func(text *string) (*string, error) {
		line, err := validate.Line("The "+field, optional.Value(text), 0, maxLength)
		return optional.Of(line), err
	}
}

// CheckTitle and CheckNote return the normal form of a text, or nil for a blank one. They return
// InvalidInput.
func CheckTitle(title *string) (*string, error) { return line("title", maxTitle)(title) }

func CheckNote(note *string) (*string, error) {
	lines, err := validate.Lines("The note", optional.Value(note), 0, MaxNote)
	return optional.Of(lines), err
}

// CheckTags validates tags, sorts them and removes duplicates. It never returns nil. It returns
// InvalidInput, with the indexes of tags.
func CheckTags(tags []string) ([]string, error) {
	checked, err := errs.Map(tags, func(tag string) (string, error) { return validate.Line("A tag", tag, 1, maxTag) })
	if err != nil {
		return nil, err
	}
	if checked = sorted(checked); len(checked) > MaxTags {
		return nil, errs.New(errs.InvalidInput, "A link can have %d tags; these are %d.", MaxTags, len(checked))
	}
	return checked, nil
}

func sorted(tags []string) []string {
	slices.Sort(tags)
	return slices.Compact(tags)
}

// CheckTagPrefix returns the normal form of the beginning of a tag, which may be empty. It returns
// InvalidInput.
func CheckTagPrefix(prefix string) (string, error) {
	prefix, err := validate.Line("The prefix", prefix, 0, maxTag)
	if err != nil {
		return "", errs.From(err).At("prefix")
	}
	return prefix, nil
}

// checkExternalID is CheckExternalID of an id that may be nil.
func checkExternalID(externalID *string) (*string, error) {
	if externalID == nil {
		return nil, nil
	}
	normal, err := CheckExternalID(*externalID)
	return &normal, err
}

// CheckExternalID checks a caller's own id and returns its validate.Normal form, whose bytes are
// compared. It returns InvalidInput.
func CheckExternalID(externalID string) (string, error) {
	externalID = validate.Normal(externalID)
	if n := utf8.RuneCountInString(externalID); n < 1 || n > maxExternalID {
		return "", errs.New(errs.InvalidInput, "externalId must have from 1 to %d characters; it has %d.",
			maxExternalID, n)
	}
	return externalID, validate.OneLine("externalId", externalID)
}

// CheckRedirectStatus checks the status of redirects. It returns InvalidInput.
func CheckRedirectStatus(status int) (int, error) {
	switch status {
	case 301, 302, 307, 308:
		return status, nil
	}
	return 0, errs.New(errs.InvalidInput, "redirectStatus must be 301, 302, 307 or 308.")
}

// CheckMaxClicks checks a limit of redirects; nil means no limit. It returns InvalidInput.
func CheckMaxClicks(n *int64) (*int64, error) {
	if n != nil && *n < 1 {
		return nil, errs.New(errs.InvalidInput, "maxClicks must be at least 1.")
	}
	return n, nil
}

// CheckPeriod checks that a link starts before it expires; nil means unbounded. It returns
// InvalidInput.
func CheckPeriod(startsAt, expiresAt *time.Time) error {
	if startsAt != nil && expiresAt != nil && !startsAt.Before(*expiresAt) {
		return errs.New(errs.InvalidInput, "startsAt must be before expiresAt.").At("startsAt")
	}
	return nil
}
