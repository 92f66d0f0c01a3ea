package visitor

import (
	"strings"
	"testing"
)

func TestReferrer_IsTheHost(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a.", 126)
	for header, want := range map[string]string{
		"https://example.com/a/b?c=d#e":                      "example.com",
		"http://example.com":                                 "example.com",
		"https://www.example.com/":                           "example.com",
		"https://WWW.Example.COM/Path":                       "example.com",
		"https://www.com/":                                   "www.com",
		"https://www.www.example.com/":                       "www.example.com",
		"https://example.com./":                              "example.com",
		"https://example.com:8443/":                          "example.com",
		"https://example.com#f":                              "example.com",
		`https://example.com\@evil.example/`:                 "example.com",
		"https://user:secret@example.com/":                   "example.com",
		"HTTPS://example.com/":                               "example.com",
		"  https://example.com/  ":                           "example.com",
		"https://xn--bcher-kva.example/":                     "xn--bcher-kva.example",
		"http://[2001:DB8::1]:8080/x":                        "[2001:db8::1]",
		"android-app://com.google.android.gm/":               "com.google.android.gm",
		"https://example.com/?u=https://other.example/":      "example.com",
		"https://" + long[:10] + ".example.com/":             "", // ends in two dots
		"https://" + long[:242] + "example.com/":             long[:242] + "example.com",
		"https://" + long[:244] + "example.com/":             "",
		"https://example.com/" + strings.Repeat("x", 10_000): "example.com",
		"https://" + strings.Repeat("x", 10_000) + ".com":    "",
		strings.Repeat("x", 10_000):                          "",
		"https://u:" + strings.Repeat("p", 2000) + "@a.com/": "",
		"":                           "",
		"example.com":                "",
		"//example.com/":             "",
		"://example.com/":            "",
		"https://":                   "",
		"https://.example.com/":      "",
		"https://a..b/":              "",
		"https://exa mple.com/":      "",
		"https://bücher.example/":    "",
		"https://example.com:80:80/": "",
		"https://example.com:port/":  "",
		"https://[::1/":              "",
		"https://[::1]x/":            "",
		"https://[fe80::1%25eth0]/":  "",
		"https://example.com\x00/":   "",
		"https://user@/":             "",
		"file://server/jo/":          "",
		"chrome-extension://mhjfbmdgcfjbbpaeojofohoefgiehjai": "",
	} {
		if got := referrer(header); got != want {
			t.Errorf("referrer(%.80q) = %q, want %q", header, got, want)
		}
	}
}
