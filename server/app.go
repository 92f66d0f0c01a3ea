package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/linkforge/linkforge/graph"
	"github.com/linkforge/linkforge/graph/transport"
	"github.com/linkforge/linkforge/internal/account"
	"github.com/linkforge/linkforge/internal/cli"
	"github.com/linkforge/linkforge/internal/codecounter"
	"github.com/linkforge/linkforge/internal/config"
	"github.com/linkforge/linkforge/internal/consistency"
	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/db/migrate"
	"github.com/linkforge/linkforge/internal/fastpath"
	"github.com/linkforge/linkforge/internal/firstvisit"
	"github.com/linkforge/linkforge/internal/jobs"
	"github.com/linkforge/linkforge/internal/mail"
	"github.com/linkforge/linkforge/internal/obs"
	"github.com/linkforge/linkforge/internal/outbound"
	"github.com/linkforge/linkforge/internal/poll"
	"github.com/linkforge/linkforge/internal/qr"
	"github.com/linkforge/linkforge/internal/ratelimit"
	"github.com/linkforge/linkforge/internal/redirect"
	"github.com/linkforge/linkforge/internal/redisx"
	"github.com/linkforge/linkforge/internal/routing/check"
	"github.com/linkforge/linkforge/internal/stores"
	"github.com/linkforge/linkforge/internal/throttle"
	"github.com/linkforge/linkforge/internal/visitor"
	"github.com/linkforge/linkforge/internal/web"
	"github.com/linkforge/linkforge/internal/webhook"
	"github.com/linkforge/linkforge/migrations"
)

const (
	// migrateDeadline bounds the migrations at start, with the wait for another node's.
	migrateDeadline = 10 * time.Minute
	// drainDeadline bounds how long requests in flight may take after the signal to stop.
	drainDeadline = 20 * time.Second
	// uploadDeadline is how long a body of 10 MiB may take over a slow line.
	uploadDeadline = time.Minute
)

// passwordCost is bcrypt's work factor. Tests of this package lower it, because they create many accounts.
var passwordCost = account.PasswordCost

// app is a whole server, put together.
type app struct {
	*stores.Stores

	config config.Config
	memory memory
	log    *slog.Logger
	now    func() time.Time
	traces *obs.Traces // nil when there are none
	// certificate is nil if the server does not terminate TLS.
	certificate *certificate
	data        *stores.DataFolder // nil with a database URL
	db          *db.DB
	kv          *redisx.Client
	mailer      *mail.Mailer
	// countries is nil unless it is configured.
	countries *visitor.Countries
	jobs      *jobs.Runner
	// dispatcher sends webhooks.
	dispatcher *webhook.Dispatcher
	stopping   atomic.Bool
	forwarding web.Forwarding
	// print gets the mail that is not sent, on a developer's own instance.
	print io.Writer

	endpoint  *transport.Handler
	redirects *redirect.Handler
	codes     *qr.Renderer
}

// newApp opens everything that a server needs, and migrates the database if it is to. The caller
// closes the app. Several apps can run in one process.
func newApp(ctx context.Context, c config.Config, log *slog.Logger, out io.Writer) (_ *app, err error) {
	a := &app{config: c, memory: memoryOf(c, containerMemory()), log: log, now: time.Now, codes: qr.NewRenderer()}
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
	if a.traces, err = obs.OpenTraces(ctx, cli.Version(), log); err != nil {
		return nil, err
	}
	if c.TLSCertificate != "" {
		if a.certificate, err = openCertificate(c.TLSCertificate, c.TLSKey, log); err != nil {
			return nil, err
		}
	}
	if c.Embedded() {
		if a.data, err = stores.OpenDataFolder(c.DataDir); err != nil {
			return nil, err
		}
	}
	if a.db, err = stores.OpenDatabase(ctx, a.config, a.memory.sqlite); err != nil {
		return nil, err
	}
	if err := a.prepareDatabase(ctx); err != nil {
		return nil, err
	}
	if a.kv, err = redisx.Open(c.RedisURL, c.RedisPool); err != nil {
		return nil, err
	}
	a.trace()
	a.kv.Protect(log)
	pinging, cancel := context.WithTimeout(ctx, readyDeadline)
	defer cancel()
	if err := a.kv.Ready(pinging); errors.Is(err, redisx.ErrClusterNode) {
		return nil, err
	} else if err != nil {
		log.WarnContext(ctx, redisx.Explain(err), "error", err)
	} else if evicts, err := a.kv.Evicts(pinging); evicts && err == nil {
		log.WarnContext(ctx, "Redis evicts keys when its memory is full, so that rates begin again: set maxmemory-policy noeviction")
	}
	if err := a.wire(); err != nil {
		return nil, err
	}
	if err := a.Links.Resolver.CatchUp(ctx); err != nil {
		return nil, err
	}
	if err := a.VisitorKeys.Fetch(ctx); err != nil {
		return nil, err
	}
	return a, a.Accounts.LoadRevoked(ctx)
}

