package main

import (
	"net/http"

	"github.com/linkforge/linkforge/internal/obs"
	"github.com/linkforge/linkforge/internal/resolve"
	"github.com/linkforge/linkforge/internal/web"
)

// trace lets the database and Redis make spans, if there are any to be made.
func (a *app) trace() {
	if t := a.traces.Tracer(); t != nil {
		a.db.Trace(t)
		a.kv.Trace(t)
	}
}

// traced makes spans of requests, if there are any to be made.
func (a *app) traced(next http.Handler) http.Handler {
	if t := a.traces.Tracer(); t != nil {
		return web.Trace(t)(next)
	}
	return next
}

// straightRedirects answers short URLs. With traces on, those for which the database or Redis was asked have a span: of the
// others, which are nearly all, there is nothing to tell. Without, it is the handler itself, and costs what that costs.
func (a *app) straightRedirects() func(http.ResponseWriter, *http.Request, resolve.Address) {
	t := a.traces.Tracer()
	if t == nil {
		return a.redirects.Serve
	}
	return func(w http.ResponseWriter, r *http.Request, at resolve.Address) {
		r = web.Traced(r)
		ctx, span := obs.StartQuiet(r.Context(), t, "redirect")
		defer span.End()
		a.redirects.Serve(w, r.WithContext(ctx), at)
	}
}
