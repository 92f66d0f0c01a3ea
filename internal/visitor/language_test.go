package visitor

import (
	"fmt"
	"strings"
	"testing"
)

func TestLanguage_IsTheMostWanted(t *testing.T) {
	t.Parallel()
	for header, want := range map[string]string{
		"en":                               "en",
		"en-GB,en;q=0.9,de;q=0.8":          "en",
		"DE-at":                            "de",
		"de;q=0.5, fr;q=0.9, en;q=0.7":     "fr",
		"de;q=0.5,fr;q=0.5":                "de",
		"de ; q=0.5 , fr":                  "fr",
		"*,pt;q=0.5":                       "pt",
		"zh-Hant-TW":                       "zh",
		"fil":                              "fil",
		"sr_RS":                            "sr",
		"en;q=0,de;q=0.1":                  "de",
		"en;q=nan,de;q=0.1":                "de",
		"en;q=,de;q=0.1":                   "de",
		"en;q=-1":                          "",
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
		"<script>":                         "",
		"12":                               "",
		"é":                                "",
		strings.Repeat("*,", 5000) + "en":  "",
		strings.Repeat("a", 10_000):        "",
		"en;q=" + strings.Repeat("1", 999): "",
	} {
		t.Run(fmt.Sprintf("%.80q", header), func(t *testing.T) {
			if _, got := language(header); got != want {
				t.Errorf("language(%.80q) = %q, want %q", header, got, want)
			}
		})
	}
}

func TestLanguage_KeepsTheTag(t *testing.T) {
	t.Parallel()
	for header, want := range map[string]string{"de-AT,en;q=0.9": "de-AT", "en;q=0.5, sr_RS": "sr-RS", "*": ""} {
		if got, _ := language(header); got != want {
			t.Errorf("language(%q) = %q, want %q", header, got, want)
		}
	}
}
