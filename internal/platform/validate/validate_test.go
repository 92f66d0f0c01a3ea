package validate

import (
	"strings"
	"testing"

	"github.com/linkforge/linkforge/internal/platform/errs"
)

func TestLine_AcceptsText(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ in, want string }{
		"one character":          {"a", "a"},
		"five":                   {"abcde", "abcde"},
		"five of ten bytes":      {"äöüßé", "äöüßé"},
		"spaces around":          {" \t\n ab c\r\n\u00a0", "ab c"},
		"a replacement, written": {"\ufffd", "\ufffd"},
	} {
		if got, err := Line("The name", c.in, 1, 5); err != nil || got != c.want {
			t.Errorf("%s: %q became %q: %v", name, c.in, got, err)
		}
	}
}

func TestLine_RefusesControlCharacters(t *testing.T) {
	t.Parallel()
	for name, in := range map[string]string{
		"empty":               "",
		"only spaces":         " \u3000\n ",
		"six characters":      "abcdef",
		"two lines":           "a\nb",
		"tab":                 "a\tb",
		"NUL":                 "a\x00b",
		"next line":           "a\u0085b",
		"line separator":      "a\u2028b",
		"paragraph separator": "a\u2029b",
		"not UTF-8":           "a\xffb",
	} {
		got, err := Line("The name", in, 1, 5)
		if got != "" || !errs.Is(err, errs.InvalidInput) ||
			!strings.HasPrefix(errs.From(err).Public(), "The name must ") {
			t.Errorf("%s: %q became %q: %v", name, in, got, err)
		}
	}
}
