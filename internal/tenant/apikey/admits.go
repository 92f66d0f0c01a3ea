package apikey

import (
	"net/netip"
	"slices"

	"github.com/linkforge/linkforge/internal/platform/urlnorm"
)

// checkOrigin returns an origin if it has the form in which browsers send origins of pages.
func checkOrigin(given string) (string, bool) {
	origin, err := urlnorm.Origin(given)
	return given, err == nil && origin == given
}

// admits reports whether a client may use the key: one with an address that may be unknown, and the
// origin of a page or none.
func (l *Limits) admits(address netip.Addr, origin string) bool {
	inside := func(network string) bool { return netip.MustParsePrefix(network).Contains(address) }
	return (len(l.Networks) == 0 || slices.ContainsFunc(l.Networks, inside)) &&
		(origin == "" || len(l.Origins) == 0 || slices.Contains(l.Origins, origin))
}
