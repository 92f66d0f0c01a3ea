package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/poll/polltest"
)

// TestDomain_AnswersBesideLinks covers the root, robots, icon, app association and fallback URLs of a
// domain, and those of its workspace.
func TestDomain_AnswersBesideLinks(t *testing.T) {
	t.Parallel()
	eachBackend(t, func(t *testing.T, b backend) {
		s := start(t, b, "LINKFORGE_ROOT_URL=https://example.com/home",
			"LINKFORGE_NOT_FOUND_URL=https://example.com/none?{code}")
		who := s.tenant(t, "branded")
		const host = "links.example.com"
		domainID := who.verifiedDomain(t, b, host)
		change := func(mutation string, variables map[string]any) []userError {
			t.Helper()
			got := map[string]struct{ Errors []userError }{}
			who.must(t, &got, mutation, variables)
			for _, payload := range got {
				return payload.Errors
			}
			return nil
		}
		updateDomain := func(fields string) []userError {
			t.Helper()
			return change(`mutation ($id: ID!) { updateDomain(input: {id: $id, `+fields+
				`}) { errors { code field } } }`,
				map[string]any{"id": domainID})
		}
		updateWorkspace := func(fields string) []userError {
			t.Helper()
			return change(`mutation ($id: ID!) { updateWorkspace(input: {id: $id, `+fields+`}) {
				errors { code field } } }`, map[string]any{"id": who.workspaceID})
		}
		ended := who.shorten(t, "https://example.com/ended", "strategy", "CUSTOM", "customCode", "ended", "maxClicks",
			1).Link
		s.expect(t, http.StatusFound, http.MethodGet, ended.path(s))
		answers := func(path string, status int, location string) {
			t.Helper()
			for _, method := range []string{http.MethodGet, http.MethodHead} {
				polltest.Until(t, method+" "+path+" leads to "+location, func() bool {
					got := s.askHost(t, method, host, path)
					return got.status == status && got.header.Get("Location") == location
				})
			}
		}
		answers("/", 404, "")
		answers("/unknown", 404, "")
		answers("/ended", 410, "")
		answers("/favicon.ico", 204, "")
		answers("/.well-known/assetlinks.json", 404, "")

		if errs := updateWorkspace(`notFoundUrl: "https://example.com/ws-404",
			endedUrl: "https://example.com/ws-410?{host}"`); len(errs) > 0 {
			t.Fatal(errs)
		}
		answers("/unknown", 302, "https://example.com/ws-404")
		answers("/no%20code.", 302, "https://example.com/ws-404")
		answers("/ended", 302, "https://example.com/ws-410?links.example.com")
		if errs := updateDomain(`notFoundUrl: "https://example.com/404/{code}", rootUrl: "https://example.com/root",
			indexable: true, faviconUrl: "https://example.com/icon.png", appleAppSiteAssociation: "{\"applinks\":{}}",
				assetLinks: "[]"`); len(errs) > 0 {
			t.Fatal(errs)
		}
		answers("/unknown", 302, "https://example.com/404/unknown")
		answers("/ended", 302, "https://example.com/ws-410?links.example.com")
		answers("/", 302, "https://example.com/root")
		answers("/favicon.ico", 302, "https://example.com/icon.png")
		polltest.Until(t, "the document is served", func() bool {
			got := s.askHost(t, http.MethodGet, host, "/.well-known/apple-app-site-association")
			return got.status == 200 && got.body == `{"applinks":{}}` &&
				got.header.Get("Content-Type") == "application/json"
		})
		if got := s.askHost(t, http.MethodGet, host, "/robots.txt"); !strings.HasSuffix(got.body, "Disallow:\n") {
			t.Errorf("robots of an indexable domain: %q", got.body)
		}
		if got := s.expect(t, 200, http.MethodGet, "/robots.txt"); !strings.HasSuffix(got.body, "Disallow: /\n") ||
			!strings.Contains(got.body, "User-agent: Slackbot-LinkExpanding\nDisallow:\n\n") {
			t.Errorf("robots of the instance: %q", got.body)
		}
		who.shorten(t, "https://example.com/live", "strategy", "CUSTOM", "customCode", "live")
		if got := s.askHost(t, http.MethodGet, host, "/live"); got.status != 302 ||
			got.header.Get("X-Robots-Tag") != "" {
			t.Errorf("a link of an indexable domain: %d %v", got.status, got.header)
		}
		for path, want := range map[string]string{"/": "https://example.com/home",
			"/nothing": "https://example.com/none?nothing"} {
			if got := s.expect(t, 302, http.MethodGet, path); got.header.Get("Location") != want {
				t.Errorf("%s of the instance leads to %q", path, got.header.Get("Location"))
			}
		}
		for fields, field := range map[string]string{
			`rootUrl: "https://links.example.com/"`: "rootUrl", `notFoundUrl: "` + s.public + `/x"`: "notFoundUrl",
			`endedUrl: "javascript:alert(1)"`: "endedUrl", `faviconUrl: "nothing"`: "faviconUrl",
			`assetLinks: "{}"`: "assetLinks", `appleAppSiteAssociation: "["`: "appleAppSiteAssociation",
			`rootUrl: "https://{host}/"`: "rootUrl",
		} {
			if errs := updateDomain(fields); len(errs) != 1 || strings.Join(errs[0].Field, ".") != field {
				t.Errorf("%s: %+v", fields, errs)
			}
		}
		if errs := updateDomain(`notFoundUrl: null, rootUrl: null, indexable: null`); len(errs) > 0 {
			t.Fatal(errs)
		}
		answers("/unknown", 302, "https://example.com/ws-404")
		answers("/", 404, "")
		if errs := updateDomain(`rootUrl: "https://example.com/root"`); len(errs) > 0 {
			t.Fatal(errs)
		}
		answers("/", 302, "https://example.com/root")
		if errs := change(`mutation ($id: ID!) { deleteWorkspace(input: {id: $id}) { errors { code field } } }`,
			map[string]any{"id": who.workspaceID}); len(errs) > 0 {
			t.Fatal(errs)
		}
		answers("/", 404, "")
		answers("/live", 410, "")
		answers("/favicon.ico", 204, "")
		answers("/.well-known/apple-app-site-association", 404, "")
	})
}

