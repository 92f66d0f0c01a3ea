package main

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// TestMailedPages_EndWhereOneCanGoOn follows the mails of an account and of invitations in a
// browser: each leads to a page that does what it says, once.
func TestMailedPages_EndWhereOneCanGoOn(t *testing.T) {
	t.Parallel()
	eachBackend(t, func(t *testing.T, b backend) {
		s := start(t, b)
		owner, member := s.tenant(t, "inviting"), s.tenant(t, "invited")
		send := func(page, token string, fields ...string) answer {
			t.Helper()
			form := url.Values{"token": {token}}
			for i := 0; i < len(fields); i += 2 {
				form.Set(fields[i], fields[i+1])
			}
			a, err := s.request(http.MethodPost, page, form.Encode(), "Accept", "text/html",
				"Content-Type", "application/x-www-form-urlencoded", "Origin", s.public)
			if err != nil {
				t.Fatal(err)
			}
			return a
		}
		expect := func(a answer, status int, text string) {
			t.Helper()
			hasNext := strings.Contains(a.body, `href="`+s.public+`/playground"`)
			if a.status != status || !strings.Contains(a.body, text) || hasNext != (status == http.StatusOK) {
				t.Errorf("%d, want %d and %q:\n%s", a.status, status, text, a.body)
			}
		}
		invite := func(email string) string {
			var got struct{ InviteMember struct{ Token string } }
			owner.must(t, &got,
				`mutation ($i: InviteMemberInput!) { inviteMember(input: $i) { token errors { code } } }`,
				map[string]any{"i": map[string]any{"workspaceId": owner.workspaceID, "email": email, "role": "EDITOR"}})
			return got.InviteMember.Token
		}

		owner.do(t, "requestEmailVerification", map[string]any{"email": owner.email})
		verification := s.mailed(t, "Confirm your e-mail address")
		expect(send("/verify", verification), http.StatusOK, "The address is confirmed")
		expect(send("/verify", verification), http.StatusUnauthorized, "The token is invalid")

		known := invite(member.email)
		expect(send("/invitation", known, "password", "not the password"), http.StatusUnauthorized, "enter your name")
		expect(send("/invitation", known, "password", member.password), http.StatusOK, "You are a member")
		expect(send("/invitation", known, "password", member.password), http.StatusNotFound, "has been accepted")

		fresh, email := invite("new-"+member.email), "new-"+member.email
		expect(send("/invitation", fresh, "name", "New", "password", "short"), http.StatusBadRequest, `value="New"`)
		expect(send("/invitation", fresh, "name", "New", "password", "a new long password"), http.StatusOK,
			"You are a member")
		joined := tenant{client: client{server: s}, email: email, password: "a new long password"}
		joined.token = s.login(t, joined).Token
		var got struct {
			Me struct {
				Workspaces struct{ Nodes []struct{ Slug string } }
			}
		}
		joined.must(t, &got, `{ me { workspaces { nodes { slug } } } }`, nil)
		if nodes := got.Me.Workspaces.Nodes; len(nodes) != 1 || nodes[0].Slug != "inviting" {
			t.Errorf("%+v", got)
		}
	})
}
