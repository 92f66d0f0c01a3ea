package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/linkforge/linkforge/internal/click/visitor/visitortest"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/poll/polltest"
)

// routingFields select the identities of a link's routing.
const routingFields = `routing { rules { id name targets { id url share clickCount } } query { mode } forwardPath
	endedUrl
	warnings { code field } }`

type routedView struct {
	ID       string
	ShortURL string
	Routing  struct {
		Rules []struct {
			ID      string
			Targets []struct {
				ID         string
				ClickCount int64
			}
		}
		Warnings []struct{ Code string }
	}
}

// route changes the routing of a link.
func (w tenant) route(t *testing.T, linkID string, routing map[string]any) routedView {
	t.Helper()
	var data struct {
		UpdateLink struct {
			Link   routedView
			Errors []struct {
				Message string
				Field   []string
			}
		}
	}
	w.must(t, &data,
		`mutation ($id: ID!, $routing: LinkRoutingInput) { updateLink(input: {id: $id, routing: $routing}) {
		link { id shortUrl `+routingFields+` } errors { message field } } }`,
		map[string]any{"id": linkID, "routing": routing})
	if len(data.UpdateLink.Errors) > 0 {
		t.Fatalf("%+v", data.UpdateLink.Errors)
	}
	return data.UpdateLink.Link
}

const (
	iPhone = "Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) " +
		"Version/17.5 Mobile/15E148 Safari/604.1"
	desktopChrome = "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) " +
		"Chrome/126.0.0.0 Safari/537.36"
)

func TestRouting_ChoosesTheDestination(t *testing.T) {
	t.Parallel()
	eachBackend(t, func(t *testing.T, b backend) {
		s := start(t, b)
		who := s.tenant(t, "owner")
		l := who.shorten(t, "https://example.com/own", "strategy", "CUSTOM", "customCode", "routed").Link
		routed := who.route(t, l.ID, map[string]any{
			"rules": []any{
				map[string]any{"when": []any{map[string]any{"os": []string{"iOS"}}},
					"targets": []any{map[string]any{"url": "https://example.com/ios"}}},
				map[string]any{"when": []any{map[string]any{"language": []string{"de"}}}, "stickiness": "COOKIE",
					"targets": []any{map[string]any{"url": "https://example.com/de"}}},
				map[string]any{"when": []any{map[string]any{"visit": "FIRST_TODAY"}},
					"targets": []any{map[string]any{"url": "https://example.com/first", "maxClicks": 1}}},
			},
			"query": map[string]any{"mode": "ADD"}, "forwardPath": true, "endedUrl": "https://example.com/over?{code}",
		})
		ask := func(method, path string, headers ...string) answer {
			a := must.Value(s.request(method, path, "", headers...))(t)
			return a
		}
		want := func(a answer, status int, location string) {
			t.Helper()
			if a.status != status || a.header.Get("Location") != location {
				t.Errorf("%d %q, want %d %q", a.status, a.header.Get("Location"), status, location)
			}
		}
		path := strings.TrimPrefix(l.ShortURL, s.public)
		want(ask("GET", path, "User-Agent", iPhone), 302, "https://example.com/ios")
		german := ask("GET", path+"/a%2Fb?x=1", "User-Agent", desktopChrome, "Accept-Language",
			"ja,en;q=0.5,de-AT;q=0.9")
		want(german, 302, "https://example.com/de/a%2Fb?x=1")
		cookie := german.header.Get("Set-Cookie")
		if !strings.HasPrefix(cookie,
			"lf_t_"+routed.Routing.Rules[1].ID+"="+routed.Routing.Rules[1].Targets[0].ID+"; Path="+path+";") {
			t.Errorf("cookie %q", cookie)
		}
		private := ask("GET", path, "User-Agent", desktopChrome, "Accept-Language", "de", "DNT", "1")
		want(private, 302, "https://example.com/de")
		if private.header.Get("Set-Cookie") != "" {
			t.Error("a private visitor gets a cookie")
		}
		want(ask("GET", path, "User-Agent", desktopChrome+" a"), 302, "https://example.com/first")
		want(ask("GET", path, "User-Agent", desktopChrome+" a"), 302, "https://example.com/own")
		// the maximum is reached
		want(ask("GET", path, "User-Agent", desktopChrome+" b"), 302, "https://example.com/own")
		want(ask("GET", path+"/../x", "User-Agent", iPhone), 404, "")
		want(ask("HEAD", path, "User-Agent", iPhone), 302, "")
		explained := who.explain(t, l.ShortURL, map[string]any{"userAgent": iPhone, "query": "a=b"})
		if explained.Location != "https://example.com/ios?a=b" || explained.Reason != "RULE" ||
			explained.RuleIndex != 0 {
			t.Errorf("%+v", explained)
		}
		polltest.Until(t, "clicks are counted by target", func() bool {
			rules := who.route(t, l.ID, map[string]any{}).Routing.Rules
			return rules[0].Targets[0].ClickCount == 1 && rules[1].Targets[0].ClickCount == 1 &&
				rules[2].Targets[0].ClickCount == 1
		})
	})
}

