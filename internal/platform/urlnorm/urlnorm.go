// Package urlnorm writes URLs in their canonical form, profile LF-1, so that two spellings of one
// URL get the same short link. Two links for one page are harmless, one link for two pages
// misdirects: only the rules R1 to R12, and what RFC 3986 calls equivalent, are applied. It is
// pure; links and domains use it.
package urlnorm

import (
	"net/netip"
	"strconv"
	"strings"
)

// MaxBytes is the length in bytes that no form of a URL may exceed: not the text as it was given,
// before trimming, nor its Location, nor its canonical form. Percent-encoding triples a byte, so
// limiting the given text alone would accept URLs whose own canonical form is then refused.
const MaxBytes = 8192

// URL is an accepted URL in canonical form. URLs are equal, also by ==, exactly when their
// canonical texts are.
type URL struct {
	text string
	host string
	port uint16
}

// Canonical returns the canonical form of raw. It returns an *Error when raw breaks a rule.
func Canonical(raw string) (URL, error) {
	p, err := parse(raw)
	if err != nil {
		return URL{}, err
	}
	host, err := canonicalHost(p.host)
	if err != nil {
		return URL{}, err
	}
	port, err := canonicalPort(p.port, p.scheme)
	if err != nil {
		return URL{}, err
	}
	text := canonicalText(p, host, port)
	if len(text) > MaxBytes || len(p.location(host)) > MaxBytes {
		return URL{}, tooLong()
	}
	return URL{text: text, host: strings.Trim(host, "[]"), port: port}, nil
}

// Host returns the canonical form of a host that is given alone, as URL.Host has it. An IPv6
// address may have brackets. It returns an *Error for all else, such as a port.
func Host(given string) (string, error) {
	written := Trim(given)
	if addr, err := netip.ParseAddr(written); err == nil && addr.Is6() {
		written = "[" + written + "]"
	}
	host, err := canonicalHost(written)
	return strings.Trim(host, "[]"), err
}

// String returns the canonical text: printable ASCII without a space.
func (u URL) String() string { return u.text }

// Host returns the canonical host without port: lower case, punycode, an IPv6 address without its
// brackets.
func (u URL) Host() string { return u.host }

// Port returns the port that the URL leads to: the one it names, or else 80 for http and 443 for
// https.
func (u URL) Port() uint16 { return u.port }

// canonicalText puts the canonical parts together. The fragment is left behind (R12).
func canonicalText(p parts, host string, port uint16) string {
	// Room for a default port not written and a few escapes; a longer text grows the buffer.
	b := make([]byte, 0, len(p.given)+len(host)+16)
	b = append(b, p.scheme...)
	b = append(b, "://"...)
	b = append(b, host...)
	if port != defaultPort(p.scheme) {
		b = append(b, ':')
		b = strconv.AppendUint(b, uint64(port), 10)
	}
	b = appendPath(b, p.path)
	b = appendQuery(b, p.query)
	return string(b)
}
