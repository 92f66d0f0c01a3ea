package parity

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/linkforge/linkforge/internal/platform/urlnorm"
)

// Verdict is the result of a comparison. Its text is the name in the GraphQL schema.
type Verdict string

// The verdicts.
const (
	Same                 Verdict = "SAME"
	DifferentStatus      Verdict = "DIFFERENT_STATUS"
	DifferentDestination Verdict = "DIFFERENT_DESTINATION"
	MissingThere         Verdict = "MISSING_THERE"
	MissingHere          Verdict = "MISSING_HERE"
	Gated                Verdict = "GATED"
	AlreadyMoved         Verdict = "ALREADY_MOVED"
	Unreachable          Verdict = "UNREACHABLE"
)

// verdicts are all of them, in the order of reports.
var verdicts = []Verdict{Same, DifferentStatus, DifferentDestination, MissingThere, MissingHere, Gated, AlreadyMoved,
	Unreachable}

// Answer is a response to a visit. A status of zero means that there was none.
type Answer struct {
	Status int
	// Location is the absolute URL of the header; empty for none.
	Location string
}

func (a Answer) redirects() bool {
	return a.Status >= 300 && a.Status < 400 && a.Status != http.StatusNotModified && a.Location != ""
}

// Compare compares the answer of a source with the one here. isMoved means that the host of the
// source leads here already. This is the contract of parity: the first rule that applies decides.
func Compare(there, here Answer, isMoved bool) Verdict {
	switch {
	case isMoved:
		return AlreadyMoved
	case there.Status == 0 || there.Status == http.StatusTooManyRequests:
		return Unreachable
	case !there.redirects() && !here.redirects() &&
		(there.Status == http.StatusNotFound || there.Status == http.StatusGone):
		return Same
	case there.Status >= 200 && there.Status < 300:
		return Gated
	case !there.redirects():
		return MissingThere
	case !here.redirects():
		return MissingHere
	case !isSameURL(there.Location, here.Location):
		return DifferentDestination
	case there.Status != here.Status:
		return DifferentStatus
	}
	return Same
}

// isSameURL reports whether two URLs have the same canonical form and the same fragment. Other
// URLs, as of apps, must be equal.
func isSameURL(a, b string) bool {
	if a == b {
		return true
	}
	_, fragmentA, _ := strings.Cut(a, "#")
	_, fragmentB, _ := strings.Cut(b, "#")
	canonicalA, errA := urlnorm.Canonical(a)
	canonicalB, errB := urlnorm.Canonical(b)
	return errA == nil && errB == nil && fragmentA == fragmentB && canonicalA.String() == canonicalB.String()
}

// absolute returns a Location as an absolute URL (RFC 9110, section 10.2.2); a malformed one stays
// as it is. Bytes that are no text are percent-encoded, as browsers do it.
func absolute(of *url.URL, location string) string {
	if location == "" {
		return ""
	}
	location = textOf(location)
	u, err := of.Parse(location)
	if err != nil {
		return location
	}
	return u.String()
}

// textOf percent-encodes the bytes of a header that are not UTF-8, or control characters.
func textOf(header string) string {
	text := strings.Builder{}
	for len(header) > 0 {
		c, size := utf8.DecodeRuneInString(header)
		if c == utf8.RuneError && size == 1 || c < ' ' || c == 0x7f {
			fmt.Fprintf(&text, "%%%02X", header[0])
		} else {
			text.WriteString(header[:size])
		}
		header = header[size:]
	}
	return text.String()
}
