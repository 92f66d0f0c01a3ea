package main

import (
	"net/http"
	"strings"

	"github.com/linkforge/linkforge/internal/playground"
	"github.com/linkforge/linkforge/internal/web"
)

// routes is every URL that the server answers. Each first segment is a reserved word, so that no code or slug
// can ever be one.
//
// All of it is for the instance's own hosts. Any other host is a workspace's, and answers redirects alone, or nobody's, and
// answers 404.
func (a *app) routes() http.Handler {
	mux := http.NewServeMux()

	mux.HandleFunc("GET /livez", a.live)
	mux.HandleFunc("GET /readyz", a.ready)

	mux.Handle("GET /graphql", a.endpoint)
	mux.Handle("POST /graphql", a.endpoint)
	if a.config.Playground {
		mux.Handle("GET /playground", playground.Handler("/graphql"))
	}

	mux.HandleFunc("GET /export/audit/{workspace}", a.exportAudit)
	mux.HandleFunc("GET /domains/known", a.domainKnown)

	mux.HandleFunc("GET /{$}", a.home)
	mux.Handle("GET /{code}", a.redirects)
	mux.Handle("GET /{slug}/{code}", a.redirects)
	mux.HandleFunc("GET /", a.nothing)

	tenants := http.NewServeMux()
	tenants.HandleFunc("GET /{code}", func(w http.ResponseWriter, r *http.Request) {
		r.SetPathValue("host", web.Host(r))
		a.redirects.ServeHTTP(w, r)
	})
	tenants.HandleFunc("GET /", a.nothing)

	hosts := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch host := web.Host(r); {
		case a.config.IsOwnHost(host):
			mux.ServeHTTP(w, r)
		case host == "":
			a.nothing(w, r)
		default:
			tenants.ServeHTTP(w, r)
		}
	})
	return web.Chain(hosts, web.RequestID, web.Client, web.Log(a.log, a.now), web.Recover(a.log))
}

// home leads a developer to the playground.
func (a *app) home(w http.ResponseWriter, r *http.Request) {
	if a.config.Development && a.config.Playground {
		http.Redirect(w, r, "/playground", http.StatusTemporaryRedirect)
		return
	}
	web.Page(w, r, http.StatusNotFound, "This is a link shortener", "Its short links have more to their address than this.")
}

// domainKnown answers a proxy that ends TLS, and asks before it gets a certificate, whether a host is to have one: 200 for
// a verified domain, else 404 (https://caddyserver.com/docs/caddyfile/options#on-demand-tls).
func (a *app) domainKnown(w http.ResponseWriter, r *http.Request) {
	known, err := a.spaces.HostKnown(r.Context(), strings.ToLower(r.URL.Query().Get("domain")))
	switch {
	case err != nil:
		a.log.ErrorContext(r.Context(), "a proxy's question was not answered", "error", err)
		web.Page(w, r, http.StatusServiceUnavailable, "Please try again in a moment", "A part of this service is away.")
	case known:
		web.Page(w, r, http.StatusOK, "Known", "Links answer at this host.")
	default:
		web.Page(w, r, http.StatusNotFound, "Unknown", "No links answer at this host.")
	}
}

func (a *app) nothing(w http.ResponseWriter, r *http.Request) {
	web.Page(w, r, http.StatusNotFound, "There is nothing here", "The address may have been mistyped.")
}
