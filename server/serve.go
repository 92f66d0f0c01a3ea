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
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/linkforge/linkforge/internal/cli"
	"github.com/linkforge/linkforge/internal/console"
	"github.com/linkforge/linkforge/internal/platform/config"
	"github.com/linkforge/linkforge/internal/platform/poll"
	"github.com/linkforge/linkforge/internal/platform/redisx"
	"github.com/linkforge/linkforge/internal/stores"
	"github.com/linkforge/linkforge/internal/visit/fastpath"
)

// serveCommand is `linkforge serve`.
type serveCommand struct{}

// Run serves until the context ends.
func (serveCommand) Run(ctx context.Context, f *config.Flags, std cli.IO) error {
	c, err := f.Check()
	if err != nil {
		return fmt.Errorf("the configuration is invalid:\n%w", err)
	}
	memoryOf(c, containerMemory()).tune()
	log := newLogger(std.Err, !c.LogText, c.LogLevel)
	redisx.LogTo(log)
	return serve(ctx, c, log, std.Out)
}

// serve opens an app and serves until the context ends. It prints where everything is to out.
func serve(ctx context.Context, c config.Config, log *slog.Logger, out io.Writer) (err error) {
	log.InfoContext(ctx, "starting", "version", cli.Version(), "data", absolute(c.DataDir))
	a, err := newApp(ctx, c, log, out)
	if err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, a.close())
		if outages, ok := log.Handler().(outageLog); ok {
			outages.repeats.close()
		}
		if err == nil {
			log.InfoContext(ctx, "stopped")
		}
	}()
	listener, err := listen(c, "LINKFORGE_LISTEN", c.Listen)
	if err != nil {
		return err
	}
	announce(ctx, out, log, a.config)
	return a.serve(ctx, listener)
}

// drainDeadline bounds how long requests in flight may take after the signal to stop.
const drainDeadline = 20 * time.Second

// part is a part of a server that runs until its context ends.
type part = func(ctx context.Context) error

// lasting are the stages of a server that last until every request has been answered. They start in this order, and
// end in the opposite one.
func (a *app) lasting() [][]part {
	return [][]part{
		{a.Recorder.Run, a.Unmatched.Run, a.mailer.Run},
		{a.Quotas.Run}, // its end writes to the log of the recorder what could not be returned
	}
}

// background are the parts that end with the signal to stop. If one fails, the server stops.
func (a *app) background() []part {
	return []part{
		a.runAdmin, a.jobs.Run, a.tasks.Run, a.memory.follow, a.Feed.Run, a.VisitorKeys.Run,
		a.ClickStream.Run, a.dispatcher.Run, a.EventStream.Run, a.endpoint.Run, a.countries.Watch, a.updateCountries,
		a.runCertificates, a.runHTTP,
		func(ctx context.Context) error { return a.db.Replica.Follow(ctx, a.db, a.log, a.now) },
		func(ctx context.Context) error { return a.LinkList.RunIndex(ctx, a.log) },
	}
}

// serve answers requests until the context ends. Then it says that it is not ready, and after
// LINKFORGE_DRAIN_DELAY it takes no new ones, finishes those in flight, and writes the clicks that
// are still waiting.
func (a *app) serve(ctx context.Context, listener net.Listener) error {
	return inStages(context.WithoutCancel(ctx), a.lasting(), func() error { return a.answer(ctx, listener) })
}

// inStages runs a function while the parts of the stages run.
func inStages(ctx context.Context, stages [][]part, run func() error) error {
	if len(stages) == 0 {
		return run()
	}
	lasting, stop := context.WithCancel(ctx)
	defer stop()
	var parts errgroup.Group
	for _, p := range stages[0] {
		parts.Go(func() error { return p(lasting) })
	}
	err := inStages(ctx, stages[1:], run)
	stop()
	return errors.Join(err, parts.Wait())
}

