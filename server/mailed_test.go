package main

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/linkforge/linkforge/internal/platform/must"
)

// TestMailedPages_EndWhereOneCanGoOn follows the mails of an account and of invitations in a
// browser: each leads to a page that does what it says, once. A program resets a password by a mailed token.
func TestMailedPages_EndWhereOneCanGoOn(t *testing.T) {
	t.Parallel()
	eachBackend(t, func(t *testing.T, b backend) {
		s := start(t, b)
		owner, member := s.tenant(t, "inviting"), s.tenant(t, "invited")
		expect := func(status int, text, page, token string, fields ...string) {
			t.Helper()
			form := url.Values{"token": {token}}
			for i := 0; i < len(fields); i += 2 {
				form.Set(fields[i], fields[i+1])
			}
			a := must.Value(s.request(http.MethodPost, page, form.Encode(), "Accept", "text/html",
				"Content-Type", formType, "Origin", s.public))(t)
			hasNext := strings.Contains(a.body, `href="`+s.public+`/app"`)
			if a.status != status || !strings.Contains(a.body, text) || hasNext != (status == http.StatusOK) {
				t.Errorf("%d, want %d and %q:\n%s", a.status, status, text, a.body)
			}
		}
		invite := func(email string) string {
			return owner.ask(t, `mutation ($i: InviteMemberInput!) { inviteMember(input: $i) { token } }`,
				map[string]any{"i": map[string]any{"workspaceId": owner.workspaceID, "email": email,
					"role": "EDITOR"}}).text("inviteMember.token")
		}

		owner.do(t, "requestEmailVerification", map[string]any{"email": owner.email})
		verification := s.mailed(t, "Confirm your e-mail address")
		expect(http.StatusOK, "The address is confirmed", "/verify", verification)
		expect(http.StatusUnauthorized, "The token is invalid", "/verify", verification)

		known := invite(member.email)
		expect(http.StatusUnauthorized, "enter your name", "/invitation", known, "password", "not the password")
		expect(http.StatusOK, "You are a member", "/invitation", known, "password", member.password)
		expect(http.StatusNotFound, "has been accepted", "/invitation", known, "password", member.password)

		joined := tenant{client: client{server: s}, email: "new-" + member.email, password: "a new long password"}
		fresh := invite(joined.email)
		expect(http.StatusBadRequest, `value="New"`, "/invitation", fresh, "name", "New", "password", "short")
		expect(http.StatusOK, "You are a member", "/invitation", fresh, "name", "New", "password", joined.password)
		joined.token = s.login(t, joined).Token
		same(t, "the workspaces", joined.ask(t, `{ me { workspaces { nodes { slug } } } }`, nil).
			text("me.workspaces.nodes"), "[map[slug:inviting]]")

		visitor := tenant{client: client{server: s}}
		visitor.do(t, "requestPasswordReset", map[string]any{"email": member.email})
		reset := map[string]any{"token": s.mailed(t, "password"), "newPassword": "another long password"}
		visitor.do(t, "resetPassword", reset)
		refuses(t, "again", visitor.refusal(t, "resetPassword", "ResetPasswordInput", reset), "BAD_CREDENTIALS")
		wantStatus(t, "the old session", must.Value(member.run(`{ me { id } }`, nil))(t), http.StatusUnauthorized)
	})
}
