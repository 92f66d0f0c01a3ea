package main

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// TestOwnCodes_AtTheirDomain requests own codes as browsers and programs send them, with the pages
// and images of their links.
func TestOwnCodes_AtTheirDomain(t *testing.T) {
	t.Parallel()
	eachBackend(t, func(t *testing.T, b backend) {
		s := start(t, b, "LINKFORGE_LINK_QUOTA=10000")
		who := s.tenant(t, "printed")
		const host = "go.example.com"
		domainID := who.claim(t, map[string]any{"host": host, "codeSpace": "OWN", "caseSensitive": false})
		verify(t, b, domainID)
		create := func(code string, fields ...any) createLinkPayload {
			t.Helper()
			return who.shorten(t, "https://example.com/"+url.PathEscape(code),
				append(fields, "customCode", code, "domainId", domainID)...)
		}
		for _, code := range []string{
			"Promo", "straße/Ünïcode", "report.svg", "a&b=c", "rock+&roll", "favicon.ico!",
		} {
			l := create(code).Link
			if l.Code != code || l.ShortURL != "https://"+host+(&url.URL{Path: "/" + code}).EscapedPath() {
				t.Errorf("%+v", l)
			}
			want := "https://example.com/" + url.PathEscape(code)
			var encoded strings.Builder
			for i := range len(code) {
				fmt.Fprintf(&encoded, "%%%02x", code[i])
			}
			for _, path := range []string{
				(&url.URL{Path: "/" + code}).EscapedPath(), (&url.URL{Path: "/" + strings.ToUpper(code)}).
					EscapedPath() + "/",
				"/" + encoded.String() + "?x=1", (&url.URL{Path: "/" + code}).EscapedPath() + "&x=1",
			} {
				if strings.Contains(code, "&") && strings.HasSuffix(path, "&x=1") {
					continue // parameters begin at the first mark
				}
				if got := s.askHost(t, http.MethodGet, host, path); got.status != 302 ||
					got.header.Get("Location") != want {
					t.Errorf("%s: %d %q, want %s", path, got.status, got.header.Get("Location"), want)
				}
			}
			if got := s.raw(t, "GET /"+code+" HTTP/1.1\r\nHost: "+host+
				"\r\nConnection: close\r\n\r\n"); got.status != 302 {
				t.Errorf("the bytes of %s: %d", code, got.status)
			}
		}
		create("Public/stats", "statsPublic", true)
		create("a/img.png", "statsPublic", true)
		create("docs", "statsPublic", true, "routing", map[string]any{"forwardPath": true})
		create("docs/v2")
		gone := create("docs/v1", "routing", map[string]any{"forwardPath": true})
		who.remove(t, gone.Link.ID)
		for path, status := range map[string]int{
			"/public/STATS+": 200, "/public/stats.svg": 200, "/public/stats.png": 200, "/a/img.png": 302,
			"/a/img.png.svg": 200,
			"/promo.svg":     200, "/promo+": 404, "/nothing.svg": 404, "/a": 404, "/promo/x": 404, "/promo%25": 302,
			"/pro%00mo": 404,
			"/promo).":  302, "/promo%29%20": 302, "/promo%E2%80%9D": 302, "/promo&utm=1": 302, "/promo%3Fa=b": 302,
			"/*promo*":         404,
			"/public/stats%2B": 200, "/public/stats%2Esvg": 200, "/report.svg.": 302, "/docs/c++": 302,
			"/docs/c%2B%2B": 302, "/docs+": 200,
			"/docs/x.svg": 302, "/docs/v2.svg": 200, "//promo": 404, "/robots.txt": 200,
			"/docs//": 404, "/docs/..": 404, "/docs/%2E%2E": 404, "/docs%2F%2F": 404, "/promo//": 404, "/promo/.": 404,
			"/promo%2F": 302,
		} {
			if got := s.askHost(t, http.MethodGet, host, path); got.status != status {
				t.Errorf("%s: %d, want %d", path, got.status, status)
			}
		}
		if got := s.askHost(t, http.MethodGet, host,
			"/docs/v1/x"); got.header.Get("Location") != "https://example.com/docs/v1/x" {
			t.Errorf("below a deleted link: %v", got.header)
		}
		for range 12 { // more than a network may request unknown codes
			for path, status := range map[string]int{"/public/stats.svg": 200, "/a/img.png": 302,
				"/public/stats+": 200} {
				if got := s.askHost(t, http.MethodGet, host, path); got.status != status {
					t.Errorf("%s again: %d", path, got.status)
				}
			}
		}
		who.shorten(t, "https://example.com/shared", "strategy", "CUSTOM", "customCode", "s")
		if got := s.askHost(t, http.MethodGet, host, "/s"); got.status != 404 {
			t.Errorf("a code of the workspace: %d", got.status)
		}
		s.expect(t, http.StatusFound, http.MethodGet, "/printed/s")
		s.expect(t, http.StatusNotFound, http.MethodGet, "/printed/promo")
		for _, refused := range [][]userError{
			who.refusal(t, "updateWorkspace", "UpdateWorkspaceInput",
				map[string]any{"id": who.workspaceID, "primaryDomainId": domainID}),
			who.refusal(t, "addDomain", "AddDomainInput",
				map[string]any{"workspaceId": who.workspaceID, "host": host, "codeSpace": "SHARED"}),
			who.refusal(t, "addDomain", "AddDomainInput",
				map[string]any{"workspaceId": who.workspaceID, "host": host, "codeSpace": "OWN",
					"caseSensitive": true}),
			who.refusal(t, "addDomain", "AddDomainInput",
				map[string]any{"workspaceId": who.workspaceID, "host": "other.example.com", "caseSensitive": false}),
			who.refusal(t, "removeDomain", "RemoveDomainInput", map[string]any{"id": domainID}),
		} {
			if len(refused) != 1 {
				t.Errorf("%+v", refused)
			}
		}
		var found struct {
			Link struct {
				ID     string
				Domain struct {
					CodeSpace     string
					CaseSensitive bool
				}
			}
			ByURL struct{ ID string }
		}
		who.must(t, &found, `query ($w: ID!, $d: ID!) {
			link(by: {code: {workspaceId: $w, code: "STRASSE/ÜNÏCODE", domainId: $d}}) { id domain { codeSpace
			caseSensitive } }
			byUrl: link(by: {shortUrl: "https://go.example.com/stra%C3%9Fe/%C3%BCn%C3%AFcode"}) { id } }`,
			map[string]any{"w": who.workspaceID, "d": domainID})
		if found.Link.ID == "" || found.Link.ID != found.ByURL.ID || found.Link.Domain.CodeSpace != "OWN" ||
			found.Link.Domain.CaseSensitive {
			t.Errorf("%+v", found)
		}
	})
}
