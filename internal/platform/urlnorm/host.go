package urlnorm

import (
	"net/netip"
	"strconv"
	"strings"
)

const (
	maxLabel = 63
	maxName  = 253
)

// canonicalHost applies R3. It returns an IPv6 address with its brackets.
func canonicalHost(given string) (string, error) {
	switch {
	case given == "":
		return "", refuse("R3", "The URL must name a host after http:// or https://.")
	case given[0] == '[':
		return canonicalIPv6(given)
	case strings.Contains(given, "%"):
		return "", refuse("R3", "The host must not contain a percent sign: write its letters as they are.")
	}
	return canonicalName(given)
}

// canonicalIPv6 writes an address as RFC 5952 does. Addresses in ::ffff:0:0/96 end in dotted
// decimals, by its section 5; other prefixes with an embedded IPv4 address stay in hexadecimal. Any
// fixed choice would do here.
func canonicalIPv6(given string) (string, error) {
	inner := strings.TrimSuffix(given[1:], "]")
	addr, err := netip.ParseAddr(inner)
	if err != nil || !addr.Is6() || addr.Zone() != "" || len(inner) != len(given)-2 {
		return "", refuse("R3",
			"A host in square brackets must be an IPv6 address without a zone, such as [2001:db8::1].")
	}
	return "[" + addr.String() + "]", nil
}

// canonicalName writes a domain name or an IPv4 address.
func canonicalName(given string) (string, error) {
	name, err := toASCII(given)
	if err != nil {
		return "", err
	}
	if len(name) > maxName {
		return "", refuse("R3", "The host must not be longer than 253 characters.")
	}
	last := ""
	for label := range strings.SplitSeq(name, ".") {
		if !validLabel(label) {
			return "", refuse("R3",
				"The host must be made of labels of 1 to 63 letters, digits, hyphens or underscores, "+
					"with single dots between them.")
		}
		last = label
	}
	if isNumber(last) && !isDottedQuad(name) {
		return "", refuse("R3", "A numeric host must be an IPv4 address: four decimal numbers from 0 to 255 without "+
			"leading zeros.")
	}
	return name, nil
}

func validLabel(label string) bool {
	if label == "" || len(label) > maxLabel {
		return false
	}
	for i := range len(label) {
		switch c := label[i]; {
		case 'a' <= c && c <= 'z', '0' <= c && c <= '9', c == '-', c == '_':
		default:
			return false
		}
	}
	return true
}

// isNumber reports whether browsers take a name that ends in this label for an IPv4 address: they
// read octal, hexadecimal and missing parts, so http://0x7f.1/ is 127.0.0.1. (WHATWG URL, "ends in
// a number".)
func isNumber(label string) bool {
	if hex, ok := strings.CutPrefix(label, "0x"); ok {
		return strings.Trim(hex, "0123456789abcdef") == ""
	}
	return strings.Trim(label, "0123456789") == ""
}

// isDottedQuad relies on netip, which refuses leading zeros.
func isDottedQuad(name string) bool {
	addr, err := netip.ParseAddr(name)
	return err == nil && addr.Is4()
}

// canonicalPort applies R4 and returns the effective port.
func canonicalPort(given, scheme string) (uint16, error) {
	if given == "" {
		return defaultPort(scheme), nil
	}
	port, err := strconv.ParseUint(given, 10, 16)
	if err != nil || port == 0 {
		return 0, refuse("R4", "The port must be a number from 1 to 65535.")
	}
	return uint16(port), nil
}

func defaultPort(scheme string) uint16 {
	if scheme == "https" {
		return 443
	}
	return 80
}
