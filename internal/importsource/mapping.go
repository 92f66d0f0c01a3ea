package importsource

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"maps"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/linkforge/linkforge/internal/errs"
	"github.com/linkforge/linkforge/internal/linkfield"
	"github.com/linkforge/linkforge/internal/optional"
	"github.com/linkforge/linkforge/internal/routing"
	"github.com/linkforge/linkforge/internal/urlnorm"
	"github.com/linkforge/linkforge/internal/validate"
)

// The lengths to which texts are cut, in characters, and the number of tags. Package linkfield refuses longer ones.
const (
	maxTitle           = 200
	maxNote            = linkfield.MaxNote
	maxTag             = 50
	maxTags            = linkfield.MaxTags
	maxFolder          = 100
	maxCardTitle       = 200
	maxCardDescription = 500
	maxLossValue       = 200
	maxName            = 100
	maxSourceID        = 1000 // bytes
)

// maxReports is the number of losses, and of ignored fields, that a row reports.
const maxReports = 100

// property is a field at the source and what becomes of it. It is mapped if its value is not null and not an empty text.
type property struct {
	// names are alternatives: the first with a value is mapped, the others are unknown.
	names []string
	set   setter
	isURL bool
}

// setter maps a value, whose name is that at the source.
type setter func(m *mapper, v value)

// to maps a property by a setter.
func to(set setter, names ...string) property { return property{names: names, set: set} }

// urlOf maps the destination.
func urlOf(names ...string) property { return property{names: names, set: setURL, isURL: true} }

// each maps several properties alike.
func each(set setter, names ...string) (properties []property) {
	for _, name := range names {
		properties = append(properties, to(set, name))
	}
	return properties
}

// mapper maps one item to a row.
type mapper struct {
	*reader
	format *format
	item   object
	row    *Row
	change routing.Change
	rules  []fieldRule
	// limit is the number of clicks of which the source has counted Origin.Clicks.
	limit      *int64
	limitField value
	urlField   string
}

func newMapper(r *reader, f *format, item object) *mapper {
	return &mapper{reader: r, format: f, item: item, row: &Row{Line: r.line}, urlField: "url"}
}

// rows maps all properties of the item.
func (m *mapper) rows() []*Row {
	m.apply(m.format.properties, m.format.known, m.item, "")
	if m.format.complete != nil {
		m.format.complete(m)
	}
	m.finish()
	rows := []*Row{m.row}
	if m.format.expand != nil {
		rows = append(rows, m.format.expand(m)...)
	}
	for _, row := range rows {
		m.identify(row)
	}
	return rows
}

