package main

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"path"
	"strings"

	"github.com/linkforge/linkforge/internal/fastpath"
	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/playground"
	"github.com/linkforge/linkforge/internal/redirect"
	"github.com/linkforge/linkforge/internal/shortcode"
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

	api := a.origins().CORS("GET, HEAD, OPTIONS, POST")(a.endpoint)
	mux.Handle("GET /graphql", api)
	mux.Handle("POST /graphql", api)
	mux.Handle("OPTIONS /graphql", api)
	if a.config.Playground {
		mux.Handle("GET /playground", playground.Handler("/graphql"))
	}

	mux.HandleFunc("GET /export/audit/{workspace}", a.exportAudit)
	mux.HandleFunc("GET /export/clicks", a.exportClicks)
	mux.HandleFunc("GET /domains/known", a.domainKnown)

	mux.HandleFunc("GET /{$}", a.home)
	mux.HandleFunc("GET /{code}", a.redirect)
	mux.HandleFunc("GET /{slug}/{code}", a.redirect)
	mux.HandleFunc("GET /", a.nothing)

	tenants := http.NewServeMux()
	tenants.HandleFunc("GET /{code}", a.redirectOfHost)
	tenants.HandleFunc("GET /", a.nothing)

	hosts := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch host := web.Host(r); {
		case !isClean(r.URL.Path):
			a.nothing(w, r)
		case a.config.IsOwnHost(host):
			mux.ServeHTTP(w, r)
		case host == "":
			a.nothing(w, r)
		default:
			tenants.ServeHTTP(w, r)
		}
	})
	return past(a.straight(), web.Chain(hosts, web.RequestID, web.Client, web.Log(a.log, a.now), a.traced, web.Recover(a.log)))
}

// isClean reports whether a path has no empty segment, "." or "..", also when they are
// percent-encoded. http.ServeMux would redirect most unclean paths to their clean form. Here they
// are 404, as on the fast path.
func isClean(p string) bool {
	clean := path.Clean(p)
	return p == clean || p == clean+"/" && clean != "/" || !strings.HasPrefix(p, "/")
}

// origins are those whose pages may call the API.
func (a *app) origins() web.Origins {
	return web.Origins{Hosts: a.config.Hosts, Listed: a.config.Origins}
}

// past takes requests for short URLs past everything that a redirect does without: patterns, names of requests, and a log of
// each, which together cost several times as much as a redirect itself.
func past(straight fastpath.Answer, others http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !straight(w, r) {
			others.ServeHTTP(w, r)
		}
	})
}

// strictTransport has browsers use https alone for a host, for a year (RFC 6797). It does not
// extend to names below the host, which other servers may have. The slice is shared between all
// responses and never written to.
var strictTransport = []string{"max-age=31536000"}

// straight answers short URLs, the same as the routes above do. As the first to see every request,
// it also sets Strict-Transport-Security if the public URL is https: for the instance's own hosts,
// not for a workspace's domain, which the workspace may serve without TLS elsewhere later.
func (a *app) straight() fastpath.Answer {
	all := a.log.Enabled(context.Background(), slog.LevelDebug)
	secure := strings.HasPrefix(a.config.PublicURL, "https://")
	serve := a.straightRedirects()
	return func(w http.ResponseWriter, r *http.Request) bool {
		host := web.Host(r)
		own := a.config.IsOwnHost(host)
		if own && secure {
			w.Header()["Strict-Transport-Security"] = strictTransport
		}
		at, ok := redirect.AddressOf(r.URL.Path)
		if !ok || all || strings.HasSuffix(at.Code, statsSuffix) || r.URL.RawPath != "" || (r.Method != http.MethodGet && r.Method != http.MethodHead) {
			return false
		}
		switch {
		case own:
			ok = !shortcode.Reserved(cmp.Or(at.Slug, at.Code))
		default:
			ok, at.Host = host != "" && at.Slug == "", host
		}
		if ok {
			serve(w, r, at)
		}
		return ok
	}
}

// fast answers the plainest requests for short URLs without net/http, until the node is to stop. Where connections are to be
// encrypted, it answers none that are not.
func (a *app) fast() fastpath.Answer {
	straight, proxies := a.straight(), web.Proxies(a.config.TrustedProxies)
	return func(w http.ResponseWriter, r *http.Request) bool {
		if a.stopping.Load() || a.certificate != nil {
			return false
		}
		proxies.Forward(r)
		return straight(w, r)
	}
}

// redirect answers a short URL.
func (a *app) redirect(w http.ResponseWriter, r *http.Request) {
	a.answer(w, r, link.Address{Slug: r.PathValue("slug"), Code: r.PathValue("code")})
}

// redirectOfHost answers a short URL at the host of a workspace.
func (a *app) redirectOfHost(w http.ResponseWriter, r *http.Request) {
	a.answer(w, r, link.Address{Host: web.Host(r), Code: r.PathValue("code")})
}

// answer answers a short URL or, with a + behind it, tells of its clicks.
func (a *app) answer(w http.ResponseWriter, r *http.Request, at link.Address) {
	if strings.HasSuffix(at.Code, statsSuffix) {
		a.stats(w, r, at)
		return
	}
	a.redirects.Serve(w, r, at)
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
	known, err := a.Domains.IsVerified(r.Context(), strings.ToLower(r.URL.Query().Get("domain")))
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
