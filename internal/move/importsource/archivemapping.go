package importsource

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/linkforge/linkforge/internal/link/linkfield"
	"github.com/linkforge/linkforge/internal/platform/optional"
	"github.com/linkforge/linkforge/internal/platform/urlnorm"
	"github.com/linkforge/linkforge/internal/route/routing"
)

// archive reads the links of an archive.
func (r *reader) archive(f *format) error {
	return walkArchive(r.file.in, func(_, section string, content io.Reader) error {
		if section != linksSection {
			return nil
		}
		r.file = newScanner(content)
		return r.lines(f)
	})
}

// archived is a link as exports write it.
var archived = format{
	properties: withFields(slices.Concat([]property{
		to(setID, "id"), to(func(m *mapper, v value) {
			text, _ := v.is.(string)
			if _, _, ok := cutShortURL(text); ok {
				m.row.SourceURL = withScheme(text)
			} else {
				m.lose(v, Invalid)
			}
		}, "shortUrl"),
		to(setCode, "code"), to(setHost, "domain"),
		urlOf("url"), to(setFolder, "folder").as("folderId"),
		to(setTitle, "title").as("title"), to(setNote, "note").as("note"), to(setTags, "tags").as("tags"),
		to(setStart, "startsAt").as("startsAt"), to(setEnd, "expiresAt").as("expiresAt"),
		to(setLimit, "maxClicks").as("maxClicks"),
		to(setPairs, "metadata").as("metadata"), to(setRouting, "routing").as("routing", Gate, Rules, OtherRouting),
		to(setPast, "origins"),
		to(setCreated, "createdAt"), to(setClicks, "clickCount"), to(setLastClicked, "lastClickedAt"),
		to(setDeleted, "deletedAt"), to(setDeleted, "disabledAt"),
	}, each(handled, "strategy", "updatedAt", "rootProof")), "url"),
}

func setDeleted(m *mapper, _ value) { m.row.Deleted = true }

// setPairs maps an object of keys and texts.
func setPairs(m *mapper, v value) {
	properties, ok := v.is.(map[string]any)
	if !ok {
		lose(Invalid)(m, v)
		return
	}
	for _, key := range slices.Sorted(maps.Keys(properties)) {
		setMetadata(m, value{key, properties[key]})
	}
	if _, err := linkfield.NewMetadata(m.row.Metadata.To); err != nil {
		m.row.Metadata.To = nil
		m.lose(v, Invalid)
	}
}

// setRouting maps each part of a routing.
var setRouting = nested(
	to(setArchivedRules, "rules"),
	to(part(func(c *routing.Change, to *routing.Forwarding) { c.Query = optional.Set(to) }), "query"),
	to(part(func(c *routing.Change, to *bool) { c.ForwardPath = optional.Set(to) }), "forwardPath"),
	to(part(func(c *routing.Change, to *routing.UTM) { c.UTM = optional.Set(to) }), "utm"),
	to(part(func(c *routing.Change, to *string) { c.PendingURL = optional.Set(to) }), "pendingUrl"),
	to(part(func(c *routing.Change, to *string) { c.EndedURL = optional.Set(to) }), "endedUrl"),
	to(part(func(c *routing.Change, to *routing.Card) { c.Card = optional.Set(to) }), "card"),
	to(setArchivedGate, "gate"),
	to(part(func(c *routing.Change, to *routing.BotPolicy) { c.Bots = optional.Set(to) }), "bots"),
	to(part(func(c *routing.Change, to []string) { c.QRSources = optional.Set(to) }), "qrSources"),
	to(part(func(c *routing.Change, to []*routing.Test) { c.Tests = optional.Set(to) }), "tests"),
)

// part returns a setter of a part of a routing, which is written as it is stored.
func part[T any](set func(c *routing.Change, to T)) setter {
	return func(m *mapper, v value) {
		v.name = "routing." + v.name
		to, ok := decode[T](v.is)
		one := &routing.Change{}
		set(one, to)
		if !ok {
			m.lose(v, Invalid)
		} else if m.accepts(v, one) {
			set(&m.change, to)
		}
	}
}

// decode returns a value of the item as a type that has all its properties.
func decode[T any](is any) (to T, ok bool) {
	return to, decodeTo(is, &to) == nil
}

func decodeTo(is, to any) error {
	text, err := json.Marshal(is)
	if err != nil {
		return err
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	return decoder.Decode(to)
}

// setArchivedRules maps rules. Those of the new link get ids of their own.
func setArchivedRules(m *mapper, v value) {
	v.name = "routing." + v.name
	list, _ := v.is.([]any)
	for _, one := range list {
		rule, ok := decode[*routing.Rule](one)
		if !ok || rule == nil || slices.Contains(rule.Targets, nil) {
			m.lose(v, Invalid)
			continue
		}
		rule.ID = ""
		for _, target := range rule.Targets {
			if target.ID = ""; target.MaxClicks != nil { // some may be used up
				m.lose(value{v.name + ".targets.maxClicks", *target.MaxClicks}, Approximated)
			}
		}
		m.addRule(v, rule)
	}
}

// setArchivedGate maps a gate without its password, which is not exported.
func setArchivedGate(m *mapper, v value) {
	gate, ok := decode[ArchivedGate](v.is)
	if !ok || gate.HasPassword {
		m.row.Deleted = true
		m.lose(value{name: "routing.gate.password"}, NotExported)
	}
	if gate.Confirm {
		m.gate().Confirm.To = new(true)
	}
	notice := value{"routing.gate.notice", gate.Notice}
	one := &routing.GateChange{Notice: optional.Set(gate.Notice)}
	if gate.Notice != nil && m.accepts(notice, &routing.Change{Gate: optional.Set(one)}) {
		m.gate().Notice.To = gate.Notice
	}
}

// setPast maps where the link had been imported from before.
func setPast(m *mapper, v value) {
	list, ok := v.is.([]any)
	if !ok {
		m.lose(v, Invalid)
	}
	for _, one := range list {
		is, _ := one.(map[string]any)
		text := func(name string) string {
			text, _ := is[name].(string)
			return text
		}
		p := Past{Source: Source(text("source")), Label: text("label"), SourceID: text("sourceId"),
			SourceURL: optional.Of(text("sourceUrl"))}
		p.CreatedAt, p.LastClickedAt = m.instantOr(v, is["createdAt"]), m.instantOr(v, is["lastClickedAt"])
		if n, ok := integer(is["clicks"]); ok && n >= 0 {
			p.Clicks = &n
		}
		importedAt := m.instantOr(v, is["importedAt"])
		_, _, isURL := cutShortURL(text("sourceUrl"))
		if !slices.Contains(everySource, p.Source) || importedAt == nil || utf8.RuneCountInString(p.Label) > maxName ||
			p.SourceID == "" ||
			len(p.SourceID) > maxSourceID || len(text("sourceUrl")) > urlnorm.MaxBytes ||
			p.SourceURL != nil && !isURL ||
			strings.ContainsFunc(p.Label+p.SourceID+text("sourceUrl"), unicode.IsControl) ||
			len(m.row.Past) == maxPast {
			m.lose(v, Invalid)
			continue
		}
		p.ImportedAt = *importedAt
		m.row.Past = append(m.row.Past, p)
	}
}

// maxPast is how many earlier origins of a link an archive has.
const maxPast = 20

// instantOr returns an instant within a value; nil for null.
func (m *mapper) instantOr(v value, is any) *time.Time {
	if is == nil {
		return nil
	}
	return m.instant(value{v.name, is})
}
