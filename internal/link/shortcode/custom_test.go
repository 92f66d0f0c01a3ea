package shortcode_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/linkforge/linkforge/internal/link/shortcode"
)

func TestValidateCustom_EnforcesRules(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		code  string
		valid bool
	}{
		{"longest", strings.Repeat("a", 64), true},
		{"every kind", "aZ09_-", true},
		{"only signs", "-_-", true},
		{"a reserved word is valid in form", "login", true},
		{"empty", "", false},
		{"shortest", "a", true},
		{"too long", strings.Repeat("a", 65), false},
		{"space", "a b", false},
		{"trailing newline", "abc\n", false},
		{"NUL", "abc\x00", false},
		{"slash", "a/b", false},
		{"dots", "...", false},
		{"percent", "a%41", false},
		{"letter outside ASCII", "café", false},
		{"full-width letters", "ａｂｃ", false},
		{"invalid UTF-8", "ab\xff", false},
		{"next to the letters", "[@`{", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			err := shortcode.ValidateCustom(tt.code)
			if tt.valid {
				if err != nil {
					t.Errorf("ValidateCustom(%q): %v", tt.code, err)
				}
				return
			}
			invalid, ok := errors.AsType[*shortcode.InvalidError](err)
			if !ok {
				t.Fatalf("ValidateCustom(%q) = %v, want an InvalidError", tt.code, err)
			}
			if !strings.HasSuffix(invalid.Reason, ".") || invalid.Error() != invalid.Reason {
				t.Errorf("reason %q is not a sentence for users", invalid.Reason)
			}
		})
	}
}

func TestReserved_Words(t *testing.T) {
	t.Parallel()
	tests := []struct {
		word string
		want bool
	}{
		{"graphql", true},
		{"GraphQL", true},
		{"LOGIN", true},
		{".well-known", true},
		{"favicon.ico", true},
		{"undefined", true},
		{"graphqls", false},
		{"promo", false},
		{"Gbg5fgTP5s", false},
		{"", false},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprintf("%q", tt.word), func(t *testing.T) {
			if got := shortcode.Reserved(tt.word); got != tt.want {
				t.Errorf("Reserved(%q) = %t, want %t", tt.word, got, tt.want)
			}
		})
	}
}
