package urlnorm

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/linkforge/linkforge/internal/platform/validate"
)

// parts is a URL cut at its delimiters, with nothing decoded.
type parts struct {
	given  string // the whole URL, trimmed
	scheme string // "http" or "https"
	host   string // as given, an IPv6 address with its brackets
	port   string // as given, digits or not, without the colon
	path   string // empty, or from its first slash on
	query  string // without the question mark
}

// parse applies R1 and R2, and splits the rest into its parts.
func parse(raw string) (parts, error) {
	if len(raw) > MaxBytes {
		return parts{}, tooLong()
	}
	given := Trim(raw)
	if err := checkCharacters(given); err != nil {
		return parts{}, err
	}
	scheme, rest, ok := cutScheme(given)
	if !ok {
		return parts{}, refuse("R2", "The URL must start with http:// or https://.")
	}
	beforeFragment, _, _ := strings.Cut(rest, "#")
	address, query, _ := strings.Cut(beforeFragment, "?")
	authority, path := cutAuthority(address)
	if err := checkAddress(address, authority); err != nil {
		return parts{}, err
	}
	host, port := cutPort(authority)
	return parts{given: given, scheme: scheme, host: host, port: port, path: path, query: query}, nil
}

// Trim drops control characters, white space and invisible characters at both ends, as copied text
// has them. It keeps variation selectors and tags, which belong to emoji.
func Trim(raw string) string {
	return strings.TrimFunc(raw, func(r rune) bool {
		const tags, brailleBlank = 0xe0000, '\u2800'
		return r <= ' ' || r == brailleBlank || unicode.IsSpace(r) ||
			r < tags && validate.Invisible(r) && !unicode.Is(unicode.Variation_Selector, r)
	})
}

// checkCharacters refuses invalid UTF-8 and the control characters, C0, DEL and C1, wherever they
// stand. In the fragment too: it reaches the browser in the Location header.
func checkCharacters(given string) error {
	for i := 0; i < len(given); {
		if c := given[i]; c >= ' ' && c < 0x7f {
			i++
			continue
		}
		r, size := utf8.DecodeRuneInString(given[i:])
		if r == utf8.RuneError && size == 1 {
			return refuse("R1", "The URL must be valid UTF-8 text.")
		}
		if r <= 0x9f {
			return refuse("R1", "The URL must not contain control characters: remove line breaks, tabs and the like.")
		}
		if unicode.In(r, unicode.Zl, unicode.Zp) {
			return refuse("R1", fmt.Sprintf("The URL must not contain line separators: remove U+%04X.", r))
		}
		i += size
	}
	return nil
}

// cutScheme splits off http:// or https://, in any case, and returns the scheme in lower case.
func cutScheme(given string) (scheme, rest string, ok bool) {
	for _, scheme := range [...]string{"http", "https"} {
		n := len(scheme)
		if len(given) >= n+3 && strings.EqualFold(given[:n], scheme) && given[n:n+3] == "://" {
			return scheme, given[n+3:], true
		}
	}
	return "", "", false
}

// cutAuthority splits an address, which ends before the query, at its first slash. The slash stays
// with the path.
func cutAuthority(address string) (authority, path string) {
	if i := strings.IndexByte(address, '/'); i >= 0 {
		return address[:i], address[i:]
	}
	return address, ""
}

// checkAddress refuses what makes readers of a URL disagree about its host: userinfo, a classic
// decoy, and the backslash, which browsers take for a slash and others do not.
func checkAddress(address, authority string) error {
	if strings.Contains(authority, "@") {
		return refuse("R2",
			"The URL must not contain a user name or password: remove everything from after // to the @.")
	}
	if strings.Contains(address, `\`) {
		return refuse("R2", "The URL must not contain a backslash before the query: write / instead, or %5C where a "+
			"backslash is meant.")
	}
	return nil
}

// cutPort splits an authority into host and port. Brackets that are not followed by the end or a
// port remain in the host as they are, and are refused there.
func cutPort(authority string) (host, port string) {
	if !strings.HasPrefix(authority, "[") {
		host, port, _ = strings.Cut(authority, ":")
		return host, port
	}
	end := strings.LastIndexByte(authority, ']') + 1
	if end == len(authority) || end > 0 && authority[end] == ':' {
		return authority[:end], strings.TrimPrefix(authority[end:], ":")
	}
	return authority, ""
}
