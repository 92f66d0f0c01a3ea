package main

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

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
		var options struct{ LoginOptions struct{ Registration string } }
		anonymous.must(t, &options, `{ loginOptions { registration } }`, nil)
		if options.LoginOptions.Registration != "INVITED" {
			t.Errorf("%+v", options)
		}
		join := func(email, token string) (answer, error) {
			in := map[string]any{"email": email, "password": "a long password", "name": "X"}
			if token != "" {
				in["invitationToken"] = token
			}
			return anonymous.run(`mutation ($in: RegisterInput!) { register(input: $in) {
				errors { code } user { workspaces { edges { node { slug viewerRole } } } } token } }`,
				map[string]any{"in": in})
		}
		if a, err := join("stranger@example.com", ""); err != nil || a.code() != "FORBIDDEN" {
			t.Errorf("a stranger: %+v, %v", a, err)
		}

		out := succeed(t, s.env, "users", "create", "ada@example.com", "--name=Ada")
		_, token, found := strings.Cut(out, s.public+"/password#")
		if !found {
			t.Fatalf("output %q", out)
		}
		form := url.Values{"token": {strings.TrimSpace(token)}, "password": {"pass phrase of ada"}}
		send := func(origin string) answer {
			a, err := s.request(http.MethodPost, "/password", form.Encode(), "Accept", "text/html",
				"Content-Type", "application/x-www-form-urlencoded", "Origin", origin)
			if err != nil {
				t.Fatal(err)
			}
			return a
		}
		right := form.Get("token")
		form.Set("token", "\xe4")
		if a := send(s.public); a.status != http.StatusBadRequest || !strings.Contains(a.body, "UTF-8") {
			t.Errorf("a token that is not UTF-8: %+v", a)
		}
		form.Set("token", right)
		if a := send("https://evil.example"); a.status != http.StatusBadRequest {
			t.Errorf("from another origin: %+v", a)
		}
		if a := send(s.public); a.status != http.StatusOK || !strings.Contains(a.body, "The password is set") {
			t.Errorf("%+v", a)
		}
		if a := send(s.public); a.status != http.StatusUnauthorized || !strings.Contains(a.body, "token is invalid") {
			t.Errorf("a second time: %+v", a)
		}
		ada := tenant{client: client{server: s}, email: "ada@example.com", password: "pass phrase of ada"}
		ada.token = s.login(t, ada).Token
		workspaceID := ada.newWorkspace(t, "team")
		var invited struct{ InviteMember struct{ Token string } }
		ada.must(t, &invited,
			`mutation ($in: InviteMemberInput!) { inviteMember(input: $in) { token errors { code } } }`,
			map[string]any{"in": map[string]any{
				"workspaceId": workspaceID, "email": "eve@example.com", "role": "EDITOR",
			}})
		if a, err := join("other@example.com", invited.InviteMember.Token); err != nil || a.code() != "FORBIDDEN" {
			t.Errorf("another address: %+v, %v", a, err)
		}
		a, err := join("Eve@Example.com", invited.InviteMember.Token)
		if err != nil || !strings.Contains(a.body, `"errors":[]`) {
			t.Errorf("the invited address: %+v, %v", a, err)
		}
		eve := tenant{client: client{server: s}, email: "eve@example.com", password: "a long password"}
		eve.token = s.login(t, eve).Token
		var seen struct {
			Me struct {
				Workspaces struct {
					Edges []struct {
						Node struct{ Slug, ViewerRole string }
					}
				}
			}
		}
		eve.must(t, &seen, `{ me { workspaces { edges { node { slug viewerRole } } } } }`, nil)
		if len(seen.Me.Workspaces.Edges) != 1 || seen.Me.Workspaces.Edges[0].Node.ViewerRole != "EDITOR" {
			t.Errorf("%+v", seen)
		}
		if _, stderr, status := command(t, s.env, "", "users", "delete", "ada@example.com", "--yes"); status != 1 ||
			!strings.Contains(stderr, "last owner of team") {
			t.Errorf("the last owner: %q", stderr)
		}
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
		var started struct {
			CreateImport struct {
				Task   struct{ ID string }
				Errors []userError
			}
		}
		who.must(t, &started,
			`mutation ($in: CreateImportInput!) { createImport(input: $in) { task { id } errors { code message field
				} } }`,
			map[string]any{"in": map[string]any{"workspaceId": who.workspaceID, "source": "KUTT",
				"api": map[string]any{"baseUrl": "https://import.example", "token": "secret"}}})
		if len(started.CreateImport.Errors) > 0 {
			t.Fatalf("%+v", started)
		}
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
			if got := node.login(t, who); len(got.Errors) != 1 || got.Errors[0].Code != "BAD_CREDENTIALS" {
				t.Errorf("log-in on node %d: %+v", i, got)
			}
		}
		var got struct{ RefreshSession tokens }
		client{server: other}.must(t, &got, refreshSession, map[string]any{"x": refresh})
		if len(got.RefreshSession.Errors) != 1 || got.RefreshSession.Errors[0].Code != "BAD_CREDENTIALS" {
			t.Errorf("refresh: %+v", got)
		}
		reads := client{server: other, token: key.token}
		reads.must(t, new(any), `query ($id: ID!) { workspace(by: {id: $id}) { slug } }`,
			map[string]any{"id": who.workspaceID})
		polltest.Until(t, "the task of the account is canceled", func() bool {
			a, err := reads.run(`query ($id: ID!) { node(id: $id) { ... on Task { status } } }`,
				map[string]any{"id": started.CreateImport.Task.ID})
			return err == nil && strings.Contains(a.body, "CANCELED")
		})
		succeed(t, nodes[0].env, "users", "enable", who.email)
		if got := other.login(t, who); got.Token == "" {
			t.Errorf("after enable: %+v", got)
		}
	})
}