// apply maps the properties of an object in the order of the table. The others are losses.
func (m *mapper) apply(table []property, known map[string]bool, from object, prefix string) {
	for _, p := range table {
		isMapped := false
		for _, name := range p.names {
			v, ok := from[name]
			switch {
			case !ok || v.is == nil || v.is == "":
			case isMapped:
				m.unknown(v, prefix)
			default:
				isMapped = true
				p.set(m, v)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(from)) {
		if !known[name] {
			m.unknown(from[name], prefix)
		}
	}
}

// unknown reports a property that the table lacks.
func (m *mapper) unknown(v value, prefix string) {
	if m.format.isTable {
		m.ignore(v)
		return
	}
	v.name = prefix + v.name
	lose(Unsupported)(m, v)
}

// nested maps the properties of an object within the item.
func nested(table ...property) setter {
	known := namesOf(table)
	return func(m *mapper, v value) {
		properties, ok := v.is.(map[string]any)
		if !ok {
			m.lose(v, Invalid)
			return
		}
		m.apply(table, known, newObject(properties, false), v.name+".")
	}
}

func namesOf(table []property) map[string]bool {
	known := map[string]bool{}
	for _, p := range table {
		for _, name := range p.names {
			known[name] = true
		}
	}
	return known
}

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

// lose reports a loss, once for a field and reason. The value of a password is not part of it.
func (m *mapper) lose(v value, reason LossReason) {
	loss := Loss{Field: label(v.name), Reason: reason}
	isSame := func(l Loss) bool { return l.Field == loss.Field && l.Reason == reason }
	if len(m.row.Losses) == maxReports || slices.ContainsFunc(m.row.Losses, isSame) {
		return
	}
	if !strings.Contains(strings.ToLower(v.name), "password") {
		loss.Value = describe(v.is)
	}
	m.row.Losses = append(m.row.Losses, loss)
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

// lose is a setter of properties that cannot be kept.
func lose(reason LossReason) setter {
	return func(m *mapper, v value) {
		if !isEmpty(v.is) && !(m.format.isTable && isZero(v.is)) {
			m.lose(v, reason)
		}
	}
}

// isZero reports whether the text of a cell is the number zero.
func isZero(is any) bool {
	text, _ := is.(string)
	n, err := strconv.ParseFloat(text, 64)
	return err == nil && n == 0
}

// handled is a setter of properties that another one reads.
func handled(*mapper, value) {}

// ignore is a setter of properties without an effect here.
func ignore(m *mapper, v value) {
	if !isEmpty(v.is) {
		m.ignore(v)
	}
}

func (m *mapper) ignore(v value) {
	name := label(v.name)
	if name != "" && len(m.row.Ignored) < maxReports && !slices.Contains(m.row.Ignored, name) {
		m.row.Ignored = append(m.row.Ignored, name)
	}
}

// protect is a setter of protection that is not kept: the link must not redirect without it. The loss has the name.
func protect(name string, reason LossReason) setter {
	return func(m *mapper, v value) {
		if isEmpty(v.is) {
			return
		}
		m.row.Deleted = true
		m.lose(value{name, v.is}, reason)
	}
}

// fail fails the row because of a field at the source.
func (m *mapper) fail(field string, err *errs.Error) {
	if m.row.Err == nil {
		if field != "" {
			err = err.At(field)
		}
		m.row.Err = err
	}
}

// skip leaves out an item that is no link, because of a property.
func (m *mapper) skip(v value) {
	m.row.Skipped, m.row.Losses = true, nil
	m.lose(v, Unsupported)
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

// instant returns a time: RFC 3339, with an offset as in +0000, a date, or Unix seconds or milliseconds. Otherwise it is a
// loss.
func (m *mapper) instant(v value, layouts ...string) *time.Time {
	if v.is == json.Number("0") {
		return nil
	}
	if t, ok := instant(v.is, layouts...); ok {
		return &t
	}
	if !isEmpty(v.is) {
		m.lose(v, Invalid)
	}
	return nil
}

func instant(is any, layouts ...string) (t time.Time, ok bool) {
	const milliseconds = 1e11 // from here on; as seconds it would be the year 5138
	const mostMilliseconds = 253402300799999
	if n, isNumber := integer(is); isNumber {
		if n < 0 || n > mostMilliseconds {
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

// The setters of the fields of links.

func setID(m *mapper, v value) {
	switch is := v.is.(type) {
	case string:
		m.row.SourceID = is
	case json.Number:
		m.row.SourceID = is.String()
	default:
		m.fail(v.name, errs.New(errs.InvalidInput, "The id must be text."))
	}
}

func setURL(m *mapper, v value) {
	m.row.URL, _ = v.is.(string)
	m.urlField = v.name
}

// checkURL fails a row whose destination is not a URL that createLink accepts.
func (m *mapper) checkURL() {
	_, err := urlnorm.Canonical(m.row.URL)
	if refused, ok := errors.AsType[*urlnorm.Error](err); ok {
		m.fail(m.urlField, errs.New(errs.InvalidURL, "%s", refused.Reason).Because(err))
	}
}

func setCode(m *mapper, v value) {
	code, ok := v.is.(string)
	if !ok {
		m.fail(v.name, errs.New(errs.InvalidInput, "The code must be text."))
		return
	}
	m.row.Code = code
}

// setHost sets the host, unless it is known.
func setHost(m *mapper, v value) {
	text, _ := v.is.(string)
	host, ok := hostOf(text)
	if !ok {
		m.lose(v, Invalid)
	} else if m.row.Host == "" {
		m.row.Host = host
	}
}

// setShortURL sets the short URL, and its host unless it is known.
func setShortURL(m *mapper, v value) {
	text, _ := v.is.(string)
	host, _, ok := cutShortURL(text)
	if !ok {
		return
	}
	m.row.SourceURL = withScheme(text)
	m.row.Host = cmp.Or(m.row.Host, host)
}

// setAddress sets the host and the code of a short URL, unless they are known.
func setAddress(m *mapper, v value) {
	text, _ := v.is.(string)
	host, code, ok := cutShortURL(text)
	switch {
	case ok && code != "":
	case m.row.Code == "":
		m.fail(v.name, errs.New(errs.InvalidInput, "The short URL must have a host and a code."))
		return
	default:
		m.lose(v, Invalid)
		return
	}
	m.row.SourceURL = withScheme(text)
	m.row.Host, m.row.Code = cmp.Or(m.row.Host, host), cmp.Or(m.row.Code, code)
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

func setTitle(m *mapper, v value) { m.row.Title = m.line(v, maxTitle) }

func setNote(m *mapper, v value) { m.row.Note = m.lines(v, maxNote) }

func setFolder(m *mapper, v value) { m.row.Folder = m.line(v, maxFolder) }

// setTags sets tags from a list, or from text that separates them by vertical bars, else by commas.
func setTags(m *mapper, v value) {
	var tags []string
	switch is := v.is.(type) {
	case string:
		separator := ","
		if strings.Contains(is, "|") {
			separator = "|"
		}
		tags = strings.Split(is, separator)
	case []any:
		for _, tag := range is {
			text, ok := tag.(string)
			if !ok {
				m.lose(v, Invalid)
			}
			tags = append(tags, text)
		}
	default:
		lose(Invalid)(m, v)
	}
	m.addTags(v, tags)
}

// setTagNames sets tags from the names of objects.
func setTagNames(m *mapper, v value) {
	list, ok := v.is.([]any)
	if !ok {
		lose(Invalid)(m, v)
	}
	var tags []string
	for _, tag := range list {
		properties, _ := tag.(map[string]any)
		name, ok := properties["name"].(string)
		if !ok {
			m.lose(v, Invalid)
		}
		tags = append(tags, name)
	}
	m.addTags(v, tags)
}

func (m *mapper) addTags(v value, tags []string) {
	for _, tag := range tags {
		line := m.line(value{v.name, tag}, maxTag)
		if line == nil || slices.Contains(m.row.Tags, *line) {
			continue
		}
		if len(m.row.Tags) == maxTags {
			m.lose(v, Truncated)
			return
		}
		m.row.Tags = append(m.row.Tags, *line)
	}
}

func setExternalID(m *mapper, v value) {
	text, ok := m.text(v)
	if !ok {
		return
	}
	id, err := linkfield.CheckExternalID(text)
	if err != nil {
		m.lose(v, Invalid)
		return
	}
	m.row.ExternalID = &id
}

// setMetadata sets the pair with the name of the property.
func setMetadata(m *mapper, v value) {
	text, ok := m.text(v)
	if !ok {
		return
	}
	pair, err := linkfield.CheckPair(&linkfield.Pair{Key: v.name, Value: text})
	if err != nil {
		m.lose(v, Invalid)
		return
	}
	m.row.Metadata = append(m.row.Metadata, pair)
}

func setStart(m *mapper, v value) { m.row.StartsAt = m.instant(v) }

func setEnd(m *mapper, v value) { m.row.ExpiresAt = m.instant(v) }

// setLimit sets the limit of clicks, from which finish subtracts those that the source has counted. A limit that is no
// number cannot be kept.
func setLimit(m *mapper, v value) {
	if v.is == false {
		return
	}
	n, ok := integer(v.is)
	if !ok {
		m.lose(v, Invalid)
		m.row.Deleted = true
		return
	}
	m.limit, m.limitField = &n, v
}

func setStatus(m *mapper, v value) {
	status, _ := integer(v.is)
	switch status {
	case 301, 302, 307, 308:
		m.row.RedirectStatus = new(int(status))
	default:
		lose(Invalid)(m, v)
	}
}

func setArchived(m *mapper, v value) { m.row.Archived = m.flag(v) }

func setStatsPublic(m *mapper, v value) { m.row.StatsPublic = m.flag(v) }

func setCreated(m *mapper, v value) { m.row.Origin.CreatedAt = m.instant(v) }

func setLastClicked(m *mapper, v value) { m.row.Origin.LastClickedAt = m.instant(v) }

func setClicks(m *mapper, v value) {
	n, ok := integer(v.is)
	if !ok || n < 0 {
		m.lose(v, Invalid)
		return
	}
	m.row.Origin.Clicks = &n
}

// finish completes what does not depend on the source.
func (m *mapper) finish() {
	if m.row.RedirectStatus == nil {
		m.row.RedirectStatus = optional.Of(m.format.status)
	}
	m.finishLimit()
	m.finishRouting()
	m.checkURL()
}

// finishLimit sets the number of remaining clicks. In files of one's own it is the limit as written.
func (m *mapper) finishLimit() {
	if m.limit == nil {
		return
	}
	remaining := *m.limit
	if !m.format.isOwn {
		if m.row.Origin.Clicks == nil {
			m.lose(m.limitField, Approximated)
		}
		remaining -= min(optional.Value(m.row.Origin.Clicks), max(remaining, 0))
	}
	if remaining <= 0 {
		m.lose(m.limitField, Approximated)
		m.row.Deleted = true
		return
	}
	m.row.MaxClicks = &remaining
}

// identify sets the id and the short URL of a row that has none, and leaves nothing else in one that fails.
func (m *mapper) identify(row *Row) {
	row.FoldsCase = row.FoldsCase || m.foldsCase[row.Host]
	if row.SourceURL == "" && row.Host != "" && row.Code != "" {
		row.SourceURL = (&url.URL{Scheme: "https", Host: row.Host, Path: "/" + row.Code}).String()
	}
	switch {
	case row.SourceID != "":
	case row.Code != "":
		row.SourceID = row.Host + "/" + row.Code
	case row.URL != "":
		sum := sha256.Sum256([]byte(row.URL))
		row.SourceID = "url:" + hex.EncodeToString(sum[:16])
	default:
		row.SourceID = m.lineID()
	}
	if len(row.SourceID) > maxSourceID || strings.ContainsFunc(row.SourceID, unicode.IsControl) {
		row.SourceID, row.SourceURL, row.Code, row.Skipped = m.lineID(), "", "", false
		row.Err = errs.New(errs.InvalidInput, "The id and the code of a link must be text of at most %d bytes.", maxSourceID)
	}
	if row.Err == nil && !row.Skipped {
		return
	}
	kept := Row{Line: row.Line, SourceID: row.SourceID, SourceURL: row.SourceURL, Host: row.Host, Code: row.Code,
		FoldsCase: row.FoldsCase, Ignored: row.Ignored, Skipped: row.Skipped}
	if row.Skipped {
		kept.Losses = row.Losses
	} else {
		kept.Err = row.Err
	}
	*row = kept
}

func (m *mapper) lineID() string { return "line:" + strconv.FormatInt(m.row.Line, 10) }
