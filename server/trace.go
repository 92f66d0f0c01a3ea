package main

import (
	"net/http"

	"github.com/linkforge/linkforge/internal/platform/web"
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
