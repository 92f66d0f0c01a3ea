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
		create := func(code string, fields ...any) linkView {
			t.Helper()
			return who.shorten(t, "https://example.com/"+url.PathEscape(code),
				append(fields, "customCode", code, "domainId", domainID)...).Link
		}
		expect := func(path string, status int, location string) {
			t.Helper()
			if got := s.askHost(t, http.MethodGet, host, path); got.status != status ||
				location != "" && got.header.Get("Location") != location {
				t.Errorf("%s: %d %q, want %d %q", path, got.status, got.header.Get("Location"), status, location)
			}
		}
		for _, code := range []string{
			"Promo", "straße/Ünïcode", "report.svg", "a&b=c", "rock+&roll", "favicon.ico!",
		} {
			l, path := create(code), (&url.URL{Path: "/" + code}).EscapedPath()
			if l.Code != code || l.ShortURL != "https://"+host+path {
				t.Errorf("%+v", l)
			}
			want := "https://example.com/" + url.PathEscape(code)
			expect(path, 302, want)
			expect((&url.URL{Path: "/" + strings.ToUpper(code)}).EscapedPath()+"/", 302, want)
			encoded := "/%" + strings.ReplaceAll(fmt.Sprintf("% x", code), " ", "%")
			expect(encoded+"?x=1", 302, want)
			if got := s.raw(t, "GET /"+code+" HTTP/1.1\r\nHost: "+host+
				"\r\nConnection: close\r\n\r\n"); got.status != 302 {
				t.Errorf("the bytes of %s: %d", code, got.status)
			}
		}
		create("Public/stats", "statsPublic", true)
		create("a/img.png", "statsPublic", true)
		create("docs", "statsPublic", true, "routing", map[string]any{"forwardPath": true})
		create("docs/v2")
		who.remove(t, create("docs/v1", "routing", map[string]any{"forwardPath": true}).ID)
		for path, status := range map[string]int{
			"/public/STATS+": 200, "/public/stats.svg": 200, "/public/stats.png": 200, "/a/img.png": 302,
			"/a/img.png.svg": 200, "/promo.svg": 200, "/promo+": 404, "/nothing.svg": 404, "/a": 404, "/promo/x": 404,
			"/promo%25": 302, "/pro%00mo": 404, "/promo).": 302, "/promo%29%20": 302, "/promo%E2%80%9D": 302,
			"/promo&utm=1": 302, "/promo%3Fa=b": 302, "/*promo*": 404, "/public/stats%2B": 200,
			"/public/stats%2Esvg": 200, "/report.svg.": 302, "/docs/c++": 302, "/docs/c%2B%2B": 302, "/docs+": 200,
			"/docs/x.svg": 302, "/docs/v2.svg": 200, "//promo": 404, "/robots.txt": 200,
			"/docs//": 404, "/docs/..": 404, "/docs/%2E%2E": 404, "/docs%2F%2F": 404, "/promo//": 404, "/promo/.": 404,
			"/promo%2F": 302,
		} {
			expect(path, status, "")
		}
		expect("/docs/v1/x", 302, "https://example.com/docs/v1/x")
		for range 12 { // more than a network may request unknown codes
			for path, status := range map[string]int{"/public/stats.svg": 200, "/a/img.png": 302,
				"/public/stats+": 200} {
				expect(path, status, "")
			}
		}
		who.shorten(t, "https://example.com/shared", "strategy", "CUSTOM", "customCode", "s")
		expect("/s", 404, "")
		s.expect(t, http.StatusFound, http.MethodGet, "/printed/s")
		s.expect(t, http.StatusNotFound, http.MethodGet, "/printed/promo")
		refused := [][]userError{who.refusal(t, "updateWorkspace", "UpdateWorkspaceInput",
			map[string]any{"id": who.workspaceID, "primaryDomainId": domainID})}
		for _, fields := range []map[string]any{{"host": host, "codeSpace": "SHARED"},
			{"host": host, "codeSpace": "OWN", "caseSensitive": true},
			{"host": "other.example.com", "caseSensitive": false}} {
			fields["workspaceId"] = who.workspaceID
			refused = append(refused, who.refusal(t, "addDomain", "AddDomainInput", fields))
		}
		for i, errs := range refused {
			if len(errs) != 1 {
				t.Errorf("%d: %+v", i, errs)
			}
		}
	})
}
