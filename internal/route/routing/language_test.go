package routing

import (
	"strings"
	"testing"
)

func TestDecide_ComparesLanguageTags(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		rule         string
		holds, fails []string // for languages of visitors
	}{
		{"de", []string{"de", "de-AT", "DE-at", "de-Latn-DE", "deu", "de-CH-1996", "de-A"},
			[]string{"den", "nds", "d"}},
		{"de-AT", []string{"de-at", "de-Latn-AT", "de-AT-u-co-phonebk"}, []string{"de", "de-DE", "de-Latn"}},
		{"de-Latn-AT", []string{"de-AT"}, []string{"de"}},
		{"de-CH-1996", []string{"de-CH-1996", "de-Latn-CH-1996-x-a"}, []string{"de-CH", "de-1996", "de-CH-1901"}},
		{"zh", []string{"zh", "zh-CN", "zh-Hant-TW", "cmn-Hans"}, []string{"yue", "za"}},
		{"zh-TW", []string{"zh-TW", "zh-Hant-TW", "zh-hant-tw", "zh-Hant", "cmn-TW"}, []string{
			"zh", "zh-CN", "zh-HK", "zh-Hant-HK", "zh-Hans-TW",
		}},
		{"zh-Hant-TW", []string{"zh-TW", "zh-Hant-TW"}, []string{"zh", "zh-Hant-HK"}},
		{"zh-Hant", []string{"zh-Hant", "zh-TW", "zh-HK", "zh-MO"}, []string{"zh", "zh-CN", "zh-SG"}},
		{"zh-Hans", []string{"zh", "zh-CN", "zh-SG", "zh-Hans-HK"}, []string{"zh-TW", "zh-Hant"}},
		{"zh-CN", []string{"zh-CN", "zh-Hans-CN", "zh-Hans"}, []string{"zh", "zh-SG", "zh-Hant-CN"}},
		{"sr", []string{"sr", "sr-Latn-RS", "sh"}, nil},
		{"sr-Latn", []string{"sr-Latn-RS", "sr-ME", "sh"}, []string{"sr", "sr-RS"}},
		{"he", []string{"iw", "iw-IL", "he-IL"}, nil},
		{"iw-IL", []string{"he-IL", "iw-Hebr-IL"}, []string{"iw"}},
		{"nb", []string{"no", "nb-NO", "no-NO", "no-bok"}, []string{"nn"}},
		{"no", []string{"nb", "nb-NO"}, []string{"nn"}},
		{"id", []string{"in", "in-ID"}, nil},
		{"yi", []string{"ji"}, nil},
		{"fil", []string{"tl-PH"}, nil},
		{"en-GB", []string{"en-UK", "en-GB"}, []string{"en", "en-US"}},
		{"es-419", []string{"es-419"}, []string{"es", "es-ES"}},
		{"pt-BR", []string{"pt-BR"}, []string{"pt", "pt-PT"}},
		{"zz", []string{"zz", "ZZ-DE"}, []string{"und"}}, // no language
		{"de-A", []string{"de-A"}, []string{"de-AT"}},    // no tag
		{"en-" + strings.Repeat("a1-", 100) + "b1", []string{"en-" + strings.Repeat("A1-", 100) + "b1"},
			[]string{"en"}},
		{"", []string{""}, []string{"de"}},
	} {
		p := program(&Routing{Rules: []*Rule{
			toTarget("https://example.com/rule", &Condition{Language: []string{"fr", c.rule}}),
		}})
		for _, tags := range [][]string{c.holds, c.fails} {
			for i, tag := range tags {
				r := Request{Now: noon}
				if tag != "" {
					r.Visit.Languages = []string{tag}
				}
				holds := Decide(p, &r).Location == "https://example.com/rule"
				if want := len(c.holds) > i && c.holds[i] == tag; holds != want {
					t.Errorf("the rule %.20s holds for %.20s: %t, want %t", c.rule, tag, holds, want)
				}
			}
		}
	}
}

func TestDecide_FirstNamedLanguageDecides(t *testing.T) {
	t.Parallel()
	language := func(tags ...string) *Condition { return &Condition{Language: tags} }
	german, english := toTarget("https://example.com/de", language("de")), toTarget("https://example.com/en",
		language("en"))
	notGerman := toTarget("https://example.com/not-de")
	notGerman.Unless = []*Condition{language("de")}
	disabled := toTarget("https://example.com/fr", language("fr"))
	disabled.Enabled = new(false)
	phone := toTarget("https://example.com/fr", language("fr"), &Condition{Device: []string{"mobile"}})
	unknown := toTarget("https://example.com/unknown", language(""))
	for name, c := range map[string]struct {
		rules         []*Rule
		languages     string
		path, decides string
	}{
		"the first":   {[]*Rule{english, german}, "de-AT en", "de", "de-AT"},
		"a later one": {[]*Rule{english, german}, "ja fr de-AT en", "de", "de-AT"},
		"none":        {[]*Rule{english, german}, "ja fr", "own", "ja"},
		"no language": {[]*Rule{english, german}, "", "own", ""},
		"unknown":     {[]*Rule{english, unknown}, "", "unknown", ""},
		"not unknown": {[]*Rule{english, unknown}, "ja", "own", "ja"},
		"order of the rules": {[]*Rule{toTarget("https://example.com/all", language("en", "de")), german},
			"de en", "all", "de"},
		"exclusion":                {[]*Rule{notGerman}, "en de", "own", "de"},
		"exclusion of no language": {[]*Rule{notGerman}, "en", "not-de", "en"},
		"exclusion, named later":   {[]*Rule{notGerman, english}, "en de", "not-de", "en"},
		"rule that does not hold":  {[]*Rule{phone, german}, "fr de", "own", "fr"},
		"disabled rule":            {[]*Rule{disabled, german}, "fr de", "de", "de"},
		"more general than visitor": {[]*Rule{toTarget("https://example.com/de-DE", language("de-DE")), english},
			"de en", "en", "en"},
		"without rules": {nil, "fr de", "own", ""},
	} {
		r := Request{Now: noon, Visit: Visit{Languages: strings.Fields(c.languages)}}
		var rules []*Rule
		for _, rule := range c.rules { // without the ids of other cases
			rules = append(rules, &Rule{
				When: rule.When, Unless: rule.Unless, Enabled: rule.Enabled,
				Targets: []*Target{{URL: rule.Targets[0].URL}},
			})
		}
		p := program(&Routing{Rules: rules})
		if got, want := Decide(p, &r).Location, "https://example.com/"+c.path; got != want {
			t.Errorf("%s: redirects to %s, want %s", name, got, want)
		}
		if _, trace := DecideTraced(p, &r); trace.Language != c.decides {
			t.Errorf("%s: %q decides, want %q", name, trace.Language, c.decides)
		}
	}
}
