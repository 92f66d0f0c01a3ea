package main

import (
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
		ended := who.shorten(t, "https://example.com/ended", "customCode", "ended", "maxClicks", 1).Link
		s.expect(t, http.StatusFound, http.MethodGet, ended.path(s))
		answers := func(path string, status int, location string) answer {
			t.Helper()
			var got answer
			for _, method := range []string{http.MethodHead, http.MethodGet} {
				polltest.Until(t, method+" "+path+" leads to "+location, func() bool {
					got = s.askHost(t, method, host, path)
					return got.status == status && got.header.Get("Location") == location
				})
			}
			return got
		}
		answers("/", 404, "")
		answers("/unknown", 404, "")
		answers("/ended", 410, "")
		answers("/favicon.ico", 204, "")
		answers("/.well-known/assetlinks.json", 404, "")

		who.setWorkspace(t, map[string]any{"notFoundUrl": "https://example.com/ws-404",
			"endedUrl": "https://example.com/ws-410?{host}"})
		answers("/unknown", 302, "https://example.com/ws-404")
		answers("/no%20code.", 302, "https://example.com/ws-404")
		answers("/ended", 302, "https://example.com/ws-410?links.example.com")
		who.setDomain(t, domainID, map[string]any{"notFoundUrl": "https://example.com/404/{code}",
			"rootUrl": "https://example.com/root", "faviconUrl": "https://example.com/icon.png", "indexable": true,
			"appleAppSiteAssociation": `{"applinks":{}}`, "assetLinks": "[]"})
		answers("/unknown", 302, "https://example.com/404/unknown")
		answers("/ended", 302, "https://example.com/ws-410?links.example.com")
		answers("/", 302, "https://example.com/root")
		answers("/favicon.ico", 302, "https://example.com/icon.png")
		document := answers("/.well-known/apple-app-site-association", 200, "")
		if document.body != `{"applinks":{}}` || document.header.Get("Content-Type") != "application/json" {
			t.Errorf("the document: %+v", document)
		}
		if got := answers("/robots.txt", 200, ""); !strings.HasSuffix(got.body, "Disallow:\n") {
			t.Errorf("robots of an indexable domain: %q", got.body)
		}
		if got := s.expect(t, 200, http.MethodGet, "/robots.txt"); !strings.HasSuffix(got.body, "Disallow: /\n") ||
			!strings.Contains(got.body, "User-agent: Slackbot-LinkExpanding\nDisallow:\n\n") {
			t.Errorf("robots of the instance: %q", got.body)
		}
		who.shorten(t, "https://example.com/live", "customCode", "live")
		if got := answers("/live", 302, "https://example.com/live"); got.header.Get("X-Robots-Tag") != "" {
			t.Errorf("a link of an indexable domain: %v", got.header)
		}
		for path, want := range map[string]string{"/": "https://example.com/home",
			"/nothing": "https://example.com/none?nothing"} {
			if got := s.expect(t, 302, http.MethodGet, path); got.header.Get("Location") != want {
				t.Errorf("%s of the instance leads to %q", path, got.header.Get("Location"))
			}
		}
		for _, bad := range [][2]string{{"rootUrl", "https://links.example.com/"}, {"notFoundUrl", s.public + "/x"},
			{"endedUrl", "javascript:alert(1)"}, {"faviconUrl", "nothing"}, {"assetLinks", "{}"},
			{"appleAppSiteAssociation", "["}, {"rootUrl", "https://{host}/"}} {
			errs := who.refusal(t, "updateDomain", "UpdateDomainInput", map[string]any{"id": domainID, bad[0]: bad[1]})
			if len(errs) != 1 || strings.Join(errs[0].Field, ".") != bad[0] {
				t.Errorf("%s: %+v", bad, errs)
			}
		}
		who.setDomain(t, domainID, map[string]any{"notFoundUrl": nil, "rootUrl": nil, "indexable": nil})
		answers("/unknown", 302, "https://example.com/ws-404")
		answers("/", 404, "")
		who.setDomain(t, domainID, map[string]any{"rootUrl": "https://example.com/root"})
		answers("/", 302, "https://example.com/root")
		who.do(t, "deleteWorkspace", map[string]any{"id": who.workspaceID})
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
		got := who.ask(t, `mutation ($id: ID!) { checkLink(input: {id: $id}) { link { destinationState
			destinationChecks { state field } } } }`, map[string]any{"id": l.ID}).text("checkLink.link")
		if checks := "[map[field:[url] state:" + want + "] map[field:[routing endedUrl] state:UNCHECKED]]"; got !=
			"map[destinationChecks:"+checks+" destinationState:"+want+"]" {
			t.Errorf("with %q: %s, want %s", setting, got, want)
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
		create := func(name string) tree {
			return who.ask(t, `mutation ($w: ID!, $name: String!) { createUtmTemplate(input: {workspaceId: $w,
				name: $name, utm: {source: "mail", medium: "letter"}}) { utmTemplate { id } errors { code } } }`,
				map[string]any{"w": who.workspaceID, "name": name})
		}
		templateID := create("Spring").text("createUtmTemplate.utmTemplate.id")
		if got := create("SPRING"); got.text("createUtmTemplate.errors.0.code") != "CONFLICT" {
			t.Errorf("a name in use: %v", got)
		}
		utm := map[string]any{"utm": map[string]any{"templateId": templateID, "source": "site"}}
		l := who.shorten(t, "https://example.com/a", "strategy", "RANDOM", "routing", utm).Link
		refused := must.Value(s.tenant(t, "others").create("https://example.com/a", "routing", utm))(t)
		refuses(t, "a template of another workspace", refused.Errors, "NOT_FOUND", "routing.utm.templateId")
		who.do(t, "updateUtmTemplate", map[string]any{"id": templateID, "utm": map[string]any{"source": "x"}})
		who.do(t, "deleteUtmTemplate", map[string]any{"id": templateID})
		leads := func(path, want string) {
			t.Helper()
			if got := s.expect(t, 302, http.MethodGet, path).header.Get("Location"); got != want {
				t.Errorf("location %q, want %q", got, want)
			}
		}
		leads(l.path(s), "https://example.com/a?utm_source=site&utm_medium=letter")
		who.setWorkspace(t, map[string]any{"routingDefaults": map[string]any{
			"utm": map[string]any{"campaign": "default"}, "query": map[string]any{"mode": "ADD"}}})
		later := who.shorten(t, "https://example.com/b", "strategy", "RANDOM").Link
		leads(later.path(s)+"?a=b", "https://example.com/b?utm_campaign=default&a=b")
	})
}
