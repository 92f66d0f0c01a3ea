// Package config is the server's configuration: one struct, filled from the environment or flags, which
// reports everything that is wrong with it at once.
package config

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/mail"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/linkforge/linkforge/internal/redisx"
	"github.com/linkforge/linkforge/internal/urlnorm"
)

// MinSecretBytes is the least length of a secret: the strength of HMAC-SHA256 (RFC 7518, section 3.2).
const MinSecretBytes = 32

// Flags is the configuration as it was written: text, so that one bad value does not hide the next. The tags
// make the command line's flags, their environment variables and their help.
type Flags struct {
	Listen            string `env:"LINKFORGE_LISTEN" default:":8080" help:"Address to listen on, host:port."`
	AdminListen       string `env:"LINKFORGE_ADMIN_LISTEN" help:"Address of the metrics and profiles, host:port, which nobody outside may reach. Empty: there are none."`
	TrustedProxies    string `env:"LINKFORGE_TRUSTED_PROXIES" help:"Addresses or networks of proxies, with commas between them, whose X-Forwarded-For says whom a request is from. Empty: nobody's does."`
	ProxyProtocol     string `env:"LINKFORGE_PROXY_PROTOCOL" default:"off" help:"Whether those proxies begin each connection with a PROXY header: on or off. On: nobody else may connect."`
	TLSCertificate    string `name:"tls-certificate" env:"LINKFORGE_TLS_CERTIFICATE" help:"A file with a certificate and those above it, in PEM, which is read again when it changes. Empty: the server speaks no TLS."`
	TLSKey            string `name:"tls-key" env:"LINKFORGE_TLS_KEY" help:"The file with the certificate's key, in PEM."`
	PublicURL         string `name:"public-url" env:"LINKFORGE_PUBLIC_URL" help:"Where people reach this instance; short URLs start with it. Empty: http://localhost and the port of LINKFORGE_LISTEN."`
	DataDir           string `env:"LINKFORGE_DATA_DIR" default:"./data" help:"Folder of the embedded database, the generated secrets, and the clicks that the database does not have yet."`
	DatabaseURL       string `name:"database-url" env:"LINKFORGE_DATABASE_URL" help:"postgres:// URL. Empty: SQLite in the data folder."`
	DatabaseReadURL   string `name:"database-read-url" env:"LINKFORGE_DATABASE_READ_URL" help:"postgres:// URL of a standby, from which lists and stats are read as long as it is at most 5s behind. Empty: there is none."`
	DatabasePool      string `env:"LINKFORGE_DATABASE_POOL" default:"20" help:"Most connections to the database, and to a standby as many more."`
	StatementTimeout  string `name:"database-statement-timeout" env:"LINKFORGE_DATABASE_STATEMENT_TIMEOUT" help:"How long PostgreSQL lets a request's statement go on, up to 24h; 0 for ever. Empty: 30s, or LINKFORGE_OPERATION_DEADLINE if that is longer."`
	LockTimeout       string `name:"database-lock-timeout" env:"LINKFORGE_DATABASE_LOCK_TIMEOUT" default:"10s" help:"How long such a statement waits for what another one holds, up to 24h; 0 for ever."`
	RedisURL          string `name:"redis-url" env:"LINKFORGE_REDIS_URL" help:"redis:// URL; redis+sentinel:// or redis+cluster:// and several hosts; rediss for TLS. Empty: an in-process Redis."`
	RedisPool         string `env:"LINKFORGE_REDIS_POOL" default:"50" help:"Most connections to Redis, to each node of a cluster."`
	Migrate           string `env:"LINKFORGE_MIGRATE" default:"on" help:"Whether serve migrates the database: on or off."`
	JWTSecret         string `name:"jwt-secret" hidden:"" env:"LINKFORGE_JWT_SECRET" help:"Key of the log-in tokens, at least 32 bytes."`
	CodeSecret        string `hidden:"" env:"LINKFORGE_CODE_SECRET" help:"Key of the generated codes, at least 32 bytes. To replace it, put the new key before it, separated by a comma."`
	TokenTTL          string `name:"token-ttl" env:"LINKFORGE_TOKEN_TTL" default:"24h" help:"How long a log-in token is good, 1m to 720h."`
	SessionTTL        string `name:"session-ttl" env:"LINKFORGE_SESSION_TTL" default:"720h" help:"How long a log-in that is not refreshed goes on, 1h to 8760h."`
	HitQuota          string `env:"LINKFORGE_HIT_QUOTA" default:"10000" help:"Redirects a link may answer in a calendar month (UTC)."`
	LinkQuota         string `env:"LINKFORGE_LINK_QUOTA" default:"10000" help:"Links a workspace may create in a calendar month (UTC)."`
	QuotaFallback     string `env:"LINKFORGE_QUOTA_FALLBACK" default:"database" help:"What counts monthly hits while Redis is away: database, or none: then redirects answer 503."`
	CacheBytes        string `env:"LINKFORGE_CACHE_BYTES" default:"268435456" help:"Memory for links that are followed, in bytes; a link takes about 600."`
	ClickLogBytes     string `env:"LINKFORGE_CLICK_LOG_BYTES" default:"1073741824" help:"Room for clicks that the database does not have yet, in the data folder, in bytes; a click takes about 150."`
	ClickMonths       string `env:"LINKFORGE_CLICK_MONTHS" default:"13" help:"Whole months that clicks are kept one by one, 1 to 1200; sums stay."`
	SumMonths         string `env:"LINKFORGE_SUM_MONTHS" default:"25" help:"Whole months that clicks are summed up by the quarter of an hour, 1 to 1200, and never fewer than clicks are kept one by one; sums by the day stay for ever."`
	GeoIP             string `name:"geoip" env:"LINKFORGE_GEOIP" help:"A file of countries in MaxMind's format, which is read again when it changes. Empty: countries are not known."`
	Anonymous         string `env:"LINKFORGE_ANONYMOUS" default:"on" help:"Links without an account: on or off."`
	AnonymousTTL      string `name:"anonymous-ttl" env:"LINKFORGE_ANONYMOUS_TTL" default:"8h" help:"How long such a link lives, 1m to 720h."`
	Tombstones        string `env:"LINKFORGE_TOMBSTONES" default:"2160h" help:"How long a link that has ended says so before it is purged, 1h to 87600h."`
	DestinationChecks string `env:"LINKFORGE_DESTINATION_CHECKS" default:"on" help:"Ask each link's destination about once a day how it is: on or off."`
	RateLimits        string `env:"LINKFORGE_RATE_LIMITS" default:"on" help:"Short-term limits on requests, log-in, registration, mail, anonymous links, reports and checks: on or off."`
	RequestRate       string `env:"LINKFORGE_REQUEST_RATE" help:"GraphQL requests a minute of a person, an API key, or an address that is not logged in. Empty: 60000 in development, 6000 in production."`
	CostRate          string `env:"LINKFORGE_COST_RATE" help:"What the GraphQL operations of a person, an API key, or an address that is not logged in may cost a minute, at least LINKFORGE_MAX_COST. Empty: 6000000 in development, 600000 in production."`
	MaxBody           string `env:"LINKFORGE_MAX_BODY" default:"10485760" help:"Bytes that a GraphQL request's body may have of somebody who is logged in."`
	MaxAnonymousBody  string `env:"LINKFORGE_MAX_ANONYMOUS_BODY" default:"262144" help:"Bytes that it may have of everybody else, and a message over a WebSocket."`
	MaxValues         string `env:"LINKFORGE_MAX_VALUES" default:"100000" help:"Values that its JSON may hold."`
	MaxDocument       string `env:"LINKFORGE_MAX_DOCUMENT" default:"65536" help:"Bytes that a GraphQL document may have."`
	MaxTokens         string `env:"LINKFORGE_MAX_TOKENS" default:"1000" help:"Tokens that a document may have: names, values and signs."`
	MaxFields         string `env:"LINKFORGE_MAX_FIELDS" default:"1000" help:"Fields that an operation may have, with its fragments spread."`
	MaxRootFields     string `env:"LINKFORGE_MAX_ROOT_FIELDS" default:"100" help:"Fields that it may have at its root."`
	MaxDepth          string `env:"LINKFORGE_MAX_DEPTH" default:"20" help:"How deep its fields may nest."`
	MaxAliases        string `env:"LINKFORGE_MAX_ALIASES" default:"100" help:"Aliases that it may have."`
	MaxRepeats        string `env:"LINKFORGE_MAX_REPEATS" default:"100" help:"How often the same name may stand in one place of its answer."`
	MaxFragments      string `env:"LINKFORGE_MAX_FRAGMENTS" default:"500" help:"Fragments that it may spread, inline ones included."`
	MaxDirectives     string `env:"LINKFORGE_MAX_DIRECTIVES" default:"50" help:"Directives that it may have."`
	MaxCost           string `env:"LINKFORGE_MAX_COST" default:"10000" help:"What it may cost, page sizes multiplied."`
	OperationDeadline string `env:"LINKFORGE_OPERATION_DEADLINE" default:"15s" help:"How long it may take, 1s to 10m."`
	Documents         string `env:"LINKFORGE_DOCUMENTS" help:"A JSON file of GraphQL documents by id, which clients may then name instead of sending them. Empty: there is none."`
	DocumentsOnly     string `env:"LINKFORGE_DOCUMENTS_ONLY" default:"off" help:"Refuse every document that is not in that file: on or off."`
	Hosts             string `env:"LINKFORGE_HOSTS" help:"Further hosts that reach this instance, with commas between them. Its public URL's, localhost and addresses always do; any other must be a workspace's domain."`
	Origins           string `env:"LINKFORGE_ORIGINS" help:"Further origins whose pages may call the API, as in https://app.example.com, with commas between them; * for every one. Pages of this instance's own hosts always may."`
	SMTPURL           string `name:"smtp-url" hidden:"" env:"LINKFORGE_SMTP_URL" help:"Mail server, smtp://user:password@host:587 or smtps://host:465. Empty: no mail is sent."`
	MailFrom          string `env:"LINKFORGE_MAIL_FROM" help:"Whom mail is from, as in Linkforge <no-reply@example.com>. Needed with a mail server."`
	Env               string `env:"LINKFORGE_ENV" default:"development" help:"development or production."`
	DrainDelay        string `env:"LINKFORGE_DRAIN_DELAY" default:"0s" help:"How long requests are still taken after the signal to stop, while /readyz says 503, so that proxies see it: 0s to 5m."`
	Playground        string `env:"LINKFORGE_PLAYGROUND" help:"Serve the playground: on or off. Empty: on in development."`
	Introspection     string `env:"LINKFORGE_INTROSPECTION" help:"Answer introspection and suggest names: on or off. Empty: on in development."`
	LogFormat         string `env:"LINKFORGE_LOG_FORMAT" help:"text or json. Empty: text in development, json in production."`
	LogLevel          string `env:"LINKFORGE_LOG_LEVEL" default:"info" help:"debug, info, warn or error."`
}

