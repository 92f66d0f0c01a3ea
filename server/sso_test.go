package main

import (
	"encoding/base32"
	"encoding/hex"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pquerna/otp/totp"
	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/optional"
	"github.com/linkforge/linkforge/internal/tenant/sso/ssotest"
)

const ssoPage = "https://app.example/sso"

func ssoSettings(provider *ssotest.Server) []string {
	return []string{
		"LINKFORGE_SSO_ISSUER=" + provider.URL, "LINKFORGE_SSO_CLIENT_ID=" + ssotest.ClientID,
		"LINKFORGE_SSO_CLIENT_SECRET=" + ssotest.ClientSecret, "LINKFORGE_SSO_REDIRECTS=" + ssoPage,
		"LINKFORGE_SSO_NAME=Example",
	}
}

// respond has a user log in at the provider, and returns the input of finishSso.
func (c client) respond(t *testing.T, provider *ssotest.Server, u ssotest.User) map[string]any {
	t.Helper()
	started := c.ask(t, `mutation ($in: StartSsoInput!) { startSso(input: $in) { authorizationUrl transaction } }`,
		map[string]any{"in": map[string]any{"redirectUri": ssoPage}})
	r := provider.LogIn(t, started.text("startSso.authorizationUrl"), u)
	return map[string]any{"transaction": started.text("startSso.transaction"), "code": r.Code, "state": r.State,
		"issuer": r.Issuer}
}

// TestSSO_OnEveryNode: a login starts at one node and ends once, at another, with the memberships of the groups.
func TestSSO_OnEveryNode(t *testing.T) {
	t.Parallel()
	eachBackend(t, func(t *testing.T, b backend) {
		provider := ssotest.Open(t)
		first := start(t, b)
		owner := first.tenant(t, "engines")
		first.stop()
		b.env = append(b.env, "LINKFORGE_SSO_MEMBERSHIPS=engineering=engines:EDITOR")
		nodes := startAll(t, b, b.nodes, ssoSettings(provider)...)
		here, there := client{server: nodes[0]}, client{server: nodes[len(nodes)-1]}
		if got := here.ask(t, `{ loginOptions { password ssoName } }`, nil).text("loginOptions"); got !=
			"map[password:true ssoName:Example]" {
			t.Errorf("the options are %s", got)
		}

		grace := ssotest.User{Subject: "1", Email: "grace@example.com", Name: "Grace", Groups: []string{"engineering"}}
		in := here.respond(t, provider, grace)
		answers := make([]factorAnswer, 8)
		var all sync.WaitGroup
		for i := range answers {
			c := []client{here, there}[i%2]
			all.Go(func() { answers[i] = c.factor(t, "finishSso", in, "token refreshToken challenge { token }") })
		}
		all.Wait()
		var token string
		sessions := 0
		for _, a := range answers {
			if a.Token != "" {
				token, sessions = a.Token, sessions+1
			} else if len(a.Errors) != 1 || a.Errors[0].Code != "BAD_CREDENTIALS" {
				t.Errorf("%+v", a)
			}
		}
		if sessions != 1 {
			t.Fatalf("%d sessions of one transaction", sessions)
		}
		memberships := func(token string) string {
			return client{server: nodes[0], token: token}.
				ask(t, `{ me { workspaces { nodes { slug viewerRole } } } }`, nil).text("me.workspaces.nodes")
		}
		same(t, "with the group", memberships(token), "[map[slug:engines viewerRole:EDITOR]]")
		grace.Groups = []string{}
		token = there.factor(t, "finishSso", there.respond(t, provider, grace), "token").Token
		same(t, "without the group", memberships(token), "[]")

		taken := ssotest.User{Subject: "2", Email: owner.email}
		a := there.factor(t, "finishSso", there.respond(t, provider, taken), "token challenge { token methods }")
		if a.Token != "" || a.Challenge.Token == "" {
			t.Errorf("a provider that asserts the address of an account: %+v", a)
		}
		proof := map[string]any{"challenge": a.Challenge.Token, "proof": map[string]any{"password": owner.password}}
		if a = here.factor(t, "completeLogin", proof, "token"); a.Token == "" {
			t.Errorf("the proof of the owner: %+v", a)
		}
		if a = here.factor(t, "finishSso", here.respond(t, provider, taken), "token"); a.Token == "" {
			t.Errorf("the connected account: %+v", a)
		}
	})
}

