package importsource

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/linkforge/linkforge/internal/link/linkfield"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/optional"
	"github.com/linkforge/linkforge/internal/platform/urlnorm"
	"github.com/linkforge/linkforge/internal/route/routing"
)

// The maximum lengths of texts, in characters, and the maximum number of tags. Package linkfield
// refuses longer ones.
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

// property is a field at the source and what becomes of it. It is mapped if its value is not null
// and not a text of blanks.
type property struct {
	// names are alternatives: the first with a value is mapped, the others are unknown.
	names []string
	set   setter
	isURL bool
	// isCode means that a text such as null is one.
	isCode bool
	// about is the subject of a usual property.
	about subject
	// describes are the fields of links that are from the property.
	describes []string
}

// as notes which fields of links a property describes.
func (p property) as(fields ...string) property {
	p.describes = fields
	return p
}

// setter maps a value, whose name is that at the source.
type setter func(m *mapper, v value)

// to maps a property by a setter.
func to(set setter, names ...string) property { return property{names: names, set: set} }

// urlOf maps the destination.
func urlOf(names ...string) property { return property{names: names, set: setURL, isURL: true} }

// codeOf maps the code.
func codeOf(names ...string) property { return property{names: names, set: setCode, isCode: true} }

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
	// limit is the source's limit of clicks, including the Origin.Clicks that it has counted, and
	// remaining the limit without them.
	limit, remaining *int64
	limitField       value
	// limitNoted and endNoted say that there is a limit or an end.
	limitNoted, endNoted []value
	// hasUnreadClicks is whether the source has counted clicks in a form that cannot be read.
	hasUnreadClicks bool
	urlField        string
}

// neither is what the links of a source are that does not say so.
var neither = linkfield.Change{Archived: optional.Set(false), StatsPublic: optional.Set(false)}

func newMapper(r *reader, f *format, item object) *mapper {
	return &mapper{reader: r, format: f, item: item, row: &Row{Line: r.line, Change: neither}, urlField: "url"}
}

