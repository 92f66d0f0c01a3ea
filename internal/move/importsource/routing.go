package importsource

import (
	"maps"
	"slices"
	"strings"

	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/optional"
	"github.com/linkforge/linkforge/internal/route/check"
	"github.com/linkforge/linkforge/internal/route/routing"
)

// maxRules is the number of rules of a link.
const maxRules = 50

// fieldRule is a rule with the property that it comes from.
type fieldRule struct {
	*routing.Rule
	from value
}

// accepts reports whether a part of the routing is valid. Otherwise the property is a loss.
func (m *mapper) accepts(v value, part *routing.Change) bool {
	if _, err := check.Apply(part, nil); err != nil {
		m.lose(v, Invalid)
		return false
	}
	return true
}

// addRule appends a rule if it is valid and there is room for it.
func (m *mapper) addRule(v value, rule *routing.Rule) (isKept bool) {
	if len(m.rules) == maxRules {
		m.lose(v, Truncated)
		return false
	}
	if isKept = m.accepts(v, &routing.Change{Rules: optional.Set([]*routing.Rule{rule})}); isKept {
		m.rules = append(m.rules, fieldRule{rule, v})
	}
	return isKept
}

// ruleTo returns a rule with a condition and one target.
func ruleTo(url string, when ...*routing.Condition) *routing.Rule {
	return &routing.Rule{When: when, Targets: []*routing.Target{{URL: &url}}}
}

// setSystem maps the URL for an operating system, named as in breakdowns.
func setSystem(os string) setter {
	return func(m *mapper, v value) {
		if url, ok := m.text(v); ok {
			m.addRule(v, ruleTo(url, &routing.Condition{OS: []string{os}}))
		}
	}
}

// setCountries maps an object of country and URL.
func setCountries(m *mapper, v value) {
	list, ok := v.is.(map[string]any)
	if !ok {
		lose(Invalid)(m, v)
		return
	}
	urls := make(map[string]string, len(list))
	for country, url := range list {
		if text, ok := m.text(value{v.name, url}); ok {
			urls[country] = text
		}
	}
	m.addCountries(v, urls)
}

// addCountries adds a rule for each URL, in the order of the countries. Those with the same URL
// share a rule.
func (m *mapper) addCountries(v value, urls map[string]string) {
	byURL := map[string]*routing.Rule{}
	for _, country := range slices.Sorted(maps.Keys(urls)) {
		url := urls[country]
		rule := ruleTo(url, &routing.Condition{Country: []string{strings.ToUpper(country)}})
		switch known := byURL[url]; {
		case len(country) != 2: // empty stands for unknown countries, in conditions
			m.lose(v, Invalid)
		case known == nil:
			if m.addRule(v, rule) {
				byURL[url] = rule
			}
		case m.accepts(v, &routing.Change{Rules: optional.Set([]*routing.Rule{rule})}):
			known.When[0].Country = append(known.When[0].Country, rule.When[0].Country...)
		}
	}
}

func setEndedURL(m *mapper, v value) {
	if url, ok := m.text(v); ok && m.accepts(v, &routing.Change{EndedURL: optional.Set(&url)}) {
		m.change.EndedURL.To = &url
	}
}

// setPassword maps a password in plain text. The link of any other is not reachable without it.
func setPassword(m *mapper, v value) {
	if isEmpty(v.is) {
		return
	}
	text, _ := v.is.(string)
	if !check.IsPassword(text) {
		m.lose(v, Invalid)
		m.row.Deleted = true
		return
	}
	m.gate().Password.To = &routing.Password{Text: text}
}

// setConfirm maps the page that warns visitors. Any other value than false counts, because it
// protects them.
func setConfirm(m *mapper, v value) {
	if !isUnset(v.is) {
		m.gate().Confirm.To = new(true)
	}
}

// gate returns the gate, which sets each of its fields.
func (m *mapper) gate() *routing.GateChange {
	if m.change.Gate.To == nil {
		m.change.Gate.To = &routing.GateChange{Password: optional.Set[*routing.Password](nil),
			Notice: optional.Set[*string](nil), Confirm: optional.Set[*bool](nil)}
	}
	return m.change.Gate.To
}

// setQuery forwards the query in a mode if the value is true.
func setQuery(mode routing.Mode) setter {
	return func(m *mapper, v value) {
		if m.flag(v) {
			m.change.Query.To = &routing.Forwarding{Mode: mode}
		}
	}
}

// setUTM maps one of the campaign parameters.
func setUTM(field func(*routing.UTM) **string) setter {
	return func(m *mapper, v value) {
		text, ok := m.text(v)
		if !ok {
			return
		}
		one := &routing.UTM{}
		*field(one) = &text
		if !m.accepts(v, &routing.Change{UTM: optional.Set(one)}) {
			return
		}
		if m.change.UTM.To == nil {
			m.change.UTM.To = &routing.UTM{}
		}
		*field(m.change.UTM.To) = &text
	}
}

// setCard sets the card from properties with these names. Without a title there is none, which is a
// loss.
func (m *mapper) setCard(title, description, image string) {
	card := &routing.Card{}
	if text := m.line(m.of(title), maxCardTitle); text != nil {
		card.Title = *text
	}
	if card.Title == "" {
		lose(Unsupported)(m, m.of(description))
		lose(Unsupported)(m, m.of(image))
		return
	}
	card.Description = m.line(m.of(description), maxCardDescription)
	if url, ok := m.text(m.of(image)); ok && url != "" {
		withImage := &routing.Card{Title: card.Title, ImageURL: &url}
		if m.accepts(m.of(image), &routing.Change{Card: optional.Set(withImage)}) {
			card.ImageURL = &url
		}
	}
	m.change.Card.To = card
}

// of returns the value of a property of the item; null if it has none.
func (m *mapper) of(name string) value {
	if v, ok := m.item[name]; ok {
		return v
	}
	return value{name: name}
}

// finishRouting sets each field of the routing, and leaves out the last rules if they are more than
// a link stores.
func (m *mapper) finishRouting() {
	c := &m.change
	c.Rules.Set, c.Query.Set, c.ForwardPath.Set, c.UTM.Set, c.PendingURL.Set, c.EndedURL.Set =
		true, true, true, true, true, true
	c.Card.Set, c.Gate.Set, c.Bots.Set, c.QRSources.Set, c.Tests.Set = true, true, true, true, true
	for {
		c.Rules.To = nil
		for _, rule := range m.rules {
			c.Rules.To = append(c.Rules.To, rule.Rule)
		}
		_, err := check.Apply(c, nil)
		if err == nil {
			break
		}
		if len(m.rules) == 0 {
			m.fail("", errs.New(errs.InvalidInput, "%s", errs.From(err).Message))
			break
		}
		last := len(m.rules) - 1
		m.lose(m.rules[last].from, Truncated)
		m.rules = m.rules[:last]
	}
	m.row.Routing = optional.Set(c)
}