// prepareDatabase brings the schema up to date, completes the secrets, and refuses a database of
// another code secret.
func (a *app) prepareDatabase(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, migrateDeadline)
	defer cancel()
	if a.config.Migrate {
		applied, err := migrate.Up(ctx, a.db, migrations.Files, a.now())
		if err != nil {
			return err
		}
		if len(applied) > 0 {
			a.log.InfoContext(ctx, "database migrated", "steps", applied)
		}
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
	return codecounter.PinSecrets(ctx, a.db, a.config.CodeSecrets)
}

// wire passes every package its dependencies.
func (a *app) wire() error {
	var err error
	if a.config.GeoIP != "" {
		if a.countries, err = visitor.OpenCountries(a.config.GeoIP, a.log); err != nil {
			return fmt.Errorf("LINKFORGE_GEOIP: %w", err)
		}
	}
	if a.mailer, err = mail.New(mail.Config{URL: a.config.SMTPURL, From: a.config.MailFrom, Log: a.log,
		Print: a.print}); err != nil {
		return fmt.Errorf("LINKFORGE_SMTP_URL and LINKFORGE_MAIL_FROM: %w", err)
	}
	if !a.mailer.Configured() {
		level := slog.LevelWarn
		if a.config.Development {
			level = slog.LevelInfo
		}
		a.log.Log(context.Background(), level, "no mail server is configured: requestPasswordReset and invitations send nothing",
			"remedy", "set LINKFORGE_SMTP_URL, or run: linkforge users reset-password EMAIL")
	}
	a.Stores, err = stores.Open(stores.Options{
		Config: a.config, DB: a.db, Redis: a.kv, ClickLogDir: filepath.Join(a.config.DataDir, stores.ClicksFolder),
		Mailer: a.mailer, CacheBytes: a.memory.cachedLinks(), PasswordCost: passwordCost, Log: a.log, Now: a.now,
	})
	if err != nil {
		return err
	}
	a.jobs = &jobs.Runner{DB: a.db, Log: a.log, Now: a.now, Node: stores.NodeName(), Jobs: a.Jobs()}
	linkRate, unknownCodes := a.config.LinkRate, a.config.UnknownCodes
	if !a.config.RateLimits {
		linkRate, unknownCodes = 0, 0
	}
	a.redirects = &redirect.Handler{
		Resolver: a.Links.Resolver, Quotas: a.Quotas, HitQuota: a.config.HitQuota, Clicks: a.Recorder,
		Visits: visitor.NewReader(a.countries), Keys: a.VisitorKeys, Unmatched: a.Unmatched, Log: a.log, Now: a.now,
		LinkRate: throttle.New(linkRate), UnknownCodes: throttle.New(unknownCodes),
		Gates: redirect.Gates{
			Passwords: a.LinkPasswords, Limits: a.Limits, PassKeys: redirect.PassKeys(a.config.JWTSecrets),
		},
		DrawKey: a.DrawKey, IsHTTPS: strings.HasPrefix(a.config.PublicURL, "https://"),
	}
	if a.kv != nil {
		a.redirects.FirstVisits = &firstvisit.Visits{Redis: a.kv}
	}
	var documents *transport.Manifest
	if a.config.Documents != "" {
		if documents, err = graph.LoadManifest(a.config.Documents, a.config.Bounds, a.config.Introspection); err != nil {
			return fmt.Errorf("LINKFORGE_DOCUMENTS: %w", err)
		}
	}
	endpoint := a.graphConfig(documents)
	a.dispatcher = webhook.NewDispatcher(webhook.Config{
		Sender: &webhook.Sender{Store: a.Webhooks, Client: outbound.NewClient(webhook.ClientConfig(outbound.Config{
			Allow: outbound.PublicOr(a.config.OutboundAllow),
		}))},
		Workspaces: a.Workspaces, Links: a.Links, Renderer: graph.NewRenderer(endpoint),
		Mail: mail.ToOthers{Mailer: a.mailer}, Limits: a.Limits, NoRates: !a.config.RateLimits, Log: a.log,
	})
	endpoint.Dispatcher = a.dispatcher
	a.endpoint = graph.New(endpoint)
	return nil
}

