package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/linkforge/linkforge/graph"
	"github.com/linkforge/linkforge/graph/limit"
	"github.com/linkforge/linkforge/graph/transport"
	"github.com/linkforge/linkforge/internal/cli"
	"github.com/linkforge/linkforge/internal/click/visitor"
	"github.com/linkforge/linkforge/internal/console"
	"github.com/linkforge/linkforge/internal/event/dispatch"
	"github.com/linkforge/linkforge/internal/link/codecounter"
	"github.com/linkforge/linkforge/internal/move/task"
	"github.com/linkforge/linkforge/internal/platform/acme"
	"github.com/linkforge/linkforge/internal/platform/admission"
	"github.com/linkforge/linkforge/internal/platform/config"
	"github.com/linkforge/linkforge/internal/platform/consistency"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/migrate"
	"github.com/linkforge/linkforge/internal/platform/jobs"
	"github.com/linkforge/linkforge/internal/platform/mail"
	"github.com/linkforge/linkforge/internal/platform/outbound"
	"github.com/linkforge/linkforge/internal/platform/qr"
	"github.com/linkforge/linkforge/internal/platform/ratelimit"
	"github.com/linkforge/linkforge/internal/platform/redisx"
	"github.com/linkforge/linkforge/internal/platform/secrets"
	"github.com/linkforge/linkforge/internal/platform/web"
	"github.com/linkforge/linkforge/internal/stores"
	"github.com/linkforge/linkforge/internal/tenant/account"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
	"github.com/linkforge/linkforge/internal/visit/fastpath"
	"github.com/linkforge/linkforge/internal/visit/redirect"
	"github.com/linkforge/linkforge/migrations"
)

const (
	// migrateDeadline bounds the migrations at start, with the wait for another node's.
	migrateDeadline = 10 * time.Minute
	// startDeadline bounds what a node reads before it serves. Other programs may start at the same time.
	startDeadline = time.Minute
	// uploadDeadline is how long a body of 10 MiB may take over a slow line.
	uploadDeadline = time.Minute
)

// passwordCost is bcrypt's work factor. Tests of this package lower it, because they create many accounts.
var passwordCost = account.PasswordCost

// clock returns the time. Tests of this package move it.
var clock = time.Now

// app is a whole server, put together.
type app struct {
	*stores.Stores

	config config.Config
	memory memory
	log    *slog.Logger
	now    func() time.Time
	traces *traceExport // nil when there are none
	// certificates is nil if the server does not terminate TLS. authority is nil unless LINKFORGE_TLS=auto.
	certificates certificateSource
	authority    *acme.Manager
	db           *db.DB
	kv           *redisx.Client
	mailer       *mail.Mailer
	countries    *visitor.Countries
	jobs         *jobs.Runner
	tasks        *task.Runner
	// uploads shares the memory of uploads between their senders.
	uploads *admission.Queue
	// dispatcher sends webhooks.
	dispatcher *dispatch.Dispatcher
	stopping   atomic.Bool
	forwarding web.Forwarding
	// print gets the mail that is not sent, on a developer's own instance.
	print io.Writer

	endpoint  *transport.Handler
	redirects *redirect.Handler
	codes     *qr.Renderer
	// opened closes what newApp has opened, in that order.
	opened []func() error
}