// answer answers requests, with the parts in the background, until the context ends or a part fails.
func (a *app) answer(ctx context.Context, listener net.Listener) error {
	a.OwnHosts.Listen(listener.Addr())
	server := a.httpServer()
	plain := fastpath.Listen(listener, a.fastPath(), a.log)
	serve := func() error { return server.Serve(plain) }
	if a.certificates != nil {
		server.TLSConfig = a.certificates.TLSConfig()
		serve = func() error { return server.ServeTLS(plain, "", "") }
	}
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	parts, failed := errgroup.WithContext(running)
	parts.Go(func() error {
		if err := serve(); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serving: %w", err)
		}
		return nil
	})
	for _, p := range a.background() {
		parts.Go(func() error { return p(failed) })
	}
	parts.Go(func() error {
		a.awaitStop(ctx, failed, plain)
		stop()
		return drain(context.WithoutCancel(ctx), server, plain)
	})
	return parts.Wait()
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
// being sent. It also closes those whose requests cannot be told apart for certain.
func (a *app) leaving(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if a.stopping.Load() || fastpath.MustClose(r) {
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

// announce says that the server is ready, and where everything is: to people on a developer's
// instance, by a line of the log in production.
func announce(ctx context.Context, out io.Writer, log *slog.Logger, c config.Config) {
	places := [][2]string{{"version", cli.Version()}, {"environment", "production"}}
	if c.Development {
		places[1][1] = "development"
	}
	if c.Console {
		places = append(places, [2]string{"console", c.PublicURL + console.Path})
	}
	if c.Playground {
		places = append(places, [2]string{"playground", c.PublicURL + "/playground"})
	}
	places = append(places, [2]string{"endpoint", c.PublicURL + "/graphql"},
		[2]string{"short URLs", c.PublicURL + "/{code}"}, [2]string{"listening", c.Listen})
	if c.TLSAuto {
		places = append(places, [2]string{"HTTP", c.ACME.HTTPListen})
	}
	places = append(places, [2]string{"data", absolute(c.DataDir)})
	if c.Embedded() {
		places = append(places, [2]string{"database", "SQLite, " + absolute(stores.DatabaseFile(c))})
	} else {
		places = append(places, [2]string{"database", "PostgreSQL, " + whereabouts(c.DatabaseURL)})
	}
	if c.DatabaseReadURL != "" {
		places = append(places, [2]string{"replica", "PostgreSQL, " + whereabouts(c.DatabaseReadURL)})
	}
	redis := "in-process"
	if c.RedisURL != "" {
		redis = whereabouts(c.RedisURL)
	}
	places = append(places, [2]string{"Redis", redis})
	if !c.Development {
		var attributes []any
		for _, p := range places {
			attributes = append(attributes, strings.ReplaceAll(p[0], " ", "_"), p[1])
		}
		log.InfoContext(ctx, "ready", attributes...)
		return
	}
	fmt.Fprintln(out, "Linkforge is ready.")
	for _, p := range places {
		fmt.Fprintf(out, "  %-11s %s\n", p[0], p[1])
	}
}

// whereabouts is a server's URL, or that of several, without user, password and parameters.
func whereabouts(serverURL string) string {
	_, place, _ := strings.Cut(serverURL, "://")
	hosts, rest := place, ""
	if end := strings.IndexAny(place, "/?#"); end >= 0 {
		hosts, rest = place[:end], place[end:]
	}
	if strings.Contains(rest, "@") { // the hosts are part of a password that is not percent-encoded
		return "(configured)"
	}
	path, _, _ := strings.Cut(rest, "?")
	return hosts[strings.LastIndex(hosts, "@")+1:] + path
}

func absolute(path string) string {
	if full, err := filepath.Abs(path); err == nil {
		return full
	}
	return path
}

// newLogger writes structured lines to w: JSON for machines, key=value text for people. An outage is
// few of them.
func newLogger(w io.Writer, json bool, level slog.Level) *slog.Logger {
	options := &slog.HandlerOptions{Level: level}
	if json {
		return slog.New(newOutageLog(slog.NewJSONHandler(w, options)))
	}
	return slog.New(newOutageLog(slog.NewTextHandler(w, options)))
}