// Config is the configuration, checked.
type Config struct {
	// Listen is the address to listen on.
	Listen string
	// AdminListen is where metrics and profiles are shown; empty means nowhere.
	AdminListen string
	// TrustedProxies are those whose word is taken about where requests come from; with ProxyProtocol they say it at the
	// beginning of each connection.
	TrustedProxies []netip.Prefix
	ProxyProtocol  bool
	// TLSCertificate and TLSKey are files; empty means no TLS.
	TLSCertificate, TLSKey string
	// PublicURL is where people reach the instance, without a slash at the end.
	PublicURL string
	// DataDir is the folder of the embedded database, the generated secrets, and clicks that the database does not have.
	DataDir string
	// DatabaseURL is PostgreSQL's; empty means SQLite in DataDir.
	DatabaseURL string
	// DatabaseReadURL is a standby's of it; may be empty.
	DatabaseReadURL string
	// DatabasePool is the largest number of connections to the database, and to the standby.
	DatabasePool int
	// StatementTimeout is how long PostgreSQL lets a request's statement go on, LockTimeout how long it waits for another's; zero
	// is for ever.
	StatementTimeout, LockTimeout time.Duration
	// RedisURL is Redis's; empty means the in-process one.
	RedisURL string
	// RedisPool is the largest number of connections to Redis.
	RedisPool int
	// Migrate says whether serve brings the database's schema up to date.
	Migrate bool
	// JWTSecret signs log-in tokens. CodeSecrets key generated codes: the first makes new ones, the others were replaced. Those
	// that are nil are created in DataDir.
	JWTSecret   []byte
	CodeSecrets [][]byte
	// TokenTTL is how long a log-in token is good.
	TokenTTL time.Duration
	// SessionTTL is how long a log-in that is not refreshed goes on.
	SessionTTL time.Duration
	// HitQuota is how many redirects a link may answer in a month, LinkQuota how many links a workspace may create.
	HitQuota, LinkQuota int64
	// QuotaFallback says that the database counts hits while Redis is away.
	QuotaFallback bool
	// CacheBytes bounds the memory for links that are followed, ClickLogBytes the room for clicks in DataDir.
	CacheBytes, ClickLogBytes int64
	// ClickMonths is how many whole months clicks are kept one by one, SumMonths their sums by the quarter of an hour.
	ClickMonths, SumMonths int
	// GeoIP is a file of countries; may be empty.
	GeoIP string
	// AnonymousTTL is how long a link without an account lives; zero means that there are none.
	AnonymousTTL time.Duration
	// Tombstones is how long a link that has ended says so.
	Tombstones time.Duration
	// DestinationChecks says whether destinations are asked how they are.
	DestinationChecks bool
	// RateLimits says whether what costs much is limited in the short term.
	RateLimits bool
	// RequestRate is how many GraphQL requests a minute a person, a key or an address may make.
	RequestRate int64
	// CostRate is what their operations may cost a minute.
	CostRate int64
	// Bounds are what one request may ask for.
	Bounds Bounds
	// Documents is a file of GraphQL documents, empty for none; DocumentsOnly refuses all others.
	Documents     string
	DocumentsOnly bool
	// DrainDelay is how long requests are still taken after the signal to stop.
	DrainDelay time.Duration
	// Hosts are the names that reach the instance itself: its public URL's, localhost, and what else was configured.
	Hosts []string
	// Origins are further origins whose pages may call the API, as browsers write them; "*" is every one.
	Origins []string
	// SMTPURL is the mail server, empty for none; MailFrom is whom mail is from.
	SMTPURL, MailFrom string
	// Development says that the instance is a developer's own.
	Development bool
	// Playground and Introspection say whether the endpoint shows itself.
	Playground, Introspection bool
	// LogJSON chooses the log's format, LogLevel its least level.
	LogJSON  bool
	LogLevel slog.Level
}

