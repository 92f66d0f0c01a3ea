// Package validate checks user-supplied text, such as names, titles and tags, and prepares it for
// display and export.
package validate

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/linkforge/linkforge/internal/platform/errs"
)

// Line returns one line of text for display: Visible, Normal, trimmed, with from least to most
// characters, none of them a control character. The label begins the error message. It returns
// InvalidInput.
func Line(label, s string, least, most int) (string, error) {
	return Opaque(label, Visible(s), least, most)
}

// Lines is Line of text that may have line breaks and tabs. It returns InvalidInput.
func Lines(label, s string, least, most int) (string, error) {
	s = strings.TrimSpace(strings.ReplaceAll(Normal(Visible(s)), "\r\n", "\n"))
	if !utf8.ValidString(s) || strings.ContainsFunc(s, control) {
		return "", errs.New(errs.InvalidInput, "%s must be plain text, without control characters.", label)
	}
	return bounded(label, s, least, most)
}

// Opaque is Line of text that is compared and not displayed, such as an idempotency key: it retains
// invisible characters. It returns InvalidInput.
func Opaque(label, s string, least, most int) (string, error) {
	s = strings.TrimSpace(Normal(s))
	if err := OneLine(label, s); err != nil {
		return "", err
	}
	return bounded(label, s, least, most)
}

// OneLine returns InvalidInput for text that is no UTF-8, or has control characters or line breaks.
func OneLine(label, s string) error {
	if !utf8.ValidString(s) || strings.ContainsAny(s, "\n\t") || strings.ContainsFunc(s, control) {
		return errs.New(errs.InvalidInput, "%s must be one line of plain text, without control characters.", label)
	}
	return nil
}

func bounded(label, s string, least, most int) (string, error) {
	if n := utf8.RuneCountInString(s); n < least || n > most {
		return "", errs.New(errs.InvalidInput, "%s must have from %d to %d characters; it has %d.", label, least, most,
			n)
	}
	return s, nil
}

// control also includes Unicode's line and paragraph separators, and the characters that change the
// direction of text, which can disguise a name.
func control(r rune) bool {
	return r != '\n' && r != '\t' && unicode.In(r, unicode.Cc, unicode.Zl, unicode.Zp, turning)
}

// turning are the embeddings, overrides and isolates of the bidirectional algorithm (UAX #9,
// section 2). The marks that right-to-left text is written with are not among them.
var turning = &unicode.RangeTable{R16: []unicode.Range16{{Lo: 0x202a, Hi: 0x202e, Stride: 1},
	{Lo: 0x2066, Hi: 0x2069, Stride: 1}}}

// Quote returns user-supplied text in quotes for one line, shortened and without control
// characters; empty for empty text.
func Quote(s string) string {
	if s == "" {
		return ""
	}
	return strconv.QuoteToGraphic(string([]rune(s)[:min(utf8.RuneCountInString(s), 100)]))
}
