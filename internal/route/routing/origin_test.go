package routing

import (
	_ "embed"
	"slices"
	"strings"
	"testing"

	"github.com/nlnwa/whatwg-url/url"
)

// publicURLs are 4,000 URLs of public pages, one a line.
//
//go:embed testdata/urls.txt
var publicURLs string

// hostileQueries and hostilePaths are what visitors append to a short URL to reach another site.
var (
	hostileQueries = []string{
		"", "x=1", "x=1&y=%20+", "&&&", "?", "#", "=", "utm_source=other", "v=1&id=2", "next=https://evil.example/",
		"@evil.example/", "//evil.example", `\\evil.example\`, ":80@evil.example", "x=#@evil.example",
		"\r\nLocation: evil",
		"\x00\x7f\xff", "%", "%2", "%zz=1", "x=ü&日本=語", "a[]=1&a[]=2", "a;b;c", "x=" + strings.Repeat("y", 9000),
	}
	hostilePaths = []string{
		"", "/a", "/a/b%2Fc", "/@evil.example", "/:443", "/a?b", "/a#b", "/evil.example:80", "/%00", "/..", "/.%2e/",
		"//evil.example", `/\evil.example`, "/%5C%5Cevil.example", "/ü/日本", "/a%20b;c=1",
	}
)

// TestLocation_KeepsOriginsOfPublicURLs compares origins by the parser of browsers, with each
// hostile query and path in each mode. Add also leaves the bytes of the destination, up to the
// fragment.
func TestLocation_KeepsOriginsOfPublicURLs(t *testing.T) {
	t.Parallel()
	destinations := strings.Fields(publicURLs)
	if len(destinations) != 4000 {
		t.Fatalf("%d URLs", len(destinations))
	}
	paths := slices.DeleteFunc(slices.Clone(hostilePaths), func(path string) bool {
		return path != "" && !PathAllowed(path)
	})
	added := []Parameter{{"utm_source", "news #1"}}
	compared := 0
	for i, destination := range destinations {
		want := originOf(t, destination)
		beforeFragment, fragment := cutBefore(destination, '#')
		for k, query := range hostileQueries {
			path := paths[(i+k)%len(paths)]
			for _, mode := range []Mode{Off, Add, Replace} {
				f := Forwarding{Mode: mode}
				got := f.Location(destination, added, query, path)
				if origin := originOf(t, got); origin != want {
					t.Errorf("%q with %q and %q in mode %s is %q, of the origin %s", destination, query, path, mode,
						got, origin)
				}
				if !strings.HasSuffix(got, fragment) || !isHeaderSafe(got) {
					t.Errorf("%q with %q and %q in mode %s is %q", destination, query, path, mode, got)
				}
				if mode == Add && path == "" && !strings.HasPrefix(got, beforeFragment) {
					t.Errorf("%q with %q is %q, which changes the destination", destination, query, got)
				}
				compared++
			}
		}
	}
	t.Logf("%d locations compared", compared)
}

// originOf returns the scheme, the user, the host and the port of a URL, as browsers read it.
func originOf(t *testing.T, location string) string {
	t.Helper()
	u, err := url.Parse(location)
	if err != nil {
		t.Fatalf("%q: %s", location, err)
	}
	return u.Protocol() + "//" + u.Username() + ":" + u.Password() + "@" + u.Host()
}