// TestUnverified_ReadsOnly where the server sends mail, until the address is verified.
func TestUnverified_ReadsOnly(t *testing.T) {
	t.Parallel()
	s := start(t, embedded(t))
	owner := s.tenant(t, "owner")
	link := owner.shorten(t, "https://example.com/")
	mail := newMailbox(t)
	s.stop()
	s.env = append(s.env, "LINKFORGE_SMTP_URL=smtp://"+mail.address+"?tls=off",
		"LINKFORGE_MAIL_FROM=no-reply@example.com")
	s.again()
	calls := map[string]map[string]any{
		createWorkspace: {"name": "X", "slug": "another"},
		`mutation ($in: CreateLinkInput!) { createLink(input: $in) { errors { code } } }`: {
			"workspaceId": owner.workspaceID, "url": "https://example.com/2",
		},
		`mutation ($in: UpdateLinkInput!) { updateLink(input: $in) { errors { code } } }`: {"id": link.Link.ID,
			"title": "X"},
		`mutation ($in: InviteMemberInput!) { inviteMember(input: $in) { errors { code } } }`: {
			"workspaceId": owner.workspaceID, "email": "x@example.com", "role": "VIEWER",
		},
		`mutation ($in: CreateApiKeyInput!) { createApiKey(input: $in) { errors { code } } }`: {
			"workspaceId": owner.workspaceID, "name": "x", "scopes": []string{"LINKS_READ"},
		},
	}
	for _, verified := range []bool{false, true} {
		for query, in := range calls {
			a, err := owner.run(query, map[string]any{"in": in})
			isRefused := a.code() == "FORBIDDEN" && strings.Contains(a.body, "verifyEmail")
			if err != nil || isRefused == verified {
				t.Errorf("verified %t: %s: %+v, %v", verified, query, a, err)
			}
		}
		owner.must(t, new(any), `query ($id: ID!) { workspace(by: {id: $id}) { links { edges { node { id } } } } }`,
			map[string]any{"id": owner.workspaceID})
		if !verified {
			owner.must(t, new(any), `mutation ($in: RequestEmailVerificationInput!) {
				requestEmailVerification(input: $in) { errors { code } } }`,
				map[string]any{"in": map[string]any{"email": owner.email}})
			owner.must(t, new(any), `mutation ($in: VerifyEmailInput!) { verifyEmail(input: $in) { errors { code } } }`,
				map[string]any{"in": map[string]any{"token": mail.token(t, owner.email)}})
		}
	}
}
