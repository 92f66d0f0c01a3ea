// Package linkfield has what members give links, as one table: Fields. It checks values, and returns the
// normal forms that are stored and compared.
package linkfield

import (
	"slices"
	"strings"
	"unicode"
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

// CheckTitle and CheckNote return the normal form of a text, or nil for a blank one. They return
// InvalidInput.
func CheckTitle(title *string) (*string, error) {
	line, err := validate.Line("The title", optional.Value(title), 0, maxTitle)
	if err != nil {
		return nil, errs.From(err).At("title")
	}
	return optional.Of(line), nil
}

func CheckNote(note *string) (*string, error) {
	lines, err := validate.Lines("The note", optional.Value(note), 0, MaxNote)
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
	if checked = sorted(checked); len(checked) > MaxTags {
		return nil, errs.New(errs.InvalidInput, "A link can have %d tags; these are %d.", MaxTags, len(checked)).
			At("tags")
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
	if err != nil {
		return nil, errs.From(err).At("externalId")
	}
	return &normal, nil
}

// CheckExternalID checks a caller's own id and returns its validate.Normal form, whose bytes are
// compared. It returns InvalidInput.
func CheckExternalID(externalID string) (string, error) {
	externalID = validate.Normal(externalID)
	if n := utf8.RuneCountInString(externalID); n < 1 || n > maxExternalID {
		return "", errs.New(errs.InvalidInput, "externalId must have from 1 to %d characters; it has %d.",
			maxExternalID, n)
	}
	if !utf8.ValidString(externalID) || strings.ContainsFunc(externalID, unicode.IsControl) {
		return "", errs.New(errs.InvalidInput, "externalId must be text without control characters.")
	}
	return externalID, nil
}
