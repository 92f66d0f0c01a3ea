package validate

import (
	"strings"
	"unicode"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// Normal returns text in Unicode's normalization form C, where texts that are equal to readers are
// equal bytes. All text that is compared is stored in it; URLs are not, because servers compare
// their bytes.
func Normal(s string) string { return norm.NFC.String(s) }

// Fold returns text as searches compare it: without differences of case, of compatibility forms
// such as ligatures and full-width letters (NFKC_Casefold), and of the dot of i. The databases do
// not fold text, because each does so differently.
func Fold(s string) string {
	folded := norm.NFKC.String(cases.Fold().String(norm.NFKC.String(s)))
	return dots.Replace(folded)
}

var dots = strings.NewReplacer("i\u0307", "i", "ı", "i")

// Typed returns a code as a program writes it, such as that of an authenticator app, from one that
// a person has typed, pasted or read out: without white space, invisible characters, hyphens and
// dots of any kind, and with full-width characters as plain ones.
func Typed(code string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r), unicode.In(r, unicode.Pd, unicode.Cf), strings.ContainsRune("\u2212_.·•", r):
			return -1
		}
		return r
	}, norm.NFKC.String(code))
}
