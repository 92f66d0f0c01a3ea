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
	for name, c := range map[string]struct {
		issuer, registration string
		registers            bool
		domains              []string
		want                 bool
	}{
		"closed":           {"https://accounts.google.com", "closed", true, nil, true},
		"invited":          {"https://accounts.google.com", "invited", true, nil, true},
		"open":             {"https://accounts.google.com", "open", true, nil, false},
		"with domains":     {"https://accounts.google.com", "closed", true, []string{"example.com"}, false},
		"does not create":  {"https://accounts.google.com", "closed", false, nil, false},
		"without provider": {"", "closed", true, nil, false},
	} {
		settings := &config.Config{Registration: c.registration}
		settings.SSO.Issuer, settings.SSO.Register, settings.SSO.EmailDomains = c.issuer, c.registers, c.domains
		if got := registersAnyone(settings); got != c.want {
			t.Errorf("%s: %t, want %t", name, got, c.want)
		}
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
		enrolled := who.factor(t, "enrollTotp",
			map[string]any{"proof": map[string]any{"password": who.password}}, "secret")
		secret := enrolled.Secret
		code := must.Value(totp.GenerateCode(secret, time.Now()))(t)
		codes := who.factor(t, "confirmTotp", map[string]any{"code": code}, "recoveryCodes").RecoveryCodes
		if len(codes) != 10 {
			t.Fatalf("the recovery codes are %q, of %+v", codes, enrolled)
		}

		visitor := client{server: there}
		challenge := func() string {
			t.Helper()
			a := visitor.factor(t, "login", map[string]any{"email": who.email, "password": who.password},
				"token refreshToken challenge { token }")
			if a.Token != "" || a.RefreshToken != "" || a.Challenge.Token == "" {
				t.Fatalf("the answer is %+v, want a challenge alone", a)
			}
			return a.Challenge.Token
		}
		complete := func(proof map[string]any) factorAnswer {
			return visitor.factor(t, "completeLogin", map[string]any{"challenge": challenge(), "proof": proof}, "token")
		}
		if a := complete(map[string]any{"totp": code}); a.Token != "" || len(a.Errors) != 1 ||
			a.Errors[0].Code != "BAD_CREDENTIALS" {
			t.Errorf("a used code: %+v", a)
		}
		strong := client{server: there, token: complete(map[string]any{"recoveryCode": codes[0]}).Token}

		opens := func(c client) bool {
			a, err := c.run(`query ($id: ID!) { workspace(by: {id: $id}) { slug links { totalCount } } }`,
				map[string]any{"id": who.workspaceID})
			must.NoError(t, err)
			return a.code() != "FORBIDDEN"
		}
		require := func(c client) string {
			a, err := c.run(
				`mutation ($id: ID!) { updateWorkspace(input: {id: $id, requireSecondFactor: true}) { errors { code
					} } }`,
				map[string]any{"id": who.workspaceID})
			must.NoError(t, err)
			if a.code() == "FORBIDDEN" && !strings.Contains(a.body, "refresh the session or log in again") {
				t.Errorf("no remedy for an account that has a factor: %s", a.body)
			}
			return a.code()
		}
		if code := require(who.client); code != "FORBIDDEN" || !opens(who.client) {
			t.Errorf("a session without a factor requires one: %q", code)
		}
		if code := require(strong); code != "" {
			t.Errorf("a session with a factor: %q", code)
		}
		weak := who.client
		weak.server = there
		polltest.Until(t, "the session without a factor is refused",
			func() bool { return !opens(weak) && !opens(who.client) })
		if !opens(strong) {
			t.Error("the session with a factor is refused")
		}
		a := weak.factor(t, "removeMember", map[string]any{"workspaceId": who.workspaceID, "userId": who.id},
			"deletedId scheduledChanges { id }")
		if len(a.Errors) != 1 || a.Errors[0].Code != "LAST_OWNER" { // may leave, and is the last one
			t.Errorf("leaving without a factor: %+v", a)
		}
		weak.must(t, new(any),
			`{ me { workspaces { nodes { slug requireSecondFactor } } secondFactors { totp recoveryCodes } sessions
				{ nodes { methods } } } }`, nil)

		declined(t, here.env, "--yes is needed", "users", "reset-factors", who.email)
		succeed(t, here.env, "users", "reset-factors", who.email, "--yes")
		if a := visitor.factor(t, "login", map[string]any{"email": who.email, "password": who.password},
			"token"); a.Token == "" {
			t.Errorf("after a reset of the factors: %+v", a)
		}
	})
}