// graphConfig returns the configuration of the GraphQL endpoint.
func (a *app) graphConfig(documents *transport.Manifest) graph.Config {
	return graph.Config{
		Config: transport.Config{
			Bounds:        a.config.Bounds,
			Documents:     documents,
			DocumentsOnly: a.config.DocumentsOnly,
			Origins:       a.origins(),
			Introspection: a.config.Introspection,
			Log:           a.log,
			Tracer:        a.traces.Tracer(),
			Now:           a.now,
		},
		Accounts:     a.Accounts,
		Workspaces:   a.Workspaces,
		Domains:      a.Domains,
		Keys:         a.APIKeys,
		Audit:        a.Audit,
		Links:        a.Links,
		Codes:        a.codes,
		LinkList:     a.LinkList,
		Moderation:   a.Moderation,
		Checker:      a.Checker,
		Stats:        a.Stats,
		Live:         a.ClickStream,
		Events:       a.EventStream,
		Unmatched:    a.Unmatched,
		Exports:      a.Exports,
		Writers:      a.writers(),
		HitQuota:     a.config.HitQuota,
		HitsUsed:     a.Quotas.Hits.Used,
		UTMTemplates: a.UTMTemplates,
		Webhooks:     a.Webhooks,
		Surroundings: check.WarningContext{HasCountries: a.countries != nil, HasVisits: a.kv != nil},
		Limits:       ratelimit.NewMeter(a.Limits, a.now),
		RequestRate:  a.config.RequestRate,
		CostRate:     a.config.CostRate,
	}
}

// writers returns nil without a replica.
func (a *app) writers() *consistency.Writers {
	if a.db.Replica == nil {
		return nil
	}
	return &consistency.Writers{DB: a.db, KV: a.kv, Log: a.log, Now: a.now}
}

// serve answers requests until the context ends. Then it says that it is not ready, and after
// LINKFORGE_DRAIN_DELAY it takes no new ones, finishes those in flight, and writes the clicks that
// are still waiting.
func (a *app) serve(ctx context.Context, listener net.Listener) error {
	a.OwnHosts.Listen(listener.Addr())
	server := a.httpServer()
	plain := fastpath.Listen(listener, a.fastPath(), a.log)
	serve := func() error { return server.Serve(plain) }
	if a.certificate != nil {
		server.TLSConfig = a.certificate.config()
		serve = func() error { return server.ServeTLS(plain, "", "") }
	}
	recording, stopRecording := context.WithCancel(context.WithoutCancel(ctx))
	defer stopRecording()
	var last errgroup.Group // until every request has been answered
	last.Go(func() error { return a.Recorder.Run(recording) })
	leasing, stopLeasing := context.WithCancel(context.WithoutCancel(ctx))
	defer stopLeasing()
	var leases errgroup.Group // ends before the recorder, whose log knows of what could not be given back
	leases.Go(func() error { return a.Quotas.Run(leasing) })
	last.Go(func() error { return a.Unmatched.Run(recording) })
	last.Go(func() error { return a.mailer.Run(recording) })
	// Background work continues until the last request has ended.
	lasting, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	parts, failed := errgroup.WithContext(lasting)
	parts.Go(func() error {
		if err := serve(); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serving: %w", err)
		}
		return nil
	})
	parts.Go(func() error { return a.runAdmin(failed) })
	parts.Go(func() error { return a.jobs.Run(failed) })
	parts.Go(func() error { return a.db.Replica.Follow(failed, a.db, a.log, a.now) })
	parts.Go(func() error { return a.memory.follow(failed) })
	parts.Go(func() error { return a.Accounts.WatchRevoked(failed) })
	parts.Go(func() error { return a.Links.Resolver.Follow(failed) })
	parts.Go(func() error { return a.VisitorKeys.Run(failed) })
	parts.Go(func() error { return a.LinkList.RunIndex(failed, a.log) })
	parts.Go(func() error { return a.ClickStream.Run(failed) })
	parts.Go(func() error { return a.dispatcher.Run(failed) })
	parts.Go(func() error { return a.EventStream.Run(failed) })
	parts.Go(func() error { return a.endpoint.Run(failed) })
	if a.countries != nil {
		parts.Go(func() error { return a.countries.Watch(failed) })
	}
	if a.certificate != nil {
		parts.Go(func() error { return a.certificate.watch(failed) })
	}
	parts.Go(func() error {
		a.awaitStop(ctx, failed, plain)
		stop()
		return drain(context.WithoutCancel(ctx), server, plain)
	})
	err := parts.Wait()
	stopLeasing()
	err = errors.Join(err, leases.Wait())
	stopRecording()
	return errors.Join(err, last.Wait())
}

