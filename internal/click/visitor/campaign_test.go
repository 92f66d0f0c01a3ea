package visitor

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCampaign_PrefersRequestOverDestination(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, query, location string
		want                  Visit
	}{
		{"none", "", "https://example.com/", Visit{}},
		{"all of the request", "utm_source=a&utm_medium=b&utm_campaign=c&utm_term=d&utm_content=e", "",
			Visit{Source: "a", Medium: "b", Campaign: "c", Term: "d", Content: "e"}},
		{"of the destination", "", "https://example.com/?x=1&utm_source=mail&utm_campaign=spring+sale#utm_term=no",
			Visit{Source: "mail", Campaign: "spring sale"}},
		{"each on its own", "utm_medium=qr", "https://example.com/?utm_medium=mail&utm_campaign=spring",
			Visit{Medium: "qr", Campaign: "spring"}},
		{"an empty one is none", "utm_source=&utm_medium=+%20", "https://example.com/?utm_source=mail&utm_medium=x",
			Visit{Source: "mail", Medium: "x"}},
		{"the first one counts", "utm_source=&utm_source=a&utm_source=b", "", Visit{Source: "a"}},
		{"others are not kept", "utm_id=1&UTM_SOURCE=a&utm_sourcery=b&source=c&utm_source", "", Visit{}},
		{"a fragment is no query", "", "https://example.com/#?utm_source=a", Visit{}},
		{"a query without an end", "", "https://example.com/?utm_source=a?b", Visit{Source: "a?b"}},
		{"too far back", strings.Repeat("x=1&", 5000) + "utm_source=a", "", Visit{}},
	} {
		var got Visit
		got.readCampaign(tt.query)
		got.readCampaign(queryOf(tt.location))
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s: (-want +got):\n%s", tt.name, diff)
		}
	}
}

func TestCampaign_TextIsBounded(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]string{
		"newsletter":               "newsletter",
		"spring+sale%202026":       "spring sale 2026",
		"%20%09 a b %0a":           "a b",
		"a%00b%07c%7f":             "abc",
		"a\x00b":                   "ab",
		"a%0ab":                    "ab",
		"%C3%BCber":                "über",
		"über":                     "über",
		"u%CC%88ber":               "über",
		"%FFa%C3":                  "a",
		"a%E2%80%AEb%E2%80%A8":     "ab",  // turns the direction, separates lines
		"%E2%80%8B=a%E2%81%A0b":    "=ab", // a zero-width space and a word joiner
		"%E3%85%A4%EF%BB%BF":       "",
		"%F0%9F%8E%89":             "🎉",
		"100%":                     "100%",
		"%zz%4":                    "%zz%4",
		"%2541":                    "%41",
		"":                         "",
		"+++":                      "",
		strings.Repeat("a", 100):   strings.Repeat("a", 100),
		strings.Repeat("a", 5000):  strings.Repeat("a", 100),
		strings.Repeat("ä", 60):    strings.Repeat("ä", 50),
		strings.Repeat("€", 60):    strings.Repeat("€", 33),
		strings.Repeat("%20", 999): "",
		strings.Repeat("a", 99) + "+b" + strings.Repeat("a", 9): strings.Repeat("a", 99),
	} {
		if got := decodeText(raw); got != want {
			t.Errorf("decodeText(%.80q) = %q, want %q", raw, got, want)
		}
	}
}
