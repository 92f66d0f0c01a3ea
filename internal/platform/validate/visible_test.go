package validate

import (
	"testing"

	"github.com/linkforge/linkforge/internal/platform/errs"
)

func TestLine_RefusesInvisibleText(t *testing.T) {
	t.Parallel()
	for name, in := range map[string]string{
		"zero-width space":         "\u200b",
		"word joiner":              "\u2060",
		"soft hyphen":              "\u00ad",
		"Hangul filler":            "\u3164",
		"blank Braille pattern":    "\u2800\u2800",
		"tag characters":           "\U000e0001\U000e0041\U000e007f",
		"flag tags without a flag": "\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f",
		"variation selectors":      "\ufe0f\U000e0100",
		"mixed with spaces":        " \u200b \u3000\u2800\ufeff ",
	} {
		for _, check := range []func(string, string, int, int) (string, error){Line, Lines} {
			if got, err := check("The name", in, 1, 100); got != "" || !errs.Is(err, errs.InvalidInput) {
				t.Errorf("%s: %+q is accepted as %+q: %v", name, in, got, err)
			}
			if got, err := check("The title", in, 0, 100); got != "" || err != nil {
				t.Errorf("%s: %+q as optional text is %+q: %v", name, in, got, err)
			}
		}
	}
}

func TestLine_RemovesInvisibleCharacters(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ in, want string }{
		"several":                       {"\ufeffad\u00admi\u2060\u200en\u3164", "admin"},
		"white space after a character": {"\u200b \tadmin \u200b", "admin"},
		"joiner in Latin text":          {"ad\u200dmi\u200cn", "admin"},
		"joiner beside a space":         {"می\u200c خواهم", "می خواهم"},
		"two joiners":                   {"می\u200c\u200cخواهم", "می\u200cخواهم"},
		"joiner between emoji and text": {"👩\u200da", "👩a"},
		"selector after a letter":       {"a\ufe0fd", "ad"},
		"two selectors":                 {"❤\ufe0f\ufe0f", "❤\ufe0f"},
		"hidden text after a flag":      {"🏴\U000e0061\U000e0064\U000e007f", "🏴"},
		"blank Braille pattern":         {"a\u2800b", "a b"},
		"direction override":            {"a\u202eb\u202c", "ab"},
	} {
		if got, err := Line("The name", c.in, 1, 100); err != nil || got != c.want {
			t.Errorf("%s: %+q became %+q, want %+q: %v", name, c.in, got, c.want, err)
		}
	}
}

func TestLine_RetainsEffectiveCharacters(t *testing.T) {
	t.Parallel()
	for name, in := range map[string]string{
		"Persian with a non-joiner":         "می\u200cخواهم",
		"Malayalam with a joiner at an end": "അവന്\u200d",
		"family":                            "👨\u200d👩\u200d👧",
		"emoji of a skin tone and a job":    "👩🏽\u200d🚀",
		"rainbow flag":                      "🏳\ufe0f\u200d🌈",
		"flag of Scotland":                  "🏴\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074\U000e007f!",
		"keycap":                            "1\ufe0f\u20e3",
		"ideograph with a variation":        "葛\U000e0100城",
		"Mongolian variation":               "ᠠ\u180b",
		"combining accent":                  "x\u0301",
		"Arabic number sign":                "\u0600١",
	} {
		if got, err := Line("The name", in, 1, 100); err != nil || got != in {
			t.Errorf("%s: %+q became %+q: %v", name, in, got, err)
		}
	}
}

func TestOpaque_RetainsInvisibleCharacters(t *testing.T) {
	t.Parallel()
	if got, err := Opaque("The key", " a\u200bb ", 1, 10); got != "a\u200bb" || err != nil {
		t.Errorf("%+q: %v", got, err)
	}
	for _, in := range []string{"", "a\nb", "a\x00", "\xff"} {
		if got, err := Opaque("The key", in, 1, 10); got != "" || !errs.Is(err, errs.InvalidInput) {
			t.Errorf("%+q is accepted as %+q: %v", in, got, err)
		}
	}
}

func FuzzVisible(f *testing.F) {
	for _, seed := range []string{"a\u200bb", "می\u200cخواهم", "👨\u200d👩", "🏴\U000e0067", "\xff\u200b", "\u2800",
		"1\ufe0f\u20e3"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		once := Visible(s)
		if twice := Visible(once); twice != once {
			t.Errorf("%+q became %+q, and then %+q", s, once, twice)
		}
	})
}
