package urlnorm

import (
	"errors"
	"regexp"
	"slices"
	"strings"
)

// appOrigin matches the origins of pages in extensions and apps, which are no web sites.
var appOrigin = regexp.MustCompile(`^([a-z][a-z0-9+.-]*)://[A-Za-z0-9._~-]*(:[0-9]{1,5})?$`)

// notOfPages are schemes of other resources: browsers send no origin of a page with them.
var notOfPages = []string{"about", "blob", "data", "file", "ftp", "http", "https", "javascript", "ws", "wss"}

var errOrigin = errors.New("must be scheme, host and port without a path, such as https://app.example.com, " +
	"chrome-extension://aaaabbbbccccddddeeeeffffgggghhhh or capacitor://localhost")

// Origin returns the origin of pages as browsers send it: that of an http or https URL in the
// canonical form, or that of an extension or app as it is. The origin null is that of pages without
// one, so nobody can permit some of them.
func Origin(text string) (string, error) {
	if part := appOrigin.FindStringSubmatch(text); part != nil && !slices.Contains(notOfPages, part[1]) {
		return text, nil
	}
	u, err := Canonical(text)
	if err != nil || strings.ContainsAny(text, "?#") {
		return "", errOrigin
	}
	origin, ok := strings.CutSuffix(u.String(), "/")
	if !ok || strings.Count(origin, "/") != 2 {
		return "", errOrigin
	}
	return origin, nil
}
