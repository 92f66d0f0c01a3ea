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
	AdminListen    string         `env:"LINKFORGE_ADMIN_LISTEN" syntax:"address" help:"Address of metrics and profiles, host:port; must not be reachable from outside. Empty: off."`
	TrustedProxies []netip.Prefix `env:"LINKFORGE_TRUSTED_PROXIES" help:"Comma-separated addresses or networks of proxies whose X-Forwarded-For is trusted. Empty: none."`
	ProxyProtocol  bool           `env:"LINKFORGE_PROXY_PROTOCOL" default:"off" help:"Require a PROXY header on each connection, from trusted proxies only: on or off."`
	TLSCertificate string         `env:"LINKFORGE_TLS_CERTIFICATE" help:"PEM file of the certificate and its chain; reloaded when it changes. Empty: no TLS."`
	TLSKey         string         `env:"LINKFORGE_TLS_KEY" help:"PEM file of the key of the certificate."`
	// PublicURL has no slash at the end.
	PublicURL        string        `env:"LINKFORGE_PUBLIC_URL" syntax:"origin" help:"Origin of short URLs. Empty: http://localhost with the port of LINKFORGE_LISTEN."`
	DataDir          string        `env:"LINKFORGE_DATA_DIR" default:"./data" help:"Folder of the embedded database, generated secrets and the click log."`
	DatabaseURL      string        `env:"LINKFORGE_DATABASE_URL" syntax:"postgres" help:"postgres:// URL of one host or several. Empty: SQLite in the data folder."`
	DatabaseReadURL  string        `env:"LINKFORGE_DATABASE_READ_URL" syntax:"postgres" help:"postgres:// URL of a standby that serves lists and stats while it lags at most 5s. Empty: none."`
	DatabasePool     int           `env:"LINKFORGE_DATABASE_POOL" default:"20" min:"2" max:"10000" help:"Maximum number of connections to the database, and as many to the standby."`
	StatementTimeout time.Duration `env:"LINKFORGE_DATABASE_STATEMENT_TIMEOUT" min:"0" max:"24h" help:"Maximum duration of a statement in PostgreSQL, up to 24h; 0: unlimited. Empty: 30s, or LINKFORGE_OPERATION_DEADLINE if longer."`
	LockTimeout      time.Duration `env:"LINKFORGE_DATABASE_LOCK_TIMEOUT" default:"10s" min:"0" max:"24h" help:"Maximum wait of a statement for a lock, up to 24h; 0: unlimited."`
	RedisURL         string        `env:"LINKFORGE_REDIS_URL" syntax:"redis" help:"redis:// URL; redis+sentinel:// and redis+cluster:// take several hosts, rediss uses TLS. Empty: in-process Redis."`
	RedisPool        int           `env:"LINKFORGE_REDIS_POOL" default:"50" min:"1" max:"10000" help:"Maximum number of connections to Redis, or to each node of a cluster."`
	Migrate          bool          `env:"LINKFORGE_MIGRATE" default:"on" help:"Let serve migrate the database: on or off."`
	// JWTSecret and CodeSecrets are nil if stores.FillSecrets has to create them, and for commands
	// that need only the database. The first of CodeSecrets keys new codes, the others were replaced.
	JWTSecret   []byte        `env:"LINKFORGE_JWT_SECRET" hidden:"" help:"Key of access tokens, at least 32 bytes."`
	CodeSecrets [][]byte      `env:"LINKFORGE_CODE_SECRET" hidden:"" help:"Key of generated codes, at least 32 bytes. To replace it, prepend the new key and a comma."`
	TokenTTL    time.Duration `env:"LINKFORGE_TOKEN_TTL" default:"24h" min:"1m" max:"720h" help:"Lifetime of an access token, 1m to 720h."`
	SessionTTL  time.Duration `env:"LINKFORGE_SESSION_TTL" default:"720h" min:"1h" max:"8760h" help:"Lifetime of a session that is not refreshed, 1h to 8760h."`
	HitQuota    int64         `env:"LINKFORGE_HIT_QUOTA" default:"10000" min:"0" max:"1125899906842624" help:"Redirects of a link in a calendar month (UTC)."`
	LinkQuota   int64         `env:"LINKFORGE_LINK_QUOTA" default:"10000" min:"0" max:"1125899906842624" help:"Links that a workspace can create in a calendar month (UTC)."`
	// QuotaFallback is true for the database.
	QuotaFallback bool   `env:"LINKFORGE_QUOTA_FALLBACK" default:"database" words:"database,none" help:"Counter of monthly hits while Redis is unavailable: database, or none (redirects respond 503)."`
	CacheBytes    int64  `env:"LINKFORGE_CACHE_BYTES" default:"268435456" min:"1048576" max:"1099511627776" help:"Memory of the cache of links, in bytes; a link takes about 600."`
	ClickLogBytes int64  `env:"LINKFORGE_CLICK_LOG_BYTES" default:"1073741824" min:"65536" max:"1099511627776" help:"Size of the click log in the data folder, in bytes; a click takes about 150."`
	ClickMonths   int    `env:"LINKFORGE_CLICK_MONTHS" default:"13" min:"1" max:"1200" help:"Full months for which individual clicks are stored, 1 to 1200; rollups remain."`
	SumMonths     int    `env:"LINKFORGE_SUM_MONTHS" default:"25" min:"1" max:"1200" help:"Full months for which rollups by 15 minutes are stored, 1 to 1200, at least LINKFORGE_CLICK_MONTHS; daily rollups remain."`
	GeoIP         string `env:"LINKFORGE_GEOIP" help:"MaxMind DB file of countries; reloaded when it changes. Empty: no countries."`
	Anonymous     bool   `env:"LINKFORGE_ANONYMOUS" default:"on" help:"Allow links without an account: on or off."`
	// AnonymousTTL is zero if Anonymous is off.
	AnonymousTTL      time.Duration `env:"LINKFORGE_ANONYMOUS_TTL" default:"8h" min:"1m" max:"720h" help:"Lifetime of an anonymous link, 1m to 720h."`
	Tombstones        time.Duration `env:"LINKFORGE_TOMBSTONES" default:"2160h" min:"1h" max:"87600h" help:"Time for which a deleted or expired link responds 410 before it is purged, 1h to 87600h."`
	DestinationChecks bool          `env:"LINKFORGE_DESTINATION_CHECKS" default:"on" help:"Check the destination of each link about once a day: on or off."`
	RateLimits        bool          `env:"LINKFORGE_RATE_LIMITS" default:"on" help:"Limit the rates of requests, log-ins, registrations, mail, anonymous links, reports and checks: on or off."`
	RequestRate       int64         `env:"LINKFORGE_REQUEST_RATE" development:"60000" production:"6000" min:"1" max:"1099511627776" help:"GraphQL requests per minute of a user, an API key or an anonymous address. Empty: 60000 in development, 6000 in production."`
	CostRate          int64         `env:"LINKFORGE_COST_RATE" development:"6000000" production:"600000" min:"1" max:"1099511627776" help:"Cost per minute of the GraphQL operations of a user, an API key or an anonymous address, at least LINKFORGE_MAX_COST. Empty: 6000000 in development, 600000 in production."`
	// Bounds limit a single GraphQL request.
	Bounds        Bounds
	Documents     string `env:"LINKFORGE_DOCUMENTS" help:"JSON file of persisted GraphQL documents by ID. Empty: none."`
	DocumentsOnly bool   `env:"LINKFORGE_DOCUMENTS_ONLY" default:"off" help:"Refuse all other documents: on or off."`
	// Hosts include localhost and the host of PublicURL, in lower case, sorted.
	Hosts []string `env:"LINKFORGE_HOSTS" syntax:"host" help:"Comma-separated further hosts of this instance. The host of the public URL, localhost and IP addresses always are; all others must be domains of workspaces."`
	// Origins are spelled as browsers send them.
	Origins       []string      `env:"LINKFORGE_ORIGINS" syntax:"page" help:"Comma-separated origins whose pages may call the API, as in https://app.example.com; * for all. Pages of the hosts of this instance always may."`
	SMTPURL       string        `env:"LINKFORGE_SMTP_URL" syntax:"smtp" hidden:"" help:"Mail server, smtp://user:password@host:587 or smtps://host:465. Empty: no mail is sent."`
	MailFrom      string        `env:"LINKFORGE_MAIL_FROM" syntax:"mailbox" help:"Sender of mail, as in Linkforge <no-reply@example.com>. Required with a mail server."`
	Development   bool          `env:"LINKFORGE_ENV" default:"development" words:"development,production" help:"development or production."`
	DrainDelay    time.Duration `env:"LINKFORGE_DRAIN_DELAY" default:"0s" min:"0" max:"5m" help:"Time for which requests are accepted after the signal to stop, while /readyz responds 503: 0s to 5m."`
	Playground    bool          `env:"LINKFORGE_PLAYGROUND" development:"on" production:"off" help:"Serve the playground: on or off. Empty: on in development."`
	Introspection bool          `env:"LINKFORGE_INTROSPECTION" development:"on" production:"off" help:"Allow introspection and suggest names in errors: on or off. Empty: on in development."`
	LogText       bool          `env:"LINKFORGE_LOG_FORMAT" words:"text,json" development:"text" production:"json" help:"text or json. Empty: text in development, json in production."`
	LogLevel      slog.Level    `env:"LINKFORGE_LOG_LEVEL" default:"info" help:"debug, info, warn or error."`
}

