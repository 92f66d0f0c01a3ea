// Package config is the only list of the server's settings: it names, documents and checks them,
// and reports all problems together. It opens no file and no connection. The commands in server and
// internal/cli read the settings at start; every other package receives the checked values.
package config

import (
	"log/slog"
	"net/netip"
	"slices"
	"time"
)

// Config holds the settings. The tags of a field describe one setting completely. Package kong reads
// the first four for the command line and --help.
//
//   - env: the environment variable, which also gives the flag its name
//   - default: the value if the variable is empty or not set
//   - help: the documentation
//   - hidden: not in --help, because other users of the machine can read flags
//   - development, production: the default, where it depends on LINKFORGE_ENV
//   - min, max: the range of a number or a duration
//   - words: the words for true and false other than on and off
//   - syntax: the syntax of a text, or of the items of a list: a key of syntaxes
type Config struct {
	Listen         string         `env:"LINKFORGE_LISTEN" default:":8080" syntax:"address" help:"Address to listen on, host:port."`
	AdminListen    string         `env:"LINKFORGE_ADMIN_LISTEN" syntax:"address" help:"Address of the metrics and profiles, host:port, which nobody outside may reach. Empty: there are none."`
	TrustedProxies []netip.Prefix `env:"LINKFORGE_TRUSTED_PROXIES" help:"Addresses or networks of proxies, with commas between them, whose X-Forwarded-For says whom a request is from. Empty: nobody's does."`
	ProxyProtocol  bool           `env:"LINKFORGE_PROXY_PROTOCOL" default:"off" help:"Whether those proxies begin each connection with a PROXY header: on or off. On: nobody else may connect."`
	TLSCertificate string         `env:"LINKFORGE_TLS_CERTIFICATE" help:"A file with a certificate and those above it, in PEM, which is read again when it changes. Empty: the server speaks no TLS."`
	TLSKey         string         `env:"LINKFORGE_TLS_KEY" help:"The file with the certificate's key, in PEM."`
	// PublicURL has no slash at the end.
	PublicURL        string        `env:"LINKFORGE_PUBLIC_URL" syntax:"origin" help:"Where people reach this instance; short URLs start with it. Empty: http://localhost and the port of LINKFORGE_LISTEN."`
	DataDir          string        `env:"LINKFORGE_DATA_DIR" default:"./data" help:"Folder of the embedded database, the generated secrets, and the clicks that the database does not have yet."`
	DatabaseURL      string        `env:"LINKFORGE_DATABASE_URL" syntax:"postgres" help:"postgres:// URL. Empty: SQLite in the data folder."`
	DatabaseReadURL  string        `env:"LINKFORGE_DATABASE_READ_URL" syntax:"postgres" help:"postgres:// URL of a standby, from which lists and stats are read as long as it is at most 5s behind. Empty: there is none."`
	DatabasePool     int           `env:"LINKFORGE_DATABASE_POOL" default:"20" min:"2" max:"10000" help:"Most connections to the database, and to a standby as many more."`
	StatementTimeout time.Duration `env:"LINKFORGE_DATABASE_STATEMENT_TIMEOUT" min:"0" max:"24h" help:"How long PostgreSQL lets a request's statement go on, up to 24h; 0 for ever. Empty: 30s, or LINKFORGE_OPERATION_DEADLINE if that is longer."`
	LockTimeout      time.Duration `env:"LINKFORGE_DATABASE_LOCK_TIMEOUT" default:"10s" min:"0" max:"24h" help:"How long such a statement waits for what another one holds, up to 24h; 0 for ever."`
	RedisURL         string        `env:"LINKFORGE_REDIS_URL" syntax:"redis" help:"redis:// URL; redis+sentinel:// or redis+cluster:// and several hosts; rediss for TLS. Empty: an in-process Redis."`
	RedisPool        int           `env:"LINKFORGE_REDIS_POOL" default:"50" min:"1" max:"10000" help:"Most connections to Redis, to each node of a cluster."`
	Migrate          bool          `env:"LINKFORGE_MIGRATE" default:"on" help:"Whether serve migrates the database: on or off."`
	// JWTSecret and CodeSecrets are nil if stores.FillSecrets has to create them, and for commands
	// that need only the database. The first of CodeSecrets keys new codes, the others were replaced.
	JWTSecret   []byte        `env:"LINKFORGE_JWT_SECRET" hidden:"" help:"Key of the log-in tokens, at least 32 bytes."`
	CodeSecrets [][]byte      `env:"LINKFORGE_CODE_SECRET" hidden:"" help:"Key of the generated codes, at least 32 bytes. To replace it, put the new key before it, separated by a comma."`
	TokenTTL    time.Duration `env:"LINKFORGE_TOKEN_TTL" default:"24h" min:"1m" max:"720h" help:"How long a log-in token is good, 1m to 720h."`
	SessionTTL  time.Duration `env:"LINKFORGE_SESSION_TTL" default:"720h" min:"1h" max:"8760h" help:"How long a log-in that is not refreshed goes on, 1h to 8760h."`
	HitQuota    int64         `env:"LINKFORGE_HIT_QUOTA" default:"10000" min:"0" max:"1125899906842624" help:"Redirects a link may answer in a calendar month (UTC)."`
	LinkQuota   int64         `env:"LINKFORGE_LINK_QUOTA" default:"10000" min:"0" max:"1125899906842624" help:"Links a workspace may create in a calendar month (UTC)."`
	// QuotaFallback is true for the database.
	QuotaFallback bool   `env:"LINKFORGE_QUOTA_FALLBACK" default:"database" words:"database,none" help:"What counts monthly hits while Redis is away: database, or none: then redirects answer 503."`
	CacheBytes    int64  `env:"LINKFORGE_CACHE_BYTES" default:"268435456" min:"1048576" max:"1099511627776" help:"Memory for links that are followed, in bytes; a link takes about 600."`
	ClickLogBytes int64  `env:"LINKFORGE_CLICK_LOG_BYTES" default:"1073741824" min:"65536" max:"1099511627776" help:"Room for clicks that the database does not have yet, in the data folder, in bytes; a click takes about 150."`
	ClickMonths   int    `env:"LINKFORGE_CLICK_MONTHS" default:"13" min:"1" max:"1200" help:"Whole months that clicks are kept one by one, 1 to 1200; sums stay."`
	SumMonths     int    `env:"LINKFORGE_SUM_MONTHS" default:"25" min:"1" max:"1200" help:"Whole months that clicks are summed up by the quarter of an hour, 1 to 1200, and never fewer than clicks are kept one by one; sums by the day stay for ever."`
	GeoIP         string `env:"LINKFORGE_GEOIP" help:"A file of countries in MaxMind's format, which is read again when it changes. Empty: countries are not known."`
	Anonymous     bool   `env:"LINKFORGE_ANONYMOUS" default:"on" help:"Links without an account: on or off."`
	// AnonymousTTL is zero if Anonymous is off.
	AnonymousTTL      time.Duration `env:"LINKFORGE_ANONYMOUS_TTL" default:"8h" min:"1m" max:"720h" help:"How long such a link lives, 1m to 720h."`
	Tombstones        time.Duration `env:"LINKFORGE_TOMBSTONES" default:"2160h" min:"1h" max:"87600h" help:"How long a link that has ended says so before it is purged, 1h to 87600h."`
	DestinationChecks bool          `env:"LINKFORGE_DESTINATION_CHECKS" default:"on" help:"Ask each link's destination about once a day how it is: on or off."`
	RateLimits        bool          `env:"LINKFORGE_RATE_LIMITS" default:"on" help:"Short-term limits on requests, log-in, registration, mail, anonymous links, reports and checks: on or off."`
	RequestRate       int64         `env:"LINKFORGE_REQUEST_RATE" development:"60000" production:"6000" min:"1" max:"1099511627776" help:"GraphQL requests a minute of a person, an API key, or an address that is not logged in. Empty: 60000 in development, 6000 in production."`
	CostRate          int64         `env:"LINKFORGE_COST_RATE" development:"6000000" production:"600000" min:"1" max:"1099511627776" help:"What the GraphQL operations of a person, an API key, or an address that is not logged in may cost a minute, at least LINKFORGE_MAX_COST. Empty: 6000000 in development, 600000 in production."`
	// Bounds limit a single GraphQL request.
	Bounds        Bounds
	Documents     string `env:"LINKFORGE_DOCUMENTS" help:"A JSON file of GraphQL documents by id, which clients may then name instead of sending them. Empty: there is none."`
	DocumentsOnly bool   `env:"LINKFORGE_DOCUMENTS_ONLY" default:"off" help:"Refuse every document that is not in that file: on or off."`
	// Hosts include localhost and the host of PublicURL, in lower case, sorted.
	Hosts []string `env:"LINKFORGE_HOSTS" syntax:"host" help:"Further hosts that reach this instance, with commas between them. Its public URL's, localhost and addresses always do; any other must be a workspace's domain."`
	// Origins are spelled as browsers send them.
	Origins       []string      `env:"LINKFORGE_ORIGINS" syntax:"page" help:"Further origins whose pages may call the API, as in https://app.example.com, with commas between them; * for every one. Pages of this instance's own hosts always may."`
	SMTPURL       string        `env:"LINKFORGE_SMTP_URL" syntax:"smtp" hidden:"" help:"Mail server, smtp://user:password@host:587 or smtps://host:465. Empty: no mail is sent."`
	MailFrom      string        `env:"LINKFORGE_MAIL_FROM" syntax:"mailbox" help:"Whom mail is from, as in Linkforge <no-reply@example.com>. Needed with a mail server."`
	Development   bool          `env:"LINKFORGE_ENV" default:"development" words:"development,production" help:"development or production."`
	DrainDelay    time.Duration `env:"LINKFORGE_DRAIN_DELAY" default:"0s" min:"0" max:"5m" help:"How long requests are still taken after the signal to stop, while /readyz says 503, so that proxies see it: 0s to 5m."`
	Playground    bool          `env:"LINKFORGE_PLAYGROUND" development:"on" production:"off" help:"Serve the playground: on or off. Empty: on in development."`
	Introspection bool          `env:"LINKFORGE_INTROSPECTION" development:"on" production:"off" help:"Answer introspection and suggest names: on or off. Empty: on in development."`
	LogText       bool          `env:"LINKFORGE_LOG_FORMAT" words:"text,json" development:"text" production:"json" help:"text or json. Empty: text in development, json in production."`
	LogLevel      slog.Level    `env:"LINKFORGE_LOG_LEVEL" default:"info" help:"debug, info, warn or error."`
}

