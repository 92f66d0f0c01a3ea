package main

import (
	"net/http"

	"github.com/linkforge/linkforge/internal/playground"
	"github.com/linkforge/linkforge/internal/web"
)

// routes is every URL that the server answers. Each first segment is a reserved word, so that no code or slug
// can ever be one.
func (a *app) routes() http.Handler {
	mux := http.NewServeMux()

	mux.HandleFunc("GET /livez", a.live)
	mux.HandleFunc("GET /readyz", a.ready)

	mux.Handle("GET /graphql", a.endpoint)
	mux.Handle("POST /graphql", a.endpoint)
	if a.config.Playground {
		mux.Handle("GET /playground", playground.Handler("/graphql"))
	}

	mux.HandleFunc("GET /{$}", a.home)
	mux.Handle("GET /{code}", a.redirects)
	mux.Handle("GET /{slug}/{code}", a.redirects)
	mux.HandleFunc("GET /", a.nothing)

	return web.Chain(mux, web.RequestID, web.Client, web.Log(a.log, a.now), web.Recover(a.log))
}

// home leads a developer to the playground.
func (a *app) home(w http.ResponseWriter, r *http.Request) {
	if a.config.Development && a.config.Playground {
		http.Redirect(w, r, "/playground", http.StatusTemporaryRedirect)
		return
	}
	web.Page(w, r, http.StatusNotFound, "This is a link shortener", "Its short links have more to their address than this.")
}

func (a *app) nothing(w http.ResponseWriter, r *http.Request) {
	web.Page(w, r, http.StatusNotFound, "There is nothing here", "The address may have been mistyped.")
}
