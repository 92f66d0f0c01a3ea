package main

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/poll/polltest"
)

// TestRegistration_NeedsAnInvitationInProduction: the operator creates the first account, which invites the second.
func TestRegistration_NeedsAnInvitationInProduction(t *testing.T) {
	t.Parallel()
	eachBackend(t, func(t *testing.T, b backend) {
		settings := []string{"LINKFORGE_ENV=production"}
		if b.nodes == 1 {
			settings = append(settings, "LINKFORGE_DATABASE_URL=sqlite")
		}
		s := start(t, b, settings...)
		anonymous := client{server: s}
		if got := anonymous.ask(t, `{ loginOptions { registration } }`, nil).text("loginOptions.registration"); got !=
			"INVITED" {
			t.Errorf("registration is %s", got)
		}
		join := func(fields map[string]any) answer {
			fields["password"], fields["name"] = "a long password", "X"
			return must.Value(anonymous.run(`mutation ($in: RegisterInput!) { register(input: $in) {
				errors { code } } }`, map[string]any{"in": fields}))(t)
		}
		if a := join(map[string]any{"email": "stranger@example.com"}); a.code() != "FORBIDDEN" {
			t.Errorf("a stranger: %+v", a)
		}

		out := succeed(t, s.env, "users", "create", "ada@example.com", "--name=Ada")
		_, token, found := strings.Cut(strings.TrimSpace(out), s.public+"/password#")
		if !found {
			t.Fatalf("output %q", out)
		}
		for _, c := range []struct {
			token, origin string
			status        int
			says          string
		}{
			{"\xe4", s.public, http.StatusBadRequest, "UTF-8"},
			{token, "https://evil.example", http.StatusBadRequest, ""},
			{token, s.public, http.StatusOK, "The password is set"},
			{token, s.public, http.StatusUnauthorized, "token is invalid"},
		} {
			form := url.Values{"token": {c.token}, "password": {"pass phrase of ada"}}
			a := must.Value(s.request(http.MethodPost, "/password", form.Encode(), "Accept", "text/html",
				"Content-Type", formType, "Origin", c.origin))(t)
			if a.status != c.status || !strings.Contains(a.body, c.says) {
				t.Errorf("%q from %s: %+v", c.token, c.origin, a)
			}
		}
		ada := tenant{client: client{server: s}, email: "ada@example.com", password: "pass phrase of ada"}
		ada.token = s.login(t, ada).Token
		workspaceID := ada.newWorkspace(t, "team")
		invitation := ada.ask(t, `mutation ($in: InviteMemberInput!) { inviteMember(input: $in) { token } }`,
			map[string]any{"in": map[string]any{
				"workspaceId": workspaceID, "email": "eve@example.com", "role": "EDITOR",
			}}).text("inviteMember.token")
		other := join(map[string]any{"email": "other@example.com", "invitationToken": invitation})
		if other.code() != "FORBIDDEN" {
			t.Errorf("another address: %+v", other)
		}
		invited := join(map[string]any{"email": "Eve@Example.com", "invitationToken": invitation})
		hasTexts(t, "the invited address", invited.body, `"errors":[]`)
		eve := tenant{client: client{server: s}, email: "eve@example.com", password: "a long password"}
		eve.token = s.login(t, eve).Token
		same(t, "the workspaces", eve.ask(t, `{ me { workspaces { nodes { slug viewerRole } } } }`, nil).
			text("me.workspaces.nodes"), "[map[slug:team viewerRole:EDITOR]]")
		declined(t, s.env, "last owner of team", "users", "delete", "ada@example.com", "--yes")
		succeed(t, s.env, "users", "create", "grace@example.com", "--owner-of=team")
		declined(t, s.env, "--yes is needed", "users", "delete", "ada@example.com")
		succeed(t, s.env, "users", "delete", "ada@example.com", "--yes")
		out = succeed(t, s.env, "users", "reset-password", "grace@example.com")
		if !strings.Contains(out, s.public+"/password#") {
			t.Errorf("output %q", out)
		}
	})
}

// TestUsersDisable_ReachesEveryNode within a second, and lists the API keys that stay.
func TestUsersDisable_ReachesEveryNode(t *testing.T) {
	t.Parallel()
	eachBackend(t, func(t *testing.T, b backend) {
		nodes := startAll(t, b, b.nodes)
		who := nodes[0].tenant(t, "leaver")
		key, keyID := who.key(t, "LINKS_READ")
		other := nodes[len(nodes)-1]
		access := []string{who.token, nodes[0].login(t, who).Token}
		refresh := other.login(t, who).RefreshToken
		taskID := who.importByAPI(t, "https://import.example", "secret")
		out := succeed(t, nodes[0].env, "users", "disable", who.email)
		if !strings.Contains(out, keyID) || !strings.Contains(out, "ended 3 sessions") {
			t.Errorf("output %q", out)
		}
		for i, node := range []*server{nodes[0], other} {
			polltest.Until(t, "the node refuses the tokens", func() bool {
				return !slices.ContainsFunc(access, func(token string) bool {
					a, err := client{server: node, token: token}.run(`{ me { id } }`, nil)
					return err != nil || a.code() != "UNAUTHENTICATED"
				})
			})
			refuses(t, fmt.Sprint("a log-in on node ", i), node.login(t, who).Errors, "BAD_CREDENTIALS")
		}
		got := client{server: other}.ask(t, refreshSession, map[string]any{"x": refresh})
		if got.text("refreshSession.errors.0.code") != "BAD_CREDENTIALS" {
			t.Errorf("refresh: %v", got)
		}
		reads := client{server: other, token: key.token}
		polltest.Until(t, "the task of the account is canceled, and the key still reads", func() bool {
			a, err := reads.run(`query ($id: ID!) { node(id: $id) { ... on Task { status } } }`,
				map[string]any{"id": taskID})
			return err == nil && strings.Contains(a.body, "CANCELED")
		})
		succeed(t, nodes[0].env, "users", "enable", who.email)
		if got := other.login(t, who); got.Token == "" {
			t.Errorf("after enable: %+v", got)
		}
	})
}
