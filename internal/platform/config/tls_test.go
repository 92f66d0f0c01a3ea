package config

import (
	"testing"

	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/wanttest"
)

// usualACME are the settings of an instance that does not set them.
var usualACME = ACME{Directory: "https://acme-v02.api.letsencrypt.org/directory", HTTPListen: ":80"}

// auto has the settings of LINKFORGE_TLS=auto on PostgreSQL.
func auto() map[string]string {
	f := setup()
	f["LINKFORGE_TLS"], f["LINKFORGE_ACME_EMAIL"] = "auto", "ada@example.com"
	f["LINKFORGE_PUBLIC_URL"] = "https://sho.rt"
	f["LINKFORGE_ENCRYPTION_KEY"] = "dGhlIGVuY3J5cHRpb24ga2V5IG9mIHRoZXNlIHRlc3Q="
	return f
}

func TestLoad_AutomaticTLS(t *testing.T) {
	t.Parallel()
	const hosts = "internal,www.sho.rt,sho.rt,10.0.0.1,a.localhost"
	c := must.Value(Parse(with(auto(), "LINKFORGE_HOSTS", hosts), checks))(t)
	wanttest.Equal(t, []string{"sho.rt", "www.sho.rt"}, c.CertifiedHosts(), "hosts")
	if !c.HasTLS() || c.Listen != ":443" || c.ACME.HTTPListen != ":80" ||
		c.ACME.Directory != "https://acme-v02.api.letsencrypt.org/directory" {
		t.Errorf("%+v", c)
	}
	c = must.Value(Parse(with(auto(), "LINKFORGE_LISTEN", ":8443"), checks))(t)
	wanttest.Equal(t, ":8443", c.Listen, "address")
	f := with(auto(), "LINKFORGE_ACME_EAB_KEY_ID", "kid-1")
	f["LINKFORGE_ACME_EAB_HMAC"] = "zWNDZM6eQGHWpSRTPal5eIUYFTu7EajVIoguysqZ9wG44nMEtx3MUAsUDkMTQ12W="
	c = must.Value(Parse(f, checks))(t)
	wanttest.Equal(t, "zWNDZM6eQGHWpSRTPal5eIUYFTu7EajVIoguysqZ9wG44nMEtx3MUAsUDkMTQ12W", c.ACME.Key, "key")
	embedded := with(auto(), "LINKFORGE_DATABASE_URL", "sqlite")
	embedded["LINKFORGE_ENCRYPTION_KEY"] = "" // is created
	must.Value(Parse(embedded, checks))(t)
}

// TestLoad_RefusesTLSCombinations changes one setting of a valid configuration.
func TestLoad_RefusesTLSCombinations(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		variable, value string
		blamed          []string
	}{
		"no account":             {"LINKFORGE_ACME_EMAIL", "", []string{"LINKFORGE_ACME_EMAIL"}},
		"no address":             {"LINKFORGE_ACME_EMAIL", "Ada <ada@example.com>", []string{"LINKFORGE_ACME_EMAIL"}},
		"no key to encrypt with": {"LINKFORGE_ENCRYPTION_KEY", "", []string{"LINKFORGE_ENCRYPTION_KEY"}},
		"files too": {"LINKFORGE_TLS_CERTIFICATE", "c.pem",
			[]string{"LINKFORGE_TLS_CERTIFICATE", "LINKFORGE_TLS_KEY"}},
		"http":              {"LINKFORGE_PUBLIC_URL", "http://sho.rt", []string{"LINKFORGE_PUBLIC_URL"}},
		"an address":        {"LINKFORGE_PUBLIC_URL", "https://192.0.2.1", []string{"LINKFORGE_PUBLIC_URL"}},
		"a name in the LAN": {"LINKFORGE_PUBLIC_URL", "https://sho", []string{"LINKFORGE_PUBLIC_URL"}},
		"none":              {"LINKFORGE_PUBLIC_URL", "", []string{"LINKFORGE_PUBLIC_URL"}},
		"any port":          {"LINKFORGE_LISTEN", ":0", []string{"LINKFORGE_LISTEN"}},
		"any port of HTTP":  {"LINKFORGE_HTTP_LISTEN", "127.0.0.1:0", []string{"LINKFORGE_HTTP_LISTEN"}},
		"half an account":   {"LINKFORGE_ACME_EAB_KEY_ID", "kid-1", []string{"LINKFORGE_ACME_EAB_HMAC"}},
		"the other half":    {"LINKFORGE_ACME_EAB_HMAC", "c2VjcmV0", []string{"LINKFORGE_ACME_EAB_HMAC"}},
		"no base64url":      {"LINKFORGE_ACME_EAB_HMAC", "a+b/c", []string{"LINKFORGE_ACME_EAB_HMAC"}},
		"plain HTTP":        {"LINKFORGE_ACME_DIRECTORY", "http://ca/dir", []string{"LINKFORGE_ACME_DIRECTORY"}},
		"another word":      {"LINKFORGE_TLS", "on", []string{"LINKFORGE_TLS"}},
		"off": {"LINKFORGE_TLS", "off",
			[]string{"LINKFORGE_ACME_EMAIL"}},
	} {
		_, err := Parse(with(auto(), c.variable, c.value), checks)
		wanttest.Equal(t, c.blamed, blamed(err), "%s", name)
	}
}
