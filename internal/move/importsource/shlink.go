package importsource

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"

	"github.com/linkforge/linkforge/internal/route/routing"
)

// shlink is API v3, https://api-spec.shlink.io.
var shlink = format{
	list: []string{"shortUrls", "data"}, status: 302,
	properties: slices.Concat([]property{
		to(setCode, "shortCode"), to(setHost, "domain"), to(setShortURL, "shortUrl"),
		urlOf("longUrl"),
		to(setTitle, "title").as("title"), to(setTags, "tags").as("tags"),
		to(nested(to(setStart, "validSince"), to(setEnd, "validUntil"), to(setLimit, "maxVisits")), "meta").
			as("startsAt", "expiresAt", "maxClicks"),
		to(setQuery(routing.Replace), "forwardQuery"),
		to(nested(to(setClicks, "total"), to(ignore, "nonBots"), to(ignore, "bots")), "visitsSummary"),
		to(setCreated, "dateCreated"),
		to(setRedirectRules, "redirectRules").as(Rules),
	}, each(lose(Unsupported), "crawlable"), each(ignore, "hasRedirectRules")),
}

// setRedirectRules maps rules in the order of their priority. A rule with a condition without
// equivalent is dropped as a whole, because it would apply to more visitors without it.
func setRedirectRules(m *mapper, v value) {
	list, ok := v.is.([]any)
	if !ok {
		lose(Invalid)(m, v)
		return
	}
	type ranked struct {
		priority   int64
		properties map[string]any
	}
	var all []ranked
	for _, entry := range list {
		properties, _ := entry.(map[string]any)
		priority, _ := integer(properties["priority"])
		all = append(all, ranked{priority, properties})
	}
	slices.SortStableFunc(all, func(a, b ranked) int { return cmp.Compare(a.priority, b.priority) })
	for _, one := range all {
		url, hasURL := one.properties["longUrl"].(string)
		when, hasAll := redirectConditions(one.properties["conditions"])
		if !hasURL || !hasAll {
			m.lose(value{v.name, one.properties}, Unsupported)
			continue
		}
		isKept := m.addRule(v, ruleTo(url, when...))
		if isKept && slices.ContainsFunc(when, func(c *routing.Condition) bool { return c.Language != nil }) {
			// here only the most wanted counts
			m.lose(value{v.name + ".language", one.properties["conditions"]}, Approximated)
		}
	}
}

// redirectConditions returns the conditions of a rule; ok is false if one has no equivalent.
func redirectConditions(is any) (when []*routing.Condition, ok bool) {
	list, ok := is.([]any)
	if !ok {
		return nil, false
	}
	for _, entry := range list {
		properties, _ := entry.(map[string]any)
		kind, _ := properties["type"].(string)
		name, _ := properties["matchKey"].(string)
		text, _ := properties["matchValue"].(string)
		condition := conditions[kind]
		if condition == nil || text == "" && !strings.HasSuffix(kind, "query-param") {
			return nil, false
		}
		c := condition(name, text)
		if c == nil {
			return nil, false
		}
		when = append(when, c)
	}
	return when, true
}

// conditions returns the equivalent of a condition by its type; nil if it has none.
var conditions = map[string]func(name, text string) *routing.Condition{
	"device": func(_, text string) *routing.Condition {
		if text == "mobile" || text == "desktop" {
			return &routing.Condition{Device: []string{text}}
		}
		if os := systems[text]; os != "" {
			return &routing.Condition{OS: []string{os}}
		}
		return nil
	},
	"language": func(_, text string) *routing.Condition { return &routing.Condition{Language: []string{text}} },
	"query-param": func(name, text string) *routing.Condition {
		return &routing.Condition{Query: &routing.QueryCondition{Name: name, Value: &text}}
	},
	"any-value-query-param": func(name, _ string) *routing.Condition {
		return &routing.Condition{Query: &routing.QueryCondition{Name: name}}
	},
	"valueless-query-param": func(name, _ string) *routing.Condition {
		return &routing.Condition{Query: &routing.QueryCondition{Name: name, Value: new("")}}
	},
	"ip-address": func(_, text string) *routing.Condition {
		if network := networkOf(text); network != "" {
			return &routing.Condition{Network: []string{network}}
		}
		return nil
	},
	"geolocation-country-code": func(_, text string) *routing.Condition {
		return &routing.Condition{Country: []string{strings.ToUpper(text)}}
	},
	"before-date": func(_, text string) *routing.Condition {
		if at, ok := instant(text); ok {
			return &routing.Condition{During: &routing.Period{To: &at}}
		}
		return nil
	},
	"after-date": func(_, text string) *routing.Condition {
		if at, ok := instant(text); ok {
			return &routing.Condition{During: &routing.Period{From: &at}}
		}
		return nil
	},
	"browser": func(_, text string) *routing.Condition {
		if browser := browsers[text]; browser != "" {
			return &routing.Condition{Browser: []string{browser}}
		}
		return nil
	},
}

// systems and browsers are the names of breakdowns.
var (
	systems = map[string]string{"android": "Android", "ios": "iOS", "windows": "Windows", "macos": "macOS",
		"linux":    "Linux",
		"chromeos": "ChromeOS"}
	browsers = map[string]string{"chrome": "Chrome", "firefox": "Firefox", "safari": "Safari", "edge": "Edge",
		"opera": "Opera"}
)

// networkOf returns an address, a network in CIDR notation, or the network of an address that ends
// in octets *; else an empty text.
func networkOf(text string) string {
	if strings.Contains(text, "/") || !strings.Contains(text, "*") {
		return text // checked with the rule
	}
	octets := strings.Split(text, ".")
	fixed := slices.Index(octets, "*")
	if fixed < 0 {
		return ""
	}
	for i := fixed; i < len(octets); i++ {
		if octets[i] != "*" {
			return ""
		}
		octets[i] = "0"
	}
	address, err := netip.ParseAddr(strings.Join(octets, "."))
	if err != nil {
		return ""
	}
	prefix, err := address.Prefix(8 * fixed)
	if err != nil {
		return ""
	}
	return prefix.String()
}
