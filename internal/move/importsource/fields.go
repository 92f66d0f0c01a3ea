package importsource

import (
	"cmp"
	"encoding/json"
	"errors"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/linkforge/linkforge/internal/link/linkfield"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/optional"
	"github.com/linkforge/linkforge/internal/platform/urlnorm"
)

func setID(m *mapper, v value) {
	switch is := v.is.(type) {
	case string:
		m.row.SourceID = bare(is)
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
	m.row.Code = bare(code)
}

// setHost sets the host, unless it is known. It may be written as a URL.
func setHost(m *mapper, v value) {
	text, _ := v.is.(string)
	host, code, ok := cutShortURL(text)
	if !ok || code != "" {
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
	case text != "" && !strings.ContainsAny(text, "/.:"): // Polr names its codes so
		m.row.Code = cmp.Or(m.row.Code, bare(text))
		return
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

// withFields adds the fields of links that a table does not describe, with the names of the API, folded
// or not, and in its form. The table has the fields apart by other means.
func withFields(table []property, apart ...string) []property {
	for _, p := range table {
		apart = append(apart, p.describes...)
	}
	for _, f := range linkfield.Fields {
		if !slices.Contains(apart, f.Name) {
			names := slices.Compact([]string{f.Name, strings.ToLower(f.Name)})
			table = append(table, to(setField(f), names...).as(f.Name))
		}
	}
	return table
}

// setField returns the setter of a field in the form of the API. A value that it refuses is lost.
func setField(f linkfield.Field) setter {
	return func(m *mapper, v value) {
		before, checked := m.row.Change, linkfield.Values{}
		err := f.Decode(&m.row.Change, func(to any) error { return decodeTo(v.is, to) })
		if err == nil {
			err = f.Set(&checked, &m.row.Change)
		}
		if f.Normalize(&m.row.Change, &checked); err != nil {
			m.row.Change = before
			m.lose(v, Invalid)
		}
	}
}

func setTitle(m *mapper, v value) { m.row.Title = optional.Set(m.line(v, maxTitle)) }

func setNote(m *mapper, v value) { m.row.Note = optional.Set(m.lines(v, maxNote)) }

func setFolder(m *mapper, v value) { m.row.Folder = m.line(v, maxFolder) }

// setTags sets tags from a list of texts or of objects with names, or from text.
func setTags(m *mapper, v value) {
	switch is := v.is.(type) {
	case string:
		m.addTags(v, splitTags(is))
	case []any:
		tags, ok := namesIn(is)
		if !ok {
			m.lose(v, Invalid)
		}
		m.addTags(v, tags)
	default:
		lose(Invalid)(m, v)
	}
}

// namesIn returns texts, and the names of objects, also those in lists within. ok is false if there are others.
func namesIn(list []any) (names []string, ok bool) {
	ok = true
	for _, one := range list {
		if one == nil {
			continue
		}
		if inner, isList := one.([]any); isList {
			in, areTexts := namesIn(inner)
			names, ok = append(names, in...), ok && areTexts
			continue
		}
		if properties, isObject := one.(map[string]any); isObject {
			one = properties["name"]
		}
		name, isText := one.(string)
		names, ok = append(names, name), ok && isText
	}
	return names, ok
}

// splitTags returns the tags of a text: those of a JSON array, or of an array as PostgreSQL or
// Python write it; else what vertical bars separate, else semicolons, else commas.
func splitTags(text string) []string {
	text = bare(text)
	for _, array := range []string{text, strings.ReplaceAll(text, `\"`, `"`)} {
		var list []any
		if json.Unmarshal([]byte(array), &list) == nil {
			if names, ok := namesIn(list); ok {
				return names
			}
		}
	}
	if tags, ok := splitArray(text); ok {
		return tags
	}
	for _, separator := range []string{"|", ";"} {
		if strings.Contains(text, separator) {
			return strings.Split(text, separator)
		}
	}
	return strings.Split(text, ",")
}

// arrayElement is an element of an array with the comma after it. Its text is in one of the groups.
var arrayElement = regexp.MustCompile(
	`^\s*(?:u?"((?:[^"\\]|\\.)*)"|u?'((?:[^'\\]|\\.)*)'|([^"',{}\[\]]*?))\s*(?:,|$)`)

// splitArray returns the elements of {a,"b c"}, {{a},{b}}, ['a', u'b'] or "a","b". ok is false for
// other text, and for a word in brackets.
func splitArray(text string) (elements []string, ok bool) {
	if strings.HasPrefix(text, `"`) && strings.HasSuffix(text, `"`) {
		text = "{" + text + "}"
	}
	if strings.HasPrefix(text, "{{") && strings.HasSuffix(text, "}}") {
		text = betweenArrays.ReplaceAllString(text[1:len(text)-1], ",")
	}
	isList := strings.HasPrefix(text, "[") && strings.HasSuffix(text, "]") && strings.ContainsAny(text, `"',`)
	if !isList && !(strings.HasPrefix(text, "{") && strings.HasSuffix(text, "}")) {
		return nil, false
	}
	for rest := bare(text[1 : len(text)-1]); rest != ""; {
		at := arrayElement.FindStringSubmatch(rest)
		if at == nil {
			return nil, false
		}
		if at[3] != "NULL" {
			elements = append(elements, escapedByte.ReplaceAllString(at[1]+at[2], "$1")+at[3])
		}
		rest = rest[len(at[0]):]
	}
	return elements, true
}

// betweenArrays separates the arrays within another one.
var betweenArrays = regexp.MustCompile(`\}\s*,\s*\{`)

var escapedByte = regexp.MustCompile(`\\(.)`)

func (m *mapper) addTags(v value, tags []string) {
	for _, tag := range tags {
		line := m.line(value{v.name, tag}, maxTag)
		if line == nil || slices.Contains(m.row.Tags.To, *line) {
			continue
		}
		if len(m.row.Tags.To) == maxTags {
			m.lose(v, Truncated)
			return
		}
		m.row.Tags = optional.Set(append(m.row.Tags.To, *line))
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
	m.row.ExternalID = optional.Set(&id)
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
	m.row.Metadata = optional.Set(append(m.row.Metadata.To, pair))
}

// setStart and setEnd set the narrowest period of all properties that describe it.
func setStart(m *mapper, v value) {
	if t := m.bound(v, isAlways); t != nil && (m.row.StartsAt.To == nil || t.After(*m.row.StartsAt.To)) {
		m.row.StartsAt = optional.Set(t)
	}
}

func setEnd(m *mapper, v value) {
	if yes, _ := truth(v.is); yes {
		setEnding(m, v)
		return
	}
	if t := m.bound(v, isUnlimited); t != nil && (m.row.ExpiresAt.To == nil || t.Before(*m.row.ExpiresAt.To)) {
		m.row.ExpiresAt = optional.Set(t)
	}
}

// setEnded sets the end, or that the link has ended.
func setEnded(m *mapper, v value) {
	if yes, _ := truth(v.is); yes {
		setBlocked(m, v)
		return
	}
	m.row.Describes = append(m.row.Describes, "expiresAt")
	setEnd(m, v)
}

// setLimit sets the limit of clicks, of which finish subtracts those that the source has counted.
func setLimit(m *mapper, v value) { m.limitTo(&m.limit, v) }

// setRemaining sets how many clicks remain.
func setRemaining(m *mapper, v value) { m.limitTo(&m.remaining, v) }

// setLimited and setEnding note that there is a limit or an end, in another property.
func setLimited(m *mapper, v value) {
	if !isUnset(v.is) {
		m.limitNoted = append(m.limitNoted, v)
	}
}

func setEnding(m *mapper, v value) {
	if !isUnset(v.is) {
		m.endNoted = append(m.endNoted, v)
	}
}

// limitTo sets the lowest of several limits.
func (m *mapper) limitTo(limit **int64, v value) {
	n, ok := number(v.is)
	yes, isTruth := truth(v.is)
	switch {
	case isLargest(v.is):
	case ok && (*limit == nil || n < **limit):
		*limit, m.limitField = &n, v
	case ok || isTruth && !yes || isNone(v.is) || isUnlimited(v.is):
	case isTruth:
		setLimited(m, v)
	default:
		m.closeUnread(v, numberForm)
	}
}

// isLargest reports whether a number is the largest of 63 or 64 bits, which stands for no limit.
func isLargest(is any) bool {
	n, err := strconv.ParseFloat(word(is), 64)
	return err == nil && n >= math.MaxInt64
}

// statusAt is a status of HTTP at the beginning of a text, as in 301 Moved Permanently.
var statusAt = regexp.MustCompile(`^([1-5]\d\d)\b`)

// setState closes a link in another state than an open one. Statuses of redirects are no states,
// and times neither.
func setState(reason LossReason) setter {
	return func(m *mapper, v value) {
		status, _ := integer(v.is)
		if at := statusAt.FindString(bareText(v.is)); at != "" {
			status, _ = integer(at)
		}
		yes, _ := truth(v.is)
		_, isTime := instant(v.is)
		switch state := word(v.is); {
		case status >= 300 && status <= 399:
			m.row.Describes = append(m.row.Describes, "redirectStatus")
			setStatus(m, value{v.name, json.Number(strconv.FormatInt(status, 10))})
		case yes || isTime || status >= 200 && status <= 299 || isNone(v.is) || defaultStates[state] || anywhere[state]:
		case said(v.is) == saysOpen:
		default:
			m.row.Deleted = true
			m.report(v, Loss{Reason: reason, Form: stateForm})
		}
	}
}

// setActive closes a link for which the value is not true. A time may be when it becomes so or
// until when it is.
func setActive(m *mapper, v value) {
	yes, isTruth := truth(v.is)
	switch {
	case yes || isNone(v.is) || said(v.is) == saysOpen:
	case isTruth || said(v.is) == saysClosed:
		m.row.Deleted = true
		m.lose(v, Unsupported)
	default:
		m.closeUnread(v, flagForm)
	}
}

// setSince does so, and a time is when the link begins to redirect.
func setSince(m *mapper, v value) {
	if _, isTime := instant(v.is); !isTime {
		setActive(m, v)
		return
	}
	m.row.Describes = append(m.row.Describes, "startsAt")
	setStart(m, v)
}

// setBlocked closes a link for any value that does not say no. A time to come is when it ends.
func setBlocked(m *mapper, v value) {
	at, isTime := instant(v.is)
	switch {
	case isUnset(v.is) || isZeroDate(v.is):
	case isTime && at.After(m.settings.Now):
		m.row.Describes = append(m.row.Describes, "expiresAt")
		setEnd(m, v)
	case isTime:
		m.row.Deleted = true
		m.lose(v, Unsupported)
	case said(v.is) == saysOpen || said(v.is) == saysNever:
	case isLowScore(v):
		m.lose(v, Unsupported)
	default:
		m.row.Deleted = true
		m.lose(v, Unsupported)
	}
}

// isLowScore reports whether a value is a probability of abuse below one half, or -1, which stands
// for none.
func isLowScore(v value) bool {
	score, err := strconv.ParseFloat(word(v.is), 64)
	isOfAbuse := slices.ContainsFunc(wordsIn(v.name), func(w string) bool { return abuses[w] })
	return isOfAbuse && err == nil && (score == -1 || score >= 0 && score < 0.5)
}

// setAudience closes a link that only some visitors may use.
func setAudience(m *mapper, v value) {
	list, isList := v.is.([]any)
	if !isList {
		list = []any{v.is}
	}
	if slices.ContainsFunc(list, func(one any) bool { return !anywhere[word(one)] }) {
		setBlocked(m, v)
	}
}

// setBlockedUntil closes a link that is blocked until a time to come.
func setBlockedUntil(m *mapper, v value) {
	if until, ok := instant(v.is); !ok {
		setBlocked(m, v)
	} else if until.After(m.settings.Now) {
		m.row.Deleted = true
		m.lose(v, Unsupported)
	}
}

// protectSecret closes a link that has a secret, which no report shows.
func protectSecret(m *mapper, v value) {
	if !areUnset(v.is) {
		m.row.Deleted = true
		m.lose(value{v.name, secret{}}, Unsupported)
	}
}

// areUnset reports whether a value, or each one in an object, means none.
func areUnset(is any) bool {
	object, isObject := is.(map[string]any)
	if !isObject {
		return isUnset(is)
	}
	for _, one := range object {
		if !areUnset(one) {
			return false
		}
	}
	return true
}

func setStatus(m *mapper, v value) {
	status, _ := integer(v.is)
	switch status {
	case 301, 302, 307, 308:
		m.row.RedirectStatus = optional.Set(int(status))
	default:
		if !isEmpty(v.is) {
			m.unread(v, statusForm)
		}
	}
}

// setArchived sets whether the link is archived, or since when it is.
func setArchived(m *mapper, v value) {
	_, isTime := instant(v.is)
	m.row.Archived = optional.Set(isTime || !isZeroDate(v.is) && m.flag(v) || m.row.Archived.To)
}

func setStatsPublic(m *mapper, v value) { m.row.StatsPublic = optional.Set(m.flag(v)) }

func setCreated(m *mapper, v value) { m.row.Origin.CreatedAt = m.instant(v) }

func setLastClicked(m *mapper, v value) { m.row.Origin.LastClickedAt = m.instant(v) }

// setClicks sets the highest of several counts.
func setClicks(m *mapper, v value) {
	n, ok := number(v.is)
	switch {
	case ok && n >= 0:
		m.row.Origin.Clicks = new(max(n, optional.Or(m.row.Origin.Clicks, 0)))
	case !isNone(v.is):
		m.hasUnreadClicks = true
		m.unread(v, numberForm)
	}
}
