package validate

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	zeroWidthNonJoiner = '\u200c'
	zeroWidthJoiner    = '\u200d'
	enclosingKeycap    = '\u20e3'
	brailleBlank       = '\u2800'
	blackFlag          = '\U0001f3f4'
)

// subdivisions are the tags that follow a black flag in the flags of England, Scotland and Wales:
// "gbeng", "gbsct" and "gbwls", and the cancel tag. Unicode recommends no others for interchange
// (UTS #51, annex B).
var subdivisions = []string{
	"\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f",
	"\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074\U000e007f",
	"\U000e0067\U000e0062\U000e0077\U000e006c\U000e0073\U000e007f",
}

// joiningScripts are the scripts where a joiner changes the shape of adjacent letters.
var joiningScripts = []*unicode.RangeTable{
	unicode.Adlam, unicode.Arabic, unicode.Balinese, unicode.Bengali, unicode.Chakma, unicode.Devanagari,
	unicode.Gujarati,
	unicode.Gurmukhi, unicode.Hanifi_Rohingya, unicode.Javanese, unicode.Kannada, unicode.Khmer, unicode.Malayalam,
	unicode.Mandaic, unicode.Mongolian, unicode.Myanmar, unicode.Newa, unicode.Nko, unicode.Oriya, unicode.Sinhala,
	unicode.Syriac, unicode.Tamil, unicode.Telugu, unicode.Tibetan,
}

// Invisible reports whether a character has no glyph of its own: Unicode's default-ignorable code
// points (zero-width characters, fillers, soft hyphens, direction marks, tags, variation selectors)
// and other format characters.
func Invisible(r rune) bool {
	if r <= unicode.MaxLatin1 {
		return r == '\u00ad'
	}
	return unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector, unicode.Cf) &&
		!unicode.Is(unicode.Prepended_Concatenation_Mark, r)
}

// Visible removes invisible characters, so that texts that look equal are equal, and replaces the
// blank Braille pattern with a space. It retains invisible characters that change the shape of
// their neighbors: a joiner between letters of a script that joins them or between emoji, a
// variation selector, and the tags of a subdivision flag. It returns text that is not UTF-8
// unchanged.
func Visible(s string) string {
	blank := func(r rune) bool { return r == brailleBlank || Invisible(r) }
	if !strings.ContainsFunc(s, blank) || !utf8.ValidString(s) {
		return s
	}
	var visible []rune
	var last rune
	for rest := []rune(s); len(rest) > 0; {
		n := retained(last, rest)
		if n > 0 {
			visible, last = append(visible, rest[:n]...), rest[n-1]
		}
		rest = rest[max(n, 1):]
	}
	return strings.ReplaceAll(string(visible), string(brailleBlank), " ")
}

// retained returns how many characters at the front of the rest Visible retains, after the last one
// that it retained.
func retained(last rune, rest []rune) int {
	const tags = 6
	var next rune
	if len(rest) > 1 {
		next = rest[1]
	}
	switch r := rest[0]; {
	case !Invisible(r), isEffective(last, r, next):
		return 1
	case last == blackFlag && slices.Contains(subdivisions, string(rest[:min(tags, len(rest))])):
		return tags
	}
	return 0
}

// isEffective reports whether an invisible character changes how its neighbors look.
func isEffective(last, r, next rune) bool {
	switch {
	case r == zeroWidthJoiner && unicode.Is(unicode.So, next) &&
		unicode.In(last, unicode.So, unicode.Sk, unicode.Variation_Selector):
		return true
	case r == zeroWidthJoiner, r == zeroWidthNonJoiner: // also at a word's end after a virama, which is a mark
		return unicode.In(last, joiningScripts...) &&
			(unicode.In(next, joiningScripts...) || unicode.Is(unicode.M, last))
	case unicode.Is(unicode.Variation_Selector, r):
		return unicode.In(last, unicode.So, unicode.Han, unicode.Mongolian) || next == enclosingKeycap
	}
	return false
}
