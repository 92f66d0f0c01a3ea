package config

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/linkforge/linkforge/internal/platform/urlnorm"
)

// Flags holds the settings as text, from the command line and the environment. Check reads them:
// kong would stop at the first wrong value, and repeat it.
type Flags struct {
	fields  reflect.Value // a struct with a string for each setting, named like its variable
	checks  Checks
	unknown []string // the variables of the environment that look like a setting, and are none
}

// NewFlags derives the flags from the tags and comments of Config. Check reports the variables of
// the environment, as os.Environ returns it, that look like a setting and are none.
func NewFlags(environ []string, checks Checks) *Flags {
	var fields []reflect.StructField
	texts := help()
	eachSetting(reflect.ValueOf(Config{}), func(_ reflect.Value, tag reflect.StructTag) {
		env := tag.Get("env")
		name := strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(env, "LINKFORGE_"), "_", "-"))
		tag += reflect.StructTag(fmt.Sprintf(" name:%q help:%q", name, texts[env]))
		fields = append(fields, reflect.StructField{Name: env, Type: reflect.TypeFor[string](), Tag: tag})
	})
	f := &Flags{fields: reflect.New(reflect.StructOf(fields)).Elem(), checks: checks}
	for _, variable := range environ {
		if name, _, _ := strings.Cut(variable, "="); isMisspelt(name) {
			f.unknown = append(f.unknown, name)
		}
	}
	return f
}

// Grammar returns the struct that kong fills: see kong.Embed.
func (f *Flags) Grammar() any { return f.fields.Addr().Interface() }

// Has reports whether the setting with that environment variable has a value.
func (f *Flags) Has(env string) bool { return f.texts()[env] != "" }

// Check returns the configuration. The error names every problem, one per line.
func (f *Flags) Check() (Config, error) { return Parse(f.texts(), f.checks) }

// CheckDatabase is Check for commands that need only the database: it ignores the secrets that sign
// tokens and create codes.
func (f *Flags) CheckDatabase() (Config, error) {
	r := read(f.texts(), f.checks)
	return r.Config, errors.Join(r.problems...)
}

func (f *Flags) texts() map[string]string {
	texts := map[string]string{}
	for field, value := range f.fields.Fields() {
		texts[field.Name] = value.String()
	}
	for _, name := range f.unknown {
		texts[name] = ""
	}
	return texts
}

// Parse returns the configuration that an environment describes, without the command line. The
// error names every problem, one per line.
func Parse(env map[string]string, checks Checks) (Config, error) {
	r := read(env, checks)
	r.readSecrets()
	return r.Config, errors.Join(r.problems...)
}

// eachSetting visits the fields of a Config in the order of the help.
func eachSetting(config reflect.Value, visit func(field reflect.Value, tag reflect.StructTag)) {
	for field, value := range config.Fields() {
		if field.Type.Kind() == reflect.Struct {
			eachSetting(value, visit)
			continue
		}
		visit(value, field.Tag)
	}
}

// reader turns texts into a Config and collects the problems. A problem never repeats a value,
// which may be a secret in the wrong variable.
type reader struct {
	Config
	texts    map[string]string
	problems []error
}

// read reads all settings but those of readSecrets.
func read(texts map[string]string, checks Checks) *reader {
	r := &reader{texts: map[string]string{}}
	for env, text := range texts {
		r.texts[env] = WithoutLineEnd(text)
	}
	r.refuseUnknown()
	environment := "development"
	if r.isProduction() {
		environment = "production"
	}
	eachSetting(reflect.ValueOf(&r.Config).Elem(), func(field reflect.Value, tag reflect.StructTag) {
		env := tag.Get("env")
		text := cmp.Or(r.texts[env], tag.Get("default"), tag.Get(environment))
		if text == "" {
			return
		}
		if !utf8.ValidString(text) {
			r.report(env, "must be UTF-8")
		} else if err := checks.decode(field, tag, text); err != nil {
			r.report(env, "%w", err)
		}
	})
	r.derive()
	r.checkCombinations()
	return r
}

// isProduction differs from !r.Development when LINKFORGE_ENV is invalid.
func (r *reader) isProduction() bool {
	return strings.EqualFold(r.texts["LINKFORGE_ENV"], "production")
}