// newApp opens everything that a server needs, and migrates the database if it is to. The caller
// closes the app. Several apps can run in one process.
func newApp(ctx context.Context, c config.Config, log *slog.Logger, out io.Writer) (_ *app, err error) {
	a := &app{config: c, memory: memoryOf(c, containerMemory()), log: log, now: clock, codes: qr.NewRenderer()}
	a.forwarding.Proxies = c.TrustedProxies
	if !c.ProxyProtocol {
		a.forwarding.Log = log
	}
	if c.Development {
		a.print = out
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, a.close())
		}
	}()
	if a.traces, err = openTraces(ctx, cli.Version(), log); err != nil {
		return nil, err
	}
	a.opened = append(a.opened, a.closeTraces)
	if c.TLSCertificate != "" {
		if a.certificates, err = openCertificate(c.TLSCertificate, c.TLSKey, log); err != nil {
			return nil, err
		}
	}
	isOptional := c.GeoIP == "" || c.GeoIPUpdate > 0
	if a.countries, err = visitor.OpenCountries(stores.CountriesFile(c), isOptional, log); err != nil {
		return nil, fmt.Errorf("LINKFORGE_GEOIP: %w", err)
	}
	if c.Embedded() {
		data, err := stores.OpenDataFolder(c.DataDir)
		if err != nil {
			return nil, err
		}
		a.opened = append(a.opened, data.Close)
	}
	if a.db, err = stores.OpenDatabase(ctx, a.config, a.memory.sqlite); err != nil {
		return nil, err
	}
	a.opened = append(a.opened, a.db.Close)
	if err := a.prepareDatabase(ctx); err != nil {
		return nil, err
	}
	if err := a.openRedis(ctx); err != nil {
		return nil, err
	}
	if err := a.wire(); err != nil {
		return nil, err
	}
	if err := a.openGroups(ctx); err != nil {
		return nil, err
	}
	if c.TLSAuto {
		if err := a.openAuthority(); err != nil {
			return nil, err
		}
	}
	if c.Embedded() {
		if err := a.EndLeases(ctx); err != nil {
			return nil, err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, startDeadline)
	defer cancel()
	if err := a.Feed.CatchUp(ctx); err != nil {
		return nil, err
	}
	return a, a.VisitorKeys.Fetch(ctx)
}

// prepareDatabase brings the schema up to date, completes the secrets, and refuses a database of
// another code secret or encryption key.
func (a *app) prepareDatabase(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, migrateDeadline)
	defer cancel()
	if a.config.Migrate {
		if err := stores.CheckAhead(ctx, a.db, jobs.Pause); err != nil {
			return err
		}
		applied, err := migrate.Up(ctx, a.db, migrations.Files, a.now())
		if err != nil {
			return err
		}
		if len(applied) > 0 {
			a.log.InfoContext(ctx, "database migrated", "steps", len(applied), "last", applied[len(applied)-1])
		}
	} else if err := migrate.Check(ctx, a.db, migrations.Files); err != nil {
		return err
	}
	if err := a.db.CheckScopes(ctx); err != nil {
		return err
	}
	if err := a.db.Replica.Check(ctx, a.db); err != nil {
		return err
	}
	// Secrets are created after the database: secrets without a database show that it was lost.
	if a.config.Embedded() {
		if err := stores.FillSecrets(&a.config); err != nil {
			return err
		}
	}
	if err := codecounter.New(a.db, a.config.CodeSecrets, a.config.Cell).Pin(ctx); err != nil {
		return err
	}
	return secrets.Store{DB: a.db, Box: stores.Box(a.config)}.Check(ctx)
}

// openGroups has logins at the identity provider give the memberships of groups.
func (a *app) openGroups(ctx context.Context) error {
	if a.Accounts.SSO == nil {
		return nil
	}
	var memberships []workspace.GroupSlug
	for _, m := range a.config.SSO.Memberships {
		memberships = append(memberships, workspace.GroupSlug(m))
	}
	mapping, err := a.Workspaces.ResolveGroups(ctx, memberships)
	if err != nil {
		return err
	}
	a.Accounts.SSO.SyncGroups = a.Workspaces.SyncGroups(mapping)
	return nil
}

// openRedis opens Redis. A server starts without it, except with a setting that can never work.
func (a *app) openRedis(ctx context.Context) error {
	kv, err := redisx.Open(a.config.RedisURL, a.config.RedisPool)
	if err != nil {
		return err
	}
	a.kv, a.opened = kv, append(a.opened, kv.Close)
	a.trace()
	kv.Protect(a.log)
	pinging, cancel := context.WithTimeout(ctx, readyDeadline)
	defer cancel()
	if err := kv.Ready(pinging); errors.Is(err, redisx.ErrClusterNode) {
		return err
	} else if err != nil {
		a.log.WarnContext(ctx, redisx.Explain(err), "error", err)
	} else if evicts, err := kv.Evicts(pinging); evicts && err == nil {
		a.log.WarnContext(ctx,
			"Redis evicts keys when its memory is full, so that rates begin again: set maxmemory-policy noeviction")
	}
	return nil
}

