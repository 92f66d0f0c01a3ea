package main

import (
	"fmt"
	"net"
	"net/http"
	"slices"
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
	var added struct {
		AddDomain struct{ Domain struct{ ID string } }
	}
	w.must(t, &added, `mutation ($in: AddDomainInput!) { addDomain(input: $in) { domain { id } } }`,
		map[string]any{"in": fields})
	return added.AddDomain.Domain.ID
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
		domainID := who.verifiedDomain(t, b, "strange.example.com")
		who.setWorkspace(t, map[string]any{"notFoundUrl": "https://example.com/workspace/{code}"})
		who.shorten(t, "https://example.com/own", "strategy", "CUSTOM", "customCode", "live")
		codes := map[string]string{ // as requested and as inserted
			"nothing": "nothing", "a": "a", "page.html": "page.html", "a%20b": "a%20b", "a%26b%3Dc": "a",
			"a%3Fb%23c": "a", "%C3%BC": "%C3%BC", "%0D%0Ax": "%0D%0Ax", "%7Bhost%7D": "%7Bhost",
			strings.Repeat("x", 300): strings.Repeat("x", 300), "%FF": "%FF",
		}
		leads := func(name string, request func() answer, location string) {
			t.Helper()
			polltest.Until(t, name+" leads to "+location, func() bool {
				a := request()
				return a.status == http.StatusFound && a.header.Get("Location") == location
			})
		}
		instance, _, _ := net.SplitHostPort(strings.TrimPrefix(s.public, "http://"))
		for _, method := range []string{http.MethodGet, http.MethodHead} {
			for code, inserted := range codes {
				name := fmt.Sprintf("%s %.20s", method, code)
				leads(name+" at the root", func() answer { return s.askHost(t, method, s.address, "/"+code) },
					"https://example.com/instance/"+inserted+"?"+instance)
				leads(name+" below a slug", func() answer { return s.askHost(t, method, instance, "/strange/"+code) },
					"https://example.com/workspace/"+inserted)
				leads(name+" at a domain", func() answer {
					return s.askHost(t, method, "strange.example.com", "/"+code)
				}, "https://example.com/workspace/"+inserted)
			}
			for _, path := range []string{"/live/x", "/live//", "/live/%2e%2e"} {
				leads(method+" "+path, func() answer { return s.askHost(t, method, "strange.example.com", path) },
					"https://example.com/workspace/live")
			}
		}
		who.setDomain(t, domainID, map[string]any{"notFoundUrl": "https://example.com/domain?{code}"})
		leads("a code that no link can have", func() answer {
			return s.askHost(t, http.MethodGet, "strange.example.com", "/a.b")
		}, "https://example.com/domain?a.b")
		for _, path := range []string{"/nobody/a.b", "/no.slug/abc"} {
			if a := s.expect(t, http.StatusNotFound, http.MethodGet, path); a.header.Get("Location") != "" {
				t.Errorf("%s of no workspace leads to %q", path, a.header.Get("Location"))
			}
		}
		var got struct {
			Workspace struct{ UnmatchedRequests []struct{ Code string } }
		}
		polltest.Until(t, "unmatched requests are written", func() bool {
			who.must(t, &got, `query ($w: ID!) { workspace(by: {id: $w}) { unmatchedRequests(first: 100) { code } } }`,
				map[string]any{"w": who.workspaceID})
			return len(got.Workspace.UnmatchedRequests) > 0
		})
		for _, one := range got.Workspace.UnmatchedRequests {
			// other paths, which cannot be codes, have no name
			if !slices.Contains([]string{"nothing", "live", "a", ""}, one.Code) {
				t.Errorf("the unmatched code %q", one.Code)
			}
		}
	})
}