// Embedded reports whether the instance keeps its data in DataDir.
func (c Config) Embedded() bool { return c.DatabaseURL == "" }

// CheckDatabase is Check for commands that only need the database: secrets may be missing.
func (f Flags) CheckDatabase() (Config, error) {
	return f.check(false)
}

// Check turns what was written into a Config. The error names every problem, one a line.
func (f Flags) Check() (Config, error) { return f.check(true) }

func (f Flags) check(secrets bool) (Config, error) {
	var p problems
	development := p.choice("LINKFORGE_ENV", f.Env, "development", "production")
	c := Config{
		Listen:            p.address("LINKFORGE_LISTEN", cmp.Or(f.Listen, ":8080")),
		AdminListen:       p.address("LINKFORGE_ADMIN_LISTEN", f.AdminListen),
		PublicURL:         p.publicURL("LINKFORGE_PUBLIC_URL", cmp.Or(f.PublicURL, localURL(f.Listen, f.TLSCertificate != ""))),
		TrustedProxies:    p.networks("LINKFORGE_TRUSTED_PROXIES", f.TrustedProxies),
		ProxyProtocol:     p.toggle("LINKFORGE_PROXY_PROTOCOL", f.ProxyProtocol, false),
		TLSCertificate:    f.TLSCertificate,
		TLSKey:            f.TLSKey,
		DataDir:           cmp.Or(f.DataDir, "./data"),
		DatabaseURL:       p.serverURL("LINKFORGE_DATABASE_URL", f.DatabaseURL, "postgres", "postgresql"),
		DatabaseReadURL:   p.serverURL("LINKFORGE_DATABASE_READ_URL", f.DatabaseReadURL, "postgres", "postgresql"),
		DatabasePool:      int(p.number("LINKFORGE_DATABASE_POOL", cmp.Or(f.DatabasePool, "20"), 2, 10_000)),
		LockTimeout:       p.duration("LINKFORGE_DATABASE_LOCK_TIMEOUT", cmp.Or(f.LockTimeout, "10s"), 0, 24*time.Hour),
		RedisURL:          p.redisURL("LINKFORGE_REDIS_URL", f.RedisURL),
		RedisPool:         int(p.number("LINKFORGE_REDIS_POOL", cmp.Or(f.RedisPool, "50"), 1, 10_000)),
		Migrate:           p.toggle("LINKFORGE_MIGRATE", f.Migrate, true),
		TokenTTL:          p.duration("LINKFORGE_TOKEN_TTL", cmp.Or(f.TokenTTL, "24h"), time.Minute, 720*time.Hour),
		SessionTTL:        p.duration("LINKFORGE_SESSION_TTL", cmp.Or(f.SessionTTL, "720h"), time.Hour, 8760*time.Hour),
		HitQuota:          p.number("LINKFORGE_HIT_QUOTA", cmp.Or(f.HitQuota, "10000"), 0, 1<<50),
		LinkQuota:         p.number("LINKFORGE_LINK_QUOTA", cmp.Or(f.LinkQuota, "10000"), 0, 1<<50),
		QuotaFallback:     p.choice("LINKFORGE_QUOTA_FALLBACK", f.QuotaFallback, "database", "none"),
		CacheBytes:        p.number("LINKFORGE_CACHE_BYTES", cmp.Or(f.CacheBytes, "268435456"), 1<<20, 1<<40),
		ClickLogBytes:     p.number("LINKFORGE_CLICK_LOG_BYTES", cmp.Or(f.ClickLogBytes, "1073741824"), 1<<16, 1<<40),
		ClickMonths:       int(p.number("LINKFORGE_CLICK_MONTHS", cmp.Or(f.ClickMonths, "13"), 1, 1200)),
		SumMonths:         int(p.number("LINKFORGE_SUM_MONTHS", cmp.Or(f.SumMonths, "25"), 1, 1200)),
		GeoIP:             f.GeoIP,
		Tombstones:        p.duration("LINKFORGE_TOMBSTONES", cmp.Or(f.Tombstones, "2160h"), time.Hour, 87600*time.Hour),
		DrainDelay:        p.duration("LINKFORGE_DRAIN_DELAY", cmp.Or(f.DrainDelay, "0s"), 0, 5*time.Minute),
		DestinationChecks: p.toggle("LINKFORGE_DESTINATION_CHECKS", f.DestinationChecks, true),
		RateLimits:        p.toggle("LINKFORGE_RATE_LIMITS", f.RateLimits, true),
		RequestRate:       p.number("LINKFORGE_REQUEST_RATE", cmp.Or(f.RequestRate, requestRateFor(development)), 1, 1<<40),
		SMTPURL:           p.serverURL("LINKFORGE_SMTP_URL", f.SMTPURL, "smtp", "smtps"),
		MailFrom:          p.mailFrom("LINKFORGE_MAIL_FROM", f.MailFrom, f.SMTPURL != ""),
		Development:       development,
		Playground:        p.toggle("LINKFORGE_PLAYGROUND", f.Playground, development),
		Introspection:     p.toggle("LINKFORGE_INTROSPECTION", f.Introspection, development),
		LogJSON:           !p.choice("LINKFORGE_LOG_FORMAT", cmp.Or(f.LogFormat, formatFor(development)), "text", "json"),
		LogLevel:          p.level("LINKFORGE_LOG_LEVEL", cmp.Or(f.LogLevel, "info")),
	}
	if c.DatabaseReadURL != "" && c.Embedded() {
		p.add("LINKFORGE_DATABASE_READ_URL", "goes with LINKFORGE_DATABASE_URL: SQLite has no standby")
	}
	if c.ProxyProtocol && len(c.TrustedProxies) == 0 {
		p.add("LINKFORGE_PROXY_PROTOCOL", "goes with LINKFORGE_TRUSTED_PROXIES: name the proxies")
	}
	if (c.TLSCertificate == "") != (c.TLSKey == "") {
		p.add("LINKFORGE_TLS_KEY", "goes with LINKFORGE_TLS_CERTIFICATE: set both or none")
	}
	c.Bounds = p.bounds(f)
	c.StatementTimeout = p.duration("LINKFORGE_DATABASE_STATEMENT_TIMEOUT", cmp.Or(f.StatementTimeout, max(30*time.Second, c.Bounds.Deadline).String()), 0, 24*time.Hour)
	c.CostRate = p.costRate(f.CostRate, development, c.Bounds)
	c.Documents, c.DocumentsOnly = f.Documents, p.documentsOnly(f.DocumentsOnly, f.Documents)
	c.Hosts = p.hosts("LINKFORGE_HOSTS", f.Hosts, c.PublicURL)
	c.Origins = p.origins("LINKFORGE_ORIGINS", f.Origins)
	ttl := p.duration("LINKFORGE_ANONYMOUS_TTL", cmp.Or(f.AnonymousTTL, "8h"), time.Minute, 720*time.Hour)
	if p.toggle("LINKFORGE_ANONYMOUS", f.Anonymous, true) {
		c.AnonymousTTL = ttl
	}
	if secrets {
		c.JWTSecret = p.secret("LINKFORGE_JWT_SECRET", f.JWTSecret, c.Embedded())
		if codeSecret := p.secret("LINKFORGE_CODE_SECRET", f.CodeSecret, c.Embedded()); codeSecret != nil {
			c.CodeSecrets = SplitSecrets(codeSecret)
		}
	}
	return c, errors.Join(p...)
}

