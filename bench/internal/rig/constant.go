package rig

import (
	"context"
	"errors"
	"net/http"
	"time"
)

// ServeConstant serves a handler that does nothing but redirect: the lower bound of net/http.
func ServeConstant(ctx context.Context, address, location string) error {
	return ServeHTTP(ctx, address, http.HandlerFunc(func(w http.ResponseWriter,
		_ *http.Request) {
		Redirect(w, location)
	}))
}

// Redirect answers with a 302.
func Redirect(w http.ResponseWriter, location string) {
	w.Header().Set("Location", location)
	w.Header().Set("Content-Length", "0")
	w.WriteHeader(http.StatusFound)
}

// ServeHTTP serves until the context ends.
func ServeHTTP(ctx context.Context, address string, handler http.Handler) error {
	server := &http.Server{Addr: address, Handler: handler, ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout: 2 * time.Minute}
	context.AfterFunc(ctx, func() { server.Close() })
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
