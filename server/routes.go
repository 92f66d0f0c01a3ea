package main

import (
	"io"
	"net/http"
	"strings"

	"github.com/linkforge/linkforge/graph/playground"
	"github.com/linkforge/linkforge/internal/console"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/web"
	"github.com/linkforge/linkforge/internal/route/routing"
	"github.com/linkforge/linkforge/internal/visit/resolve"
	"github.com/linkforge/linkforge/internal/visit/visitorpage"
)

// routes returns the handler of all URLs. Short URLs come first, see shorturl.go: /CODE and
// /SLUG/CODE at the instance's own hosts, /CODE at the domains of workspaces, and with a + at the
// end the page about the link, with .svg or .png its QR code. The patterns are for the instance's
// own hosts. Their first segments are reserved words, so no code or slug can be one.
func (a *app) routes() http.Handler {
	mux := http.NewServeMux()

	mux.HandleFunc("GET /livez", a.live)
	mux.HandleFunc("GET /readyz", a.ready)
	mux.HandleFunc("GET /readyz/redis", a.readyWithRedis)

	cors := a.origins().CORS(http.MethodGet, http.MethodHead, http.MethodPost)
	mux.Handle("GET /graphql", cors(a.endpoint))
	mux.Handle("POST /graphql", cors(a.endpoint))
	mux.Handle("OPTIONS /graphql", cors(web.Options("GET, HEAD, OPTIONS, POST")))
	if a.config.Playground {
		mux.Handle("GET /playground", playground.Handler())
	}

	if a.config.Console {
		people := console.Handler()
		mux.Handle("GET /app", people)
		mux.Handle("GET /app/", people)
	}

	mux.Handle("GET /export/audit/{workspace}", requireUTF8(a.exportAudit))
	mux.Handle("GET /export/clicks", requireUTF8(a.exportClicks))
	mux.Handle("GET /export/workspace/{token}", requireUTF8(a.exportWorkspace))
	upload := web.Origins{Listed: []string{"*"}}.CORS(http.MethodPut) // the URL is the credential
	mux.Handle("PUT /import/{token}", upload(requireUTF8(a.upload)))
	mux.Handle("OPTIONS /import/{token}", upload(web.Options("OPTIONS, PUT")))
	mux.Handle("GET /domains/known", requireUTF8(a.domainKnown))

	mux.Handle("GET /abuse", requireUTF8(a.reportForm))
	mux.HandleFunc("POST /abuse", a.report)
	password, verify, invitation := a.passwordPage(), a.verifyPage(), a.invitationPage()
	mux.HandleFunc("GET /password", password.show)
	mux.HandleFunc("POST /password", password.take)
	mux.HandleFunc("GET /verify", verify.show)
	mux.HandleFunc("POST /verify", verify.take)
	mux.HandleFunc("GET /invitation", invitation.show)
	mux.HandleFunc("POST /invitation", invitation.take)

	mux.HandleFunc("GET /.well-known/linkforge", a.instance)
	mux.HandleFunc("GET /robots.txt", func(w http.ResponseWriter, _ *http.Request) { robots(w, false) })
	mux.HandleFunc("GET /favicon.ico", noFavicon)
	mux.HandleFunc("GET /{$}", a.home)
	mux.HandleFunc("GET /", a.nothing)

	domains := a.domainRoutes() // of workspaces

	others := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host := web.Host(r)
		at, isOfLink := a.shortURL(r) // redirects have been answered
		isOfLink = isOfLink && (r.Method == http.MethodGet || r.Method == http.MethodHead)
		switch {
		case isOfLink && qrFormat(at) != "":
			r.Pattern = "GET /{code}.{format}"
			a.qrImage(w, r, at)
		case isOfLink:
			r.Pattern = "GET /{code}+"
			a.stats(w, r, at)
		case host == "" || !resolve.IsClean(r.URL.Path): // http.ServeMux would redirect most of these
			a.nothing(w, r)
		case a.config.IsOwnHost(host):
			mux.ServeHTTP(w, r)
		default:
			domains.ServeHTTP(w, r)
		}
	})
	return a.shortURLsFirst(web.Chain(others,
		web.Before(web.NameRequest), web.Client, web.Log(a.log, a.now), a.traced,
		web.Recover(a.log, visitorpage.WriteInternalError)))
}

// origins are those whose pages may call the API.
func (a *app) origins() web.Origins {
	return web.Origins{Hosts: a.config.Hosts, Listed: a.config.Origins, PermittedByKey: a.Accounts.PermitsOrigin}
}

// home redirects to LINKFORGE_ROOT_URL, and people without one to the console.
func (a *app) home(w http.ResponseWriter, r *http.Request) {
	if a.config.RootURL != "" {
		sendTo(w, routing.Fill(a.config.RootURL, "", web.Host(r)))
		return
	}
	if a.config.Console && strings.Contains(r.Header.Get("Accept"), "text/html") {
		http.Redirect(w, r, console.Path, http.StatusFound)
		return
	}
	visitorpage.Write(w, r, http.StatusNotFound, visitorpage.Home)
}

// domainKnown responds to a TLS-terminating proxy that may request a certificate for a host: 200 for
// a verified domain, else 404
// (https://caddyserver.com/docs/caddyfile/options#on-demand-tls).
func (a *app) domainKnown(w http.ResponseWriter, r *http.Request) {
	known, err := a.Domains.IsVerified(r.Context(), strings.ToLower(r.URL.Query().Get("domain")))
	switch {
	case err != nil:
		a.log.Log(r.Context(), errs.LogLevel(err), "domain verification lookup failed", "error", err)
		web.SetRetryAfter(w, hostRetry)
		visitorpage.WriteEnglish(w, r, http.StatusServiceUnavailable, "Try again in a moment",
			"This service is temporarily unavailable.")
	case known:
		visitorpage.WriteEnglish(w, r, http.StatusOK, "Verified", "Short links work on this host.")
	default:
		visitorpage.WriteEnglish(w, r, http.StatusNotFound, "Not verified", "Short links do not work on this host.")
	}
}

// instance returns the id of the instance, at every host: a host that returns it leads here.
func (a *app) instance(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = io.WriteString(w, a.InstanceID)
}

func (a *app) nothing(w http.ResponseWriter, r *http.Request) {
	visitorpage.Write(w, r, http.StatusNotFound, visitorpage.PageNotFound)
}

// requireUTF8 refuses requests that are not UTF-8.
func requireUTF8(next http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !web.IsUTF8(r) {
			visitorpage.WriteNotUTF8(w, r)
			return
		}
		next(w, r)
	})
}
