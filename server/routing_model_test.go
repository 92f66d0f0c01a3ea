package main

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
)

// modelVisit is a visit with what is known of it, without reading headers.
type modelVisit struct {
	agent, device, os, browser, language, referrer string
	query, address                                 string
	bot                                            bool
}

// modelAgents are user agents with what they stand for.
var modelAgents = []modelVisit{
	{agent: iPhone, device: "mobile", os: "iOS", browser: "Safari"},
	{agent: desktopChrome, device: "desktop", os: "Windows", browser: "Chrome"},
	{agent: "Mozilla/5.0 (X11; Linux x86_64; rv:127.0) Gecko/20100101 Firefox/127.0", device: "desktop", os: "Linux",
		browser: "Firefox"},
	{agent: "curl/8.10.1", bot: true},
}

// modelCondition is a condition with its meaning.
type modelCondition struct {
	input map[string]any
	holds func(v *modelVisit) bool
}

// anyCondition chooses a condition at random.
func anyCondition(random *rand.Rand) modelCondition {
	pick := func(values ...string) []string {
		random.Shuffle(len(values), func(i, j int) { values[i], values[j] = values[j], values[i] })
		return values[:1+random.IntN(len(values))]
	}
	list := func(field string, values []string, read func(v *modelVisit) string) modelCondition {
		return modelCondition{map[string]any{field: values}, func(v *modelVisit) bool {
			return slices.ContainsFunc(values, func(value string) bool { return strings.EqualFold(value, read(v)) })
		}}
	}
	switch random.IntN(8) {
	case 0:
		return list("device", pick("mobile", "desktop", ""), func(v *modelVisit) string { return v.device })
	case 1:
		return list("os", pick("ios", "Windows", "Linux"), func(v *modelVisit) string { return v.os })
	case 2:
		return list("browser", pick("Safari", "CHROME", ""), func(v *modelVisit) string { return v.browser })
	case 3:
		values := pick("de", "pt-BR", "")
		return modelCondition{map[string]any{"language": values}, func(v *modelVisit) bool {
			return slices.ContainsFunc(values, func(value string) bool {
				return strings.EqualFold(v.language, value) || value != "" && strings.HasPrefix(v.language, value+"-")
			})
		}}
	case 4:
		values := pick("news.example", ".example.org", "")
		return modelCondition{map[string]any{"referrer": values}, func(v *modelVisit) bool {
			return slices.ContainsFunc(values, func(value string) bool {
				return v.referrer == value || value != "" && value[0] == '.' && strings.HasSuffix("."+v.referrer, value)
			})
		}}
	case 5:
		return modelCondition{map[string]any{"query": map[string]any{"name": "a b", "value": "1"}},
			func(v *modelVisit) bool { return strings.Contains("&"+v.query+"&", "&a+b=1&") }}
	case 6:
		network := pick("192.0.2.0/25", "2001:db8::/33")[0]
		return modelCondition{map[string]any{"network": []string{network}}, func(v *modelVisit) bool {
			return netip.MustParsePrefix(network).Contains(netip.MustParseAddr(v.address))
		}}
	}
	return modelCondition{map[string]any{"bot": true}, func(v *modelVisit) bool { return v.bot }}
}

// modelRule is a rule whose location tells it.
type modelRule struct {
	when, unless []modelCondition
	location     string
	isDisabled   bool
}

func (r *modelRule) holds(v *modelVisit) bool {
	for _, c := range r.when {
		if !c.holds(v) {
			return false
		}
	}
	for _, c := range r.unless {
		if c.holds(v) {
			return false
		}
	}
	return !r.isDisabled
}

func (r *modelRule) input() map[string]any {
	inputs := func(conditions []modelCondition) (all []any) {
		for _, c := range conditions {
			all = append(all, c.input)
		}
		return all
	}
	return map[string]any{
		"when": inputs(r.when), "unless": inputs(r.unless), "enabled": !r.isDisabled,
		"targets": []any{map[string]any{"url": r.location}},
	}
}