func (r *reader) report(env, format string, args ...any) {
	r.problems = append(r.problems, fmt.Errorf(env+": "+format, args...))
}

// derive fills settings whose value, or part of it, follows from others.
func (r *reader) derive() {
	if r.Listen == "" && r.TLSAuto {
		r.Listen = ":443"
	}
	r.Listen = cmp.Or(r.Listen, ":8080")
	if r.PublicURL == "" {
		r.PublicURL = localURL(r.Listen, r.HasTLS())
	}
	if r.texts["LINKFORGE_DATABASE_STATEMENT_TIMEOUT"] == "" {
		r.StatementTimeout = max(30*time.Second, r.Bounds.Deadline)
	}
	if !r.Anonymous {
		r.AnonymousTTL = 0
	}
	r.Hosts = append(r.Hosts, "localhost")
	if u, err := urlnorm.Canonical(r.PublicURL); err == nil { // an invalid one has been reported
		r.Hosts = append(r.Hosts, u.Host())
	}
	slices.Sort(r.Hosts)
	r.Hosts = slices.Compact(r.Hosts)
}

// checkCombinations applies the rules that involve several settings. A setting that is invalid
// itself is zero or empty here, or a text, and is not reported twice.
func (r *reader) checkCombinations() {
	if r.isProduction() && r.texts["LINKFORGE_PUBLIC_URL"] == "" {
		r.report("LINKFORGE_PUBLIC_URL", "is required in production: the origin of short URLs, as in https://sho.rt")
	}
	if r.isProduction() && r.texts["LINKFORGE_DATABASE_URL"] == "" {
		r.report("LINKFORGE_DATABASE_URL",
			"is required in production: a postgres:// URL, or sqlite for the database in "+
				"LINKFORGE_DATA_DIR")
	}
	if r.DatabaseReadURL != "" && r.Embedded() {
		r.report("LINKFORGE_DATABASE_READ_URL", "goes with LINKFORGE_DATABASE_URL: SQLite has no standby")
	}
	if r.ProxyProtocol && len(r.TrustedProxies) == 0 {
		r.report("LINKFORGE_PROXY_PROTOCOL", "goes with LINKFORGE_TRUSTED_PROXIES: name the proxies")
	}
	if r.texts["LINKFORGE_ENCRYPTION_KEY_PREVIOUS"] != "" && r.texts["LINKFORGE_ENCRYPTION_KEY"] == "" &&
		!r.Embedded() {
		r.report("LINKFORGE_ENCRYPTION_KEY_PREVIOUS", "goes with LINKFORGE_ENCRYPTION_KEY, the key that encrypts")
	}
	r.checkTLS()
	if r.isProduction() && len(r.OutboundAllow) > 0 {
		r.report("LINKFORGE_OUTBOUND_ALLOW",
			"is for development and tests: remove it, because links could make this server "+
				"connect to its own network")
	}
	if r.CostRate > 0 && r.CostRate < int64(r.Bounds.Cost) {
		r.report("LINKFORGE_COST_RATE", "must be at least LINKFORGE_MAX_COST, which is what one operation may cost")
	}
	if r.DocumentsOnly && r.Documents == "" && !r.Console {
		r.report("LINKFORGE_DOCUMENTS_ONLY",
			"needs LINKFORGE_DOCUMENTS, the file of the documents that are allowed, or LINKFORGE_CONSOLE=on")
	}
	if r.SMTPURL != "" && r.MailFrom == "" {
		r.report("LINKFORGE_MAIL_FROM", "is required with a mail server, as in Linkforge <no-reply@example.com>")
	}
	r.checkSSO()
}

// localURL returns the URL of a server that listens on an address, for developers on the same
// machine. It ignores invalid addresses, which are reported elsewhere.
func localURL(listen string, tls bool) string {
	scheme := "http"
	if tls {
		scheme = "https"
	}
	_, port, err := net.SplitHostPort(listen)
	if err != nil || !validPort(port) || port == "0" {
		port = "8080"
	}
	origin, _ := parseOrigin(scheme + "://localhost:" + port) // without a default port
	return origin
}
