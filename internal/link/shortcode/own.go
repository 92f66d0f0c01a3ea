package shortcode

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// MaxOwnBytes bounds a code of a domain with codes of its own, in bytes of UTF-8.
const MaxOwnBytes = 255

// ownMarks are the characters of own codes other than letters, marks, numbers and symbols.
const ownMarks = "-._~!$'()*,:;=@&/"

// ValidateOwn returns the normal form (NFC) of a code that a caller chose for a domain with codes
// of its own: 1 to MaxOwnBytes bytes of letters, marks, numbers and symbols of Unicode, and
// ownMarks. It returns an *InvalidError for any other text.
func ValidateOwn(code string) (string, error) {
	if !utf8.ValidString(code) {
		return "", &InvalidError{Reason: "The code must be UTF-8."}
	}
	code = norm.NFC.String(code)
	first, _, _ := strings.Cut(code, "/")
	switch {
	case len(code) < 1 || len(code) > MaxOwnBytes:
		return "", &InvalidError{Reason: fmt.Sprintf("The code must have 1 to %d bytes.", MaxOwnBytes)}
	case strings.ContainsFunc(code, func(c rune) bool { return !IsOwn(c) }):
		return "", &InvalidError{Reason: "The code may only contain letters, digits, symbols, slashes and the " +
			"characters " +
			"- . _ ~ ! $ ' ( ) * , : ; = @ &."}
	case strings.HasSuffix(code, "+"):
		return "", &InvalidError{Reason: "The code must not end in +, which names the page about a link."}
	case IsDomainPath(strings.ToLower(first)):
		return "", &InvalidError{Reason: "The server answers this address itself."}
	}
	for segment := range strings.SplitSeq(code, "/") {
		if segment == "" || segment == "." || segment == ".." {
			return "", &InvalidError{Reason: "The code must not begin or end with a slash, and have no empty " +
				"segments, . or .. between slashes."}
		}
	}
	return code, nil
}

// IsOwn reports whether codes of domains may have a character.
func IsOwn(c rune) bool {
	return unicode.In(c, unicode.L, unicode.M, unicode.N, unicode.S) || strings.ContainsRune(ownMarks, c)
}

// IsDomainPath reports whether the first segment of a path at a domain is the server's, so that no
// code begins with it.
func IsDomainPath(segment string) bool {
	return segment == "robots.txt" || segment == "favicon.ico" || segment == ".well-known"
}

// OwnKey returns what codes of a domain have in common that are the same code: the normal form,
// without regard to case if the domain wants that. It reports false for a text that cannot be a
// code.
func OwnKey(code string, isCaseSensitive bool) (key string, ok bool) {
	code, err := ValidateOwn(code)
	if err != nil {
		return "", false
	}
	if !isCaseSensitive {
		code = norm.NFC.String(cases.Fold().String(code))
	}
	return code, true
}
