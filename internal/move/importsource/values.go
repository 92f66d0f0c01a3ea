package importsource

import (
	"bytes"
	"encoding/json"
	"maps"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/optional"
	"github.com/linkforge/linkforge/internal/platform/urlnorm"
	"github.com/linkforge/linkforge/internal/platform/validate"
)

// isEmpty reports whether a value is never a loss: null, false, 0 or empty.
func isEmpty(is any) bool {
	switch is := is.(type) {
	case nil:
		return true
	case bool:
		return !is
	case string:
		return is == ""
	case json.Number:
		n, err := is.Float64()
		return err == nil && n == 0
	case []any:
		return len(is) == 0
	case map[string]any:
		return len(is) == 0
	}
	return false
}

// isZero reports whether the text of a cell is the number zero.
func isZero(is any) bool {
	text, _ := is.(string)
	n, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	return err == nil && n == 0
}

// label returns the name of a property for a report.
func label(name string) string {
	return cut(strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, name), maxName)
}

// describe returns the beginning of a value as JSON.
func describe(is any) string {
	text := bytes.Buffer{}
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if encoder.Encode(is) != nil {
		return ""
	}
	return cut(strings.TrimSuffix(text.String(), "\n"), maxLossValue)
}

// cut returns the first characters of a text.
func cut(s string, most int) string {
	for i := range s {
		if most--; most < 0 {
			return s[:i]
		}
	}
	return s
}

// text returns a value that must be text. Otherwise it is a loss.
func (m *mapper) text(v value) (s string, ok bool) {
	if s, ok = v.is.(string); !ok && !isEmpty(v.is) {
		m.lose(v, Invalid)
	}
	return s, ok
}

// flag returns a value that must be a bool. Otherwise it is a loss.
func (m *mapper) flag(v value) bool {
	switch is := v.is.(type) {
	case nil:
		return false
	case bool:
		return is
	case string:
		switch strings.ToLower(strings.TrimSpace(is)) {
		case "true", "yes", "1":
			return true
		case "", "false", "no", "0":
			return false
		}
	case json.Number:
		if n, ok := integer(is); ok && (n == 0 || n == 1) {
			return n == 1
		}
	}
	m.lose(v, Invalid)
	return false
}

// integer returns a number, or a text with one, that is an integer.
func integer(is any) (n int64, ok bool) {
	var text string
	switch is := is.(type) {
	case json.Number:
		text = is.String()
	case string:
		text = strings.TrimSpace(is)
	}
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return n, true
	}
	const most = 1 << 53
	f, err := strconv.ParseFloat(text, 64)
	if _, isNumber := is.(json.Number); !isNumber || err != nil || f != math.Trunc(f) || math.Abs(f) > most {
		return 0, false
	}
	return int64(f), true
}

// line returns a text as one line, with a loss if that changes it.
func (m *mapper) line(v value, most int) *string {
	return m.plain(v, most, func(r rune) bool { return unicode.In(r, unicode.Cc, unicode.Zl, unicode.Zp) })
}

// lines returns a text that may have line breaks and tabs.
func (m *mapper) lines(v value, most int) *string {
	return m.plain(v, most, func(r rune) bool {
		return r != '\n' && r != '\t' && unicode.In(r, unicode.Cc, unicode.Zl, unicode.Zp)
	})
}

func (m *mapper) plain(v value, most int, isControl func(rune) bool) *string {
	s, ok := m.text(v)
	if !ok {
		return nil
	}
	s = strings.TrimSpace(strings.ReplaceAll(validate.Normal(validate.Visible(s)), "\r\n", "\n"))
	if strings.ContainsFunc(s, isControl) {
		m.lose(v, Approximated)
		s = strings.TrimSpace(strings.Map(func(r rune) rune {
			if isControl(r) {
				return ' '
			}
			return r
		}, s))
	}
	if utf8.RuneCountInString(s) > most {
		m.lose(v, Truncated)
		s = strings.TrimSpace(cut(s, most))
	}
	return optional.Of(s)
}

// instant returns a time: RFC 3339, with an offset as in +0000, a date, or Unix seconds or
// milliseconds. Zero is no time, and anything else a loss.
func (m *mapper) instant(v value, layouts ...string) *time.Time {
	if isEmpty(v.is) || isZero(v.is) {
		return nil
	}
	if t, ok := instant(v.is, layouts...); ok {
		return &t
	}
	m.lose(v, Invalid)
	return nil
}

