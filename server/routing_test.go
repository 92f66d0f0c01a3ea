package main

import (
	"strings"
	"testing"

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

type explanation struct {
	Status    int
	Location  string
	Reason    string
	RuleIndex int
	// Candidates are the positions of the targets that a draw may choose.
	Candidates []int
	Steps      []struct{ Step, Outcome, Detail string }
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