// Bounds limit one GraphQL request. All but the first four are counted with fragments spread.
type Bounds struct {
	Body          int           `env:"LINKFORGE_MAX_BODY" default:"10485760" min:"1" max:"1073741824" help:"Maximum size of the body of a GraphQL request of an authenticated caller, in bytes."`
	AnonymousBody int           `env:"LINKFORGE_MAX_ANONYMOUS_BODY" default:"262144" min:"1" max:"1073741824" help:"Maximum size of the body of an anonymous request, and of a WebSocket message, in bytes."`
	Values        int           `env:"LINKFORGE_MAX_VALUES" default:"100000" min:"1" max:"1073741824" help:"Maximum number of values in the JSON of a request."`
	Document      int           `env:"LINKFORGE_MAX_DOCUMENT" default:"65536" min:"1" max:"16777216" help:"Maximum size of a GraphQL document, in bytes."`
	Tokens        int           `env:"LINKFORGE_MAX_TOKENS" default:"1000" min:"1" max:"1000000" help:"Maximum number of tokens in a document."`
	Fields        int           `env:"LINKFORGE_MAX_FIELDS" default:"1000" min:"1" max:"1000000" help:"Maximum number of fields in an operation, with fragments spread."`
	RootFields    int           `env:"LINKFORGE_MAX_ROOT_FIELDS" default:"100" min:"1" max:"1000000" help:"Maximum number of root fields."`
	Depth         int           `env:"LINKFORGE_MAX_DEPTH" default:"20" min:"1" max:"1000" help:"Maximum depth of nested fields."`
	Aliases       int           `env:"LINKFORGE_MAX_ALIASES" default:"100" min:"1" max:"1000000" help:"Maximum number of aliases."`
	Repeats       int           `env:"LINKFORGE_MAX_REPEATS" default:"100" min:"1" max:"1000000" help:"Maximum number of occurrences of a name in one selection of the response."`
	Fragments     int           `env:"LINKFORGE_MAX_FRAGMENTS" default:"500" min:"1" max:"1000000" help:"Maximum number of fragment spreads, inline fragments included."`
	Directives    int           `env:"LINKFORGE_MAX_DIRECTIVES" default:"50" min:"1" max:"1000000" help:"Maximum number of directives."`
	Cost          int           `env:"LINKFORGE_MAX_COST" default:"10000" min:"1" max:"1099511627776" help:"Maximum cost, with page sizes multiplied."`
	Deadline      time.Duration `env:"LINKFORGE_OPERATION_DEADLINE" default:"15s" min:"1s" max:"10m" help:"Maximum duration of an operation, 1s to 10m."`
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