// httpServer returns the server of everything that the fast path does not answer.
func (a *app) httpServer() *http.Server {
	server := &http.Server{
		Handler:           a.leaving(web.Before(a.forwarding.Forward)(a.routes())),
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

// awaitStop waits for the signal to stop, and then as long as proxies may take to see that this
// node is not ready. A part that failed, such as the listener, ends both.
func (a *app) awaitStop(ctx, failed context.Context, plain *fastpath.Listener) {
	select {
	case <-ctx.Done():
	case <-failed.Done():
	}
	a.log.InfoContext(ctx, "stopping")
	a.stopping.Store(true)
	plain.Drain()
	if failed.Err() != nil {
		return
	}
	if a.config.DrainDelay > 0 {
		a.log.InfoContext(ctx, "draining: requests are accepted, /readyz fails", "for", a.config.DrainDelay)
		_ = poll.Wait(failed, a.config.DrainDelay) // its error says no more than that a part has failed
	}
	awaitIdle(failed, plain)
}

const (
	// idleAfter is how long after its last request a connection counts as idle. maxIdleWait bounds the
	// wait until all are.
	idleAfter   = 500 * time.Millisecond
	maxIdleWait = 3 * time.Second
	idlePoll    = 20 * time.Millisecond
)

// awaitIdle waits until all plain connections have ended or are idle. Once the node is to stop, the
// next response ends a connection. Closing a busy one would break the request that is on its way.
func awaitIdle(ctx context.Context, plain *fastpath.Listener) {
	for waited := time.Duration(0); waited < maxIdleWait; waited += idlePoll {
		if !plain.IsBusy(time.Now().Add(-idleAfter)) || poll.Wait(ctx, idlePoll) != nil {
			return
		}
	}
}

// leaving closes connections after their next response once the node is to stop, so that proxies
// open new ones to other nodes. Closing idle connections at the end would break requests that are
// being sent.
func (a *app) leaving(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if a.stopping.Load() {
			w.Header().Set("Connection", "close")
		}
		h.ServeHTTP(w, r)
	})
}

// drain stops listening and waits for the requests in flight.
func drain(ctx context.Context, server *http.Server, plain *fastpath.Listener) error {
	ctx, cancel := context.WithTimeout(ctx, drainDeadline)
	defer cancel()
	err := errors.Join(server.Shutdown(ctx), plain.Wait(ctx))
	if err != nil {
		return errors.Join(fmt.Errorf("requests were interrupted: %w", err), server.Close())
	}
	return nil
}

// close gives everything back, in the opposite order.
func (a *app) close() error {
	var err error
	if a.Stores != nil {
		err = errors.Join(err, a.Stores.Close())
	}
	if a.kv != nil {
		err = errors.Join(err, a.kv.Close())
	}
	if a.db != nil {
		err = errors.Join(err, a.db.Close())
	}
	if a.data != nil {
		err = errors.Join(err, a.data.Close())
	}
	if unsent := a.traces.Close(); unsent != nil { // a loss for the operator only
		a.log.Warn("spans are not sent", "error", unsent)
	}
	return err
}
