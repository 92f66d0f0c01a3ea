package main

import (
	"encoding/json"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/poll/polltest"
)

// execute executes a statement in the database, concurrently with the servers.
func execute(t *testing.T, b backend, statement string, args ...any) {
	t.Helper()
	d := must.Value(b.open())(t)
	defer d.Close()
	must.Value(d.NewRaw(statement, args...).Exec(db.AsSystem(t.Context())))(t)
}

// key creates an API key, and returns a client that uses it.
func (w tenant) key(t *testing.T, scopes ...string) (client, string) {
	t.Helper()
	got := w.ask(t, `mutation ($w: ID!, $s: [Permission!]!) {
		createApiKey(input: {workspaceId: $w, name: "CI", scopes: $s}) { apiKey { id } secret errors { message } } }`,
		map[string]any{"w": w.workspaceID, "s": scopes})
	if got.text("createApiKey.secret") == "" {
		t.Fatalf("%v", got)
	}
	return client{server: w.server, token: got.text("createApiKey.secret")}, got.text("createApiKey.apiKey.id")
}

// TestDomain_ServesItsWorkspace answers its links and nothing else, once it is verified.
func TestDomain_ServesItsWorkspace(t *testing.T) {
	t.Parallel()
	eachBackend(t, func(t *testing.T, b backend) {
		s := start(t, b)
		who, other := s.tenant(t, "branded"), s.tenant(t, "other")
		domainID := who.claim(t, map[string]any{"host": "Links.Example.COM"})
		who.shorten(t, "https://example.com/branded", "strategy", "CUSTOM", "customCode", "promo")
		foreign := other.shorten(t, "https://example.com/other").Link
		if got := s.askHost(t, http.MethodGet, "links.example.com", "/promo"); got.status != http.StatusNotFound {
			t.Errorf("a host that is only claimed: %d", got.status)
		}
		s.expect(t, http.StatusNotFound, http.MethodGet, "/domains/known?domain=links.example.com")
		verify(t, b, domainID)
		s.expect(t, http.StatusOK, http.MethodGet, "/domains/known?domain=links.example.com")
		polltest.Until(t, "redirects use the domain", func() bool {
			return s.askHost(t, http.MethodGet, "links.example.com", "/promo").header.Get("Location") ==
				"https://example.com/branded"
		})
		for _, path := range []string{"/promo", "/promo?a=b", "/" + foreign.Code, "/branded/promo",
			"/other" + foreign.path(s), "/", "/graphql", "/livez", "/playground", "/export/audit/" + who.workspaceID} {
			want := http.StatusNotFound
			if strings.HasPrefix(path, "/promo") {
				want = http.StatusFound
			}
			for _, host := range []string{"links.example.com", "LINKS.example.com:8443", "links.example.com."} {
				wantStatus(t, host+path, s.askHost(t, http.MethodGet, host, path), want)
			}
			// some of them are not valid hosts for the client
			for _, host := range []string{"example.com", "evil.links.example.com", "links.example.com.evil.com",
				"' OR true --", "\xff", "a..b", strings.Repeat("a", 300)} {
				if got := s.askHost(t, http.MethodGet, host, path); got.status != http.StatusNotFound &&
					got.status != http.StatusBadRequest {
					t.Errorf("%q%s: %d", host, path, got.status)
				}
			}
		}
		who.setWorkspace(t, map[string]any{"primaryDomainId": domainID})
		if got := who.shorten(t, "https://example.com/branded", "strategy", "CUSTOM", "customCode", "promo").
			Link.ShortURL; got != "https://links.example.com/promo" {
			t.Errorf("the short URL is %s", got)
		}
	})
}

// TestAuditLog_RecordsChanges, with actor, details and values of each, and can be exported.
func TestAuditLog_RecordsChanges(t *testing.T) {
	t.Parallel()
	eachBackend(t, func(t *testing.T, b backend) {
		s := start(t, b)
		who := s.tenant(t, "audited")
		l := who.shorten(t, "https://example.com/audited").Link
		who.shorten(t, "https://example.com/audited") // which makes none
		who.do(t, "updateLink", map[string]any{"id": l.ID, "title": "T", "tags": []string{"a"}})
		who.remove(t, l.ID)
		key, keyID := who.key(t, "AUDIT_READ", "LINKS_WRITE")
		key.do(t, "restoreLink", map[string]any{"id": l.ID})
		type event struct{ Type, ActorID, SubjectID, Details string }
		var got struct {
			Workspace struct {
				AuditLog struct{ Nodes []event }
			}
		}
		key.must(t, &got, `query ($w: ID!) { workspace(by: {id: $w}) { auditLog(first: 50) { nodes {
			type actorId subjectId details } } } }`, map[string]any{"w": who.workspaceID})
		want := []event{
			{"LINK_RESTORED", keyID, l.ID, `{}`},
			{"API_KEY_CREATED", who.id, keyID, `{"scopes":["AUDIT_READ","LINKS_WRITE"]}`},
			{"LINK_DELETED", who.id, l.ID, `{}`},
			{"LINK_UPDATED", who.id, l.ID, `{"fields":["title","tags"]}`},
			{"LINK_CREATED", who.id, l.ID, `{}`},
			{"WORKSPACE_CREATED", who.id, who.workspaceID, `{"slug":"audited"}`},
		}
		same(t, "the log", got.Workspace.AuditLog.Nodes, want)
		path := "/export/audit/" + who.workspaceID
		exported := s.expect(t, http.StatusOK, http.MethodGet, path, "Authorization", "Bearer "+key.token)
		var lines []event
		for line := range strings.Lines(exported.body) {
			var e struct {
				event
				Details json.RawMessage
			}
			must.NoError(t, json.Unmarshal([]byte(line), &e))
			e.event.Details = string(e.Details)
			lines = append(lines, e.event)
		}
		if diff := cmp.Diff(want, lines); diff != "" ||
			exported.header.Get("Content-Type") != "application/x-ndjson; charset=utf-8" {
			t.Errorf("the export (-want +got):\n%s", diff)
		}
		s.expect(t, http.StatusUnauthorized, http.MethodGet, path)
		s.expect(t, http.StatusNotFound, http.MethodGet, path, "Authorization", "Bearer "+s.tenant(t, "stranger").token)
		wantLoggedValues(t, s)
	})
}

// mailed finds the token in the last mail that a developer's server has shown.
func (s *server) mailed(t *testing.T, subject string) (token string) {
	t.Helper()
	pattern := regexp.MustCompile(`(?s)` + subject + `.*?\b(mailed_[A-Z2-7]+)`)
	polltest.Until(t, "a mail about "+subject, func() bool {
		all := pattern.FindAllStringSubmatch(content(t, s.out), -1)
		if len(all) > 0 {
			token = all[len(all)-1][1]
		}
		return len(all) > 0
	})
	return token
}
