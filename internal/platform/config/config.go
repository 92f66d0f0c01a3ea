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

// Config holds the settings. The comment and the tags of a field describe one setting completely.
// The first paragraph of the comment is the help text, which users read: see help. Package kong
// reads the first three tags for the command line and --help.
//
//   - env: the environment variable, which also gives the flag its name
//   - default: the value if the variable is empty or not set
//   - hidden: not in --help, because other users of the machine can read flags
//   - development, production: the default, where it depends on LINKFORGE_ENV
//   - min, max: the range of a number or a duration
//   - words: the words for true and false other than on and off
//   - syntax: the syntax of a text, or of the items of a list: a key of syntaxes
type Config struct {
	// Address to listen on, host:port. Empty: :8080, or :443 with LINKFORGE_TLS=auto.
	Listen string `env:"LINKFORGE_LISTEN" syntax:"address"`
	// Address of metrics and profiles, host:port; must not be reachable from outside. Empty: off.
	AdminListen string `env:"LINKFORGE_ADMIN_LISTEN" syntax:"address"`
	// Comma-separated addresses or networks of proxies whose X-Forwarded-For and X-Forwarded-Proto
	// are trusted. Empty: none.
	TrustedProxies []netip.Prefix `env:"LINKFORGE_TRUSTED_PROXIES"`
	// Require a PROXY header on each connection, from trusted proxies only: on or off.
	ProxyProtocol bool `env:"LINKFORGE_PROXY_PROTOCOL" default:"off"`
	// Obtain and renew TLS certificates by ACME, for the hosts of this instance and for verified
	// domains: auto or off.
	TLSAuto bool `env:"LINKFORGE_TLS" default:"off" words:"auto,off"`
	// ACME is the authority of LINKFORGE_TLS=auto.
	ACME ACME
	// PEM file of the certificate and its chain; reloaded when it changes. Empty: no TLS, unless
	// LINKFORGE_TLS=auto.
	TLSCertificate string `env:"LINKFORGE_TLS_CERTIFICATE"`
	// PEM file of the key of the certificate.
	TLSKey string `env:"LINKFORGE_TLS_KEY"`
	// Origin of short URLs; required in production. Empty: http://localhost with the port of
	// LINKFORGE_LISTEN.
	//
	// PublicURL has no slash at the end.
	PublicURL string `env:"LINKFORGE_PUBLIC_URL" syntax:"origin"`
	// Folder of the embedded database, generated secrets and the click log.
	DataDir string `env:"LINKFORGE_DATA_DIR" default:"./data"`
	// postgres:// URL of one host or several, or sqlite for SQLite in the data folder; required in
	// production. Empty: sqlite.
	//
	// DatabaseURL is empty for SQLite.
	DatabaseURL string `env:"LINKFORGE_DATABASE_URL" syntax:"database"`
	// postgres:// URL of a standby that serves lists and stats while it lags at most 5s. Empty:
	// none.
	DatabaseReadURL string `env:"LINKFORGE_DATABASE_READ_URL" syntax:"postgres"`
	// Maximum number of connections to the database, and as many to the standby.
	DatabasePool int `env:"LINKFORGE_DATABASE_POOL" default:"20" min:"2" max:"10000"`
	// Maximum duration of a statement in PostgreSQL, up to 24h; 0: unlimited. Empty: 30s, or
	// LINKFORGE_OPERATION_DEADLINE if longer.
	StatementTimeout time.Duration `env:"LINKFORGE_DATABASE_STATEMENT_TIMEOUT" min:"0" max:"24h"`
	// Maximum duration of a statement of a list of links, up to 24h.
	ListTimeout time.Duration `env:"LINKFORGE_LIST_TIMEOUT" default:"3s" min:"1ms" max:"24h"`
	// Maximum wait of a statement for a lock, up to 24h; 0: unlimited.
	LockTimeout time.Duration `env:"LINKFORGE_DATABASE_LOCK_TIMEOUT" default:"10s" min:"0" max:"24h"`
	// redis:// URL; redis+sentinel:// and redis+cluster:// take several hosts, rediss uses TLS.
	// Empty: in-process Redis.
	RedisURL string `env:"LINKFORGE_REDIS_URL" syntax:"redis"`
	// Maximum number of connections to Redis, or to each node of a cluster.
	RedisPool int `env:"LINKFORGE_REDIS_POOL" default:"50" min:"1" max:"10000"`
	// Let serve migrate the database: on or off.
	Migrate bool `env:"LINKFORGE_MIGRATE" default:"on"`
	// Create a new SQLite database although the data folder has been used and its database is
	// missing or empty: on or off. Links, accounts and clicks of the old one are lost.
	NewDatabase bool `env:"LINKFORGE_NEW_DATABASE" default:"off"`
	// Keys of access tokens, at least 32 bytes each, separated by commas. The first signs, all
	// verify.
	//
	// JWTSecrets and CodeSecrets are nil if stores.FillSecrets has to create them, and for commands
	// that need only the database. The first of CodeSecrets keys new codes, the others were
	// replaced.
	JWTSecrets [][]byte `env:"LINKFORGE_JWT_SECRET" hidden:""`
	// Key of generated codes, at least 32 bytes. To replace it, prepend the new key and a comma.
	CodeSecrets [][]byte `env:"LINKFORGE_CODE_SECRET" hidden:""`
	// Number of this cell, if instances share their code secrets: 0 to 49. A database keeps its
	// number.
	Cell int `env:"LINKFORGE_CELL" default:"0" min:"0" max:"49"`
	// Key that encrypts the secrets of webhooks and authenticator apps: 32 bytes in base64 or
	// hexadecimal. Empty with LINKFORGE_DATABASE_URL: none can be created.
	//
	// EncryptionKey is nil if stores.FillEncryptionKey has to create it, or if there is none.
	EncryptionKey []byte `env:"LINKFORGE_ENCRYPTION_KEY" hidden:""`
	// Comma-separated keys like LINKFORGE_ENCRYPTION_KEY that decrypt secrets, and encrypt none:
	// while a key is replaced.
	EncryptionKeysPrevious Keys `env:"LINKFORGE_ENCRYPTION_KEY_PREVIOUS" hidden:""`
	// Lifetime of an access token, 1m to 720h.
	TokenTTL time.Duration `env:"LINKFORGE_TOKEN_TTL" default:"24h" min:"1m" max:"720h"`
	// Who may register an account: open (all callers), invited (with the token of an invitation),
	// closed. linkforge users create works with each. Empty: open in development, invited in
	// production.
	Registration string `env:"LINKFORGE_REGISTRATION" development:"open" production:"invited" syntax:"registration"`
	// Log in and register with passwords: on or off. off needs LINKFORGE_SSO_ISSUER, and ends
	// registrations.
	PasswordLogin bool `env:"LINKFORGE_PASSWORD_LOGIN" default:"on"`
	// Comma-separated e-mail addresses of accounts that log in with a password, and a second
	// factor, although LINKFORGE_PASSWORD_LOGIN is off: for the time when the provider is
	// unavailable. Empty: none.
	BreakGlass []string `env:"LINKFORGE_BREAK_GLASS" syntax:"email"`
	// SSO is the identity provider of the instance.
	SSO SSO
	// Lifetime of a session that is not refreshed, 1h to 8760h.
	SessionTTL time.Duration `env:"LINKFORGE_SESSION_TTL" default:"720h" min:"1h" max:"8760h"`
	// Redirects of a link in a calendar month (UTC).
	HitQuota int64 `env:"LINKFORGE_HIT_QUOTA" default:"10000" min:"0" max:"1125899906842624"`
	// Redirects of links beyond half of their quota while Redis is unavailable: closed (503) or open
	// (beyond the quota, if need be).
	QuotaOutage string `env:"LINKFORGE_QUOTA_OUTAGE" default:"closed" syntax:"outage"`
	// Links that a workspace can create in a calendar month (UTC).
	LinkQuota int64 `env:"LINKFORGE_LINK_QUOTA" default:"10000" min:"0" max:"1125899906842624"`
	// Active API keys of a workspace.
	MaxAPIKeys int `env:"LINKFORGE_MAX_API_KEYS" default:"100" min:"1" max:"1000000"`
	// Tasks, such as imports, that compute at once, 0 to 16; four times as many wait for other servers. 0: none,
	// other nodes run them.
	TaskSlots int `env:"LINKFORGE_TASK_SLOTS" default:"2" min:"0" max:"16"`
	// Size of a file to import, or of the links that an API returns, in bytes.
	ImportBytes int64 `env:"LINKFORGE_IMPORT_BYTES" default:"67108864" min:"1024" max:"1073741824"`
	// Size of an archive of a workspace, in bytes.
	ExportBytes int64 `env:"LINKFORGE_EXPORT_BYTES" default:"1073741824" min:"1024" max:"1099511627776"`
	// Workspaces that an account may own.
	MaxWorkspaces int `env:"LINKFORGE_MAX_WORKSPACES" default:"50" min:"1" max:"1000000"`
	// New slugs of a workspace in a calendar month (UTC). 0: unlimited.
	SlugChanges int `env:"LINKFORGE_SLUG_CHANGES" default:"10" min:"0" max:"1000000"`
	// Memory of the cache of links, in bytes; a link takes about 600.
	CacheBytes int64 `env:"LINKFORGE_CACHE_BYTES" default:"268435456" min:"1048576" max:"1099511627776"`
	// Size of the click log in the data folder, in bytes; a click takes about 150.
	ClickLogBytes int64 `env:"LINKFORGE_CLICK_LOG_BYTES" default:"1073741824" min:"65536" max:"1099511627776"`
	// When clicks are written to the disk, and survive a loss of power: os (by the kernel),
	// interval (every 100 ms) or always (before the response).
	ClickLogSync string `env:"LINKFORGE_CLICK_LOG_SYNC" default:"os" syntax:"sync"`
	// Retention of single clicks in full months, 1 to 1200; days remain.
	ClickMonths int `env:"LINKFORGE_CLICK_MONTHS" default:"13" min:"1" max:"1200"`
	// ClickHouse for single clicks and their rollups, as in
	// http://user:password@host:8123/database. Empty: the SQL database.
	ClicksURL string `env:"LINKFORGE_CLICKS_URL" syntax:"clickhouse" hidden:""`
	// MaxMind DB file of countries; reloaded when it changes. Empty: countries.mmdb in the data
	// folder, if it exists.
	GeoIP string `env:"LINKFORGE_GEOIP"`
	// Age at which each node downloads its file of countries again, or the first one, as in 30d: 1d
	// to 365d. Empty: never.
	GeoIPUpdate time.Duration `env:"LINKFORGE_GEOIP_UPDATE" min:"1d" max:"365d"`
	// https URL of downloads of the file of countries; {month} stands for the month, as in 2026-11.
	GeoIPURL string `env:"LINKFORGE_GEOIP_URL" default:"https://download.db-ip.com/free/dbip-country-lite-{month}.mmdb.gz" syntax:"https" hidden:""`
	// Allow links without an account: on or off.
	Anonymous bool `env:"LINKFORGE_ANONYMOUS" default:"on"`
	// Lifetime of an anonymous link, 1m to 720h.
	//
	// AnonymousTTL is zero if Anonymous is off.
	AnonymousTTL time.Duration `env:"LINKFORGE_ANONYMOUS_TTL" default:"8h" min:"1m" max:"720h"`
	// Time between the end of a link and its purge, while it responds 410: 1h to 87600h.
	Tombstones time.Duration `env:"LINKFORGE_TOMBSTONES" default:"2160h" min:"1h" max:"87600h"`
	// Check the destination of each link about once a day: on or off.
	DestinationChecks bool `env:"LINKFORGE_DESTINATION_CHECKS" default:"on"`
	// Limit the rates of requests, redirects, log-ins, registrations, mail, anonymous links,
	// reports and checks: on or off.
	RateLimits bool `env:"LINKFORGE_RATE_LIMITS" default:"on"`
	// GraphQL requests per minute of a user, an API key or an anonymous address. Empty: 60000 in
	// development, 6000 in production.
	RequestRate int64 `env:"LINKFORGE_REQUEST_RATE" development:"60000" production:"6000" min:"1" max:"1099511627776"`
	// Cost per minute of the GraphQL operations of a user, an API key or an anonymous address, at
	// least LINKFORGE_MAX_COST. Empty: 6000000 in development, 600000 in production.
	CostRate int64 `env:"LINKFORGE_COST_RATE" development:"6000000" production:"600000" min:"1" max:"1099511627776"`
	// Visits per minute of one link from an IPv4 address or an IPv6 /64, and four times as many
	// from a /48, on each node; 0: unlimited.
	LinkRate int64 `env:"LINKFORGE_LINK_RATE" default:"60" min:"0" max:"16000"`
	// Requests per minute for unknown codes from an IPv4 address or an IPv6 /64, and four times as
	// many from a /48, on each node; 0: unlimited.
	UnknownCodes int64 `env:"LINKFORGE_UNKNOWN_CODES" default:"300" min:"0" max:"16000"`
	// Bounds limit a single GraphQL request.
	Bounds Bounds
	// JSON file of persisted GraphQL documents by ID. Empty: none.
	Documents string `env:"LINKFORGE_DOCUMENTS"`
	// Execute these documents and those of the console alone: on or off.
	DocumentsOnly bool `env:"LINKFORGE_DOCUMENTS_ONLY" default:"off"`
	// Comma-separated further hosts of this instance. The host of the public URL, localhost and IP
	// addresses always are; all others must be domains of workspaces.
	//
	// Hosts include localhost and the host of PublicURL, in lower case, sorted.
	Hosts []string `env:"LINKFORGE_HOSTS" syntax:"host"`
	// Comma-separated addresses and networks that webhooks and checks of destinations may connect
	// to although they are not public; for development and tests, refused in production. Empty:
	// none.
	OutboundAllow []netip.Prefix `env:"LINKFORGE_OUTBOUND_ALLOW"`
	// Where the root of the instance redirects. Empty: a page.
	RootURL string `env:"LINKFORGE_ROOT_URL" syntax:"fallback"`
	// Where unknown codes at the root of the instance redirect. Empty: a page.
	NotFoundURL string `env:"LINKFORGE_NOT_FOUND_URL" syntax:"fallback"`
	// Comma-separated origins whose pages may call the API, as in https://app.example.com; * for
	// all. Pages of the hosts of this instance always may.
	//
	// Origins are spelled as browsers send them.
	Origins []string `env:"LINKFORGE_ORIGINS" syntax:"page"`
	// Mail server, smtp://user:password@host:587 or smtps://host:465. Empty: no mail is sent.
	SMTPURL string `env:"LINKFORGE_SMTP_URL" syntax:"smtp" hidden:""`
	// Sender of mail, as in Linkforge <no-reply@example.com>. Required with a mail server.
	MailFrom string `env:"LINKFORGE_MAIL_FROM" syntax:"mailbox"`
	// development or production.
	Development bool `env:"LINKFORGE_ENV" default:"development" words:"development,production"`
	// Time between the signal to stop and the end of new requests, while /readyz responds 503: 0s
	// to 5m. Empty: 0s in development, 3s in production.
	DrainDelay time.Duration `env:"LINKFORGE_DRAIN_DELAY" development:"0s" production:"3s" min:"0" max:"5m"`
	// Serve the console, the front end for people, at /app: on or off.
	Console bool `env:"LINKFORGE_CONSOLE" default:"on"`
	// Serve the playground: on or off. Empty: on in development.
	Playground bool `env:"LINKFORGE_PLAYGROUND" development:"on" production:"off"`
	// Allow introspection and suggest names in errors: on or off. Empty: on in development.
	Introspection bool `env:"LINKFORGE_INTROSPECTION" development:"on" production:"off"`
	// text or json. Empty: text in development, json in production.
	LogText bool `env:"LINKFORGE_LOG_FORMAT" words:"text,json" development:"text" production:"json"`
	// debug, info, warn or error.
	LogLevel slog.Level `env:"LINKFORGE_LOG_LEVEL" default:"info"`
}

