package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"time"

	"golang.org/x/sync/errgroup"
)

// adminDrain bounds how long the operator's requests may take after the signal to stop.
const adminDrain = 5 * time.Second

// adminRoutes is every URL at the operator's own address, which shows what no visitor is to see.
// The command line is not shown: secrets may be among its flags. Nor are the profiles of blocking
// and mutexes filled: they would cost every request something.
func (a *app) adminRoutes(ctx context.Context) http.Handler {
	mux := http.NewServeMux() // pprof also registers at http.DefaultServeMux, which is not served

	mux.HandleFunc("GET /livez", a.live)
	mux.HandleFunc("GET /readyz", a.ready)
	mux.HandleFunc("GET /readyz/redis", a.readyWithRedis)
	mux.Handle("GET /metrics", serveMetrics(func() []number { return a.numbers(ctx) }, a.log))

	mux.HandleFunc("GET /debug/pprof/", pprof.Index) // and every profile that has a name
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("POST /debug/pprof/symbol", pprof.Symbol)
	return mux
}

// runAdmin answers at LINKFORGE_ADMIN_LISTEN, if it is set, until the context ends. Profiles that
// are being taken end then too. It returns an error when the address cannot be had.
func (a *app) runAdmin(ctx context.Context) error {
	if a.config.AdminListen == "" {
		return nil
	}
	listener, err := net.Listen("tcp", a.config.AdminListen)
	if err != nil {
		return errListen("LINKFORGE_ADMIN_LISTEN", a.config.AdminListen, err)
	}
	server := &http.Server{
		Handler:           a.adminRoutes(ctx),
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ErrorLog:          slog.NewLogLogger(a.log.Handler(), slog.LevelDebug),
		ReadHeaderTimeout: 10 * time.Second,
		// without WriteTimeout, because the caller chooses the duration of a profile
		IdleTimeout:    2 * time.Minute,
		MaxHeaderBytes: 64 << 10,
	}
	a.log.InfoContext(ctx, "metrics and profiles are shown", "address", listener.Addr().String())
	return serveUntil(ctx, server, listener, "serving metrics")
}

// serveUntil serves until the context ends, and then finishes the requests in flight, within adminDrain.
func serveUntil(ctx context.Context, server *http.Server, listener net.Listener, what string) error {
	parts, ended := errgroup.WithContext(ctx)
	parts.Go(func() error {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("%s: %w", what, err)
		}
		return nil
	})
	parts.Go(func() error {
		<-ended.Done()
		draining, cancel := context.WithTimeout(context.WithoutCancel(ctx), adminDrain)
		defer cancel()
		if server.Shutdown(draining) != nil {
			return server.Close() // nothing is lost but an operator's answer
		}
		return nil
	})
	return parts.Wait()
}
