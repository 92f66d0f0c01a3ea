package validate

import (
	"bytes"
	"strconv"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// byteOrderMark is U+FEFF in UTF-8. Some editors and shells write it before text.
var byteOrderMark = []byte("\ufeff")

// WithoutMark returns text without a byte order mark at its start.
func WithoutMark(text []byte) []byte { return bytes.TrimPrefix(text, byteOrderMark) }

// IsJSONText reports whether text is UTF-8 and escapes no surrogate without the other one of its
// pair. Decoders of JSON replace both silently, so that different texts become equal.
func IsJSONText(text []byte) bool {
	if !utf8.Valid(text) {
		return false
	}
	for {
		start := bytes.IndexByte(text, '\\')
		if start < 0 || len(text) < start+2 {
			return true
		}
		unit, size := escaped(text[start:])
		if utf16.IsSurrogate(unit) {
			second, more := escaped(text[start+size:])
			if utf16.DecodeRune(unit, second) == unicode.ReplacementChar {
				return false
			}
			size += more
		}
		text = text[start+size:]
	}
}

// escaped returns the UTF-16 code unit and the length of an escape such as \u00e9 at the start of
// text; zero for other text and escapes.
func escaped(text []byte) (unit rune, size int) {
	const length = len(`\u0000`)
	if len(text) < length || text[0] != '\\' || text[1] != 'u' {
		return 0, len(`\n`)
	}
	digits, err := strconv.ParseUint(string(text[2:length]), 16, 16)
	if err != nil {
		return 0, len(`\n`)
	}
	return rune(digits), length
}