// Bounds limit one GraphQL request. Packages graph/limit and graph/transport have further maxima,
// which are no settings.
type Bounds struct {
	// Maximum size of the body of a GraphQL request of an authenticated caller, in bytes.
	Body int `env:"LINKFORGE_MAX_BODY" default:"10485760" min:"1" max:"1073741824"`
	// Maximum size of a GraphQL document, in bytes.
	Document int `env:"LINKFORGE_MAX_DOCUMENT" default:"65536" min:"1" max:"16777216"`
	// Maximum cost, with page sizes multiplied.
	Cost int `env:"LINKFORGE_MAX_COST" default:"10000" min:"1" max:"1099511627776"`
	// Maximum duration of an operation, 1s to 10m.
	Deadline time.Duration `env:"LINKFORGE_OPERATION_DEADLINE" default:"15s" min:"1s" max:"10m"`
}

// SSO describes the provider of single sign-on (OpenID Connect). It is off without an issuer.
type SSO struct {
	// Issuer of the OpenID Connect provider, exactly as its metadata has it, as in
	// https://login.example.com. Empty: no single sign-on.
	Issuer string `env:"LINKFORGE_SSO_ISSUER" syntax:"issuer"`
	// ID of the client that is registered at the provider.
	ClientID string `env:"LINKFORGE_SSO_CLIENT_ID" syntax:"text"`
	// Secret of the client.
	ClientSecret string `env:"LINKFORGE_SSO_CLIENT_SECRET" syntax:"text" hidden:""`
	// Name of the provider on log-in pages.
	Name string `env:"LINKFORGE_SSO_NAME" default:"SSO" syntax:"text"`
	// Comma-separated pages of front ends that the provider may redirect to, exactly as registered
	// there.
	Redirects []string `env:"LINKFORGE_SSO_REDIRECTS" syntax:"redirect"`
	// Comma-separated domains of e-mail addresses that may log in. Empty: all.
	//
	// EmailDomains are in lower case and ASCII.
	EmailDomains []string `env:"LINKFORGE_SSO_EMAIL_DOMAINS" syntax:"host"`
	// Create an account at the first log-in: on or off (invited addresses only).
	Register bool `env:"LINKFORGE_SSO_REGISTER" default:"on"`
	// Which second factor counts at a log-in with the provider: provider (the one that it requires)
	// or local (that of the account here).
	TrustsFactors bool `env:"LINKFORGE_SSO_SECOND_FACTOR" default:"local" words:"provider,local"`
	// Lifetime of a session that began at the provider, also if it is refreshed, 5m to 720h. After
	// that, users who left are out.
	SessionTTL time.Duration `env:"LINKFORGE_SSO_SESSION_TTL" default:"12h" min:"5m" max:"720h"`
	// Scopes to request, with spaces between them.
	Scopes string `env:"LINKFORGE_SSO_SCOPES" default:"openid email profile" syntax:"scopes"`
	// Claim that lists the groups of a user. Dots lead into objects, as in realm_access.roles.
	GroupsClaim string `env:"LINKFORGE_SSO_GROUPS_CLAIM" default:"groups" syntax:"text"`
	// Comma-separated roles of groups in workspaces, as in
	// engineering=engines:EDITOR,it-admins=engines:ADMIN. Each log-in sets them. Empty: groups give
	// no roles.
	Memberships []GroupRole `env:"LINKFORGE_SSO_MEMBERSHIPS"`
}

