package linkfield_test

import (
	"testing"

	"github.com/linkforge/linkforge/internal/link/linkfield"
	"github.com/linkforge/linkforge/internal/platform/errs"
)

// TestCheckExternalID_RefusesUnreadableText: white space stays, since bytes are compared.
func TestCheckExternalID_RefusesUnreadableText(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "a\x00", "a\nb", "a\u2028b", "a\u202eb", "a\u2066b", "a\xff"} {
		if got, err := linkfield.CheckExternalID(text); !errs.Is(err, errs.InvalidInput) {
			t.Errorf("%q: %q, %v", text, got, err)
		}
	}
	for text, want := range map[string]string{" a ": " a ", "e\u0301": "\u00e9", "a\u200db": "a\u200db"} {
		if got, err := linkfield.CheckExternalID(text); got != want || err != nil {
			t.Errorf("%q: %q, %v", text, got, err)
		}
	}
}
