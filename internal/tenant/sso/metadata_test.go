package sso

import "testing"

func TestIsSafe_RefusesDowngrades(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		endpoint, issuer string
		want             bool
	}{
		{"https://a.example/token", "https://a.example", true}, {"https://a.example/token", "http://a.example", true},
		{"http://a.example/token", "http://a.example", true}, {"http://a.example/token", "https://a.example", false},
		{"", "https://a.example", false}, {"", "http://a.example", false}, {"ftp://a.example", "http://a.example",
			false},
	} {
		if got := isSafe(c.endpoint, c.issuer); got != c.want {
			t.Errorf("%q of %q: %t", c.endpoint, c.issuer, got)
		}
	}
}
