package main

import (
	"encoding/json"
	"net/http"
	"regexp"
	"slices"
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

// keyView has the fields of an API key that the tests read.
type keyView struct {
	APIKey struct{ ID, Prefix string }
	Secret string
	Errors []userError
}

// key creates an API key, and returns a client that uses it.
func (w tenant) key(t *testing.T, scopes ...string) (client, string) {
	t.Helper()
	var got struct{ CreateAPIKey keyView }
	w.must(t, &got, `mutation ($w: ID!, $s: [Permission!]!) {
		createApiKey(input: {workspaceId: $w, name: "CI", scopes: $s}) { apiKey { id prefix } secret errors { code
		message field } } }`,
		map[string]any{"w": w.workspaceID, "s": scopes})
	if got.CreateAPIKey.Secret == "" {
		t.Fatalf("%+v", got)
	}
	return client{server: w.server, token: got.CreateAPIKey.Secret}, got.CreateAPIKey.APIKey.ID
}

// TestAPIKey_WorksUntilRevoked on every node.
func TestAPIKey_WorksUntilRevoked(t *testing.T) {
	t.Parallel()
	eachBackend(t, func(t *testing.T, b backend) {
		nodes := startAll(t, b, b.nodes)
		who := nodes[0].tenant(t, "keyed")
		key, keyID := who.key(t, "LINKS_WRITE")
		key.server = nodes[len(nodes)-1]
		var got struct{ CreateLink createLinkPayload }
		key.must(t, &got, `mutation ($w: ID!) { createLink(input: {workspaceId: $w, url: "https://example.com/by-key"})
			{
			created link { shortUrl createdBy { id } } errors { code } } }`, map[string]any{"w": who.workspaceID})
		if !got.CreateLink.Created {
			t.Errorf("%+v", got)
		}
		var me struct{ Me *struct{ ID string } }
		key.must(t, &me, `{ me { id } }`, nil)
		if me.Me != nil {
			t.Errorf("a key is %+v", me.Me)
		}
		const forbidden = `mutation ($w: ID!) { deleteWorkspace(input: {id: $w}) { errors { code } } }`
		if a, err := key.run(forbidden, map[string]any{"w": who.workspaceID}); err != nil || a.code() != "FORBIDDEN" {
			t.Errorf("%v, %s", err, a.body)
		}
		who.do(t, "revokeApiKey", map[string]any{"id": keyID})
		if a, err := key.run(`{ me { id } }`, nil); err != nil || a.status != http.StatusUnauthorized {
			t.Errorf("revoked: %v, %+v", err, a)
		}
		for _, s := range nodes {
			if strings.Contains(content(t, s.err)+content(t, s.out), key.token) {
				t.Error("the log has the secret")
			}
		}
	})
}

// TestDomain_ServesItsWorkspace answers its links and nothing else, once it is verified.
func TestDomain_ServesItsWorkspace(t *testing.T) {
	t.Parallel()
	eachBackend(t, func(t *testing.T, b backend) {
		s := start(t, b)
		who, other := s.tenant(t, "branded"), s.tenant(t, "other")
		domainID := who.claim(t, map[string]any{"host": "Links.Example.COM"})
		who.shorten(t, "https://example.com/branded", "strategy", "CUSTOM", "customCode", "promo")
		foreign := other.shorten(t, "https://example.com/other")
		if got := s.askHost(t, http.MethodGet, "links.example.com", "/promo"); got.status != http.StatusNotFound {
			t.Errorf("a host that is only claimed: %d", got.status)
		}
		s.expect(t, http.StatusNotFound, http.MethodGet, "/domains/known?domain=links.example.com")
		verify(t, b, domainID)
		s.expect(t, http.StatusOK, http.MethodGet, "/domains/known?domain=links.example.com")
		polltest.Until(t, "redirects use the domain", func() bool {
			return s.askHost(t, http.MethodGet, "links.example.com", "/promo").
				status == http.StatusFound
		})

		for path, want := range map[string]int{
			"/promo": http.StatusFound, "/promo?a=b": http.StatusFound, "/" + foreign.Link.Code: http.StatusNotFound,
			"/branded/promo":                http.StatusNotFound,
			"/other" + foreign.Link.path(s): http.StatusNotFound, "/": http.StatusNotFound,
			"/graphql":    http.StatusNotFound,
			"/livez":      http.StatusNotFound,
			"/playground": http.StatusNotFound, "/export/audit/" + who.workspaceID: http.StatusNotFound,
		} {
			for _, host := range []string{"links.example.com", "LINKS.example.com:8443", "links.example.com."} {
				if got := s.askHost(t, http.MethodGet, host, path); got.status != want {
					t.Errorf("%s%s: %d, want %d", host, path, got.status, want)
				}
			}
			// some of them are not valid hosts for the client
			for _, host := range []string{"example.com", "evil.links.example.com", "links.example.com.evil.com",
				"' OR true --",
				"\xff", "a..b", strings.Repeat("a", 300)} {
				if got := s.askHost(t, http.MethodGet, host, path); got.status != http.StatusNotFound &&
					got.status != http.StatusBadRequest {
					t.Errorf("%q%s: %d", host, path, got.status)
				}
			}
		}
		got := s.askHost(t, http.MethodGet, "links.example.com", "/promo").header.Get("Location")
		if got != "https://example.com/branded" {
			t.Errorf("the redirect leads to %q", got)
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
		l := who.shorten(t, "https://example.com/audited")
		who.shorten(t, "https://example.com/audited") // which makes none
		who.must(t, &struct{}{}, `mutation ($id: ID!) { updateLink(input: {id: $id, title: "T", tags: ["a"]}) { errors {
			code } } }`, map[string]any{"id": l.Link.ID})
		who.remove(t, l.Link.ID)
		key, keyID := who.key(t, "AUDIT_READ", "LINKS_WRITE")
		key.do(t, "restoreLink", map[string]any{"id": l.Link.ID})
		type event struct{ Type, ActorID, SubjectID, Details string }
		type log struct {
			Workspace struct {
				AuditLog struct{ Edges []struct{ Node event } }
			}
		}
		var got log
		key.must(t, &got, `query ($w: ID!) { workspace(by: {id: $w}) { auditLog(first: 50) { edges { node {
			type actorId subjectId details } } } } }`, map[string]any{"w": who.workspaceID})
		var events []event
		for _, e := range slices.Backward(got.Workspace.AuditLog.Edges) {
			events = append(events, e.Node)
		}
		want := []event{
			{"WORKSPACE_CREATED", who.id, who.workspaceID, `{"slug":"audited"}`},
			{"LINK_CREATED", who.id, l.Link.ID, `{}`},
			{"LINK_UPDATED", who.id, l.Link.ID, `{"fields":["title","tags"]}`},
			{"LINK_DELETED", who.id, l.Link.ID, `{}`},
			{"API_KEY_CREATED", who.id, keyID, `{"scopes":["AUDIT_READ","LINKS_WRITE"]}`},
			{"LINK_RESTORED", keyID, l.Link.ID, `{}`},
		}
		if diff := cmp.Diff(want, events); diff != "" {
			t.Errorf("the log (-want +got):\n%s", diff)
		}
		path := "/export/audit/" + who.workspaceID
		exported := s.expect(t, http.StatusOK, http.MethodGet, path, "Authorization", "Bearer "+key.token)
		var lines []event
		for line := range strings.Lines(exported.body) {
			var e struct {
				event
				Details json.RawMessage
			}
			if err := json.Unmarshal([]byte(line), &e); err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			e.event.Details = string(e.Details)
			lines = append(lines, e.event)
		}
		slices.Reverse(lines)
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

// TestResetPassword_WorksEndToEnd is replaced by an e-mailed token, and all sessions end.
func TestResetPassword_WorksEndToEnd(t *testing.T) {
	t.Parallel()
	eachBackend(t, func(t *testing.T, b backend) {
		s := start(t, b)
		who := s.tenant(t, "forgetful")
		anonymousClient := client{server: s}
		const request = `mutation ($e: EmailAddress!) { requestPasswordReset(input: {email: $e}) { requested errors {
			code } } }`
		var answers [2]string
		for i, email := range []string{who.email, "nobody-" + who.email} {
			a := must.Value(anonymousClient.run(request, map[string]any{"e": email}))(t)
			answers[i] = a.body
		}
		if answers[0] != answers[1] || !strings.Contains(answers[0], `"requested":true`) {
			t.Errorf("%s for an account, %s for none", answers[0], answers[1])
		}
		token := s.mailed(t, "password")
		reset := func() (got struct{ ResetPassword struct{ Errors []userError } }) {
			anonymousClient.must(t, &got, `mutation ($t: String!) { resetPassword(input: {token: $t, newPassword:
				"a new long password"}) { user { id } errors { code field } } }`,
				map[string]any{"t": token})
			return got
		}
		if got := reset().ResetPassword.Errors; len(got) != 0 {
			t.Fatalf("%+v", got)
		}
		if got := reset().ResetPassword.Errors; len(got) != 1 || got[0].Code != "BAD_CREDENTIALS" {
			t.Errorf("again: %+v", got)
		}
		if a, err := who.run(`{ me { id } }`, nil); err != nil || a.status != http.StatusUnauthorized {
			t.Errorf("the old session: %v, %+v", err, a)
		}
		for _, secret := range []string{token, who.email} {
			if strings.Contains(content(t, s.err), secret) {
				t.Errorf("the log has %q", secret)
			}
		}
	})
}