// rows maps all properties of the item.
func (m *mapper) rows() []*Row {
	m.apply(m.format.properties, m.format.known, m.item, "")
	m.cutSlash()
	m.describe()
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
			case !ok || isAbsent(v.is) || m.format.isTable && !p.isCode && bareText(v.is) == "null":
			case isMapped || m.format.isOwn && isObject(v.is) && m.hasUsual(v):
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

// describe lists the fields that the source describes. A user's own file describes the fields of
// the item. Other formats describe all of their fields, also a redirect status that all links
// share.
func (m *mapper) describe() {
	if m.format.status != 0 {
		m.row.Describes = append(m.row.Describes, "redirectStatus")
	}
	for _, p := range m.format.properties {
		isIn := func(name string) bool { _, ok := m.item[name]; return ok }
		if !m.format.isOwn || slices.ContainsFunc(p.names, isIn) {
			m.row.Describes = append(m.row.Describes, p.describes...)
		}
	}
}

// cutSlash removes a slash at the end of the code, which redirects ignore.
func (m *mapper) cutSlash() {
	code, hasSlash := strings.CutSuffix(m.row.Code, "/")
	if m.row.Code = bare(code); hasSlash && m.row.Code == "" {
		m.fail("code", errs.New(errs.InvalidInput, "The code must not be a slash alone: that is the root of the host."))
	}
}

// unknown maps a property that the table lacks, if its name is usual, and the usual properties in an
// object. Others are reported.
func (m *mapper) unknown(v value, prefix string) { m.mapAs(m.usual(v.name), v, prefix) }

// mapAs maps a property as a usual one; nil means none.
func (m *mapper) mapAs(p *property, v value, prefix string) {
	if p != nil {
		m.row.Describes = append(m.row.Describes, p.describes...)
	}
	switch {
	case m.hasUsual(v) && (p == nil || !isSecret(v.name)):
		m.within(v, prefix)
	case p == nil:
		m.lost(v, prefix)
	case isAbsent(v.is):
	case isProse(v):
		m.lose(value{prefix + v.name, v.is}, Unsupported)
	default:
		p.set(m, value{prefix + v.name, v.is})
	}
}

// lost reports a property that nothing here corresponds to. Columns are only ignored, unless their
// names are about an end, a block or a gate.
func (m *mapper) lost(v value, prefix string) {
	if m.format.isTable && !m.named(v.name).protects {
		m.ignore(v)
		return
	}
	v.name = prefix + v.name
	lose(Unsupported)(m, v)
}

// named is what the words of a name say: a usual property, that it protects, or what an object or a
// list of the name is about.
type named struct {
	usual                      *property
	protects, isOfLink, isList bool
	isCounted, isOther         bool
}

// named reads a name. It remembers those of a file.
func (m *mapper) named(name string) named {
	const most = 1000
	n, isKnown := m.known[name]
	if isKnown {
		return n
	}
	split := wordsIn(name)
	hasOf := func(words map[string]bool) bool {
		return slices.ContainsFunc(split, func(word string) bool { return words[word] })
	}
	n = named{usual: usualOf(name), protects: protects(name), isOfLink: hasOf(containers), isList: hasOf(lists),
		isCounted: hasOf(counted), isOther: hasOf(others)}
	if m.known == nil {
		m.known = map[string]named{}
	}
	if len(m.known) < most {
		m.known[strings.Clone(name)] = n
	}
	return n
}

func (m *mapper) usual(name string) *property { return m.named(name).usual }

// containers are names of objects and lists that are about the link itself.
var containers = words("flags flag options option settings setting limits restrictions restriction rules attributes " +
	"properties meta metadata config conditions states statuses status state access security protection link url " +
	"shortlink shorturl data item record fields details info general visibility availability publication")

// lists are those whose texts, and objects in a list, are about the link itself.
var lists = words("flags flag options settings limits restrictions rules attributes status states statuses " +
	"conditions " +
	"security")

// counted are words for objects of counts; the rest of such an object has nothing to do with the link.
var counted = words("stats stat statistics analytics metrics counters tracking")

// others are words for objects about someone or something else than the link.
var others = words("user users owner creator author editor workspace team account organization organisation org " +
	"domain campaign folder group project og utm client tag tags category parent webhook pixel pixels qr qrcode " +
	"notification " +
	"notifications preview retargeting cloaking seo bot bots cookie cookies consent banner button")

// maxWithin is how many objects within each other have usual properties.
const maxWithin = 8

func isObject(is any) bool {
	_, ok := is.(map[string]any)
	return ok
}

// members returns the properties within a value: those of an object, also as JSON text, and the words
// of a list in a container, which are true. An object about something else than the link has none.
func (m *mapper) members(v value) map[string]any {
	name := m.named(v.name)
	switch is := parsed(v.is).(type) {
	case map[string]any:
		if !name.isOther {
			return is
		}
	case []any:
		if name.isList {
			return membersOf(is)
		}
	case string:
		if name.isList && name.usual == nil {
			texts := strings.FieldsFunc(is, func(r rune) bool { return strings.ContainsRune(",;|", r) })
			return membersOf(texts)
		}
	}
	return nil
}

// usualIn returns the usual property of a name in an object, where it may mean something together
// with that of the object, as "date" in "expiration". Whether something is enabled is about the
// object, unless that is one of the link; and all but counts in one of counts.
func (m *mapper) usualIn(outer, name string) *property {
	p := m.usual(name)
	if p == nil && !strings.HasPrefix(name, "$") {
		p = m.usual(outer + " " + name)
	}
	object := m.named(outer)
	switch {
	case p == nil || object.isCounted && p.about != aboutCounts && !isSecret(name),
		!object.isOfLink && p.about == aboutEnabled:
		return nil
	}
	return p
}

// membersOf returns the properties of a list of texts and objects. A text is a pair, as in pin=1234,
// or the name of something that is true.
func membersOf[T any](list []T) map[string]any {
	all := map[string]any{}
	for _, one := range list {
		switch is := any(one).(type) {
		case string:
			if at := strings.IndexAny(is, "=:"); at >= 0 {
				all[bare(is[:at])] = bare(is[at+1:])
			} else {
				all[bare(is)] = true
			}
		case map[string]any:
			maps.Copy(all, is)
		}
	}
	return all
}

// parsed returns what JSON text of an object or a list means, and other values as they are.
func parsed(is any) any {
	text := bareText(is)
	if !strings.HasPrefix(text, "{") && !strings.HasPrefix(text, "[") {
		return is
	}
	var inner any
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	if decoder.Decode(&inner) != nil {
		return is
	}
	return inner
}

// hasUsual reports whether there is a usual property within a value.
func (m *mapper) hasUsual(v value) bool {
	for name, is := range m.members(v) {
		if m.usualIn(v.name, name) != nil || m.hasUsual(value{name, is}) {
			return true
		}
	}
	return false
}

// within maps the properties within a value.
func (m *mapper) within(v value, prefix string) {
	if strings.Count(prefix, ".") >= maxWithin {
		m.row.Deleted = true
		m.lose(value{prefix + v.name, v.is}, Unsupported)
		return
	}
	members := newObject(m.members(v), true)
	for _, name := range slices.Sorted(maps.Keys(members)) {
		one := members[name]
		m.mapAs(m.usualIn(v.name, one.name), one, prefix+v.name+".")
	}
}

// secretDepth bounds the search for secrets. Reports show no value with deeper objects.
const secretDepth = 20

// hasSecret reports whether a value has a secret within.
func hasSecret(is any) bool { return hasSecretAt(is, 0) }

func hasSecretAt(is any, depth int) bool {
	switch is := parsed(is).(type) {
	case map[string]any:
		for name, inner := range is {
			text, _ := inner.(string)
			isName := len(is) > 1 && nameKeys[strings.ToLower(name)] && isSecret(text)
			if depth == secretDepth || isName || isSecret(name) || hasSecretAt(inner, depth+1) {
				return true
			}
		}
	case string:
		return secretPair.MatchString(is)
	case []any:
		return depth == secretDepth || slices.ContainsFunc(is, func(one any) bool { return hasSecretAt(one, depth+1) })
	}
	return false
}

// secretPair is a secret with its name in a text.
var secretPair = regexp.MustCompile(`(?i)(?:passw|pwd|secret|passphrase|passcode|token|\bpin\b|\bpw\b)[\w"' ]*[:=]`)

// nameKeys are where a list of pairs has its names.
var nameKeys = words("name key field type id property")

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

// secret stands for a value that no report shows.
type secret struct{}

// lose reports a loss, once for a field and reason. The value of a secret is not part of it.
func (m *mapper) lose(v value, reason LossReason) { m.report(v, Loss{Reason: reason}) }

// unread reports a value that cannot be read, and the form of one that can.
func (m *mapper) unread(v value, form string) { m.report(v, Loss{Reason: Invalid, Form: form}) }

// closeUnread reports it too, and closes the link that the value protects or ends.
func (m *mapper) closeUnread(v value, form string) {
	m.row.Deleted = true
	m.unread(v, form)
}

func (m *mapper) report(v value, loss Loss) {
	loss.Field = label(v.name)
	isSame := func(l Loss) bool { return l.Field == loss.Field && l.Reason == loss.Reason }
	if len(m.row.Losses) == maxReports || slices.ContainsFunc(m.row.Losses, isSame) {
		return
	}
	if _, is := v.is.(secret); !is && !isSecret(v.name) && !hasSecret(v.is) {
		loss.Value = describe(v.is)
	}
	m.row.Losses = append(m.row.Losses, loss)
}

// lose is a setter of properties that cannot be kept.
func lose(reason LossReason) setter {
	return func(m *mapper, v value) {
		if !isEmpty(v.is) && !(m.format.isTable && isUnset(v.is)) {
			m.lose(v, reason)
		}
	}
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

// protect is a setter of protection that is not kept: the link must not redirect without it. The
// loss has the name.
func protect(name string, reason LossReason) setter {
	return func(m *mapper, v value) {
		if isUnset(v.is) {
			return
		}
		m.row.Deleted = true
		m.lose(value{name, v.is}, reason)
	}
}

// fail fails the row because of a field at the source, and of those that failed it before.
func (m *mapper) fail(field string, err *errs.Error) {
	if field != "" {
		err = err.At(field)
	}
	if m.row.Err != nil {
		err = errs.From(errs.All(m.row.Err, err))
	}
	m.row.Err = err
}

// skip leaves out an item that is no link, because of a property.
func (m *mapper) skip(v value) {
	m.row.Skipped, m.row.Losses = true, nil
	m.lose(v, Unsupported)
}

// finish completes what does not depend on the source.
func (m *mapper) finish() {
	if !m.row.RedirectStatus.Set && m.format.status != 0 {
		m.row.RedirectStatus = optional.Set(m.format.status)
	}
	m.finishNoted()
	m.finishLimit()
	m.finishRouting()
	m.checkURL()
}

// finishNoted closes a link that has a limit or an end which no property says.
func (m *mapper) finishNoted() {
	if len(m.endNoted) > 0 && m.row.ExpiresAt.To == nil {
		m.closeUnread(m.endNoted[0], timeForm)
	}
	if len(m.limitNoted) > 0 && m.limit == nil && m.remaining == nil {
		m.closeUnread(m.limitNoted[0], numberForm)
	}
}

// finishLimit sets the number of remaining clicks. Without a total it is the whole limit, which is
// a loss of sources that count clicks. A total that cannot be read closes the link.
func (m *mapper) finishLimit() {
	if m.limit != nil {
		left := *m.limit
		switch clicks := m.row.Origin.Clicks; {
		case clicks != nil:
			left -= min(*clicks, max(left, 0))
		case !m.format.isOwn:
			m.lose(m.limitField, Approximated)
		}
		m.row.Limit = m.limit
		m.remaining = new(min(left, optional.Or(m.remaining, left)))
		m.row.Deleted = m.row.Deleted || m.hasUnreadClicks
	}
	switch {
	case m.remaining == nil:
	case *m.remaining <= 0:
		m.lose(m.limitField, Approximated)
		m.row.Deleted = true
	default:
		m.row.Limit = cmp.Or(m.row.Limit, m.remaining)
		m.row.MaxClicks = optional.Set(m.remaining)
	}
}

// identify sets the id and the short URL of a row that has none, and leaves nothing else in one
// that fails.
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
		row.Err = errs.New(errs.InvalidInput, "The id and the code of a link must be text of at most %d bytes.",
			maxSourceID)
	}
	if len(row.SourceURL) > urlnorm.MaxBytes || strings.ContainsFunc(row.SourceURL, unicode.IsControl) {
		row.SourceURL = ""
		m.lose(value{name: "shortUrl"}, Invalid)
	}
	if row.Err == nil && !row.Skipped {
		row.Record = m.record
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
