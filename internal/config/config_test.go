package config

import (
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// setup is a configuration of which nothing is wrong, with a database server.
func setup() Flags {
	return Flags{
		DatabaseURL: "postgres://linkforge:hunter2@db.internal/linkforge",
		JWTSecret:   strings.Repeat("j", 32),
		CodeSecret:  strings.Repeat("c", 32),
	}
}

// variables are the flags' environment variables, by the name of the field.
func variables() map[string]string {
	all := map[string]string{}
	for f := range reflect.TypeFor[Flags]().Fields() {
		all[f.Name] = f.Tag.Get("env")
	}
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

// set writes one flag, by the name of its field.
func set(f Flags, field, value string) Flags {
	reflect.ValueOf(&f).Elem().FieldByName(field).SetString(value)
	return f
}

func TestDefaults(t *testing.T) {
	t.Parallel()
	want := Config{
		Listen: ":8080", PublicURL: "http://localhost:8080", DataDir: "./data", DatabasePool: 20, RedisPool: 50,
		StatementTimeout: 30 * time.Second, LockTimeout: 10 * time.Second,
		Migrate: true, TokenTTL: 24 * time.Hour, HitQuota: 10_000, LinkQuota: 10_000, RateLimits: true,
		QuotaFallback: true, CacheBytes: 256 << 20, ClickLogBytes: 1 << 30, ClickMonths: 13, SumMonths: 25,
		SessionTTL: 720 * time.Hour, AnonymousTTL: 8 * time.Hour, Tombstones: 90 * 24 * time.Hour, DestinationChecks: true,
		RequestRate: 60_000, CostRate: 6_000_000, Bounds: usualBounds, Hosts: []string{"localhost"},
		Development: true, Playground: true, Introspection: true, LogLevel: slog.LevelInfo,
	}
	got, err := Flags{}.Check()
	if diff := cmp.Diff(want, got); diff != "" || err != nil || !got.Embedded() {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	var written Flags // what the command line fills in
	for f := range reflect.TypeFor[Flags]().Fields() {
		written = set(written, f.Name, f.Tag.Get("default"))
	}
	got, err = written.Check()
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("the defaults in the help: %v (-want +got):\n%s", err, diff)
	}
}

func TestProductionDefaults(t *testing.T) {
	t.Parallel()
	f := setup()
	f.Env = "production"
	c, err := f.Check()
	if err != nil || c.Development || c.Playground || c.Introspection || !c.LogJSON || !c.RateLimits || c.Embedded() || c.AdminListen != "" {
		t.Errorf("%+v: %v", c, err)
	}
	f.Playground, f.Introspection, f.LogFormat, f.RateLimits, f.Migrate = "on", "ON", "text", "off", "false"
	c, err = f.Check()
	if err != nil || !c.Playground || !c.Introspection || c.LogJSON || c.RateLimits || c.Migrate {
		t.Errorf("said otherwise: %+v: %v", c, err)
	}
}

func TestEveryProblemIsReportedAtOnce(t *testing.T) {
	t.Parallel()
	var f Flags
	var want []string
	for field, variable := range variables() {
		f = set(f, field, "no such thing")
		if !slices.Contains([]string{"DataDir", "GeoIP", "Documents", "TLSCertificate", "TLSKey"}, field) { // any name will do for a folder or a file
			want = append(want, variable)
		}
	}
	slices.Sort(want)
	_, err := f.Check()
	if diff := cmp.Diff(want, blamed(err)); diff != "" {
		t.Errorf("blamed (-want +got):\n%s", diff)
	}
}

func TestValuesAreNotRepeated(t *testing.T) {
	t.Parallel()
	for field, variable := range variables() {
		for _, value := range []string{"hunter2", "x://u:hunter2@h", "://hunter2", "http://u:hunter2@h/%zz", "h:hunter2", "postgres://u:hunter2@%zz"} {
			_, err := set(setup(), field, value).Check()
			if err != nil && strings.Contains(err.Error(), "hunter2") {
				t.Errorf("%s=%s is repeated: %v", variable, value, err)
			}
		}
	}
}

func TestLimitsOfValues(t *testing.T) {
	t.Parallel()
	variable := variables()
	for field, c := range map[string]struct{ good, bad []string }{
		"Listen":           {[]string{":0", ":65535", "127.0.0.1:80", "[::1]:80", "db:80"}, []string{"80", ":", ":65536", ":-1", ":http", "::1:80x", "a:b:c"}},
		"AdminListen":      {[]string{"", ":0", "127.0.0.1:9090", "[::1]:9090"}, []string{"9090", "127.0.0.1", ":65536", ":http", "http://127.0.0.1:9090"}},
		"DatabaseURL":      {[]string{"postgres://h/n", "postgresql://h/n"}, []string{"mysql://h/n", "h/n", "postgres://", "postgres:/n", "redis://h"}},
		"DatabaseReadURL":  {[]string{"", "postgres://h/n"}, []string{"mysql://h/n", "h/n"}},
		"StatementTimeout": {[]string{"", "0", "100ms", "24h"}, []string{"-1s", "25h", "30", "never"}},
		"LockTimeout":      {[]string{"", "0", "100ms", "24h"}, []string{"-1s", "25h", "30", "never"}},
		"DatabasePool":     {[]string{"2", "10000"}, []string{"1", "0", "-2", "10001", "2.5", "many", "9999999999999999999999"}},
		"RedisURL": {[]string{"", "redis://h", "rediss://:p@h:1/0", "redis+sentinel://u:p@h:1,i:2/m?db=0", "rediss+cluster://h:1,i"},
			[]string{"http://h", "h:6379", "redis://", "redis://h/none", "redis+sentinel://h", "redis+cluster://h:1,", "redis+cluster://h/1"}},
		"RedisPool":    {[]string{"1", "10000"}, []string{"0", "10001"}},
		"Migrate":      {[]string{"", "on", "OFF", "true", "0"}, []string{"maybe", "2", " on"}},
		"TokenTTL":     {[]string{"1m", "720h", "90m"}, []string{"59s", "720h1s", "-1h", "24", "1d"}},
		"SessionTTL":   {[]string{"1h", "8760h"}, []string{"59m", "8761h", "30d"}},
		"AnonymousTTL": {[]string{"1m", "720h"}, []string{"59s", "721h", "8"}},
		"Tombstones":   {[]string{"1h", "87600h"}, []string{"59m", "87601h", "90d"}},
		"DrainDelay":   {[]string{"", "0s", "7s", "5m"}, []string{"-1s", "5m1s", "10"}},
		"HitQuota":     {[]string{"0", "1125899906842624"}, []string{"-1", "1125899906842625", "1e4", "1_000"}},
		"LinkQuota":    {[]string{"0", "1125899906842624"}, []string{"-1", "1125899906842625"}},
		"RequestRate":  {[]string{"", "1", "1000000"}, []string{"0", "-1", "many"}},
		"Origins": {[]string{"", "*", "https://a.example, http://localhost:5173,", "https://Bücher.example:443/"},
			[]string{"a.example", "https://a.example/b", "https://a.example?b", "https://a.example/#b", "ftp://a.example", "https://*.example", "null", "https://u@a.example"}},
		"Hosts":      {[]string{"", "a", "a.example, b.example,"}, []string{"http://a", "a:80", "a/b", "a b", "%"}},
		"MailFrom":   {[]string{"", "a@b.c", "A <a@b.c>"}, []string{"a", "A <a>", "a@b.c\r\nBcc: x@y.z"}},
		"Env":        {[]string{"", "development", "Production"}, []string{"staging", "prod"}},
		"LogFormat":  {[]string{"", "text", "JSON"}, []string{"xml"}},
		"LogLevel":   {[]string{"debug", "INFO", "warn", "error"}, []string{"trace", "warning"}},
		"JWTSecret":  {[]string{strings.Repeat("x", 32)}, []string{"", strings.Repeat("x", 31)}},
		"CodeSecret": {[]string{strings.Repeat("x", 32)}, []string{"", strings.Repeat("x", 31)}},
	} {
		for _, value := range c.good {
			if _, err := set(setup(), field, value).Check(); err != nil {
				t.Errorf("%s=%q: %v", field, value, err)
			}
		}
		for _, value := range c.bad {
			_, err := set(setup(), field, value).Check()
			if diff := cmp.Diff([]string{variable[field]}, blamed(err)); diff != "" {
				t.Errorf("%s=%q blames (-want +got):\n%s", field, value, diff)
			}
		}
	}
}

func TestValuesArrive(t *testing.T) {
	t.Parallel()
	f := setup()
	f.Listen, f.DataDir, f.RedisURL, f.DatabasePool, f.RedisPool = "127.0.0.1:9000", "/var/lib/linkforge", "rediss://:p@h:1/0", "7", "8"
	f.TokenTTL, f.HitQuota, f.LinkQuota, f.LogLevel = "90m", "11", "12", "debug"
	f.AnonymousTTL, f.Tombstones, f.DestinationChecks, f.SessionTTL = "20m", "48h", "off", "24h"
	f.Origins = "https://Bücher.example:443, http://localhost:5173, *"
	f.PublicURL, f.Hosts, f.RequestRate, f.SMTPURL, f.MailFrom = "https://sho.rt", "Internal, bücher.example", "77", "smtp://h", "x@y.z"
	f.AdminListen, f.DatabaseReadURL = "127.0.0.1:9090", "postgres://standby/n"
	f.LockTimeout, f.OperationDeadline = "0", "2m"
	bounds := usualBounds
	bounds.Deadline = 2 * time.Minute
	want := Config{
		Listen: "127.0.0.1:9000", AdminListen: "127.0.0.1:9090", PublicURL: "https://sho.rt", DataDir: "/var/lib/linkforge",
		DatabaseURL: f.DatabaseURL, DatabaseReadURL: f.DatabaseReadURL, DatabasePool: 7, StatementTimeout: 2 * time.Minute, RedisURL: "rediss://:p@h:1/0", RedisPool: 8,
		Migrate: true, JWTSecret: []byte(f.JWTSecret), CodeSecrets: [][]byte{[]byte(f.CodeSecret)}, TokenTTL: 90 * time.Minute,
		HitQuota: 11, LinkQuota: 12, QuotaFallback: true, CacheBytes: 256 << 20, ClickLogBytes: 1 << 30, ClickMonths: 13, SumMonths: 25, RateLimits: true, SessionTTL: 24 * time.Hour, AnonymousTTL: 20 * time.Minute, Tombstones: 48 * time.Hour,
		RequestRate: 77, CostRate: 6_000_000, Bounds: bounds, Hosts: []string{"internal", "localhost", "sho.rt", "xn--bcher-kva.example"},
		Origins: []string{"https://xn--bcher-kva.example", "http://localhost:5173", "*"}, SMTPURL: "smtp://h", MailFrom: "x@y.z",
		Development: true, Playground: true, Introspection: true, LogLevel: slog.LevelDebug,
	}
	got, err := f.Check()
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

// TestAnonymousLinksSwitchedOff: their life is checked all the same, and then counts for nothing.
func TestAnonymousLinksSwitchedOff(t *testing.T) {
	t.Parallel()
	if got, err := (Flags{Anonymous: "off", AnonymousTTL: "20m"}).Check(); err != nil || got.AnonymousTTL != 0 {
		t.Errorf("%s: %v", got.AnonymousTTL, err)
	}
	if _, err := (Flags{Anonymous: "off", AnonymousTTL: "for ever"}).Check(); len(blamed(err)) != 1 {
		t.Errorf("a life that is none: %v", err)
	}
}

func TestPublicURLs(t *testing.T) {
	t.Parallel()
	for given, want := range map[string]string{
		"http://sho.rt":           "http://sho.rt",
		"https://Sho.RT/":         "https://sho.rt",
		"HTTPS://sho.rt:443":      "https://sho.rt",
		"https://sho.rt:8443/":    "https://sho.rt:8443",
		"http://localhost:8080":   "http://localhost:8080",
		"http://127.0.0.1":        "http://127.0.0.1",
		"http://[0:0::1]:80/":     "http://[::1]",
		"https://köln.example":    "https://xn--kln-sna.example",
		"sho.rt":                  "",
		"//sho.rt":                "",
		"ftp://sho.rt":            "",
		"https://":                "",
		"https://u:p@sho.rt":      "",
		"https://sho.rt/s":        "",
		"https://sho.rt/s/":       "",
		"https://sho.rt/?a":       "",
		"https://sho.rt/?a=/":     "",
		"https://sho.rt:0":        "",
		"https://sho.rt:99999":    "",
		"https://sho rt":          "",
		"https://sho.rt\nx: y":    "",
		"javascript:alert(1)":     "",
		"https://sho.rt/%2e%2e/a": "",
	} {
		c, err := set(setup(), "PublicURL", given).Check()
		if want == "" && !cmp.Equal(blamed(err), []string{"LINKFORGE_PUBLIC_URL"}) {
			t.Errorf("%q became %q: %v", given, c.PublicURL, err)
		}
		if want != "" && (err != nil || c.PublicURL != want) {
			t.Errorf("%q became %q, want %q: %v", given, c.PublicURL, want, err)
		}
	}
}

func TestThePublicURLFollowsTheAddress(t *testing.T) {
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
		if c, err := set(setup(), "Listen", listen).Check(); err != nil || c.PublicURL != want {
			t.Errorf("listening on %q: %q, want %q: %v", listen, c.PublicURL, want, err)
		}
	}
}

func TestADatabaseAloneNeedsNoSecrets(t *testing.T) {
	t.Parallel()
	f := setup()
	f.JWTSecret, f.CodeSecret = "", "short"
	c, err := f.CheckDatabase()
	if err != nil || c.DatabaseURL != f.DatabaseURL || c.JWTSecret != nil || c.CodeSecrets != nil {
		t.Errorf("%+v: %v", c, err)
	}
	f.DatabasePool = "none"
	if _, err := f.CheckDatabase(); fmt.Sprint(blamed(err)) != "[LINKFORGE_DATABASE_POOL]" {
		t.Errorf("everything else is checked: %v", err)
	}
}

func TestOwnHosts(t *testing.T) {
	t.Parallel()
	f := setup()
	f.PublicURL, f.Hosts = "https://sho.rt", "internal"
	c, err := f.Check()
	if err != nil {
		t.Fatal(err)
	}
	for host, want := range map[string]bool{
		"sho.rt": true, "internal": true, "localhost": true, "127.0.0.1": true, "192.0.2.1": true, "::1": true,
		"www.sho.rt": false, "sho.rt.evil.example": false, "links.example.com": false, "": false, "SHO.RT": false, "1.2.3": false,
	} {
		if got := c.IsOwnHost(host); got != want {
			t.Errorf("%q is the instance's own: %t, want %t", host, got, want)
		}
	}
}

func TestProxiesAndTLS(t *testing.T) {
	t.Parallel()
	f := setup()
	f.TrustedProxies, f.ProxyProtocol = " 10.1.2.3/8, fd00::1 ,192.0.2.7", "on"
	f.TLSCertificate, f.TLSKey = "certificate.pem", "key.pem"
	c, err := f.Check()
	if diff := cmp.Diff("[10.0.0.0/8 fd00::1/128 192.0.2.7/32]", fmt.Sprint(c.TrustedProxies)); diff != "" || err != nil || !c.ProxyProtocol {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if c.PublicURL != "https://localhost:8080" {
		t.Errorf("the public URL is %s", c.PublicURL)
	}
	f.TrustedProxies, f.TLSKey = "", ""
	_, err = f.Check()
	if diff := cmp.Diff([]string{"LINKFORGE_PROXY_PROTOCOL", "LINKFORGE_TLS_KEY"}, blamed(err)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, wrong := range []string{"10.0.0.0/33", "proxy.internal", "10.0.0.1:80", "10.0.0.0/8;10.0.0.1"} {
		f := setup()
		f.TrustedProxies = wrong
		if _, err := f.Check(); !slices.Equal(blamed(err), []string{"LINKFORGE_TRUSTED_PROXIES"}) {
			t.Errorf("%q: %v", wrong, err)
		}
	}
}