// IsOwnHost says that a host is the instance's own, and not to be looked for among the workspaces' domains: addresses are,
// which are nobody's domain, and by which probes come.
func (c Config) IsOwnHost(host string) bool {
	if slices.Contains(c.Hosts, host) {
		return true
	}
	_, err := netip.ParseAddr(host)
	return err == nil
}

func requestRateFor(development bool) string {
	if development {
		return "60000"
	}
	return "6000"
}

func formatFor(development bool) string {
	if development {
		return "text"
	}
	return "json"
}

// localURL is where a developer reaches a server with that address; a wrong one is another problem's to report.
func localURL(listen string, tls bool) string {
	scheme := "http"
	if tls {
		scheme = "https"
	}
	_, port, err := net.SplitHostPort(listen)
	if err != nil || !validPort(port) || port == "0" {
		port = "8080"
	}
	return scheme + "://localhost:" + port
}

// problems collects what is wrong, so that it is all said at once. A value is never repeated: it may be a secret
// that went into the wrong variable.
type problems []error

func (p *problems) add(name, format string, args ...any) {
	*p = append(*p, fmt.Errorf("%s: %s", name, fmt.Sprintf(format, args...)))
}

// choice reports whether the value is the first of two words; an empty value counts as the first.
func (p *problems) choice(name, value, first, second string) bool {
	switch strings.ToLower(value) {
	case first, "":
		return true
	case second:
		return false
	}
	p.add(name, "must be %s or %s", first, second)
	return true
}