// TestRouting_ReadsEachPropertyOfAVisit has a rule for each kind of condition. The redirect at each
// node and its explanation have the same location.
func TestRouting_ReadsEachPropertyOfAVisit(t *testing.T) {
	t.Parallel()
	const firefox = "Mozilla/5.0 (X11; Linux x86_64; rv:127.0) Gecko/20100101 Firefox/127.0"
	now := time.Now().UTC()
	weekly := map[string]any{"timezone": "UTC", "from": now.Add(-2 * time.Hour).Format("15:04"),
		"to":   now.Add(2 * time.Hour).Format("15:04"),
		"days": []string{"MONDAY", "TUESDAY", "WEDNESDAY", "THURSDAY", "FRIDAY", "SATURDAY", "SUNDAY"}}
	during := map[string]any{"from": now.Add(-time.Hour), "to": now.Add(time.Hour)}
	visits := []struct {
		name, value string
		when        any
		header      string
	}{
		{"country", "DE", []string{"DE"}, "X-Forwarded-For: 192.0.2.1"},
		{"network", "", []string{"2001:db8::/33"}, "X-Forwarded-For: 2001:db8::1"},
		{"device", "", []string{"mobile"}, "User-Agent: " + iPhone},
		{"os", "", []string{"windows"}, "User-Agent: " + desktopChrome},
		{"bot", "", true, "User-Agent: curl/8.10.1"},
		{"language", "", []string{"pt"}, "Accept-Language: pt-BR,en-GB;q=0.4"},
		{"referrer", "", []string{".example.org"}, "Referer: https://a.example.org/page"},
		{"query", "a+b=1", map[string]any{"name": "a b", "value": "1"}, "Accept: */*"},
		{"weekly", "", weekly, "Accept-Language: fr"},
		{"browser", "", []string{"FIREFOX"}, "Accept-Language: es"},
		{"during", "", during, "User-Agent: Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) " +
			"Chrome/126.0.0.0 Safari/537.36"},
	}
	languages := map[string]string{"weekly": "fr", "browser": "es"} // other visits have these properties, too
	samples := map[string]string{"X-Forwarded-For": "address", "User-Agent": "userAgent", "Referer": "referrer",
		"Accept-Language": "acceptLanguage"}
	eachBackend(t, func(t *testing.T, b backend) {
		countries := filepath.Join(t.TempDir(), "countries.mmdb")
		must.NoError(t, visitortest.WriteCountries(countries, map[string]string{"192.0.2.0/25": "DE"}))
		nodes := startAll(t, b, b.nodes, "LINKFORGE_TRUSTED_PROXIES=127.0.0.1", "LINKFORGE_GEOIP="+countries)
		who := nodes[0].tenant(t, "owner")
		var rules []any
		for _, v := range visits {
			when := []any{map[string]any{v.name: v.when}}
			if language, ok := languages[v.name]; ok {
				when = append(when, map[string]any{"language": []string{language}})
			}
			target := map[string]any{"url": "https://example.com/" + v.name}
			rules = append(rules, map[string]any{"when": when, "targets": []any{target}})
		}
		l := who.shorten(t, "https://example.com/own", "strategy", "RANDOM", "routing",
			map[string]any{"rules": rules}).Link
		for _, v := range visits {
			name, value, _ := strings.Cut(v.header, ": ")
			sample := map[string]any{"userAgent": firefox}
			if field := samples[name]; field != "" {
				sample[field] = value
			}
			query := ""
			if v.name == "query" {
				sample["query"], query = v.value, "?"+v.value
			} else if v.value != "" {
				sample[v.name] = v.value
			}
			want := "https://example.com/" + v.name
			for _, node := range nodes {
				a := node.expect(t, 302, "GET", l.path(nodes[0])+query, "User-Agent", firefox, name, value)
				if got := a.header.Get("Location"); got != want {
					t.Errorf("%s leads to %q", v.name, got)
				}
			}
			if got := who.explain(t, l.ShortURL, sample); got.Location != want || got.Reason != "RULE" {
				t.Errorf("%s is explained as %+v", v.name, got)
			}
		}

		sticky := map[string]any{"stickiness": "COOKIE", "targets": []any{
			map[string]any{"url": "https://example.com/a"}, map[string]any{"url": "https://example.com/b"}}}
		l = who.shorten(t, "https://example.com/own", "strategy", "RANDOM", "routing",
			map[string]any{"rules": []any{sticky}}).Link
		for i := range 10 {
			first := nodes[0].expect(t, 302, "GET", l.path(nodes[0]), "User-Agent", firefox, "X-Forwarded-For",
				fmt.Sprint("198.51.100.", i))
			cookie, _, _ := strings.Cut(first.header.Get("Set-Cookie"), ";")
			again := nodes[len(nodes)-1].expect(t, 302, "GET", l.path(nodes[0]), "User-Agent", desktopChrome,
				"X-Forwarded-For", fmt.Sprint("203.0.113.", i), "Cookie", cookie)
			if a, b := first.header.Get("Location"), again.header.Get("Location"); a != b || cookie == "" {
				t.Errorf("with the cookie %q, a visitor gets %s, and then %s", cookie, a, b)
			}
		}
	})
}

type explanation struct {
	Status    int
	Location  string
	Reason    string
	RuleIndex int
	Steps     []struct{ Step, Outcome, Detail string }
}

func (w tenant) explain(t *testing.T, shortURL string, visit map[string]any) explanation {
	t.Helper()
	var data struct{ ExplainRedirect explanation }
	w.must(t, &data, `query ($url: String!, $visit: VisitSampleInput) {
		explainRedirect(by: {shortUrl: $url}, visit: $visit) {
		status location reason ruleIndex steps { step outcome detail } } }`, map[string]any{"url": shortURL,
		"visit": visit})
	return data.ExplainRedirect
}
