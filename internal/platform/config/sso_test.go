package config

import (
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// usualSSO is the default, an instance without single sign-on.
var usualSSO = SSO{
	Name: "SSO", Register: true, SessionTTL: 12 * time.Hour, Scopes: "openid email profile", GroupsClaim: "groups",
}

// withSSO returns the environment of a valid configuration with single sign-on.
func withSSO() map[string]string {
	f := setup()
	maps.Copy(f, map[string]string{
		"LINKFORGE_SSO_ISSUER": "https://login.example.com", "LINKFORGE_SSO_CLIENT_ID": "linkforge",
		"LINKFORGE_SSO_CLIENT_SECRET": "hunter2", "LINKFORGE_SSO_REDIRECTS": "https://app.example.com/sso",
	})
	return f
}

func TestSSO_SetsValues(t *testing.T) {
	t.Parallel()
	f := withSSO()
	maps.Copy(f, map[string]string{
		"LINKFORGE_SSO_ISSUER": "https://Login.example.com/a/", "LINKFORGE_SSO_NAME": "Example Inc.",
		"LINKFORGE_SSO_REDIRECTS":      "https://app.example.com/sso?a=b, http://localhost:5173/sso,",
		"LINKFORGE_SSO_EMAIL_DOMAINS":  "Example.com,bücher.example",
		"LINKFORGE_SSO_REGISTER":       "off",
		"LINKFORGE_SSO_SECOND_FACTOR":  "provider",
		"LINKFORGE_SSO_SESSION_TTL":    "1h",
		"LINKFORGE_SSO_SCOPES":         " openid  groups ",
		"LINKFORGE_SSO_GROUPS_CLAIM":   "https://example.com/groups",
		"LINKFORGE_SSO_MEMBERSHIPS":    "engineering=engines:EDITOR, cn=it:1=engines:ADMIN",
		"LINKFORGE_PASSWORD_LOGIN":     "off",
		"LINKFORGE_BREAK_GLASS":        "ada@example.com, bob@example.com",
		"LINKFORGE_DATABASE_URL":       "sqlite",
		"LINKFORGE_OPERATION_DEADLINE": "15s",
	})
	c, err := Parse(f, checks)
	want := SSO{
		Issuer: "https://Login.example.com/a/", ClientID: "linkforge", ClientSecret: "hunter2", Name: "Example Inc.",
		Redirects:    []string{"https://app.example.com/sso?a=b", "http://localhost:5173/sso"},
		EmailDomains: []string{"example.com", "xn--bcher-kva.example"}, TrustsFactors: true, SessionTTL: time.Hour,
		Scopes: "openid groups", GroupsClaim: "https://example.com/groups",
		Memberships: []GroupRole{{"engineering", "engines", "EDITOR"}, {"cn=it:1", "engines", "ADMIN"}},
	}
	if diff := cmp.Diff(want, c.SSO); diff != "" || err != nil || c.PasswordLogin ||
		!cmp.Equal(c.BreakGlass, []string{"ada@example.com", "bob@example.com"}) {
		t.Errorf("%v, passwords %t, %q (-want +got):\n%s", err, c.PasswordLogin, c.BreakGlass, diff)
	}
}

func TestSSO_EnforcesSyntax(t *testing.T) {
	t.Parallel()
	for variable, c := range map[string]struct{ good, bad []string }{
		"LINKFORGE_SSO_ISSUER": {[]string{"https://h", "https://h/", "https://h:8443/realms/a",
			"http://localhost:8080"},
			[]string{"h", "ftp://h", "https://", "https://u:p@h", "https://h?a", "https://h#a", "https://h/a b",
				"https://h:x",
				"https://h/.well-known/openid-configuration", " https://h", "https://h\nh", "//h", "https:h"}},
		"LINKFORGE_SSO_REDIRECTS": {[]string{"https://h", "https://h/a?b=c", "http://localhost:5173/sso,https://h/",
			"https://h,"},
			[]string{"h/sso", "https://h/sso#a", "app:/sso", "javascript:alert(1)", "https://u@h/sso",
				"https://h/a https://h/b"}},
		"LINKFORGE_SSO_CLIENT_ID":     {[]string{"a", "a b", "https://app"}, []string{" a", "a\nb", "a\x00b"}},
		"LINKFORGE_SSO_CLIENT_SECRET": {[]string{"a", `a"b,c`}, []string{"a ", "a\nb", "\ta"}},
		"LINKFORGE_SSO_EMAIL_DOMAINS": {[]string{"", "example.com", "a.example,B.example"},
			[]string{"@example.com", "a@example.com", "https://example.com", "example.com:25", "a b"}},
		"LINKFORGE_SSO_SCOPES": {[]string{"", "openid", "email openid"},
			[]string{"email", "openid,email", "OPENID"}},
		"LINKFORGE_SSO_SESSION_TTL": {[]string{"", "5m", "720h"}, []string{"4m", "721h", "12"}},
		"LINKFORGE_SSO_REGISTER":    {[]string{"", "on", "off"}, []string{"invited"}},
		"LINKFORGE_SSO_SECOND_FACTOR": {[]string{"", "provider", "local"},
			[]string{"on", "none"}},
		"LINKFORGE_SSO_MEMBERSHIPS": {[]string{"", "a=b:VIEWER", "a=b:VIEWER,a=c:ADMIN,", "a b=c:EDITOR"},
			[]string{"a", "a=b", "=b:EDITOR", "a=:EDITOR", "a=b:OWNER", "a=b:editor", "a=b:EDITOR:ADMIN", "a= b:EDITOR",
				"a=b: EDITOR"}},
		"LINKFORGE_PASSWORD_LOGIN": {[]string{"", "on", "off"}, []string{"sometimes"}},
		"LINKFORGE_BREAK_GLASS": {[]string{"", "a@b.example", "a@b.example, c@d.example"},
			[]string{"a", "A <a@b.example>", "a@", "@b.example", "a@b.example;c@d.example"}},
	} {
		checkValues(t, withSSO(), variable, c.good, c.bad)
	}
}

// TestSSO_NamesWhatIsMissing gives settings that need others.
func TestSSO_NamesWhatIsMissing(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		env    map[string]string
		wanted []string
	}{
		{"no client", with(withSSO(), "LINKFORGE_SSO_CLIENT_ID", ""), []string{"LINKFORGE_SSO_CLIENT_ID"}},
		{"no secret", with(withSSO(), "LINKFORGE_SSO_CLIENT_SECRET", ""), []string{"LINKFORGE_SSO_CLIENT_SECRET"}},
		{"no redirects", with(withSSO(), "LINKFORGE_SSO_REDIRECTS", " , "), []string{"LINKFORGE_SSO_REDIRECTS"}},
		{"no issuer", with(withSSO(), "LINKFORGE_SSO_ISSUER", ""),
			[]string{"LINKFORGE_SSO_CLIENT_ID", "LINKFORGE_SSO_CLIENT_SECRET", "LINKFORGE_SSO_REDIRECTS"}},
		{"memberships alone", with(setup(), "LINKFORGE_SSO_MEMBERSHIPS", "a=b:EDITOR"),
			[]string{"LINKFORGE_SSO_MEMBERSHIPS"}},
		{"domains alone", with(setup(), "LINKFORGE_SSO_EMAIL_DOMAINS", "example.com"),
			[]string{"LINKFORGE_SSO_EMAIL_DOMAINS"}},
		{"no way in", with(setup(), "LINKFORGE_PASSWORD_LOGIN", "off"), []string{"LINKFORGE_PASSWORD_LOGIN"}},
		{"plain text in production",
			with(with(with(withSSO(), "LINKFORGE_ENV", "production"), "LINKFORGE_PUBLIC_URL", "https://h"),
				"LINKFORGE_SSO_ISSUER", "http://login.example.com"), []string{"LINKFORGE_SSO_ISSUER"}},
	} {
		_, err := Parse(c.env, checks)
		if diff := cmp.Diff(c.wanted, blamed(err)); diff != "" || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v blames (-want +got):\n%s", c.name, err, diff)
		}
	}
}