func (p *problems) toggle(name, value string, whenEmpty bool) bool {
	switch strings.ToLower(value) {
	case "":
		return whenEmpty
	case "on", "true", "yes", "1":
		return true
	case "off", "false", "no", "0":
		return false
	}
	p.add(name, "must be on or off")
	return whenEmpty
}

func (p *problems) number(name, value string, least, most int64) int64 {
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil || n < least || n > most {
		p.add(name, "must be a whole number from %d to %d", least, most)
	}
	return n
}

func (p *problems) duration(name, value string, least, most time.Duration) time.Duration {
	d, err := time.ParseDuration(value)
	if err != nil || d < least || d > most {
		p.add(name, "must be a duration from %s to %s, as in 24h or 90m", least, most)
	}
	return d
}

func (p *problems) address(name, value string) string {
	if value == "" {
		return ""
	}
	if _, port, err := net.SplitHostPort(value); err != nil || !validPort(port) {
		p.add(name, "must be host:port or :port, as in :8080 or 127.0.0.1:8080")
	}
	return value
}

// networks reads addresses and networks, with commas between them.
func (p *problems) networks(name, value string) (all []netip.Prefix) {
	for word := range strings.SplitSeq(value, ",") {
		if word = strings.TrimSpace(word); word == "" {
			continue
		}
		network, err := netip.ParsePrefix(word)
		if addr, problem := netip.ParseAddr(word); problem == nil {
			network, err = netip.PrefixFrom(addr, addr.BitLen()), nil
		}
		if err != nil {
			p.add(name, "must be addresses or networks with commas between them, as in 127.0.0.1,10.0.0.0/8,fd00::/8")
			return nil
		}
		all = append(all, network.Masked())
	}
	return all
}

