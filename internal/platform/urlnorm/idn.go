package urlnorm

import (
	"strings"
	"unicode/utf8"

	"golang.org/x/net/idna"
)

// maxGivenName bounds the bytes handed to the punycode encoder, whose time is quadratic. Only names
// that shrink a lot on conversion, such as long runs of one letter in decomposed Hangul, could be
// within 253 characters beyond it.
const maxGivenName = 1024

// acePrefix begins a label in punycode.
const acePrefix = "xn--"

// lookup is UTS #46 as browsers apply it: non-transitional, so that ß is not ss; without the STD3
// rules, which forbid the underscore; and without the hyphen check, which refuses names in use such
// as r3---sn-4g5e. validLabel is stricter than STD3 where that matters. The Unicode version is the
// Go release's: up to 15 the capital ẞ is ss, from 16 on it is ß.
var lookup = idna.New(idna.MapForLookup(), idna.Transitional(false), idna.StrictDomainName(false),
	idna.CheckHyphens(false), idna.BidiRule())

// dots replaces every character that UTS #46 maps to one full stop.
var dots = strings.NewReplacer("\u2024", ".", "\u3002", ".", "\ufe52", ".", "\uff0e", ".", "\uff61", ".")

// ASCII returns a domain name in lower case and punycode. A name in ASCII without punycode is only
// lowered. It returns an *Error for a name that has no such form.
func ASCII(name string) (string, error) {
	if isASCII(name) && !strings.Contains(strings.ToLower(name), acePrefix) {
		return strings.ToLower(name), nil
	}
	return toASCII(name)
}

// toASCII writes a name in lower case and punycode and drops one trailing dot. The labels remain to
// be checked.
func toASCII(given string) (string, error) {
	if isASCII(given) {
		name := strings.TrimSuffix(strings.ToLower(given), ".")
		if !strings.Contains(name, acePrefix) {
			return name, nil
		}
		return punycode(name)
	}
	// The dot goes before the conversion, not after: a label that the conversion empties would
	// leave another.
	return punycode(strings.TrimSuffix(dots.Replace(given), "."))
}

// punycode converts a name by UTS #46, twice. idna checks the direction of some letters before it
// maps them, and so accepts the symbol ℵ next to Latin letters but not the Hebrew letter that it is
// mapped to. A name that does not convert to itself is refused, so canonical names are fixed points
// by construction.
func punycode(name string) (string, error) {
	if len(name) > maxGivenName || hidesACE(name) {
		return "", invalidName()
	}
	ascii, err := lookup.ToASCII(name)
	if err != nil {
		return "", invalidName()
	}
	if again, err := lookup.ToASCII(ascii); err != nil || again != ascii {
		return "", invalidName()
	}
	return ascii, nil
}

// hidesACE reports whether a label claims to be punycode and yet has characters outside ASCII. UTS
// #46 forbids that; idna decodes it, and would fold xn--é- into é.
func hidesACE(name string) bool {
	for label := range strings.SplitSeq(name, ".") {
		if isASCII(label) {
			continue
		}
		// Behind an underscore a label is mapped but not taken for punycode. Errors are left for
		// the conversion.
		mapped, _ := lookup.ToUnicode("_" + label)
		if strings.HasPrefix(mapped, "_"+acePrefix) && !isASCII(mapped) {
			return true
		}
	}
	return false
}

// Unicode returns a canonical host with its labels in Unicode; unchanged if one of them has no
// valid form.
func Unicode(host string) string {
	if !strings.Contains(host, acePrefix) {
		return host
	}
	name, err := lookup.ToUnicode(host)
	if again, errBack := lookup.ToASCII(name); err != nil || errBack != nil || again != host {
		return host
	}
	return name
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

func invalidName() error {
	return refuse("R3", "The host is not a valid international domain name: check its spelling.")
}
