package visitor

import (
	"slices"
	"strings"
	"testing"
)

func TestPreferredLanguage_IsTheFirst(t *testing.T) {
	t.Parallel()
	for header, want := range map[string]string{
		"en":                               "en",
		"en-GB,en;q=0.9,de;q=0.8":          "en",
		"DE-at":                            "de",
		"de ; q=0.5 , fr":                  "fr",
		"*,pt;q=0.5":                       "pt",
		"zh-Hant-TW":                       "zh",
		"fil":                              "fil",
		"sr_RS":                            "sr",
		"en;level=1,de;q=0.1":              "de",
		"i-klingon,en":                     "en",
		"x-private":                        "",
		"*":                                "",
		"":                                 "",
		",,;;,":                            "",
		"e":                                "",
		"english-long":                     "english",
		"ninechars":                        "",
		"en/us":                            "",
		"é":                                "",
		"en;q=" + strings.Repeat("1", 999): "",
	} {
		if got := PreferredLanguage(header); got != want {
			t.Errorf("%.80q: got %q, want %q", header, got, want)
		}
	}
}

func TestLanguages_AreInOrderOfPreference(t *testing.T) {
	t.Parallel()
	for header, want := range map[string][]string{
		"":                                       nil,
		"*":                                      nil,
		"de-AT,en;q=0.9":                         {"de-AT", "en"},
		"en;q=0.5, sr_RS":                        {"sr-RS", "en"},
		"de;q=0.5,zh-Hant-TW;q=0.9,fr,it;q=0.9":  {"fr", "zh-Hant-TW", "it", "de"},
		"fr;q=0.8,de;q=1.0,*;q=0.5,en;q=1":       {"de", "en", "fr"},
		"en;q=0,de;q=0.000,fr;q=0.001,it;q=-1":   {"fr"},
		"en;q=nan,de;q=,i-klingon,,12,fr;q=0.1":  {"fr"},
		"de;q=0.1" + strings.Repeat(",en", 500):  slices.Concat(slices.Repeat([]string{"en"}, 15), []string{"de"}),
		strings.Repeat("*,", 15) + "de,en":       {"de"},
		"de,en-" + strings.Repeat("a", 600):      {"de"}, // a truncated tag is no language
		"de," + strings.Repeat(" ", 600) + ",en": {"de"},
		strings.Repeat("a-", 400) + ",de":        nil,
	} {
		if got := Languages(header); !slices.Equal(got, want) {
			t.Errorf("%.80q: got %q, want %q", header, got, want)
		}
	}
}