func validPort(s string) bool {
	n, err := strconv.ParseUint(s, 10, 16)
	return err == nil && n <= 65535
}

// publicURL is an origin: short URLs are made by adding a path, so it has none itself.
func (p *problems) publicURL(name, value string) string {
	u, err := urlnorm.Canonical(value)
	if err != nil {
		p.add(name, "must be an http or https URL: %s", err)
		return value
	}
	origin, ok := strings.CutSuffix(u.String(), "/")
	if !ok || strings.Count(origin, "/") != 2 {
		p.add(name, "must be scheme, host and port only, without a path or query")
	}
	return origin
}

func (p *problems) serverURL(name, value string, schemes ...string) string {
	if value == "" {
		return ""
	}
	u, err := url.Parse(value)
	if err != nil || u.Host == "" {
		p.add(name, "must be a URL, as in %s://user:password@host/name", schemes[0])
		return value
	}
	for _, scheme := range schemes {
		if u.Scheme == scheme {
			return value
		}
	}
	p.add(name, "must start with %s://", strings.Join(schemes, ":// or "))
	return value
}

func (p *problems) redisURL(name, value string) string {
	if err := redisx.Check(value); err != nil {
		p.add(name, "%s", err)
	}
	return value
}

func (p *problems) hosts(name, value, publicURL string) []string {
	hosts := []string{"localhost"}
	if u, err := urlnorm.Canonical(publicURL); err == nil { // else it has been said
		hosts = append(hosts, u.Host())
	}
	for host := range strings.SplitSeq(value, ",") {
		if host = strings.TrimSpace(host); host == "" {
			continue
		}
		u, err := urlnorm.Canonical("http://" + host)
		if err != nil || u.String() != "http://"+u.Host()+"/" || strings.Contains(host, ":") {
			p.add(name, "must be host names with commas between them, without schemes, ports and paths")
			break
		}
		hosts = append(hosts, u.Host())
	}
	slices.Sort(hosts)
	return slices.Compact(hosts)
}

