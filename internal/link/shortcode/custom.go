package shortcode

import (
	"fmt"
	"strings"
)

// The lengths of the shortest and the longest code.
const (
	MinLength = 1
	MaxLength = 64
)

// InvalidError says why a code that a caller chose cannot be one.
type InvalidError struct {
	// Reason is one sentence fit for users. It never repeats the code.
	Reason string
}

// Error returns the reason.
func (e *InvalidError) Error() string { return e.Reason }

// ValidateCustom checks the form of a code that a caller chose: 1 to 64 letters, digits, hyphens
// and underscores. It returns an *InvalidError for any other. Whether the code is a Reserved word
// is a separate question.
func ValidateCustom(code string) error {
	if len(code) < MinLength || len(code) > MaxLength {
		return &InvalidError{Reason: fmt.Sprintf("A custom code must have %d to %d characters.", MinLength, MaxLength)}
	}
	if !IsCode(code) {
		return &InvalidError{Reason: "A custom code may only contain the letters A to Z and a to z, digits, hyphens " +
			"and underscores."}
	}
	return nil
}

// IsCode reports whether the text has the form of a code of any strategy, or of a slug.
func IsCode(s string) bool {
	if len(s) < MinLength || len(s) > MaxLength {
		return false
	}
	for i := range len(s) {
		if !isCustom(s[i]) {
			return false
		}
	}
	return true
}

// Key returns what custom codes have in common that differ in case only.
func Key(code string) string { return strings.ToLower(code) }

// IsGenerated reports whether the text has the form of a code that was not chosen by a caller. A
// custom code can have it too.
func IsGenerated(s string) bool {
	switch len(s) {
	case CounterLength:
		return strings.Trim(s, base62) == ""
	case Length:
		return strings.Trim(s, alphabet) == ""
	}
	return false
}

func isCustom(c byte) bool {
	switch {
	case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		return true
	}
	return c == '-' || c == '_'
}
