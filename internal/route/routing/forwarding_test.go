package routing

import (
	"net/url"
	"strings"
	"testing"
)

func TestLocation_FollowsTheTable(t *testing.T) {
	t.Parallel()
	campaign := []Parameter{{"utm_source", "news letter"}, {"utm_medium", "e&mail"}}
	for name, c := range map[string]struct {
		forwarding  Forwarding
		destination string
		added       []Parameter
		query, path string
		want        string
	}{
		"nothing": {Forwarding{}, "https://example.com/a?b=1#c", nil, "x=1", "", "https://example.com/a?b=1#c"},
		"a value": {Forwarding{Mode: Add}, "https://example.com/a", nil, "x=1", "", "https://example.com/a?x=1"},
		"before the fragment": {Forwarding{Mode: Add}, "https://example.com/a?b=1#c?d", nil, "x=1", "",
			"https://example.com/a?b=1&x=1#c?d"},
		"after a question mark": {Forwarding{Mode: Add}, "https://example.com/a?", nil, "x=1", "",
			"https://example.com/a?x=1"},
		"after an ampersand": {Forwarding{Mode: Add}, "https://example.com/a?b&", nil, "x=1", "",
			"https://example.com/a?b&x=1"},
		"a question mark in a value": {Forwarding{Mode: Add}, "https://example.com/a?q=why?", nil, "x=1", "",
			"https://example.com/a?q=why?&x=1"},
		"replace nothing": {Forwarding{Mode: Replace, Only: []string{"b"}}, "https://example.com/a?c&&d&", nil, "x=1",
			"",
			"https://example.com/a?c&&d&"},
		"bytes stay": {Forwarding{Mode: Add}, "https://example.com/a?sig=%2f+%20", nil, "x=%20+1", "",
			"https://example.com/a?sig=%2f+%20&x=%20+1"},
		"empty pieces": {Forwarding{Mode: Add}, "https://example.com/a", nil, "&x=1&&y&", "",
			"https://example.com/a?x=1&y"},
		"other bytes": {Forwarding{Mode: Add}, "https://example.com/a", nil, "x=ü \"#\n", "",
			"https://example.com/a?x=%C3%BC%20\"%23%0A"},
		"add keeps": {Forwarding{Mode: Add}, "https://example.com/a?b=1", nil, "b=2&c=3", "",
			"https://example.com/a?b=1&c=3"},
		"encoded name": {Forwarding{Mode: Add}, "https://example.com/a?b=1", nil, "%62=2&c=3", "",
			"https://example.com/a?b=1&c=3"},
		"add repeats": {Forwarding{Mode: Add}, "https://example.com/a", nil, "c=1&c=2", "",
			"https://example.com/a?c=1&c=2"},
		"replace": {Forwarding{Mode: Replace}, "https://example.com/a?b=1&d=4", nil, "b=2", "",
			"https://example.com/a?d=4&b=2"},
		"replace all": {Forwarding{Mode: Replace}, "https://example.com/a?b=1&b=3", nil, "b=2", "",
			"https://example.com/a?b=2"},
		"replace, encoded": {Forwarding{Mode: Replace}, "https://example.com/a?%62=1", nil, "b=2", "",
			"https://example.com/a?b=2"},
		"only": {Forwarding{Mode: Add, Only: []string{"x", "a b"}}, "https://example.com/a", nil,
			"x=1&y=2&a+b=3&a%20b=4", "",
			"https://example.com/a?x=1&a+b=3&a%20b=4"},
		"except": {Forwarding{Mode: Add, Except: []string{"x"}}, "https://example.com/a", nil, "x=1&y=2", "",
			"https://example.com/a?y=2"},
		"replace only": {Forwarding{Mode: Replace, Only: []string{"x"}}, "https://example.com/a?next=/&x=1", nil,
			"next=//evil&x=2", "", "https://example.com/a?next=/&x=2"},
		"utm": {Forwarding{}, "https://example.com/a", campaign, "", "",
			"https://example.com/a?utm_source=news%20letter&utm_medium=e%26mail"},
		"utm, the URL wins": {Forwarding{Mode: Add}, "https://example.com/a?utm_source=x", campaign,
			"utm_source=y&utm_medium=z", "",
			"https://example.com/a?utm_source=x&utm_medium=e%26mail"},
		"utm, the visitor wins": {Forwarding{Mode: Replace}, "https://example.com/a?utm_source=x", campaign,
			"utm_source=y", "",
			"https://example.com/a?utm_medium=e%26mail&utm_source=y"},
		"path":            {Forwarding{}, "https://example.com/a", nil, "", "/b/c", "https://example.com/a/b/c"},
		"path, slash":     {Forwarding{}, "https://example.com/a/", nil, "", "/b", "https://example.com/a/b"},
		"path, host only": {Forwarding{}, "https://example.com", nil, "", "/b", "https://example.com/b"},
		"path, root":      {Forwarding{}, "https://example.com/", nil, "", "/b", "https://example.com/b"},
		"path and query": {Forwarding{Mode: Add}, "https://example.com/a?b=1#c", nil, "x=1", "/d%2Fe",
			"https://example.com/a/d%2Fe?b=1&x=1#c"},
		"path, other bytes": {Forwarding{}, "https://example.com", nil, "", "/ü?#", "https://example.com/%C3%BC%3F%23"},
	} {
		if got := c.forwarding.Location(c.destination, c.added, c.query, c.path); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

func TestLocation_LeavesOutWhatIsTooLong(t *testing.T) {
	t.Parallel()
	f := Forwarding{Mode: Add}
	utm := []Parameter{{"utm_source", "x"}}
	for _, extra := range []string{"x=" + strings.Repeat("y", MaxLocation), "x=" + strings.Repeat("ü", MaxLocation/6)} {
		if got := f.Location("https://example.com/a", utm, extra, "/b"); got != "https://example.com/a?utm_source=x" {
			t.Errorf("%.60s", got)
		}
	}
	if got := f.Location("https://example.com/a", nil, "x="+strings.Repeat("y", 4000), ""); len(got) < 4000 {
		t.Errorf("%.60s", got)
	}
}

func TestPathAllowed_RefusesTraversal(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]bool{
		"/a": true, "/a/b": true, "/a%2Fb": true, "/%C3%BC": true, "/a.b/..c/...": true, "/100%": true, "/a%20b": true,
		"/": true, "/a/": true, "": false, "a": false, "//": false, "//a": false, "/a//b": false, "/a//": false,
		"/.": false, "/..": false,
		"/a/../b": false,
		"/%2e%2E": false, "/%252e%252e": false, "/.%2e": false, "/a\\b": false, "/a%5Cb": false, "/a%255cb": false,
		"/%00": false, "/a%0Ab": false, "/\x7f": false, "/a%2F..": false, "/..%2Fa": false, "/%25252525252e": false,
		"/a%2F%2Fb": false, "/%2Fa": false, "/a%2F": false, "/a%C2%85": false,
	} {
		if got := PathAllowed(path); got != want {
			t.Errorf("%q: %t, want %t", path, got, want)
		}
	}
}

// FuzzLocation: for any input of a visitor, the scheme, the host and the port are the
// destination's, and Add leaves its bytes up to the fragment.
func FuzzLocation(f *testing.F) {
	for _, destination := range []string{"https://example.com", "https://example.com:8443/a?b=1&c#d",
		"http://[::1]/?", "https://e.com/a%2F/"} {
		for _, visit := range []string{"x=1", "//evil.example/", "a@b", "&&=%",
			"next=https://evil.example\r\nSet-Cookie: a"} {
			f.Add(destination, visit, "/"+visit, uint8(0))
			f.Add(destination, visit, "", uint8(1))
		}
	}
	f.Fuzz(func(t *testing.T, destination, query, path string, mode uint8) {
		from, err := url.Parse(destination)
		if err != nil || from.Scheme != "https" || from.Host == "" || from.User != nil || !isHeaderSafe(destination) ||
			strings.Contains(destination, "\\") {
			return
		}
		if !PathAllowed(path) {
			path = ""
		}
		forwarding := Forwarding{Mode: []Mode{Off, Add, Replace}[mode%3]}
		got := forwarding.Location(destination, []Parameter{{"utm_source", "a"}}, query, path)
		to, err := url.Parse(got)
		if err != nil {
			return // of the destination's own bytes
		}
		if to.Scheme != from.Scheme || to.Host != from.Host || to.User != nil || !isHeaderSafe(got) {
			t.Errorf("%q with %q and %q is %q", destination, query, path, got)
		}
		before, _, _ := strings.Cut(destination, "#")
		if forwarding.Mode == Add && path == "" && !strings.HasPrefix(got, before) {
			t.Errorf("%q with %q is %q", destination, query, got)
		}
	})
}

func isHeaderSafe(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return r <= ' ' || r >= 0x7f }) < 0
}
