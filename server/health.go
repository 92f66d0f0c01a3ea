package main

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/linkforge/linkforge/internal/platform/redisx"
)

// readyDeadline bounds the question whether a dependency answers.
const readyDeadline = 2 * time.Second

// live reports that the process runs. It checks no dependency, because a restart would not fix one.
func (a *app) live(w http.ResponseWriter, _ *http.Request) {
	plain(w, http.StatusOK, "alive")
}

// ready says whether requests should be sent here: not while shutting down, nor without database or Redis.
func (a *app) ready(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), readyDeadline)
	defer cancel()
	if a.stopping.Load() {
		plain(w, http.StatusServiceUnavailable, "shutting down")
		return
	}
	text := "ready"
	if err := a.db.PingContext(ctx); err != nil {
		text += "; the database does not answer"
	}
	if err := a.kv.Ready(ctx); err != nil {
		text += "; " + redisx.Explain(err)
	}
	plain(w, http.StatusOK, text)
}

// readyWithRedis is ready for load balancers: it also refuses requests while this node has no Redis and
// another node has.
func (a *app) readyWithRedis(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), readyDeadline)
	defer cancel()
	if a.Quotas.Hits.Stats().OthersHaveRedis {
		if err := a.kv.Ready(ctx); err != nil {
			plain(w, http.StatusServiceUnavailable, "this node alone: "+redisx.Explain(err))
			return
		}
	}
	a.ready(w, r)
}

func plain(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	fmt.Fprintln(w, text)
}
