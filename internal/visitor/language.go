package visitor

import (
	"strconv"
	"strings"
)

// maxLanguages is the number of languages of a request that are read. Browsers send fewer.
const maxLanguages = 16

// WantedLanguage returns the primary subtag of the most preferred language of an Accept-Language header,
// in lower case; empty if there is none.
func WantedLanguage(header string) string {
	_, primary := language(header)
	return primary
}

// language returns the most preferred language of an Accept-Language header, the first of several
// equal ones: its tag, with hyphens, and the primary subtag in lower case.
func language(header string) (tag, primary string) {
	most := 0.0
	for range maxLanguages {
		if header == "" || most >= 1 {
			break
		}
		var wanted string
		wanted, header, _ = strings.Cut(header, ",")
		wanted, weight, _ := strings.Cut(wanted, ";")
		wanted = strings.TrimSpace(wanted)
		subtag, ok := primarySubtag(wanted)
		if w := parseWeight(strings.TrimSpace(weight)); ok && w > most {
			tag, primary, most = wanted, subtag, w
		}
	}
	return strings.ReplaceAll(tag, "_", "-"), strings.ToLower(primary)
}

// primarySubtag returns the first subtag if it is a language: not "*", "x-private" or "i-klingon".
func primarySubtag(tag string) (string, bool) {
	end := 0
	for end < len(tag) && (tag[end]|0x20 >= 'a' && tag[end]|0x20 <= 'z') {
		end++
	}
	return tag[:end], end >= 2 && end <= 8 && (end == len(tag) || tag[end] == '-' || tag[end] == '_')
}

// parseWeight reads "q=0.8". What cannot be read is not wanted.
func parseWeight(s string) float64 {
	if s == "" {
		return 1
	}
	if len(s) < 3 || len(s) > 10 || s[0]|0x20 != 'q' || s[1] != '=' {
		return 0
	}
	weight, err := strconv.ParseFloat(s[2:], 64)
	if err != nil {
		return 0
	}
	return weight
}
