package importsource

import (
	"cmp"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/linkforge/linkforge/internal/link/linkfield"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/urlnorm"
)

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

// setLimit sets the limit of clicks. finish subtracts the clicks that the source has counted. A
// limit that is no number cannot be kept.
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
