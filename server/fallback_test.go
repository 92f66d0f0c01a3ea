package main

import (
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/poll/polltest"
)

// verifiedDomain adds a domain to the workspace, verifies it in the database, and returns its id.
func (w tenant) verifiedDomain(t *testing.T, b backend, host string) string {
	t.Helper()
	return w.domain(t, b, host, map[string]any{})
}

// domain is verifiedDomain with further fields of the input.
func (w tenant) domain(t *testing.T, b backend, host string, fields map[string]any) string {
	t.Helper()
	fields["workspaceId"], fields["host"] = w.workspaceID, host
	var added struct {
		AddDomain struct{ Domain struct{ ID string } }
	}
	w.must(t, &added, `mutation ($in: AddDomainInput!) { addDomain(input: $in) { domain { id } } }`,
		map[string]any{"in": fields})
	now := db.Instant(time.Now())
	execute(t, b, "UPDATE domains SET verified_at = ?, checked_at = ? WHERE id = ?", now, now,
		added.AddDomain.Domain.ID)
	return added.AddDomain.Domain.ID
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

// fallen is a workspace with a link in each state without a destination, and its own domain.
type fallen struct {
	tenant
	host, domainID string
	nodes          []*server
	links          map[string]linkView // by state
	// requests counts the GET requests of this test by "status code".
	requests map[string]int64
}

// The states without a destination. The first two have no URL of a link.
var fallenStates = []string{"unknown", "deleted", "pending", "expired", "exhausted"}

func newFallen(t *testing.T, b backend, nodes []*server) *fallen {
	t.Helper()
	f := &fallen{tenant: nodes[0].tenant(t, "fallen"), host: "fallen.example.com", nodes: nodes,
		links: map[string]linkView{}, requests: map[string]int64{}}
	f.domainID = f.verifiedDomain(t, b, f.host)
	for _, state := range []string{"deleted", "pending", "expired", "exhausted", "disabled", "over-quota"} {
		more := []any{"strategy", "CUSTOM", "customCode", state}
		switch state {
		case "pending":
			more = append(more, "startsAt", time.Now().Add(time.Hour).UTC().Format(time.RFC3339))
		case "exhausted":
			more = append(more, "maxClicks", 1)
		}
		f.links[state] = f.shorten(t, "https://example.com/own/"+state, more...).Link
	}
	f.remove(t, f.links["deleted"].ID)
	past := db.Instant(time.Now().Add(-time.Hour))
	execute(t, b, "UPDATE links SET expires_at = ? WHERE id = ?", past, f.links["expired"].ID)
	execute(t, b, "UPDATE links SET disabled_at = ? WHERE id = ?", past, f.links["disabled"].ID)
	nodes[0].expect(t, http.StatusFound, http.MethodGet, "/fallen/exhausted")
	for range 2 { // as the quota of the test
		nodes[0].expect(t, http.StatusFound, http.MethodGet, "/fallen/over-quota")
	}
	return f
}

// replaced is the status of a state.
func replaced(state string) int {
	switch state {
	case "unknown", "deleted", "pending":
		return http.StatusNotFound
	case "over-quota":
		return http.StatusTooManyRequests
	}
	return http.StatusGone
}

// request sends a request for a code to the domain, or with a slug to the instance's own host.
func (f *fallen) request(t *testing.T, node *server, method, code string, hasSlug bool) answer {
	t.Helper()
	status := replaced(code)
	if method == http.MethodGet {
		f.requests[fmt.Sprint(status, " ", code)]++
	}
	if hasSlug {
		a := must.Value(node.request(method, "/fallen/"+code, ""))(t)
		return a
	}
	return node.askHost(t, method, f.host, "/"+code)
}

// leadTo waits until all nodes answer a state by a redirect to the location; without one, by a page.
func (f *fallen) leadTo(t *testing.T, state string, hasSlug bool, location string) {
	t.Helper()
	want := http.StatusFound
	if location == "" {
		want = replaced(state)
	}
	for _, node := range f.nodes {
		for _, method := range []string{http.MethodGet, http.MethodHead} {
			if state == "over-quota" && method == http.MethodHead { // HEAD consumes no hit
				continue
			}
			name := fmt.Sprintf("%s of %s (slug: %t) is answered by %d to %q", method, state, hasSlug, want, location)
			var a answer
			polltest.Until(t, name, func() bool {
				a = f.request(t, node, method, state, hasSlug)
				return a.status == want && a.header.Get("Location") == location
			})
			caching := a.header.Get("Cache-Control")
			if location != "" && caching != "private, no-store" || !strings.Contains(caching, "no-store") {
				t.Errorf("%s: Cache-Control %q", name, caching)
			}
			if cookie := a.header.Get("Set-Cookie"); cookie != "" || location != "" && a.body != "" {
				t.Errorf("%s: cookie %q, body %q", name, cookie, a.body)
			}
		}
	}
}

// TestFallback_ReplacesThePage covers each state without a destination at each level: the workspace,
// the domain, which precedes it, and the link, which precedes both. Fallback redirects change no count,
// and are recorded as unmatched requests with the status that they replace.
func TestFallback_ReplacesThePage(t *testing.T) {
	t.Parallel()
	eachBackend(t, func(t *testing.T, b backend) {
		nextMonth(t)
		f := newFallen(t, b, startAll(t, b, b.nodes, "LINKFORGE_HIT_QUOTA=2"))
		const workspace, domain = "https://example.com/workspace", "https://example.com/domain"
		polltest.Until(t, "the clicks before are counted", func() bool {
			return f.getLink(t, f.links["over-quota"].ID).ClickCount == 2 &&
				f.getLink(t, f.links["exhausted"].ID).ClickCount == 1
		})
		for _, state := range fallenStates {
			f.leadTo(t, state, false, "")
			f.leadTo(t, state, true, "")
		}
		fallbackOf := func(level, state, host string) string {
			if replaced(state) == http.StatusNotFound {
				return fmt.Sprintf("%s/404/%s?host=%s", level, state, host)
			}
			return fmt.Sprintf("%s/410?%s&code=%s", level, host, state)
		}
		urls := func(level string) map[string]any {
			return map[string]any{
				"notFoundUrl": level + "/404/{code}?host={host}", "endedUrl": level + "/410?{host}&code={code}",
			}
		}
		instance, _, _ := net.SplitHostPort(f.nodes[0].address) // {host} has no port

		f.setWorkspace(t, urls(workspace))
		for _, state := range fallenStates {
			f.leadTo(t, state, false, fallbackOf(workspace, state, f.host))
			f.leadTo(t, state, true, fallbackOf(workspace, state, instance))
		}
		f.setDomain(t, f.domainID, urls(domain))
		for _, state := range fallenStates {
			f.leadTo(t, state, false, fallbackOf(domain, state, f.host))
			f.leadTo(t, state, true, fallbackOf(workspace, state, instance))
		}
		const disable = "UPDATE links SET disabled_at = ? WHERE id = ?"
		execute(t, b, disable, nil, f.links["disabled"].ID) // the URLs of a disabled link cannot change
		for state, l := range f.links {
			f.route(t, l.ID, map[string]any{
				"pendingUrl": "https://example.com/link/pending/{code}",
				"endedUrl":   "https://example.com/link/ended/{code}?{host}",
			})
			if state == "disabled" {
				execute(t, b, disable, time.Now().UTC(), l.ID)
			}
			switch state {
			case "pending":
				f.leadTo(t, state, false, "https://example.com/link/pending/pending")
				f.leadTo(t, state, true, "https://example.com/link/pending/pending")
			case "expired", "exhausted":
				f.leadTo(t, state, false, "https://example.com/link/ended/"+state+"?"+f.host)
				f.leadTo(t, state, true, "https://example.com/link/ended/"+state+"?"+instance)
			case "deleted":
				f.leadTo(t, state, false, fallbackOf(domain, state, f.host))
			default: // disabled and over-quota
				f.leadTo(t, state, false, "")
				f.leadTo(t, state, true, "")
			}
		}
		f.leadTo(t, "unknown", false, fallbackOf(domain, "unknown", f.host))
		f.expectUnmatched(t)

		succeed(t, f.env, "workspaces", "delete", "fallen")
		for _, node := range f.nodes {
			for _, method := range []string{http.MethodGet, http.MethodHead} {
				for _, state := range append([]string{"disabled", "over-quota"}, fallenStates...) {
					want := http.StatusGone
					if state == "unknown" {
						want = http.StatusNotFound
					}
					polltest.Until(t, method+" of "+state+" in a deleted workspace", func() bool {
						a := node.askHost(t, method, f.host, "/"+state)
						return a.status == want && a.header.Get("Location") == ""
					})
				}
			}
		}
		for _, node := range f.nodes {
			node.stop()
		}
		for state, l := range f.links {
			want := map[string]int64{"exhausted": 1, "over-quota": 2}[state]
			clicks, _, _ := clicksOf(t, b, l.ID)
			granted := numberOf(t, b, "SELECT coalesce(sum(granted), 0) FROM grants WHERE subject_id = ?", l.ID)
			if hits := chargedOf(t, b, l.ID); clicks != want || hits != want ||
				state == "exhausted" && granted != want {
				t.Errorf("%s: %d clicks, %d hits, %d granted, want %d", state, clicks, hits, granted, want)
			}
		}
	})
}

// expectUnmatched waits until the unmatched requests are those of the test, with the status that the
// answer replaced.
func (f *fallen) expectUnmatched(t *testing.T) {
	t.Helper()
	var recorded map[string]int64
	defer func() {
		if diff := cmp.Diff(f.requests, recorded); diff != "" {
			t.Errorf("unmatched requests (-want +got):\n%s", diff)
		}
	}()
	polltest.Until(t, "unmatched requests are written", func() bool {
		var got struct {
			Workspace struct {
				UnmatchedRequests []struct {
					Status   int
					Code     string
					Requests int64
				}
			}
		}
		f.must(t, &got,
			`query ($w: ID!) { workspace(by: {id: $w}) { unmatchedRequests(first: 100) { status code requests } } }`,
			map[string]any{"w": f.workspaceID})
		recorded = map[string]int64{}
		for _, one := range got.Workspace.UnmatchedRequests {
			recorded[fmt.Sprint(one.Status, " ", one.Code)] += one.Requests
		}
		return cmp.Equal(f.requests, recorded)
	})
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
			// those that cannot be codes have no name
			if !slices.Contains([]string{"nothing", "live", "a", ""}, one.Code) {
				t.Errorf("the unmatched code %q", one.Code)
			}
		}
	})
}
