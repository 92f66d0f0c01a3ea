package parity

import (
	"net/url"
	"testing"

	"github.com/linkforge/linkforge/internal/platform/must"
)

func TestCompare(t *testing.T) {
	t.Parallel()
	to := func(status int, location string) Answer { return Answer{status, location} }
	a, b := "https://example.com/a", "https://example.com/b"
	for _, c := range []struct {
		name        string
		there, here Answer
		isMoved     bool
		want        Verdict
	}{
		{"equal", to(301, a), to(301, a), false, Same},
		{"equal in canonical form", to(301, "HTTPS://Example.com:443/a"), to(301, a), false, Same},
		{"another status", to(301, a), to(302, a), false, DifferentStatus},
		{"another destination and status", to(301, a), to(302, b), false, DifferentDestination},
		{"another fragment", to(302, a+"#x"), to(302, a+"#y"), false, DifferentDestination},
		{"apps", to(302, "app://x"), to(302, "app://x"), false, Same},
		{"another app", to(302, "app://x"), to(302, "app://y"), false, DifferentDestination},
		{"both are gone", to(404, ""), to(410, ""), false, Same},
		{"gone there", to(404, ""), to(302, a), false, MissingThere},
		{"an error there, and nothing here", to(500, ""), to(404, ""), false, MissingThere},
		{"a redirect without a location", to(302, ""), to(302, a), false, MissingThere},
		{"not modified", to(304, a), to(302, a), false, MissingThere},
		{"gone here", to(302, a), to(410, ""), false, MissingHere},
		{"a gate here", to(302, a), to(200, ""), false, MissingHere},
		{"a gate there", to(200, ""), to(302, a), false, Gated},
		{"gates", to(200, ""), to(200, ""), false, Gated},
		{"no response", to(0, ""), to(302, a), false, Unreachable},
		{"no response, and nothing here", to(0, ""), to(404, ""), false, Unreachable},
		{"a rate", to(429, ""), to(302, a), false, Unreachable},
		{"moved", to(0, ""), to(302, a), true, AlreadyMoved},
	} {
		if got := Compare(c.there, c.here, c.isMoved); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

func TestAbsolute(t *testing.T) {
	t.Parallel()
	at := must.Value(url.Parse("https://go.example.com/a/b"))(t)
	for location, want := range map[string]string{
		"": "", "/x": "https://go.example.com/x", "x": "https://go.example.com/a/x",
		"//other.example/x":    "https://other.example/x",
		"https://example.com/": "https://example.com/", "http://[": "http://[", "app://x": "app://x",
		"https://example.com/?q=M\xfcnchen": "https://example.com/?q=M%FCnchen",
		"/ü\x00":                            "https://go.example.com/%C3%BC%00",
		"https://example.com/50%-off\xff":   "https://example.com/50%-off%FF",
	} {
		if got := absolute(at, location); got != want {
			t.Errorf("%q: %q, want %q", location, got, want)
		}
	}
}