func instant(is any, layouts ...string) (t time.Time, ok bool) {
	const seconds = 1e8       // the minimum, in 1973; less are the days of a spreadsheet
	const milliseconds = 1e11 // from here on; as seconds it would be the year 5138
	const mostMilliseconds = 253402300799999
	if n, isNumber := integer(is); isNumber {
		if n < seconds || n > mostMilliseconds {
			return t, false
		}
		if n < milliseconds {
			n *= 1000
		}
		return time.UnixMilli(n).UTC(), true
	}
	text, _ := is.(string)
	if len(layouts) == 0 {
		layouts = []string{time.RFC3339, "2006-01-02T15:04:05Z0700", time.DateOnly}
	}
	for _, layout := range layouts {
		t, err := time.Parse(layout, strings.TrimSpace(text))
		if t = t.UTC(); err == nil && t.Year() >= 1 && t.Year() <= 9999 {
			return t, true
		}
	}
	return time.Time{}, false
}

// withScheme returns a short URL with a scheme.
func withScheme(text string) string {
	if strings.Contains(text, "://") {
		return text
	}
	return "https://" + text
}

// cutShortURL returns the host and the decoded path of a short URL, which need not have a scheme.
func cutShortURL(text string) (host, code string, ok bool) {
	scheme, rest, _ := strings.Cut(withScheme(text), "://")
	if len(text) > urlnorm.MaxBytes || strings.ContainsFunc(text, unicode.IsControl) ||
		!strings.EqualFold(scheme, "https") && !strings.EqualFold(scheme, "http") {
		return "", "", false
	}
	if end := strings.IndexAny(rest, "?#"); end >= 0 {
		rest = rest[:end]
	}
	address, path, _ := strings.Cut(rest, "/")
	if host, ok = hostOf(address); !ok {
		return "", "", false
	}
	if code, err := url.PathUnescape(path); err == nil && utf8.ValidString(code) {
		path = code
	}
	return host, strings.TrimSuffix(path, "/"), true
}

// hostOf returns the canonical form of a host.
func hostOf(text string) (host string, ok bool) {
	u, err := urlnorm.Canonical("https://" + text + "/")
	if err != nil || strings.ContainsAny(text, "/?# ") {
		return "", false
	}
	return u.Host(), true
}

// object reads an object that has the items at the path, and records about them at other paths.
func (r *reader) object(f *format, path []string) error {
	hasItems, version := len(path) == 0, ""
	err := r.file.object(func(name string) error {
		switch {
		case len(path) > 0 && name == path[0]:
			hasItems = true
			if len(path) > 1 {
				return r.object(f, path[1:])
			}
			return r.items(f)
		case records[name] != nil || name == "version" && f.version != "":
			text, isLong, err := r.file.value(MaxItem)
			if err == nil && (isLong || !json.Valid(text)) {
				err = errs.New(errs.InvalidInput, "%s of the file is no valid JSON of at most 1 MiB.", name)
			}
			if err != nil {
				return err
			}
			if records[name] != nil {
				records[name](r, text)
			} else if err := json.Unmarshal(text, &version); err != nil {
				version = ""
			}
			return nil
		}
		_, _, err := r.file.value(0)
		return err
	})
	switch {
	case err != nil:
		return err
	case !hasItems:
		return errs.New(errs.InvalidInput, "The file has no %s. Check that it is an export of this source.", path[0])
	case len(path) == len(f.list) && version != f.version:
		return errs.New(errs.InvalidInput, "The version of the file must be %s.", f.version)
	}
	return nil
}

// value is the value of a property: nil, a bool, a json.Number, a string, a list or a map.
type value struct {
	name string // at the source
	is   any
}

func newObject(properties map[string]any, isFolded bool) object {
	o := make(object, len(properties))
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		o.add(name, properties[name], isFolded)
	}
	return o
}

func newRecord(header, record []string, isFolded bool) object {
	o := make(object, len(header))
	for i, name := range header {
		cell := ""
		if i < len(record) {
			cell = record[i]
		}
		if len(cell) > 1 && cell[0] == '\'' && strings.IndexByte("=+-@", cell[1]) >= 0 {
			cell = cell[1:] // exports add it, see validate.Cell
		}
		o.add(name, cell, isFolded)
	}
	return o
}

// add adds a property. Of names that are equal when folded the first is known, the others are not.
func (o object) add(name string, is any, isFolded bool) {
	key := nameOf(name, isFolded)
	if _, isTaken := o[key]; isTaken {
		key = name + "\x00"
	}
	o[key] = value{name, is}
}

var folding = strings.NewReplacer(" ", "", "_", "", "-", "")

func nameOf(name string, isFolded bool) string {
	if !isFolded {
		return name
	}
	return folding.Replace(strings.ToLower(name))
}
