package config

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/mail"
	"net/netip"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/linkforge/linkforge/internal/platform/urlnorm"
)

// syntaxes parse a text, or an item of a list of texts, by the name of its syntax. Without one, it
// is the name of a file.
var syntaxes = map[string]func(string) (string, error){
	"":         func(text string) (string, error) { return text, nil },
	"address":  parseAddress,
	"host":     parseHost,
	"mailbox":  parseMailbox,
	"origin":   parseOrigin,
	"page":     parsePage,
	"database": parseDatabase,
	"postgres": parseURL("postgres", "postgresql"),
	"smtp":     parseURL("smtp", "smtps"),

	"clickhouse": parseURL("http", "https"),
	"https":      parseURL("https"),

	"directory": parseDirectory,
	"base64url": parseBase64URL,

	"sync":   parseWord("os", "interval", "always"),
	"outage": parseWord("closed", QuotaOpen),

	"registration": parseWord("open", "invited", "closed"),

	"email":    parseEmail,
	"issuer":   parseIssuer,
	"redirect": parseRedirect,
	"scopes":   parseScopes,
	"text":     parseText,
}

// Checks are the checks of texts by the packages that use them, each with an error that does not
// repeat the text.
type Checks struct {
	// Redis checks a URL of Redis, and Fallback one with the placeholders {code} and {host}.
	Redis, Fallback func(text string) error
}

// parser returns the function that parses a text with the syntax of a tag.
func (c Checks) parser(syntax string) func(string) (string, error) {
	switch syntax {
	case "redis":
		return func(text string) (string, error) { return text, c.Redis(text) }
	case "fallback":
		return func(text string) (string, error) {
			if err := c.Fallback(text); err != nil {
				return text, err
			}
			return urlnorm.Location(text), nil
		}
	}
	return syntaxes[syntax]
}

// QuotaOpen is the value of QuotaOutage that lets redirects continue.
const QuotaOpen = "open"

// decode sets a field of Config from a text that is not empty. An invalid text stays in a field
// that holds text; any other field stays zero.
func (c Checks) decode(field reflect.Value, tag reflect.StructTag, text string) (err error) {
	var value any
	switch field.Interface().(type) {
	case string:
		value, err = c.parser(tag.Get("syntax"))(text)
	case []string:
		value, err = parseList(text, c.parser(tag.Get("syntax")))
	case []netip.Prefix:
		value, err = parseList(text, parseNetwork)
	case []GroupRole:
		value, err = parseList(text, parseGroupRole)
	case bool:
		value, err = parseBool(text, tag.Get("words"))
	case int, int64:
		integer := func(s string) (int64, error) { return strconv.ParseInt(s, 10, 64) }
		value, err = parseRange(text, tag, integer, "must be a whole number from %v to %v")
	case time.Duration:
		value, err = parseRange(text, tag, ParseDuration, "must be a duration from %v to %v, as in 30d, 24h or 90m")
	case slog.Level:
		value, err = parseLevel(text)
	case []byte:
		value, err = parseKey(text)
	case Keys:
		value, err = parseList(text, parseKey)
	case [][]byte:
		return nil // readSecrets reads it
	default:
		panic("config: a setting cannot be of type " + field.Type().String())
	}
	field.Set(reflect.ValueOf(value).Convert(field.Type()))
	return err
}

// parseBool parses one of two words; the first one is true. Without words, they are on and off and
// their synonyms.
func parseBool(text, words string) (bool, error) {
	yes, no, _ := strings.Cut(cmp.Or(words, "on,off"), ",")
	switch text = strings.ToLower(text); {
	case text == yes, words == "" && slices.Contains([]string{"true", "yes", "1"}, text):
		return true, nil
	case text == no, words == "" && slices.Contains([]string{"false", "no", "0"}, text):
		return false, nil
	}
	return false, fmt.Errorf("must be %s or %s", yes, no)
}

// parseRange reads a value between those of the tags min and max, which the problem names.
func parseRange[T int64 | time.Duration](
	text string, tag reflect.StructTag, parse func(string) (T, error), problem string,
) (T, error) {
	least, _ := parse(tag.Get("min"))
	most, _ := parse(tag.Get("max"))
	value, err := parse(text)
	if err != nil || value < least || value > most {
		return 0, fmt.Errorf(problem, least, most)
	}
	return value, nil
}

