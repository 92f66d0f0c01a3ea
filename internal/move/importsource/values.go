package importsource

import (
	"bytes"
	"cmp"
	"encoding/json"
	"maps"
	"math"
	"net/url"
	"regexp"
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
	n, err := strconv.ParseFloat(bareText(is), 64)
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

// The forms of values, for the report.
const (
	timeForm   = "2026-12-31T23:59:59Z, 2026-12-31 23:59 or 2026-12-31, in UTC without an offset, or Unix seconds"
	flagForm   = "true or false"
	stateForm  = "active, enabled or published for a link that redirects"
	numberForm = "a number without fraction, as in 100"
	statusForm = "301, 302, 307 or 308"
)

// flag returns a value that must be a bool. Otherwise it is a loss.
func (m *mapper) flag(v value) bool {
	is, ok := truth(v.is)
	if !ok && !isUnset(v.is) {
		m.unread(v, flagForm)
	}
	return is
}

// truth returns a truth value.
func truth(is any) (yes, ok bool) {
	if yes, ok := is.(bool); ok {
		return yes, true
	}
	if n, ok := integer(is); ok {
		return n == 1, n == 0 || n == 1
	}
	yes, ok = truths[strings.TrimSuffix(word(is), "\ufe0f")]
	return yes, ok
}

// isUnset reports whether a value means none: null, false, 0, or a word for that.
func isUnset(is any) bool {
	yes, isTruth := truth(is)
	return isEmpty(is) || isZero(is) || isNone(is) || isTruth && !yes
}

// isAbsent reports whether a value is null or a text of blanks.
func isAbsent(is any) bool {
	text, isText := is.(string)
	return is == nil || isText && bare(text) == ""
}

// word returns a text or number for a list of words.
func word(is any) string {
	switch is := is.(type) {
	case string:
		return strings.ToLower(bare(is))
	case json.Number:
		return is.String()
	}
	return ""
}

// bare returns a text without the blanks and the invisible characters around it, such as no-break
// spaces and byte order marks.
func bare(s string) string { return strings.TrimFunc(s, isBlank) }

func isBlank(r rune) bool {
	return unicode.IsSpace(r) || validate.Invisible(r) && !unicode.In(r, unicode.Variation_Selector)
}

// bareText returns a value that is text, without the blanks around it; empty for another value.
func bareText(is any) string {
	text, _ := is.(string)
	return bare(text)
}

// wholeNumber is a number whose fraction is zero, as data frames write a column with empty cells.
var wholeNumber = regexp.MustCompile(`^(-?\d+)\.0+$`)

// integer returns a number, or a text with one, that is an integer.
func integer(is any) (n int64, ok bool) {
	text := word(is)
	if n, err := strconv.ParseInt(wholeNumber.ReplaceAllString(text, "$1"), 10, 64); err == nil {
		return n, true
	}
	const most = 1 << 53
	f, err := strconv.ParseFloat(text, 64)
	if _, isNumber := is.(json.Number); !isNumber || err != nil || f != math.Trunc(f) || math.Abs(f) > most {
		return 0, false
	}
	return int64(f), true
}

// number returns an integer that may be in quotation marks and have its digits in groups, as in
// 1,000. The text 1.000 may mean one.
func number(is any) (n int64, ok bool) {
	text, isText := is.(string)
	if !isText {
		return integer(is)
	}
	text = strings.Trim(bare(text), `"'`)
	at := strings.IndexFunc(text, func(r rune) bool { return r < '0' || r > '9' })
	if at < 0 {
		return integer(text)
	}
	separator, size := utf8.DecodeRuneInString(text[at:])
	groups := strings.Split(text, text[at:at+size])
	isGroup := func(g string) bool { return len(g) == 3 && strings.Trim(g, "0123456789") == "" }
	areGroups := at > 0 && at <= 3 && !slices.ContainsFunc(groups[1:], func(g string) bool { return !isGroup(g) })
	switch {
	case !areGroups || !unicode.Is(unicode.Zs, separator) && !strings.ContainsRune(",.'’_", separator):
		return integer(text)
	case len(groups) == 2 && separator == '.' && groups[1] == "000":
		return 0, false
	}
	return integer(strings.Join(groups, ""))
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

// instant returns a time. Zero is no time, and anything else a loss.
func (m *mapper) instant(v value) *time.Time {
	if isUnset(v.is) {
		return nil
	}
	if t, ok := instant(v.is); ok {
		return &t
	}
	m.unread(v, timeForm)
	return nil
}

// bound returns the time from which or until which a link redirects; nil if it has none, as the
// words for that and the zero dates of databases say. Any other value closes the link.
func (m *mapper) bound(v value, isNever func(is any) bool) *time.Time {
	switch t, ok := instant(v.is); {
	case ok:
		return &t
	case isUnset(v.is) || isNever(v.is):
		return nil
	case isZeroDate(v.is):
		m.unread(v, timeForm)
		return nil
	}
	m.closeUnread(v, timeForm)
	return nil
}

var (
	// dates begin with the year, so that the order of month and day is certain.
	dates = regexp.MustCompile(`^(\d{4})([-/.])(\d\d?)([-/.])(\d\d?)` +
		`(?:(?:T| +)(\d\d?:\d\d)(?::(\d\d(?:[.,]\d+)?))?)?` +
		`(?: ?(Z|UTC|GMT|[+-]\d\d(?::?\d\d)?))?(?: UTC)?$`)
	zeroDates = regexp.MustCompile(`^(?:0000-00-00|0001-01-01|1970-01-01)` +
		`(?:[T ][0:.]+)?(?: ?(?:Z|UTC|[+-]00(?::?00)?))?$`)
	// compactDates have years of this and the next century: longer numbers are Unix milliseconds.
	compactDates   = regexp.MustCompile(`^(?:19[7-9]|2[01]\d)\d{5}(?:T?\d{6}Z?|\d{4})?$`)
	compactLayouts = []string{"20060102", "200601021504", "20060102150405", "20060102T150405"}
	fractionOfUnix = regexp.MustCompile(`^(\d{9,13})\.\d+$`)
)

// isZeroDate reports whether a value is how databases and programs write no date in a column that
// must have one.
func isZeroDate(is any) bool { return zeroDates.MatchString(strings.ToUpper(word(is))) }

// instant returns a time: a date of ISO 8601, with or without a time and an offset, or Unix seconds
// or milliseconds. ok is false for a value that has several readings.
func instant(is any) (t time.Time, ok bool) {
	text := strings.ToUpper(word(is))
	if compactDates.MatchString(text) {
		for _, layout := range compactLayouts {
			if t, err := time.Parse(layout, strings.TrimSuffix(text, "Z")); err == nil {
				return t, true
			}
		}
	}
	if n, isNumber := integer(is); isNumber {
		return unixTime(n)
	}
	if parts := fractionOfUnix.FindStringSubmatch(text); parts != nil {
		n, _ := integer(parts[1])
		return unixTime(n)
	}
	return date(text)
}

// unixTime returns the time of Unix seconds or milliseconds.
func unixTime(n int64) (t time.Time, ok bool) {
	const seconds = 1e8       // the minimum, in 1973; less are the days of a spreadsheet
	const milliseconds = 1e11 // from here on; as seconds it would be the year 5138
	const mostMilliseconds = 253402300799999
	if n < seconds || n > mostMilliseconds {
		return t, false
	}
	if n < milliseconds {
		n *= 1000
	}
	return time.UnixMilli(n).UTC(), true
}

// date returns a date in upper case, in UTC without an offset.
func date(text string) (t time.Time, ok bool) {
	parts := dates.FindStringSubmatch(text)
	if parts == nil || parts[2] != parts[4] || zeroDates.MatchString(text) {
		return t, false
	}
	clock, seconds, offset := cmp.Or(parts[6], "00:00"), cmp.Or(parts[7], "00"), parts[8]
	switch offset {
	case "", "UTC", "GMT":
		offset = "Z"
	}
	if digits := strings.ReplaceAll(offset, ":", ""); offset != "Z" {
		offset = digits[:3] + ":" + cmp.Or(digits[3:], "00")
	}
	t, err := time.Parse("2006-1-2T15:04:05Z07:00",
		parts[1]+"-"+parts[3]+"-"+parts[5]+"T"+clock+":"+seconds+offset)
	t = t.UTC()
	return t, err == nil && t.Year() >= 1 && t.Year() <= 9999
}

// withScheme returns a short URL with a scheme.
func withScheme(text string) string {
	if text = bare(text); strings.Contains(text, "://") {
		return text
	}
	return "https://" + text
}

// cutShortURL returns the host and the decoded path of a short URL, which need not have a scheme and
// may have blanks around it and its path.
func cutShortURL(text string) (host, code string, ok bool) {
	text = bare(text)
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
	return host, bare(strings.TrimSuffix(bare(path), "/")), true
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
			if err == nil && (isLong || !isJSON(text)) {
				err = errs.New(errs.InvalidInput, "%s of the file is no valid JSON in UTF-8 of at most 1 MiB.", name)
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

// newRecord returns the cells of a record without the blanks around them. NULL, and \N as MySQL and
// PostgreSQL write it, are empty cells.
func newRecord(header, record []string, isFolded bool) object {
	o := make(object, len(header))
	for i, name := range header {
		cell := ""
		if i < len(record) {
			cell = bare(record[i])
		}
		if isNullText(cell) {
			cell = ""
		}
		if len(cell) > 1 && cell[0] == '\'' && strings.IndexByte("=+-@", cell[1]) >= 0 {
			cell = cell[1:] // exports add it, see validate.Cell
		}
		o.add(name, cell, isFolded)
	}
	return o
}

// add adds a property. Of names that are equal when folded the first with a value is known, the
// others are not.
func (o object) add(name string, is any, isFolded bool) {
	key := nameOf(name, isFolded)
	switch first, isTaken := o[key]; {
	case isTaken && isAbsent(first.is):
		o[first.name+"\x00"] = first
	case isTaken:
		key = name + "\x00"
	}
	if isFolded {
		is = unwrapped(is)
	}
	if text := bareText(is); isFolded && isNullText(text) {
		is = nil
	}
	o[key] = value{name, is}
}

// isNullText reports whether a text is no value as MySQL and PostgreSQL write it.
func isNullText(text string) bool { return text == "NULL" || text == `\N` }

// unwrapped returns the value in an object that only names its type, as exports of MongoDB have it.
func unwrapped(is any) any {
	object, _ := is.(map[string]any)
	for name, inner := range object {
		switch name {
		case "$oid", "$date", "$numberInt", "$numberLong", "$numberDouble", "$numberDecimal":
			if len(object) == 1 {
				return unwrapped(inner)
			}
		}
	}
	return is
}

// nameOf returns the name of a property in the table of its format. Folded names have letters and
// digits alone.
func nameOf(name string, isFolded bool) string {
	if !isFolded {
		return name
	}
	if decoded, err := url.PathUnescape(name); err == nil {
		name = decoded
	}
	return strings.Map(func(r rune) rune {
		if !isNameRune(r) || validate.Invisible(r) {
			return -1
		}
		return unicode.ToLower(r)
	}, name)
}
