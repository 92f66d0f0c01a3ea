package visitor

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/linkforge/linkforge/internal/platform/validate"
)

const (
	// maxQuery is the length of the part of a query that is read, in bytes.
	maxQuery = 8 << 10
	// maxText is the maximum length of a campaign text in bytes, maxDecoded the number of bytes
	// that are decoded for it, before some of them are removed.
	maxText    = 100
	maxDecoded = 512
)

// queryOf is the query of a URL.
func queryOf(location string) string {
	query := strings.IndexByte(location, '?')
	if query < 0 {
		return ""
	}
	if fragment := strings.IndexByte(location, '#'); fragment >= 0 {
		return location[min(query+1, fragment):fragment]
	}
	return location[query+1:]
}

// readCampaign reads the texts that are still missing. Of a repeated parameter the first non-empty
// value counts.
func (v *Visit) readCampaign(query string) {
	query = query[:min(len(query), maxQuery)]
	if !strings.Contains(query, "utm_") {
		return
	}
	for query != "" {
		var pair string
		pair, query, _ = strings.Cut(query, "&")
		name, value, _ := strings.Cut(pair, "=")
		if field := v.campaign(name); field != nil && *field == "" {
			*field = decodeText(value)
		}
	}
}

func (v *Visit) campaign(name string) *string {
	switch name {
	case "utm_source":
		return &v.Source
	case "utm_medium":
		return &v.Medium
	case "utm_campaign":
		return &v.Campaign
	case "utm_term":
		return &v.Term
	case "utm_content":
		return &v.Content
	}
	return nil
}

// decodeText decodes a query's value in validate.Normal form without its control and invisible
// characters.
func decodeText(raw string) string {
	if isPlain(raw) {
		return raw
	}
	var decoded [maxDecoded]byte
	var room [maxText]byte
	kept := room[:0]
	for text := validate.Normal(string(unescape(decoded[:0], raw))); text != ""; {
		r, size := utf8.DecodeRuneInString(text)
		text = text[size:]
		if r == utf8.RuneError && size == 1 || isControl(r) || len(kept) == 0 && unicode.IsSpace(r) {
			continue
		}
		if len(kept)+size > maxText {
			break
		}
		kept = utf8.AppendRune(kept, r)
	}
	return strings.TrimSpace(validate.Visible(string(kept)))
}

// isPlain reports whether a value needs no decoding.
func isPlain(raw string) bool {
	if len(raw) > maxText {
		return false
	}
	for i := range len(raw) {
		if c := raw[i]; c <= ' ' || c > '~' || c == '%' || c == '+' {
			return false
		}
	}
	return true
}

// unescape decodes as much as there is room for, like url.QueryUnescape, but takes a percent sign
// that escapes nothing for itself.
func unescape(b []byte, raw string) []byte {
	for i := 0; i < len(raw) && len(b) < cap(b); i++ {
		c := raw[i]
		if c == '+' {
			c = ' '
		}
		if c == '%' && i+2 < len(raw) {
			if high, low := hexDigit(raw[i+1]), hexDigit(raw[i+2]); high >= 0 && low >= 0 {
				c = byte(high<<4 | low)
				i += 2
			}
		}
		b = append(b, c)
	}
	return b
}

func hexDigit(c byte) int { return strings.IndexByte("0123456789abcdef", c|0x20) }

// isControl counts in, as names do, Unicode's own separators of lines and what turns the direction
// of what follows.
func isControl(r rune) bool {
	return unicode.In(r, unicode.Cc, unicode.Zl, unicode.Zp) || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069
}