// registersAnyone reports whether log-ins at the provider create accounts for addresses of any
// domain, where callers may not register otherwise. Many providers have users of any domain, such
// as Google and those who let users register themselves.
func registersAnyone(c *config.Config) bool {
	return c.SSO.Issuer != "" && c.SSO.Register && len(c.SSO.EmailDomains) == 0 && c.Registration != "open"
}

// wire passes every package its dependencies.
func (a *app) wire() error {
	var err error
	if a.mailer, err = mail.New(mail.Config{URL: a.config.SMTPURL, From: a.config.MailFrom, Log: a.log,
		Print: a.print}); err != nil {
		return fmt.Errorf("LINKFORGE_SMTP_URL and LINKFORGE_MAIL_FROM: %w", err)
	}
	if !a.mailer.Configured() {
		level := slog.LevelWarn
		if a.config.Development {
			level = slog.LevelInfo
		}
		a.log.Log(context.Background(), level,
			"no mail server is configured: requestPasswordReset and invitations send nothing",
			"remedy", "set LINKFORGE_SMTP_URL, or run: linkforge users reset-password EMAIL")
	}
	if registersAnyone(&a.config) {
		a.log.Warn("single sign-on registers every user of the provider with a verified address, although "+
			"registration is restricted", "remedy", "set LINKFORGE_SSO_EMAIL_DOMAINS, or LINKFORGE_SSO_REGISTER=off")
	}
	a.Stores, err = stores.Open(stores.Options{
		Config: a.config, DB: a.db, Redis: a.kv, ClickLogDir: filepath.Join(a.config.DataDir, stores.ClicksFolder),
		Mailer: a.mailer, CacheBytes: a.memory.cachedLinks(), PasswordCost: passwordCost, Log: a.log, Now: a.now,
	})
	if err != nil {
		return err
	}
	a.opened = append(a.opened, a.Stores.Close)
	a.jobs = &jobs.Runner{DB: a.db, Log: a.log, Now: a.now, Node: stores.NodeName(), Jobs: a.Jobs()}
	a.tasks = &task.Runner{
		Store: a.Tasks, Slots: a.config.TaskSlots, Log: a.log,
		Handlers: map[task.Kind]task.Handler{task.Import: a.Imports, task.ParityCheck: a.Parity,
			task.WorkspaceExport: a.Archives},
		MemberOf: func(ctx context.Context, t *task.Task) (workspace.Membership, error) {
			return a.member(ctx, account.Actor{AccountID: t.ActorID}, t.WorkspaceID)
		},
	}
	a.uploads = newUploads()
	a.redirects = a.newRedirects()
	documents, err := a.documents()
	if err != nil {
		return err
	}
	a.dispatcher = dispatch.New(dispatch.Config{
		Store: a.Webhooks,
		Client: outbound.NewClient(
			dispatch.ClientConfig(outbound.Config{Allow: outbound.PublicOr(a.config.OutboundAllow)})),
		Workspaces: a.Workspaces, Links: a.Links, Mail: mail.ToOthers{Mailer: a.mailer}, Limits: a.Limits, Log: a.log,
	})
	a.Feed.Subscribe(a.dispatcher.Follow)
	a.Feed.Subscribe(a.tasks.Follow)
	a.Feed.Subscribe(a.jobs.Follow)
	a.endpoint = graph.New(a.graphConfig(documents))
	return nil
}

// updateCountries keeps the file of countries of this node up to date, if it is to.
func (a *app) updateCountries(ctx context.Context) error {
	if a.config.GeoIPUpdate == 0 {
		return nil
	}
	updater := visitor.Updater{URL: a.config.GeoIPURL, Path: stores.CountriesFile(a.config), Now: a.now}
	return updater.Keep(ctx, a.config.GeoIPUpdate, a.log)
}

// documents returns those of the operator's file, and those of the console where no others are
// executed.
func (a *app) documents() (*transport.Manifest, error) {
	var lists []transport.Documents
	if a.config.Documents != "" {
		listed, err := transport.ReadDocuments(a.config.Documents)
		if err != nil {
			return nil, fmt.Errorf("LINKFORGE_DOCUMENTS: %w", err)
		}
		listed.Source = "LINKFORGE_DOCUMENTS: " + listed.Source
		lists = append(lists, listed)
	}
	if a.config.DocumentsOnly && a.config.Console {
		lists = append(lists, transport.Documents{
			Source: "the console, which LINKFORGE_CONSOLE=off removes", Texts: console.Documents(),
		})
	}
	return graph.NewManifest(a.config.Bounds, a.config.Introspection, lists...)
}