// TestRouting_AgreesWithAModel compares redirects and explanations with a naive evaluation of random
// rules, for random visits.
func TestRouting_AgreesWithAModel(t *testing.T) {
	t.Parallel()
	links, visits := sized("LINKFORGE_TEST_ROUTED_LINKS", 8), sized("LINKFORGE_TEST_ROUTED_VISITS", 25)
	eachBackend(t, func(t *testing.T, b backend) {
		nodes := startAll(t, b, b.nodes, "LINKFORGE_TRUSTED_PROXIES=127.0.0.1")
		who := nodes[0].tenant(t, "modeled")
		random := rand.New(rand.NewPCG(27, uint64(links)))
		for i := range links {
			var rules []modelRule
			var inputs []any
			for k := range 1 + random.IntN(10) {
				r := modelRule{location: fmt.Sprintf("https://example.com/%d/%d", i, k), isDisabled: random.IntN(8) == 0}
				for range random.IntN(3) {
					r.when = append(r.when, anyCondition(random))
				}
				for range random.IntN(2) {
					r.unless = append(r.unless, anyCondition(random))
				}
				rules, inputs = append(rules, r), append(inputs, r.input())
			}
			own := fmt.Sprintf("https://example.com/%d", i)
			l := who.shorten(t, own, "strategy", "RANDOM", "routing", map[string]any{"rules": inputs}).Link
			for range visits {
				v := anyVisit(random)
				want := own
				if at := slices.IndexFunc(rules, func(r modelRule) bool { return r.holds(&v) }); at >= 0 {
					want = rules[at].location
				}
				v.compare(t, nodes[random.IntN(len(nodes))], who, l, want)
			}
		}
	})
}

func anyVisit(random *rand.Rand) modelVisit {
	one := func(values ...string) string { return values[random.IntN(len(values))] }
	v := modelAgents[random.IntN(len(modelAgents))]
	v.language = one("", "de-AT", "de", "pt-BR", "pt", "en")
	v.referrer = one("", "news.example", "example.org", "a.example.org", "myexample.org")
	v.query = one("", "a+b=1", "x=2&a+b=1", "a+b=2", "ab=1")
	v.address = one("192.0.2.1", "192.0.2.200", "2001:db8::1", "2001:db8:8000::1")
	return v
}

// compare sends the visit to a node, and explains it.
func (v *modelVisit) compare(t *testing.T, s *server, who tenant, l linkView, want string) {
	t.Helper()
	headers := []string{"User-Agent", v.agent, "X-Forwarded-For", v.address}
	visit := map[string]any{"userAgent": v.agent, "address": v.address, "query": v.query}
	if v.language != "" {
		headers = append(headers, "Accept-Language", v.language+",en-GB;q=0.4")
		visit["acceptLanguage"] = v.language + ",en-GB;q=0.4"
	}
	if v.referrer != "" {
		headers = append(headers, "Referer", "https://"+v.referrer+"/page")
		visit["referrer"] = "https://" + v.referrer + "/page"
	}
	got, err := s.request(http.MethodGet, l.path(s)+"?"+v.query, "", headers...)
	if err != nil {
		t.Fatal(err)
	}
	if location := got.header.Get("Location"); location != want {
		t.Errorf("%+v is redirected to %s, want %s", v, location, want)
	}
	if explained := who.explain(t, l.ShortURL, visit); explained.Location != want {
		t.Errorf("%+v is explained as %s, want %s: %+v", v, explained.Location, want, explained.Steps)
	}
}

// TestTargetMaxClicks_AreExact has many visitors at once, on all nodes, of a target with a maximum. The
// next rule has the others.
func TestTargetMaxClicks_AreExact(t *testing.T) {
	t.Parallel()
	eachBackend(t, func(t *testing.T, b backend) {
		nodes := startAll(t, b.raced(), b.nodes)
		who := nodes[0].tenant(t, "capped")
		l := who.shorten(t, "https://example.com/own", "strategy", "RANDOM", "routing", map[string]any{"rules": []any{
			map[string]any{"targets": []any{map[string]any{"url": "https://example.com/few", "maxClicks": 50}}},
			map[string]any{"targets": []any{map[string]any{"url": "https://example.com/rest"}}},
		}}).Link
		const visitors = 400
		locations := make(chan string, visitors)
		for i := range visitors {
			go func() {
				a, err := nodes[i%len(nodes)].get(l.path(nodes[0]))
				if err != nil {
					t.Error(err)
				}
				locations <- a.header.Get("Location")
			}()
		}
		got := map[string]int{}
		for range visitors {
			got[<-locations]++
		}
		if got["https://example.com/few"] != 50 || got["https://example.com/rest"] != visitors-50 {
			t.Errorf("%v", got)
		}
	})
}
