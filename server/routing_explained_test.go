package main

import (
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"github.com/linkforge/linkforge/internal/click/visitor/visitortest"
	"github.com/linkforge/linkforge/internal/platform/must"
)

// sampleHeaders are the headers that have the fields of a VisitSampleInput.
var sampleHeaders = map[string]string{
	"userAgent": "User-Agent", "acceptLanguage": "Accept-Language", "referrer": "Referer", "address": "X-Forwarded-For",
}

// TestRouting_AgreesWithItsExplanation visits a link with a rule for each kind of condition.
func TestRouting_AgreesWithItsExplanation(t *testing.T) {
	t.Parallel()
	eachBackend(t, func(t *testing.T, b backend) {
		countries := filepath.Join(t.TempDir(), "countries.mmdb")
		must.NoError(t, visitortest.WriteCountries(countries, map[string]string{"2001:db8::/33": "NP"}))
		s := start(t, b, "LINKFORGE_TRUSTED_PROXIES=127.0.0.1", "LINKFORGE_GEOIP="+countries)
		who, now := s.tenant(t, "explained"), time.Now()
		l := who.shorten(t, "https://example.com/own", "strategy", "RANDOM").Link
		divided := map[string]any{"stickiness": "COOKIE", "when": []any{
			map[string]any{"query": map[string]any{"name": "a b", "value": "1"}}}, "targets": []any{
			map[string]any{"url": "https://example.com/first"}, map[string]any{"url": "https://example.com/second"}}}
		rules := []any{divided}
		for _, condition := range []struct {
			name  string
			value any
		}{
			{"during", map[string]any{"from": now.Add(time.Hour).Format(time.RFC3339)}}, {"bot", true},
			{"os", []string{"iOS"}}, {"country", []string{"NP"}}, {"language", []string{"de"}},
			{"referrer", []string{".example.org"}}, {"network", []string{"192.0.2.0/25"}}, {"visit", "RETURNING_TODAY"},
		} {
			rules = append(rules, map[string]any{"when": []any{map[string]any{condition.name: condition.value}},
				"targets": []any{map[string]any{"url": "https://example.com/" + condition.name}}})
		}
		routed := who.route(t, l.ID, map[string]any{
			"rules": rules, "forwardPath": true, "query": map[string]any{"mode": "ADD", "only": []string{"x"}}})
		first, second := routed.Routing.Rules[0].Targets[0].ID, routed.Routing.Rules[0].Targets[1].ID
		for _, c := range []struct {
			want  string
			visit map[string]any
		}{
			{"first", map[string]any{"query": "a+b=1", "targetId": first}},
			{"second", map[string]any{"query": "a%20b=1&y=2", "targetId": second}},
			{"own", map[string]any{"query": "a+b=2", "targetId": second}},
			{"during", map[string]any{"at": now.Add(2 * time.Hour)}},
			{"bot", map[string]any{"userAgent": "curl/8.10.1"}},
			{"os/a%2Fb?x=1", map[string]any{"userAgent": iPhone, "query": "y=2&x=1", "path": "/a%2Fb"}},
			{"country", map[string]any{"address": "2001:db8::1", "country": "NP"}},
			{"language", map[string]any{"acceptLanguage": "de-AT,en;q=0.5"}},
			{"referrer", map[string]any{"referrer": "https://a.example.org/page"}},
			{"network", map[string]any{"address": "192.0.2.1"}},
			{"visit", map[string]any{"visit": "RETURNING_TODAY"}},
			{"own", map[string]any{"private": true, "visit": "RETURNING_TODAY"}},
		} {
			if c.visit["userAgent"] == nil {
				c.visit["userAgent"] = desktopChrome
			}
			path, want := "/explained/"+l.Code, "https://example.com/"+c.want
			explained := who.explain(t, s.public+path, c.visit)
			if explained.Status != http.StatusFound || explained.Location != want {
				t.Errorf("%v is explained as %+v, want %s", c.visit, explained, want)
			}
			if c.visit["at"] != nil {
				continue
			}
			var headers []string
			for field, name := range sampleHeaders {
				if value, ok := c.visit[field]; ok {
					headers = append(headers, name, value.(string))
				}
			}
			if c.visit["private"] != nil {
				headers = append(headers, "DNT", "1")
			}
			if c.visit["path"] != nil {
				path += c.visit["path"].(string)
			}
			if c.visit["query"] != nil {
				path += "?" + c.visit["query"].(string)
			}
			if c.visit["targetId"] != nil {
				headers = append(headers, "Cookie",
					"lf_t_"+routed.Routing.Rules[0].ID+"="+c.visit["targetId"].(string))
			}
			got := s.expect(t, http.StatusFound, http.MethodGet, path, headers...).header.Get("Location")
			if got != want {
				t.Errorf("%v is redirected to %s, want %s", c.visit, got, want)
			}
		}
	})
}
