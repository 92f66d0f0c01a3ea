package config

import (
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/linkforge/linkforge/internal/platform/errs/errstest"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/redisx"
	"github.com/linkforge/linkforge/internal/platform/wanttest"
	"github.com/linkforge/linkforge/internal/route/check"
)

var checks = Checks{Redis: redisx.Check, Fallback: check.Fallback}

const usualGeoIPURL = "https://download.db-ip.com/free/dbip-country-lite-{month}.mmdb.gz"

// setup returns the environment of a valid configuration with a database server.
func setup() map[string]string {
	return map[string]string{
		"LINKFORGE_DATABASE_URL": "postgres://linkforge:hunter2@db.internal/linkforge",
		"LINKFORGE_JWT_SECRET":   strings.Repeat("j", 32),
		"LINKFORGE_CODE_SECRET":  strings.Repeat("c", 32),
	}
}

// variables lists the environment variables of all settings.
func variables() (all []string) {
	eachSetting(reflect.ValueOf(Config{}), func(_ reflect.Value, tag reflect.StructTag) {
		all = append(all, tag.Get("env"))
	})
	return all
}

// blamed lists the variables that an error names, one a line.
func blamed(err error) []string {
	var names []string
	if err == nil {
		return nil
	}
	for line := range strings.SplitSeq(err.Error(), "\n") {
		name, _, _ := strings.Cut(line, ": ")
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// with returns a copy of an environment with another value of one variable.
func with(env map[string]string, name, value string) map[string]string {
	changed := maps.Clone(env)
	if changed == nil {
		changed = map[string]string{}
	}
	changed[name] = value
	return changed
}

// checkValues parses an environment with each value of a variable: bad ones are the only error.
func checkValues(t *testing.T, env map[string]string, variable string, good, bad []string) {
	t.Helper()
	for _, value := range good {
		must.Value(Parse(with(env, variable, value), checks))(t)
	}
	for _, value := range bad {
		_, err := Parse(with(env, variable, value), checks)
		wanttest.Equal(t, []string{variable}, blamed(err), "%s=%q blames", variable, value)
	}
}

func TestLoad_Defaults(t *testing.T) {
	t.Parallel()
	want := Config{
		Listen: ":8080", PublicURL: "http://localhost:8080", DataDir: "./data", DatabasePool: 20, RedisPool: 50,
		StatementTimeout: 30 * time.Second, LockTimeout: 10 * time.Second,
		Migrate: true, Registration: "open", PasswordLogin: true, SSO: usualSSO, TokenTTL: 24 * time.Hour,
		HitQuota: 10_000, QuotaOutage: "closed", LinkQuota: 10_000, RateLimits: true,
		CacheBytes: 256 << 20, ClickLogBytes: 1 << 30, ClickLogSync: "os", ClickMonths: 13,
		SessionTTL: 720 * time.Hour, Anonymous: true, AnonymousTTL: 8 * time.Hour, Tombstones: 90 * 24 * time.Hour,
		DestinationChecks: true, GeoIPURL: usualGeoIPURL,
		ListTimeout: 3 * time.Second, MaxAPIKeys: 100, TaskSlots: 2, ImportBytes: 64 << 20, ExportBytes: 1 << 30,
		MaxWorkspaces: 50, SlugChanges: 10,
		RequestRate: 60_000, CostRate: 6_000_000, LinkRate: 60, UnknownCodes: 300, Bounds: usualBounds,
		Hosts: []string{"localhost"}, ACME: usualACME,
		Development: true, Console: true, Playground: true, Introspection: true, LogText: true,
		LogLevel: slog.LevelInfo,
	}
	for name, read := range map[string]func() (Config, error){
		"an empty environment":  func() (Config, error) { return Parse(nil, checks) },
		"an empty command line": flags(t).Check,
	} {
		got, err := read()
		if diff := cmp.Diff(want, got); diff != "" || err != nil || !got.Embedded() {
			t.Errorf("%s: %v (-want +got):\n%s", name, err, diff)
		}
	}
}

func TestLoad_ProductionDefaults(t *testing.T) {
	t.Parallel()
	f := setup()
	f["LINKFORGE_ENV"], f["LINKFORGE_PUBLIC_URL"] = "production", "https://sho.rt"
	c, err := Parse(f, checks)
	if err != nil || c.Development || c.Playground || c.Introspection || c.LogText || !c.RateLimits ||
		c.Embedded() || c.AdminListen != "" || c.Registration != "invited" {
		t.Errorf("%+v: %v", c, err)
	}
	f["LINKFORGE_PLAYGROUND"] = "on"
	f["LINKFORGE_INTROSPECTION"] = "ON"
	f["LINKFORGE_LOG_FORMAT"] = "text"
	f["LINKFORGE_RATE_LIMITS"] = "off"
	f["LINKFORGE_MIGRATE"] = "false"
	c, err = Parse(f, checks)
	if err != nil || !c.Playground || !c.Introspection || !c.LogText || c.RateLimits || c.Migrate {
		t.Errorf("said otherwise: %+v: %v", c, err)
	}
}

func TestLoad_ReportsEveryProblem(t *testing.T) {
	t.Parallel()
	env := map[string]string{}
	var want []string
	names := []string{
		"LINKFORGE_DATA_DIR", "LINKFORGE_GEOIP", "LINKFORGE_DOCUMENTS", "LINKFORGE_TLS_CERTIFICATE",
		"LINKFORGE_TLS_KEY", "LINKFORGE_ACME_EAB_KEY_ID", "LINKFORGE_ACME_CA",
		"LINKFORGE_SSO_CLIENT_ID", "LINKFORGE_SSO_CLIENT_SECRET", "LINKFORGE_SSO_NAME", "LINKFORGE_SSO_GROUPS_CLAIM",
	}
	for _, variable := range variables() {
		env[variable] = "no such thing"
		if !slices.Contains(names, variable) { // any text will do for a folder, a file, a name or a secret
			want = append(want, variable)
		}
	}
	slices.Sort(want)
	wanttest.Equal(t, want, blamed(errstest.Of(Parse(env, checks))), "blamed")
}

func TestLoad_HidesSecretValues(t *testing.T) {
	t.Parallel()
	for _, variable := range variables() {
		for _, value := range []string{
			"hunter2", "x://u:hunter2@h", "://hunter2", "http://u:hunter2@h/%zz", "h:hunter2",
			"postgres://u:hunter2@%zz",
		} {
			_, err := Parse(with(setup(), variable, value), checks)
			if err != nil && strings.Contains(err.Error(), "hunter2") {
				t.Errorf("%s=%s is repeated: %v", variable, value, err)
			}
		}
	}
}

func TestLoad_EnforcesRanges(t *testing.T) {
	t.Parallel()
	for variable, c := range map[string]struct{ good, bad []string }{
		"LINKFORGE_LISTEN": {[]string{":0", ":65535", "127.0.0.1:80", "[::1]:80", "db:80"},
			[]string{"80", ":", ":65536", ":-1", ":http", "::1:80x", "a:b:c"}},
		"LINKFORGE_ADMIN_LISTEN": {[]string{"", ":0", "127.0.0.1:9090", "[::1]:9090"},
			[]string{"9090", "127.0.0.1", ":65536", ":http", "http://127.0.0.1:9090"}},
		"LINKFORGE_DATABASE_URL": {[]string{"postgres://h/n", "postgresql://h/n", "sqlite"},
			[]string{"mysql://h/n", "h/n", "postgres://", "postgres:/n", "redis://h", "sqlite://linkforge.db", "SQLite",
				"postgres://u:12/x@h/n", "postgres://u:12?x@h/n", "postgres://u:12#x@h/n", "postgres://u:p@s/x@h/n"}},
		"LINKFORGE_DATABASE_READ_URL": {[]string{"", "postgres://h/n"}, []string{"mysql://h/n", "h/n"}},
		"LINKFORGE_DATABASE_STATEMENT_TIMEOUT": {[]string{"", "0", "100ms", "24h"},
			[]string{"-1s", "25h", "30", "never"}},
		"LINKFORGE_DATABASE_LOCK_TIMEOUT": {[]string{"", "0", "100ms", "24h"}, []string{"-1s", "25h", "30", "never"}},
		"LINKFORGE_DATABASE_POOL": {[]string{"2", "10000"},
			[]string{"1", "0", "-2", "10001", "2.5", "many", "9999999999999999999999"}},
		"LINKFORGE_REDIS_URL": {[]string{"", "redis://h", "rediss://:p@h:1/0", "redis+sentinel://u:p@h:1,i:2/m?db=0",
			"rediss+cluster://h:1,i"},
			[]string{"http://h", "h:6379", "redis://", "redis://h/none", "redis+sentinel://h", "redis+cluster://h:1,",
				"redis+cluster://h/1", "redis://u:12/x@h", "redis+sentinel://u:12/x@h", "redis://u:p@s/x@h/0"}},
		"LINKFORGE_CLICKS_URL": {[]string{"", "http://h:8123", "https://u:p@h/clicks"},
			[]string{"clickhouse://h/n", "h:8123", "http://", "http://u:p@s/x@h/n"}},
		"LINKFORGE_REDIS_POOL": {[]string{"1", "10000"}, []string{"0", "10001"}},
		"LINKFORGE_MIGRATE":    {[]string{"", "on", "OFF", "true", "0"}, []string{"maybe", "2", " on"}},
		"LINKFORGE_TOKEN_TTL": {[]string{"1m", "720h", "90m", "30d"},
			[]string{"59s", "720h1s", "-1h", "24", "31d", "0d", "-1d", "1.5d", "1d1h", "d"}},
		"LINKFORGE_SESSION_TTL":   {[]string{"1h", "8760h"}, []string{"59m", "8761h", "366d"}},
		"LINKFORGE_ANONYMOUS_TTL": {[]string{"1m", "720h"}, []string{"59s", "721h", "8"}},
		"LINKFORGE_TOMBSTONES":    {[]string{"1h", "87600h", "90d"}, []string{"59m", "87601h", "70000d"}},
		"LINKFORGE_GEOIP_UPDATE":  {[]string{"", "1d", "365d", "36h"}, []string{"0", "23h", "366d", "monthly"}},
		"LINKFORGE_GEOIP_URL": {[]string{"", "https://123:key@h/countries-{month}.mmdb.gz?suffix=tar.gz"},
			[]string{"http://h/countries.mmdb", "h/countries.mmdb", "https://", "https://u:p@s/x@h/n"}},
		"LINKFORGE_DRAIN_DELAY": {[]string{"", "0s", "7s", "5m"}, []string{"-1s", "5m1s", "10"}},
		"LINKFORGE_HIT_QUOTA": {[]string{"0", "1125899906842624"},
			[]string{"-1", "1125899906842625", "1e4", "1_000"}},
		"LINKFORGE_LINK_QUOTA":   {[]string{"0", "1125899906842624"}, []string{"-1", "1125899906842625"}},
		"LINKFORGE_CELL":         {[]string{"0", "49"}, []string{"-1", "50", "one"}},
		"LINKFORGE_REQUEST_RATE": {[]string{"", "1", "1000000"}, []string{"0", "-1", "many"}},
		"LINKFORGE_ORIGINS": {[]string{"", "*", "https://a.example, http://localhost:5173,",
			"https://Bücher.example:443/",
			"chrome-extension://abcdefghijklmnopabcdefghijklmnop, app://, null.example://x:1"},
			[]string{"a.example", "https://a.example/b", "https://a.example?b", "https://a.example/#b",
				"ftp://a.example", "null", "file://", "chrome-extension://id/", "capacitor:localhost",
				"https://*.example", "null", "https://u@a.example"}},
		"LINKFORGE_HOSTS": {[]string{"", "a", "a.example, b.example,"},
			[]string{"http://a", "a:80", "a/b", "a b", "%"}},
		"LINKFORGE_MAIL_FROM":    {[]string{"", "a@b.c", "A <a@b.c>"}, []string{"a", "A <a>", "a@b.c\r\nBcc: x@y.z"}},
		"LINKFORGE_ENV":          {[]string{"", "development"}, []string{"staging", "prod"}},
		"LINKFORGE_REGISTRATION": {[]string{"", "open", "invited", "closed"}, []string{"off", "Open", "on"}},
		"LINKFORGE_LOG_FORMAT":   {[]string{"", "text", "JSON"}, []string{"xml"}},
		"LINKFORGE_LOG_LEVEL":    {[]string{"debug", "INFO", "warn", "error"}, []string{"trace", "warning"}},
		"LINKFORGE_JWT_SECRET":   {[]string{strings.Repeat("x", 32)}, []string{"", strings.Repeat("x", 31)}},
		"LINKFORGE_CODE_SECRET":  {[]string{strings.Repeat("x", 32)}, []string{"", strings.Repeat("x", 31)}},
		"LINKFORGE_ENCRYPTION_KEY": {[]string{"", strings.Repeat("0a", 32), strings.Repeat("A", 43) + "="},
			[]string{strings.Repeat("0a", 31), strings.Repeat("x", 32), strings.Repeat("0a", 32) + "," +
				strings.Repeat("0b", 32)}},
	} {
		checkValues(t, setup(), variable, c.good, c.bad)
	}
	checkValues(t, with(setup(), "LINKFORGE_MAIL_FROM", "a@b.c"), "LINKFORGE_SMTP_URL", []string{"smtp://u:p@h"},
		[]string{"smtp://u:12/x@h", "smtp://u:12?x@h", "smtp://u:12#x@h", "smtp://u:p@s/x@h"})
}

func TestLoad_SetsValues(t *testing.T) {
	t.Parallel()
	f := setup()
	f["LINKFORGE_LISTEN"] = "127.0.0.1:9000"
	f["LINKFORGE_DATA_DIR"] = "/var/lib/linkforge"
	f["LINKFORGE_REDIS_URL"] = "rediss://:p@h:1/0"
	f["LINKFORGE_DATABASE_POOL"] = "7"
	f["LINKFORGE_REDIS_POOL"] = "8"
	f["LINKFORGE_TOKEN_TTL"] = "90m"
	f["LINKFORGE_HIT_QUOTA"] = "11"
	f["LINKFORGE_LINK_QUOTA"] = "12"
	f["LINKFORGE_LOG_LEVEL"] = "debug"
	f["LINKFORGE_ANONYMOUS_TTL"] = "20m"
	f["LINKFORGE_TOMBSTONES"] = "48h"
	f["LINKFORGE_DESTINATION_CHECKS"] = "off"
	f["LINKFORGE_SESSION_TTL"] = "24h"
	f["LINKFORGE_ORIGINS"] = "https://Bücher.example:443, http://localhost:5173, *"
	f["LINKFORGE_PUBLIC_URL"] = "https://sho.rt"
	f["LINKFORGE_HOSTS"] = "Internal, bücher.example"
	f["LINKFORGE_REQUEST_RATE"] = "77"
	f["LINKFORGE_LIST_TIMEOUT"] = "4s"
	f["LINKFORGE_MAX_API_KEYS"], f["LINKFORGE_MAX_WORKSPACES"], f["LINKFORGE_SLUG_CHANGES"] = "62", "63", "64"
	f["LINKFORGE_TASK_SLOTS"], f["LINKFORGE_IMPORT_BYTES"] = "3", "1048576"
	f["LINKFORGE_EXPORT_BYTES"] = "2097152"
	f["LINKFORGE_SMTP_URL"] = "smtp://h"
	f["LINKFORGE_MAIL_FROM"] = "x@y.z"
	f["LINKFORGE_ADMIN_LISTEN"] = "127.0.0.1:9090"
	f["LINKFORGE_DATABASE_READ_URL"] = "postgres://standby/n"
	f["LINKFORGE_DATABASE_LOCK_TIMEOUT"], f["LINKFORGE_OPERATION_DEADLINE"] = "0", "2m"
	f["LINKFORGE_ROOT_URL"], f["LINKFORGE_NOT_FOUND_URL"] = "https://sho.rt.example/", "https://x.example/{code}"
	f["LINKFORGE_LINK_RATE"], f["LINKFORGE_UNKNOWN_CODES"] = "0", "12"
	f["LINKFORGE_MAX_BODY"], f["LINKFORGE_MAX_DOCUMENT"], f["LINKFORGE_MAX_COST"] = "1", "4", "13"
	f["LINKFORGE_COST_RATE"], f["LINKFORGE_DOCUMENTS"], f["LINKFORGE_DOCUMENTS_ONLY"] = "15", "list.json", "on"
	want := Config{
		Listen: "127.0.0.1:9000", AdminListen: "127.0.0.1:9090", PublicURL: "https://sho.rt",
		DataDir: "/var/lib/linkforge", DatabaseURL: f["LINKFORGE_DATABASE_URL"],
		DatabaseReadURL: f["LINKFORGE_DATABASE_READ_URL"], DatabasePool: 7,
		StatementTimeout: 2 * time.Minute, RedisURL: "rediss://:p@h:1/0", RedisPool: 8,
		Migrate: true, JWTSecrets: [][]byte{[]byte(f["LINKFORGE_JWT_SECRET"])},
		CodeSecrets: [][]byte{[]byte(f["LINKFORGE_CODE_SECRET"])}, Registration: "open", PasswordLogin: true,
		SSO: usualSSO, TokenTTL: 90 * time.Minute, HitQuota: 11, QuotaOutage: "closed", LinkQuota: 12,
		CacheBytes: 256 << 20, ClickLogBytes: 1 << 30, ClickLogSync: "os", ClickMonths: 13,
		GeoIPURL:   usualGeoIPURL,
		RateLimits: true, SessionTTL: 24 * time.Hour, Anonymous: true, AnonymousTTL: 20 * time.Minute,
		Tombstones:  48 * time.Hour,
		ListTimeout: 4 * time.Second, MaxAPIKeys: 62, TaskSlots: 3, ImportBytes: 1 << 20, ExportBytes: 2 << 20,
		MaxWorkspaces: 63, SlugChanges: 64, RequestRate: 77, CostRate: 15, UnknownCodes: 12,
		Bounds:    Bounds{Body: 1, Document: 4, Cost: 13, Deadline: 2 * time.Minute},
		Documents: "list.json", DocumentsOnly: true,
		Hosts:   []string{"internal", "localhost", "sho.rt", "xn--bcher-kva.example"},
		Origins: []string{"https://xn--bcher-kva.example", "http://localhost:5173", "*"},
		SMTPURL: "smtp://h", MailFrom: "x@y.z",
		RootURL: "https://sho.rt.example/", NotFoundURL: "https://x.example/{code}", ACME: usualACME,
		Development: true, Console: true, Playground: true, Introspection: true, LogText: true,
		LogLevel: slog.LevelDebug,
	}
	wanttest.Equal(t, want, must.Value(Parse(f, checks))(t), "result")
}

func TestLoad_RefusesPrivateDestinationsInProduction(t *testing.T) {
	t.Parallel()
	f := map[string]string{"LINKFORGE_OUTBOUND_ALLOW": "10.0.0.0/8", "LINKFORGE_ENV": "production"}
	if _, err := Parse(f, checks); !slices.Contains(blamed(err), "LINKFORGE_OUTBOUND_ALLOW") {
		t.Errorf("in production: %v", err)
	}
	f["LINKFORGE_ENV"] = "development"
	if c, err := Parse(f, checks); err != nil || len(c.OutboundAllow) != 1 {
		t.Errorf("in development: %v, %v", c.OutboundAllow, err)
	}
}

// TestLoad_DisablesAnonymousLinks: their life is checked all the same, and then counts for nothing.
func TestLoad_DisablesAnonymousLinks(t *testing.T) {
	t.Parallel()
	off := func(ttl string) map[string]string {
		return map[string]string{"LINKFORGE_ANONYMOUS": "off", "LINKFORGE_ANONYMOUS_TTL": ttl}
	}
	if got, err := Parse(off("20m"), checks); err != nil || got.AnonymousTTL != 0 {
		t.Errorf("%s: %v", got.AnonymousTTL, err)
	}
	if _, err := Parse(off("for ever"), checks); len(blamed(err)) != 1 {
		t.Errorf("a life that is none: %v", err)
	}
}

func TestLoad_PublicURL(t *testing.T) {
	t.Parallel()
	for given, want := range map[string]string{
		"http://sho.rt":         "http://sho.rt",
		"https://Sho.RT/":       "https://sho.rt",
		"HTTPS://sho.rt:443":    "https://sho.rt",
		"https://sho.rt:8443/":  "https://sho.rt:8443",
		"http://localhost:8080": "http://localhost:8080",
		"http://[0:0::1]:80/":   "http://[::1]",
		"https://köln.example":  "https://xn--kln-sna.example",
		"sho.rt":                "",
		"ftp://sho.rt":          "",
		"https://":              "",
		"https://u:p@sho.rt":    "",
		"https://sho.rt/s":      "",
		"https://sho.rt/?a":     "",
		"https://sho.rt/?a=/":   "",
		"https://sho.rt:0":      "",
		"https://sho.rt\nx: y":  "",
	} {
		c, err := Parse(with(setup(), "LINKFORGE_PUBLIC_URL", given), checks)
		if want == "" && !cmp.Equal(blamed(err), []string{"LINKFORGE_PUBLIC_URL"}) {
			t.Errorf("%q became %q: %v", given, c.PublicURL, err)
		}
		if want != "" && (err != nil || c.PublicURL != want) {
			t.Errorf("%q became %q, want %q: %v", given, c.PublicURL, want, err)
		}
	}
}

func TestLoad_PublicURLFollowsAddress(t *testing.T) {
	t.Parallel()
	for listen, want := range map[string]string{
		"":             "http://localhost:8080",
		":8080":        "http://localhost:8080",
		":9000":        "http://localhost:9000",
		"0.0.0.0:9000": "http://localhost:9000",
		"[::1]:9000":   "http://localhost:9000",
		":80":          "http://localhost",
		":0":           "http://localhost:8080",
	} {
		if c, err := Parse(with(setup(), "LINKFORGE_LISTEN", listen), checks); err != nil || c.PublicURL != want {
			t.Errorf("listening on %q: %q, want %q: %v", listen, c.PublicURL, want, err)
		}
	}
}

func TestLoad_OwnHosts(t *testing.T) {
	t.Parallel()
	f := setup()
	f["LINKFORGE_PUBLIC_URL"], f["LINKFORGE_HOSTS"] = "https://sho.rt", "internal"
	c := must.Value(Parse(f, checks))(t)
	for host, want := range map[string]bool{
		"sho.rt": true, "internal": true, "localhost": true, "127.0.0.1": true, "192.0.2.1": true, "::1": true,
		"www.sho.rt": false, "sho.rt.evil.example": false, "links.example.com": false, "": false,
		"SHO.RT": false, "1.2.3": false,
	} {
		if got := c.IsOwnHost(host); got != want {
			t.Errorf("%q is the instance's own: %t, want %t", host, got, want)
		}
	}
}

func TestLoad_ProxiesAndTLS(t *testing.T) {
	t.Parallel()
	f := setup()
	f["LINKFORGE_TRUSTED_PROXIES"] = " 10.1.2.3/8, fd00::1 ,192.0.2.7"
	f["LINKFORGE_PROXY_PROTOCOL"] = "on"
	f["LINKFORGE_TLS_CERTIFICATE"], f["LINKFORGE_TLS_KEY"] = "certificate.pem", "key.pem"
	c, err := Parse(f, checks)
	diff := cmp.Diff("[10.0.0.0/8 fd00::1/128 192.0.2.7/32]", fmt.Sprint(c.TrustedProxies))
	if diff != "" || err != nil || !c.ProxyProtocol {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if c.PublicURL != "https://localhost:8080" {
		t.Errorf("the public URL is %s", c.PublicURL)
	}
	f["LINKFORGE_TRUSTED_PROXIES"], f["LINKFORGE_TLS_KEY"] = "", ""
	_, err = Parse(f, checks)
	wanttest.Equal(t, []string{"LINKFORGE_PROXY_PROTOCOL", "LINKFORGE_TLS_KEY"}, blamed(err), "result")
	checkValues(t, setup(), "LINKFORGE_TRUSTED_PROXIES", nil,
		[]string{"10.0.0.0/33", "proxy.internal", "10.0.0.1:80", "10.0.0.0/8;10.0.0.1"})
}
