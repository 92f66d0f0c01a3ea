package main

import (
	"fmt"
	"net"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/poll/polltest"
)

// verifiedDomain adds a domain to the workspace, verifies it in the database, and returns its id.
func (w tenant) verifiedDomain(t *testing.T, b backend, host string) string {
	t.Helper()
	domainID := w.claim(t, map[string]any{"host": host})
	verify(t, b, domainID)
	return domainID
}

// claim adds a domain, which is not verified yet.
func (w tenant) claim(t *testing.T, fields map[string]any) string {
	t.Helper()
	fields["workspaceId"] = w.workspaceID
	return w.ask(t, `mutation ($in: AddDomainInput!) { addDomain(input: $in) { domain { id } } }`,
		map[string]any{"in": fields}).text("addDomain.domain.id")
}

func verify(t *testing.T, b backend, domainID string) {
	t.Helper()
	now := db.Instant(time.Now())
	execute(t, b, "UPDATE domains SET verified_at = ?, checked_at = ? WHERE id = ?", now, now, domainID)
}

// refusal runs a mutation that changes fields of an object, and returns its errors.
func (w tenant) refusal(t *testing.T, mutation, input string, fields map[string]any) []userError {
	t.Helper()
	got := map[string]struct{ Errors []userError }{}
	w.must(t, &got, fmt.Sprintf(`mutation ($in: %s!) { %s(input: $in) { errors { code message field } } }`, input,
		mutation), map[string]any{"in": fields})
	return got[mutation].Errors
}

// setDomain and setWorkspace change fields of the settings, which must be accepted.
func (w tenant) setDomain(t *testing.T, domainID string, fields map[string]any) {
	t.Helper()
	fields["id"] = domainID
	if errs := w.refusal(t, "updateDomain", "UpdateDomainInput", fields); len(errs) > 0 {
		t.Fatalf("%v: %+v", fields, errs)
	}
}

func (w tenant) setWorkspace(t *testing.T, fields map[string]any) {
	t.Helper()
	fields["id"] = w.workspaceID
	if errs := w.refusal(t, "updateWorkspace", "UpdateWorkspaceInput", fields); len(errs) > 0 {
		t.Fatalf("%v: %+v", fields, errs)
	}
}

// TestFallback_AppliesToEveryUnknownCode covers the URL of the instance, and codes and paths that no
// link can have: {code} is percent-encoded and cannot end the URL's part that it is in.
func TestFallback_AppliesToEveryUnknownCode(t *testing.T) {
	t.Parallel()
	eachBackend(t, func(t *testing.T, b backend) {
		s := startAll(t, b, b.nodes, "LINKFORGE_NOT_FOUND_URL=https://example.com/instance/{code}?{host}")[b.nodes-1]
		who := s.tenant(t, "strange")
		const host = "strange.example.com"
		who.verifiedDomain(t, b, host)
		who.setWorkspace(t, map[string]any{"notFoundUrl": "https://example.com/workspace/{code}"})
		who.shorten(t, "https://example.com/own", "strategy", "CUSTOM", "customCode", "live")
		leads := func(host, path, location string) {
			t.Helper()
			for _, method := range []string{http.MethodGet, http.MethodHead} {
				polltest.Until(t, method+" "+path+" leads to "+location, func() bool {
					a := s.askHost(t, method, host, path)
					return a.status == http.StatusFound && a.header.Get("Location") == location
				})
			}
		}
		instance, _, _ := net.SplitHostPort(strings.TrimPrefix(s.public, "http://"))
		long := strings.Repeat("x", 300)
		for code, inserted := range map[string]string{ // as requested and as inserted
			"nothing": "nothing", "a": "a", "page.html": "page.html", "a%20b": "a%20b", "a%26b%3Dc": "a",
			"a%3Fb%23c": "a", "%C3%BC": "%C3%BC", "%0D%0Ax": "%0D%0Ax", "%7Bhost%7D": "%7Bhost", long: long,
			"%FF": "%FF",
		} {
			leads(s.address, "/"+code, "https://example.com/instance/"+inserted+"?"+instance)
			leads(instance, "/strange/"+code, "https://example.com/workspace/"+inserted)
			leads(host, "/"+code, "https://example.com/workspace/"+inserted)
		}
		for _, path := range []string{"/live/x", "/live//", "/live/%2e%2e"} {
			leads(host, path, "https://example.com/workspace/live")
		}
		for _, path := range []string{"/nobody/a.b", "/no.slug/abc"} {
			if a := s.expect(t, http.StatusNotFound, http.MethodGet, path); a.header.Get("Location") != "" {
				t.Errorf("%s of no workspace leads to %q", path, a.header.Get("Location"))
			}
		}
		var got tree
		polltest.Until(t, "unmatched requests are written", func() bool {
			got = who.ask(t, `query ($w: ID!) { workspace(by: {id: $w}) { unmatchedRequests(first: 100) { code } } }`,
				map[string]any{"w": who.workspaceID})
			return got.text("workspace.unmatchedRequests.0") != ""
		})
		// other paths, which cannot be codes, have no name
		known := regexp.MustCompile(`^\[(map\[code:(nothing|live|a||<nil>)\] ?)+\]$`)
		if codes := got.text("workspace.unmatchedRequests"); !known.MatchString(codes) {
			t.Errorf("the unmatched codes %s", codes)
		}
	})
}