// TestSSO_StartNamesUnknownWorkspaces of groups.
func TestSSO_StartNamesUnknownWorkspaces(t *testing.T) {
	t.Parallel()
	env := append(append(embedded(t).env, ssoSettings(ssotest.Open(t))...), "LINKFORGE_LISTEN=127.0.0.1:0")
	said := failing(t, append(env, "LINKFORGE_SSO_MEMBERSHIPS=staff=nowhere:VIEWER")...)
	if !strings.Contains(said, "no workspace has the slug") || !strings.Contains(said, "nowhere") {
		t.Errorf("the server says %s", said)
	}
}

// TestSSO_SecretsStayInside: none is in the log, the spans, the user's export, or a dump of the
// database, which has the events too.
func TestSSO_SecretsStayInside(t *testing.T) {
	t.Parallel()
	provider, spans := ssotest.Open(t), newReceiver(t)
	b := production(t)
	s := start(t, b.inProcesses(),
		append(ssoSettings(provider), "OTEL_EXPORTER_OTLP_ENDPOINT="+spans.URL, "OTEL_BSP_SCHEDULE_DELAY=600000")...)
	visitor := client{server: s}
	user := ssotest.User{Subject: "a-subject", Email: "secret@example.com"}
	in := visitor.respond(t, provider, user)
	a := visitor.factor(t, "finishSso", in, "token refreshToken")
	visitor.factor(t, "finishSso", in, "token") // refused, with a line in the log
	who := client{server: s, token: a.Token}
	secret := who.factor(t, "enrollTotp", map[string]any{}, "secret").Secret
	code := must.Value(totp.GenerateCode(secret, time.Now()))(t)
	codes := who.factor(t, "confirmTotp", map[string]any{"code": code}, "recoveryCodes").RecoveryCodes
	challenge := visitor.factor(t, "finishSso", visitor.respond(t, provider, user), "challenge { token }").
		Challenge.Token
	in2 := map[string]any{"challenge": challenge, "proof": map[string]any{"recoveryCode": codes[0]}}
	again := visitor.factor(t, "completeLogin", in2, "token refreshToken")
	visitor.factor(t, "completeLogin", in2, "token") // refused
	var export string
	for _, after := range []any{"no part", nil} { // the first spends no code
		export = who.ask(t, `mutation ($code: String!, $after: String) {
			exportMyData(input: {proof: {recoveryCode: $code}, after: $after}) { data errors { code } } }`,
			map[string]any{"code": codes[1], "after": after}).text("exportMyData.data")
	}
	s.stop()
	d := must.Value(b.open())(t)
	defer d.Close()
	dump := &strings.Builder{}
	for table := range tablesOf(t, d) {
		var rows *string
		must.NoError(t, d.NewSelect().ColumnExpr("string_agg(one::TEXT, ' ')").TableExpr("? AS one", bun.Ident(table)).
			Scan(db.AsOwner(t.Context()), &rows))
		dump.WriteString(optional.Value(rows))
	}
	spans.mu.Lock()
	defer spans.mu.Unlock()
	texts := map[string]string{
		"log": content(t, s.err), "database": dump.String(), "spans": spans.text.String(), "export": export,
	}
	for place, known := range map[string]string{
		"log": "transaction", "database": "a-subject", "spans": "SQL DELETE auth_flows", "export": "secret@example.com",
	} {
		if !strings.Contains(texts[place], known) {
			t.Errorf("the %s misses %q:\n%.2000s", place, known, texts[place])
		}
	}
	for name, planted := range map[string]string{
		"transaction": in["transaction"].(string), "code": in["code"].(string), "state": in["state"].(string),
		"token":         a.Token,
		"refresh token": a.RefreshToken, "client secret": ssotest.ClientSecret, "TOTP secret": secret,
		"challenge":           challenge,
		"TOTP secret's bytes": hex.EncodeToString(must.Value(base32.StdEncoding.DecodeString(secret))(t)),
		"address":             "secret@example.com",
		"used recovery code":  codes[0], "recovery code": codes[2],
		"recovery code without hyphens": strings.ReplaceAll(codes[2], "-", ""),
		"token with a factor":           again.Token, "refresh token with a factor": again.RefreshToken,
	} {
		for place, text := range texts {
			if name == "address" && (place == "database" || place == "export") {
				continue // the account has it
			}
			if planted == "" || strings.Contains(text, planted) ||
				strings.Contains(text, hex.EncodeToString([]byte(planted))) {
				t.Errorf("the %s has the %s %q", place, name, planted)
			}
		}
	}
}
