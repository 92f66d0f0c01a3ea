package visitor

import "strings"

const (
	// maxHost is the maximum length of a DNS name.
	maxHost = 253
	// maxAuthority is the number of bytes that are searched for the end of a referrer's authority,
	// which includes user and port.
	maxAuthority = 1024
)

// referrer returns the host of a Referer header. Only addresses of pages and apps have one; a
// file's path could contain a user's name.
func referrer(header string) string {
	scheme, rest, ok := strings.Cut(header[:min(len(header), maxAuthority)], "://")
	if !ok || !isPlace(strings.TrimSpace(scheme)) {
		return ""
	}
	host := rest
	if end := strings.IndexAny(rest, `/?#\`); end >= 0 {
		host = rest[:end]
	} else if len(header) > maxAuthority {
		return "" // cut within the authority
	}
	host = strings.TrimSpace(host[strings.LastIndexByte(host, '@')+1:])
	if host, ok = withoutPort(host); !ok {
		return ""
	}
	host = strings.TrimSuffix(host, ".")
	if hasUpper(host) {
		host = strings.ToLower(host)
	}
	if bare, ok := strings.CutPrefix(host, "www."); ok && strings.IndexByte(bare, '.') > 0 {
		host = bare
	}
	if !isHost(host) {
		return ""
	}
	return host
}

func isPlace(scheme string) bool {
	for _, known := range [...]string{"https", "http", "android-app", "ios-app"} {
		if strings.EqualFold(scheme, known) {
			return true
		}
	}
	return false
}

// withoutPort removes a port, and reports whether the text after the host is a valid port.
func withoutPort(host string) (string, bool) {
	port := ""
	if strings.HasPrefix(host, "[") {
		end := strings.IndexByte(host, ']') + 1
		host, port = host[:end], host[end:]
	} else if colon := strings.IndexByte(host, ':'); colon >= 0 {
		host, port = host[:colon], host[colon:]
	}
	return host, port == "" || port[0] == ':' && strings.Trim(port[1:], "0123456789") == ""
}

// hasUpper spares most hosts strings.ToLower, which costs more than all else that is done to them.
func hasUpper(s string) bool {
	for i := range len(s) {
		if s[i] >= 'A' && s[i] <= 'Z' {
			return true
		}
	}
	return false
}

// isHost reports whether a lower-case host contains only valid bytes. Internationalized names are
// punycode.
func isHost(host string) bool {
	if host == "" || len(host) > maxHost {
		return false
	}
	if inside, ok := strings.CutPrefix(host, "["); ok {
		inside, ok = strings.CutSuffix(inside, "]")
		return ok && len(inside) > 1 && strings.Trim(inside, "0123456789abcdef:.") == ""
	}
	last := byte('.') // no label is empty
	for i := range len(host) {
		c := host[i]
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '_' && (c != '.' || last == '.') {
			return false
		}
		last = c
	}
	return last != '.'
}
