package urlnorm

import "strings"

const upperHex = "0123456789ABCDEF"

// appendEncoded appends s by R5 and R6: triplets of unreserved characters decoded, other triplets
// in upper case, a percent sign that begins no triplet and every byte outside pchar and also
// percent-encoded. It is a single pass, so that nothing decoded is decoded again: %2541 stays
// %2541.
func appendEncoded(b []byte, s, also string) []byte {
	for i := 0; i < len(s); i++ {
		c := s[i]
		if octet, ok := triplet(s[i:]); ok {
			i += 2
			if isUnreserved(octet) {
				b = append(b, octet)
				continue
			}
			b = appendOctet(b, octet)
			continue
		}
		if isPchar(c) || strings.IndexByte(also, c) >= 0 {
			b = append(b, c)
			continue
		}
		b = appendOctet(b, c)
	}
	return b
}

// appendOctet appends the triplet of c.
func appendOctet(b []byte, c byte) []byte {
	return append(b, '%', upperHex[c>>4], upperHex[c&15])
}

// triplet returns the octet of the triplet that s begins with, if it does.
func triplet(s string) (octet byte, ok bool) {
	if len(s) < 3 || s[0] != '%' {
		return 0, false
	}
	high, okHigh := hexDigit(s[1])
	low, okLow := hexDigit(s[2])
	return high<<4 | low, okHigh && okLow
}

func hexDigit(c byte) (value byte, ok bool) {
	switch {
	case '0' <= c && c <= '9':
		return c - '0', true
	case 'a' <= c && c <= 'f':
		return c - 'a' + 10, true
	case 'A' <= c && c <= 'F':
		return c - 'A' + 10, true
	}
	return 0, false
}

func isUnreserved(c byte) bool {
	switch {
	case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		return true
	}
	return c == '-' || c == '.' || c == '_' || c == '~'
}

// isPchar reports whether RFC 3986 allows c in a path segment as it is. The percent sign is not
// among them: a triplet is recognized before.
func isPchar(c byte) bool {
	return isUnreserved(c) || strings.IndexByte("!$&'()*+,;=:@", c) >= 0
}
