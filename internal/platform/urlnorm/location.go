package urlnorm

// Location returns a URL that Canonical accepted as it was given, made safe for an HTTP Location
// header: trimmed, a host outside ASCII in punycode, spaces and other characters outside ASCII
// percent-encoded as UTF-8. All else, the fragment included, is byte for byte as given. It has the
// same canonical form as raw.
//
// The result never holds a control character, a space or a byte outside ASCII, even for a raw that
// Canonical refuses.
func Location(raw string) string {
	p, err := parse(raw)
	if err != nil {
		return printable(Trim(raw))
	}
	host, err := canonicalHost(p.host)
	if err != nil {
		return printable(p.given)
	}
	return p.location(host)
}

// location returns the given URL, header-safe. The canonical host replaces the given one only where
// that is not ASCII.
func (p parts) location(host string) string {
	if isASCII(p.host) {
		return printable(p.given)
	}
	start := len(p.scheme) + len("://")
	return p.given[:start] + host + printable(p.given[start+len(p.host):])
}

// printable percent-encodes every byte that is not printable ASCII, and the space.
func printable(s string) string {
	extra := 0
	for i := range len(s) {
		if !isPrintable(s[i]) {
			extra += 2
		}
	}
	if extra == 0 {
		return s
	}
	b := make([]byte, 0, len(s)+extra)
	for i := range len(s) {
		if isPrintable(s[i]) {
			b = append(b, s[i])
			continue
		}
		b = appendOctet(b, s[i])
	}
	return string(b)
}

func isPrintable(c byte) bool { return c > ' ' && c < 0x7f }