// newRedirects returns the handler of short URLs.
func (a *app) newRedirects() *redirect.Handler {
	linkRate, unknownCodes := a.config.LinkRate, a.config.UnknownCodes
	if !a.config.RateLimits {
		linkRate, unknownCodes = 0, 0
	}
	return &redirect.Handler{
		Resolver: a.Links.Resolver, Quotas: a.Quotas, HitQuota: a.config.HitQuota, Clicks: a.Recorder,
		Visits: visitor.NewReader(a.countries), Keys: a.VisitorKeys, Unmatched: a.Unmatched, Log: a.log, Now: a.now,
		LinkRate: ratelimit.NewThrottle(linkRate), UnknownCodes: ratelimit.NewThrottle(unknownCodes),
		Gates: redirect.Gates{
			Passwords: a.LinkPasswords, Limits: a.Limits, PassKeys: redirect.PassKeys(a.config.JWTSecrets),
		},
		DrawKey: a.DrawKey, IsHTTPS: strings.HasPrefix(a.config.PublicURL, "https://"),
	}
}

// graphConfig returns the configuration of the GraphQL endpoint.
func (a *app) graphConfig(documents *transport.Manifest) graph.Config {
	return graph.Config{
		Config: transport.Config{
			Bounds:        a.config.Bounds,
			Maxima:        limit.UsualMaxima(),
			Documents:     documents,
			DocumentsOnly: a.config.DocumentsOnly,
			Origins:       a.origins(),
			Introspection: a.config.Introspection,
			Log:           a.log,
			Tracer:        a.traces.Tracer(),
			Now:           a.now,
		},
		Stores:      a.Stores,
		Codes:       a.codes,
		Writers:     a.writers(),
		Dispatcher:  a.dispatcher,
		Countries:   a.countries,
		HitQuota:    a.config.HitQuota,
		Meter:       ratelimit.NewMeter(a.Limits, a.now),
		RequestRate: a.config.RequestRate,
		CostRate:    a.config.CostRate,
	}
}

// writers returns nil without a replica.
func (a *app) writers() *consistency.Writers {
	if a.db.Replica == nil {
		return nil
	}
	return &consistency.Writers{DB: a.db, KV: a.kv, Log: a.log, Now: a.now}
}

// close closes what newApp has opened, in the opposite order.
func (a *app) close() (err error) {
	for _, c := range slices.Backward(a.opened) {
		err = errors.Join(err, c())
	}
	return err
}

// closeTraces sends the last spans. Their loss is one for the operator only.
func (a *app) closeTraces() error {
	if err := a.traces.Close(); err != nil {
		a.log.Warn("spans are not sent", "error", err)
	}
	return nil
}

// httpServer returns the server of everything that the fast path does not answer.
func (a *app) httpServer() *http.Server {
	server := a.newServer(a.leaving(web.Before(a.forwarding.Forward)(a.routes())))
	server.ConnContext = fastpath.ConnContext
	return server
}

// newServer returns a server with the limits of all public addresses.
func (a *app) newServer(h http.Handler) *http.Server {
	server := &http.Server{
		Handler:           h,
		ErrorLog:          slog.NewLogLogger(a.log.Handler(), slog.LevelDebug),
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       uploadDeadline,
		// A response must not be cut off after a slow upload and the operation that followed.
		WriteTimeout:   uploadDeadline + a.config.Bounds.Deadline + 15*time.Second,
		IdleTimeout:    2 * time.Minute,
		MaxHeaderBytes: 64 << 10,
		Protocols:      new(http.Protocols),
		// Otherwise a client that does not read holds a stream for ever: the other timeouts are HTTP/1's.
		HTTP2: &http.HTTP2Config{WriteByteTimeout: 10 * time.Second, MaxConcurrentStreams: 100},
	}
	server.Protocols.SetHTTP1(true)
	server.Protocols.SetHTTP2(true)
	server.Protocols.SetUnencryptedHTTP2(true) // for proxies that speak it
	return server
}