// ACME are the settings of LINKFORGE_TLS=auto.
type ACME struct {
	// E-mail address of the account at the authority, whose terms you accept with it; required with
	// LINKFORGE_TLS=auto.
	Email string `env:"LINKFORGE_ACME_EMAIL" syntax:"email"`
	// URL of the directory of the authority.
	Directory string `env:"LINKFORGE_ACME_DIRECTORY" default:"https://acme-v02.api.letsencrypt.org/directory" syntax:"directory"`
	// ID of the key of an external account, if the authority requires one. Empty: none.
	KeyID string `env:"LINKFORGE_ACME_EAB_KEY_ID" syntax:"text"`
	// HMAC key of the external account, in base64url.
	Key string `env:"LINKFORGE_ACME_EAB_HMAC" hidden:"" syntax:"base64url"`
	// PEM file of the certificates that verify the server of a private authority. Empty: those of
	// the system.
	Roots string `env:"LINKFORGE_ACME_CA"`
	// Address of HTTP, host:port: the authority checks hosts there, and all else is redirected to
	// HTTPS.
	HTTPListen string `env:"LINKFORGE_HTTP_LISTEN" default:":80" syntax:"address"`
}

// GroupRole is the role that a group of the provider has in a workspace.
type GroupRole struct{ Group, Slug, Role string }

// Embedded reports whether the instance stores its data in DataDir.
func (c Config) Embedded() bool { return c.DatabaseURL == "" }

// HasTLS reports whether the server terminates TLS.
func (c Config) HasTLS() bool { return c.TLSAuto || c.TLSCertificate != "" }

// IsOwnHost reports whether a host belongs to the instance and not to a workspace. Addresses always
// do: they are no workspace's domain, and probes use them.
func (c Config) IsOwnHost(host string) bool {
	if slices.Contains(c.Hosts, host) {
		return true
	}
	_, err := netip.ParseAddr(host)
	return err == nil
}
