package main

import (
	"strings"
	"testing"
	"time"

	"github.com/pquerna/otp/totp"

	"github.com/linkforge/linkforge/internal/platform/config"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/poll/polltest"
)

// factorAnswer is the answer of the mutations about second factors and sessions.
type factorAnswer struct {
	Token, RefreshToken, Secret string
	RecoveryCodes               []string
	Challenge                   struct{ Token string }
	Errors                      []struct{ Code string }
}

// factor calls a mutation about second factors or sessions with the fields of its payload.
func (c client) factor(t *testing.T, name string, in map[string]any, fields string) factorAnswer {
	t.Helper()
	found := map[string]factorAnswer{}
	input := strings.ToUpper(name[:1]) + name[1:] + "Input!"
	c.must(t, &found, "mutation ($in: "+input+") { "+name+"(input: $in) { "+fields+" errors { code } } }",
		map[string]any{"in": in})
	return found[name]
}

// TestRegistersAnyone warns at the start of log-ins at the provider that register users of any domain
// although callers may not register otherwise.
func TestRegistersAnyone(t *testing.T) {
	t.Parallel()
	const issuer = "https://accounts.google.com"
	for name, c := range map[string]struct {
		issuer, registration string
		registers            bool
		domains              []string
		want                 bool
	}{
		"invited":          {issuer, "invited", true, nil, true},
		"open":             {issuer, "open", true, nil, false},
		"with domains":     {issuer, "closed", true, []string{"example.com"}, false},
		"does not create":  {issuer, "closed", false, nil, false},
		"without provider": {"", "closed", true, nil, false},
	} {
		settings := &config.Config{Registration: c.registration}
		settings.SSO.Issuer, settings.SSO.Register, settings.SSO.EmailDomains = c.issuer, c.registers, c.domains
		same(t, name, registersAnyone(settings), c.want)
	}
}

// TestSecondFactor_OnEveryNode enrolls a factor at one node. Other nodes require it, and a workspace that
// requires it refuses sessions without it.
func TestSecondFactor_OnEveryNode(t *testing.T) {
	t.Parallel()
	eachBackend(t, func(t *testing.T, b backend) {
		nodes := startAll(t, b, b.nodes)
		here, there := nodes[0], nodes[len(nodes)-1]
		who := here.tenant(t, "twofold")
		secret := who.factor(t, "enrollTotp",
			map[string]any{"proof": map[string]any{"password": who.password}}, "secret").Secret
		code := must.Value(totp.GenerateCode(secret, time.Now()))(t)
		codes := who.factor(t, "confirmTotp", map[string]any{"code": code}, "recoveryCodes").RecoveryCodes

		visitor := client{server: there}
		login := map[string]any{"email": who.email, "password": who.password}
		complete := func(proof map[string]any) factorAnswer {
			a := visitor.factor(t, "login", login, "token refreshToken challenge { token }")
			if a.Token != "" || a.RefreshToken != "" || a.Challenge.Token == "" {
				t.Fatalf("the answer is %+v, want a challenge alone", a)
			}
			return visitor.factor(t, "completeLogin",
				map[string]any{"challenge": a.Challenge.Token, "proof": proof}, "token")
		}
		if a := complete(map[string]any{"totp": code}); a.Token != "" || len(a.Errors) != 1 ||
			a.Errors[0].Code != "BAD_CREDENTIALS" {
			t.Errorf("a used code: %+v", a)
		}
		strong := client{server: there, token: complete(map[string]any{"recoveryCode": codes[0]}).Token}

		run := func(c client, operation string) answer {
			return must.Value(c.run(operation, map[string]any{"id": who.workspaceID}))(t)
		}
		opens := func(c client) bool {
			return run(c, `query ($id: ID!) { workspace(by: {id: $id}) { slug links { totalCount } } }`).code() !=
				"FORBIDDEN"
		}
		const require = `mutation ($id: ID!) { updateWorkspace(input: {id: $id, requireSecondFactor: true}) {
			errors { code } } }`
		if a := run(who.client, require); a.code() != "FORBIDDEN" || !opens(who.client) ||
			!strings.Contains(a.body, "refresh the session or log in again") {
			t.Errorf("a session without a factor requires one: %s", a.body)
		}
		if a := run(strong, require); a.code() != "" {
			t.Errorf("a session with a factor: %s", a.body)
		}
		weak := who.client
		weak.server = there
		polltest.Until(t, "the session without a factor is refused",
			func() bool { return !opens(weak) && !opens(who.client) })
		if !opens(strong) {
			t.Error("the session with a factor is refused")
		}
		a := weak.factor(t, "removeMember", map[string]any{"workspaceId": who.workspaceID, "userId": who.id},
			"deletedId")
		if len(a.Errors) != 1 || a.Errors[0].Code != "LAST_OWNER" { // may leave, and is the last one
			t.Errorf("leaving without a factor: %+v", a)
		}

		declined(t, here.env, "--yes is needed", "users", "reset-factors", who.email)
		succeed(t, here.env, "users", "reset-factors", who.email, "--yes")
		if a := visitor.factor(t, "login", login, "token"); a.Token == "" {
			t.Errorf("after a reset of the factors: %+v", a)
		}
	})
}
