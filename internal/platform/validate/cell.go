package validate

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// formulaStarts are the characters at which a spreadsheet begins a formula, and their full-width
// and small forms, which some convert.
const formulaStarts = "=+-@＝＋－＠﹦﹢﹣﹫"

// Cell returns a cell of a CSV file that a spreadsheet reads as text. It prefixes an apostrophe to
// one that begins with a tab or a line break, or whose first visible character begins a formula
// (https://owasp.org/www-community/attacks/CSV_Injection).
func Cell(s string) string {
	start := strings.TrimLeftFunc(s, func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsControl(r) || r == brailleBlank || Invisible(r)
	})
	if s != "" && strings.ContainsRune("\t\r\n", rune(s[0])) {
		return "'" + s
	}
	if first, size := utf8.DecodeRuneInString(start); size > 0 && strings.ContainsRune(formulaStarts, first) {
		return "'" + s
	}
	return s
}
