package urlnorm

import "strings"

// HasWholeAuthority reports whether no @ follows the authority of a URL. Otherwise a password
// contains a character that ends the authority, so that its beginning would be used, and shown, as
// a host or a port.
func HasWholeAuthority(text string) bool {
	_, rest, _ := strings.Cut(text, "://")
	end := strings.IndexAny(rest, "/?#")
	return end < 0 || !strings.Contains(rest[end:], "@")
}