// Bounds limit one GraphQL request. All but the first four are counted with fragments spread.
type Bounds struct {
	Body          int           `env:"LINKFORGE_MAX_BODY" default:"10485760" min:"1" max:"1073741824" help:"Bytes that a GraphQL request's body may have of somebody who is logged in."`
	AnonymousBody int           `env:"LINKFORGE_MAX_ANONYMOUS_BODY" default:"262144" min:"1" max:"1073741824" help:"Bytes that it may have of everybody else, and a message over a WebSocket."`
	Values        int           `env:"LINKFORGE_MAX_VALUES" default:"100000" min:"1" max:"1073741824" help:"Values that its JSON may hold."`
	Document      int           `env:"LINKFORGE_MAX_DOCUMENT" default:"65536" min:"1" max:"16777216" help:"Bytes that a GraphQL document may have."`
	Tokens        int           `env:"LINKFORGE_MAX_TOKENS" default:"1000" min:"1" max:"1000000" help:"Tokens that a document may have: names, values and signs."`
	Fields        int           `env:"LINKFORGE_MAX_FIELDS" default:"1000" min:"1" max:"1000000" help:"Fields that an operation may have, with its fragments spread."`
	RootFields    int           `env:"LINKFORGE_MAX_ROOT_FIELDS" default:"100" min:"1" max:"1000000" help:"Fields that it may have at its root."`
	Depth         int           `env:"LINKFORGE_MAX_DEPTH" default:"20" min:"1" max:"1000" help:"How deep its fields may nest."`
	Aliases       int           `env:"LINKFORGE_MAX_ALIASES" default:"100" min:"1" max:"1000000" help:"Aliases that it may have."`
	Repeats       int           `env:"LINKFORGE_MAX_REPEATS" default:"100" min:"1" max:"1000000" help:"How often the same name may stand in one place of its answer."`
	Fragments     int           `env:"LINKFORGE_MAX_FRAGMENTS" default:"500" min:"1" max:"1000000" help:"Fragments that it may spread, inline ones included."`
	Directives    int           `env:"LINKFORGE_MAX_DIRECTIVES" default:"50" min:"1" max:"1000000" help:"Directives that it may have."`
	Cost          int           `env:"LINKFORGE_MAX_COST" default:"10000" min:"1" max:"1099511627776" help:"What it may cost, page sizes multiplied."`
	Deadline      time.Duration `env:"LINKFORGE_OPERATION_DEADLINE" default:"15s" min:"1s" max:"10m" help:"How long it may take, 1s to 10m."`
}

// Embedded reports whether the instance stores its data in DataDir.
func (c Config) Embedded() bool { return c.DatabaseURL == "" }

// IsOwnHost reports whether a host belongs to the instance and not to a workspace. Addresses always
// do: they are no workspace's domain, and probes use them.
func (c Config) IsOwnHost(host string) bool {
	if slices.Contains(c.Hosts, host) {
		return true
	}
	_, err := netip.ParseAddr(host)
	return err == nil
}