func (p *problems) origins(name, value string) (origins []string) {
	for origin := range strings.SplitSeq(value, ",") {
		if origin = strings.TrimSpace(origin); origin == "" {
			continue
		}
		u, err := urlnorm.Canonical(origin)
		if origin != "*" && (err != nil || strings.Count(u.String(), "/") != 3 || !strings.HasSuffix(u.String(), "/") || strings.ContainsAny(origin, "?#")) {
			p.add(name, "must be origins with commas between them, scheme, host and port without a path, as in https://app.example.com; or *")
			break
		}
		if origin != "*" {
			origin = strings.TrimSuffix(u.String(), "/")
		}
		origins = append(origins, origin)
	}
	return origins
}

func (p *problems) mailFrom(name, value string, needed bool) string {
	if value == "" && needed {
		p.add(name, "is required with a mail server, as in Linkforge <no-reply@example.com>")
	}
	if _, err := mail.ParseAddress(value); value != "" && err != nil {
		p.add(name, "must be an address, as in Linkforge <no-reply@example.com>")
	}
	return value
}

func (p *problems) level(name, value string) slog.Level {
	var level slog.Level
	if err := level.UnmarshalText([]byte(value)); err != nil {
		p.add(name, "must be debug, info, warn or error")
	}
	return level
}

func (p *problems) secret(name, value string, embedded bool) []byte {
	if value == "" && embedded {
		return nil // made once, in the data folder
	}
	if value == "" {
		p.add(name, "is required with a database URL: every node needs the same one, of at least %d bytes", MinSecretBytes)
	} else if len(value) < MinSecretBytes {
		p.add(name, "must be at least %d bytes long; this makes a good one: openssl rand -base64 48", MinSecretBytes)
	}
	return []byte(value)
}