// ParseDuration reads what time.ParseDuration reads, and whole days.
func ParseDuration(text string) (time.Duration, error) {
	if days, ok := strings.CutSuffix(text, "d"); ok {
		n, err := strconv.ParseUint(days, 10, 16)
		return time.Duration(n) * 24 * time.Hour, err
	}
	return time.ParseDuration(text)
}

func parseLevel(text string) (level slog.Level, err error) {
	if level.UnmarshalText([]byte(text)) != nil {
		return 0, errors.New("must be debug, info, warn or error")
	}
	return level, nil
}

func parseAddress(text string) (string, error) {
	if _, port, err := net.SplitHostPort(text); err != nil || !validPort(port) {
		return text, errors.New("must be host:port or :port, as in :8080 or 127.0.0.1:8080")
	}
	return text, nil
}

func validPort(s string) bool {
	n, err := strconv.ParseUint(s, 10, 16)
	return err == nil && n <= 65535
}

func parseMailbox(text string) (string, error) {
	if _, err := mail.ParseAddress(text); err != nil {
		return text, errors.New("must be an address, as in Linkforge <no-reply@example.com>")
	}
	return text, nil
}

func parseURL(schemes ...string) func(string) (string, error) {
	return func(text string) (string, error) {
		u, err := url.Parse(text)
		if err != nil || u.Host == "" || !urlnorm.HasWholeAuthority(text) {
			return text, fmt.Errorf("must be a URL, as in %s://user:password@host/name; what is special in a "+
				"password is "+
				"percent-encoded (@ is %%40, / is %%2F)", schemes[0])
		}
		if !slices.Contains(schemes, u.Scheme) {
			return text, fmt.Errorf("must start with %s://", strings.Join(schemes, ":// or "))
		}
		return text, nil
	}
}

// parseDatabase reads the URL of a database server. The word sqlite is the embedded database.
func parseDatabase(text string) (string, error) {
	if text == "sqlite" {
		return "", nil
	}
	text, err := parseURL("postgres", "postgresql")(text)
	if err != nil {
		err = fmt.Errorf("%w; or be sqlite, the database in LINKFORGE_DATA_DIR", err)
	}
	return text, err
}

// parseOrigin reads scheme, host and port, without a slash at the end.
func parseOrigin(text string) (string, error) {
	u, err := urlnorm.Canonical(text)
	if err != nil {
		return text, fmt.Errorf("must be an http or https URL: %w", err)
	}
	origin, ok := strings.CutSuffix(u.String(), "/")
	if !ok || strings.Count(origin, "/") != 2 {
		return text, errors.New("must be scheme, host and port only, without a path or query")
	}
	return origin, nil
}

// parseList reads a list with commas, and white space, between its items.
func parseList[T any](text string, parse func(string) (T, error)) (list []T, err error) {
	for word := range strings.SplitSeq(text, ",") {
		if word = strings.TrimSpace(word); word == "" {
			continue
		}
		item, err := parse(word)
		if err != nil {
			return nil, err
		}
		list = append(list, item)
	}
	return list, nil
}

func parseNetwork(text string) (netip.Prefix, error) {
	if addr, err := netip.ParseAddr(text); err == nil {
		return netip.PrefixFrom(addr, addr.BitLen()), nil
	}
	network, err := netip.ParsePrefix(text)
	if err != nil {
		return network, errors.New("must be addresses or networks with commas between them, " +
			"as in 127.0.0.1,10.0.0.0/8,fd00::/8")
	}
	return network.Masked(), nil
}

func parseHost(text string) (string, error) {
	u, err := urlnorm.Canonical("http://" + text)
	if err != nil || u.String() != "http://"+u.Host()+"/" || strings.Contains(text, ":") {
		return "", errors.New("must be host names with commas between them, without schemes, ports and paths")
	}
	return u.Host(), nil
}

// parsePage reads the origin of pages that may call the API, or * for all.
func parsePage(text string) (string, error) {
	if text == "*" {
		return text, nil
	}
	return urlnorm.Origin(text)
}

// parseWord returns a parser that accepts only some words.
func parseWord(words ...string) func(string) (string, error) {
	return func(text string) (string, error) {
		if !slices.Contains(words, text) {
			return text, fmt.Errorf("must be one of %s", strings.Join(words, ", "))
		}
		return text, nil
	}
}