// TestOutboundAllow_ChecksPrivateDestinations checks a destination on this machine.
func TestOutboundAllow_ChecksPrivateDestinations(t *testing.T) {
	t.Parallel()
	destination := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(destination.Close)
	for setting, want := range map[string]string{"": "UNREACHABLE", "127.0.0.1": "BROKEN"} {
		s := start(t, embedded(t), "LINKFORGE_OUTBOUND_ALLOW="+setting, "LINKFORGE_DESTINATION_CHECKS=off")
		who := s.tenant(t, "checked")
		l := who.shorten(t, destination.URL+"/page", "routing", map[string]any{"endedUrl": destination.URL}).Link
		var got struct {
			CheckLink struct {
				Link struct {
					DestinationState  string
					DestinationChecks []struct {
						State string
						Field []string
					}
				}
				Errors []userError
			}
		}
		who.must(t, &got, `mutation ($id: ID!) { checkLink(input: {id: $id}) {
			link { destinationState destinationChecks { state field } } errors { code } } }`,
			map[string]any{"id": l.ID})
		checked := got.CheckLink.Link
		if checked.DestinationState != want || fmt.Sprint(checked.DestinationChecks) !=
			"[{"+want+" [url]} {UNCHECKED [routing endedUrl]}]" {
			t.Errorf("with %q: %+v, want %s", setting, got, want)
		}
	}
}

// askHost sends a request for a path of a host.
func (s *server) askHost(t *testing.T, method, host, path string) answer {
	t.Helper()
	r := must.Value(http.NewRequest(method, "http://"+s.address+path, nil))(t)
	r.Host = host
	a := must.Value(s.deliver(r))(t)
	return a
}

// TestUTMTemplates_AreCopied checks that later edits of a template change no link.
func TestUTMTemplates_AreCopied(t *testing.T) {
	t.Parallel()
	eachBackend(t, func(t *testing.T, b backend) {
		s := start(t, b)
		who := s.tenant(t, "campaigns")
		var made struct {
			CreateUtmTemplate struct {
				UtmTemplate struct{ ID string }
				Errors      []userError
			}
		}
		const create = `mutation ($w: ID!, $name: String!) { createUtmTemplate(input: {workspaceId: $w, name: $name,
			utm: {source: "mail", medium: "letter"}}) { utmTemplate { id } errors { code field } } }`
		who.must(t, &made, create, map[string]any{"w": who.workspaceID, "name": "Spring"})
		templateID := made.CreateUtmTemplate.UtmTemplate.ID
		who.must(t, &made, create, map[string]any{"w": who.workspaceID, "name": "SPRING"})
		if errs := made.CreateUtmTemplate.Errors; len(errs) != 1 || errs[0].Code != "CONFLICT" {
			t.Errorf("a name in use: %+v", errs)
		}
		utm := map[string]any{"utm": map[string]any{"templateId": templateID, "source": "site"}}
		l := who.shorten(t, "https://example.com/a", "strategy", "RANDOM", "routing", utm).Link
		other := s.tenant(t, "others")
		refused, err := other.create("https://example.com/a", "routing", utm)
		if err != nil || len(refused.Errors) != 1 || refused.Errors[0].Code != "NOT_FOUND" ||
			strings.Join(refused.Errors[0].Field, ".") != "routing.utm.templateId" {
			t.Errorf("the template of another workspace: %+v, %v", refused, err)
		}
		who.must(t, &struct{}{}, `mutation ($id: ID!) { updateUtmTemplate(input: {id: $id, utm: {source: "x"}}) {
			utmTemplate { name utm { source medium } } errors { code } } }`, map[string]any{"id": templateID})
		who.do(t, "deleteUtmTemplate", map[string]any{"id": templateID})
		want := "https://example.com/a?utm_source=site&utm_medium=letter"
		if got := s.expect(t, 302, http.MethodGet, l.path(s)).header.Get("Location"); got != want {
			t.Errorf("location %q, want %q", got, want)
		}
		who.must(t, &struct{}{}, `mutation ($w: ID!) { updateWorkspace(input: {id: $w, routingDefaults: {
			utm: {campaign: "default"}, query: {mode: ADD}}}) { errors { code } } }`,
			map[string]any{"w": who.workspaceID})
		later := who.shorten(t, "https://example.com/b", "strategy", "RANDOM").Link
		want = "https://example.com/b?utm_campaign=default&a=b"
		if got := s.expect(t, 302, http.MethodGet, later.path(s)+"?a=b").header.Get("Location"); got != want {
			t.Errorf("location %q, want %q", got, want)
		}
	})
}
