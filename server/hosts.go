package main

import (
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/linkforge/linkforge/internal/click/visitor"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/ratelimit"
	"github.com/linkforge/linkforge/internal/platform/web"
	"github.com/linkforge/linkforge/internal/route/routing"
	"github.com/linkforge/linkforge/internal/visit/resolve"
	"github.com/linkforge/linkforge/internal/visit/visitorpage"
)

// This file answers requests for a workspace's domain that are not for a link.

// domainRoutes returns the handler of the domains of workspaces, without their short URLs. Codes cannot
// be these paths.
func (a *app) domainRoutes() *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", a.domainRoot)
	mux.HandleFunc("GET /robots.txt", a.domainRobots)
	mux.HandleFunc("GET /favicon.ico", a.domainFavicon)
	mux.HandleFunc("GET /.well-known/apple-app-site-association", a.document(resolve.AppleAppSiteAssociation))
	mux.HandleFunc("GET /.well-known/linkforge", a.instance)
	mux.HandleFunc("GET /.well-known/assetlinks.json", a.document(resolve.AssetLinks))
	mux.HandleFunc("GET /", a.nothing)
	return mux
}

// admission limits a network that requests unknown hosts like one that guesses codes. The caller releases
// it if the host is known.
func (a *app) admission(r *http.Request) ratelimit.Admission {
	return a.redirects.UnknownCodes.Admission(web.Peer(r), a.now())
}

// requestedHost returns the settings of the requested domain. It answers the request and reports false
// if there is no such domain.
func (a *app) requestedHost(w http.ResponseWriter, r *http.Request) (resolve.Host, bool) {
	unknownHost := a.admission(r)
	host, ok, err := a.Links.Resolver.Host(r.Context(), web.Host(r), a.now(), unknownHost.Admit)
	if err != nil {
		a.hostUnavailable(w, r, err)
		return host, false
	}
	if !ok {
		a.nothing(w, r)
		return host, false
	}
	unknownHost.Release()
	return host, true
}

// hostRetry is the value of Retry-After while hosts cannot be looked up.
const hostRetry = 5 * time.Second

func (a *app) hostUnavailable(w http.ResponseWriter, r *http.Request, err error) {
	if errors.Is(err, resolve.ErrNotAdmitted) {
		web.SetRetryAfter(w, time.Minute)
		visitorpage.Write(w, r, http.StatusTooManyRequests, visitorpage.Throttled)
		return
	}
	a.log.Log(r.Context(), errs.LogLevel(err), "domain lookup failed", "error", err)
	web.SetRetryAfter(w, hostRetry)
	visitorpage.Write(w, r, http.StatusServiceUnavailable, visitorpage.Unavailable)
}

func (a *app) domainRoot(w http.ResponseWriter, r *http.Request) {
	host, ok := a.requestedHost(w, r)
	if !ok {
		return
	}
	if host.RootURL == "" {
		a.nothing(w, r)
		return
	}
	sendTo(w, routing.Fill(host.RootURL, "", web.Host(r)))
}

// sendTo redirects to a URL that may change at any time.
func sendTo(w http.ResponseWriter, url string) {
	head := w.Header()
	head.Set("Location", url)
	head.Set("Cache-Control", "private, no-store")
	head.Set("Referrer-Policy", "strict-origin-when-cross-origin")
	w.WriteHeader(http.StatusFound)
}

func (a *app) domainRobots(w http.ResponseWriter, r *http.Request) {
	if host, ok := a.requestedHost(w, r); ok {
		robots(w, host.Indexable)
	}
}

// previewersOnly admits preview crawlers, each in a group of its own, because some read only one name
// of a group.
var previewersOnly = func() string {
	var b strings.Builder
	for _, name := range visitor.PreviewCrawlers() {
		b.WriteString("User-agent: " + name + "\nDisallow:\n\n")
	}
	return b.String() + "User-agent: *\nDisallow: /\n"
}()

// robots responds with robots.txt. Search engines may crawl hosts that they may index, and preview
// crawlers all hosts.
func robots(w http.ResponseWriter, isIndexable bool) {
	text := "User-agent: *\nDisallow:\n"
	if !isIndexable {
		text = previewersOnly
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "max-age=3600")
	_, _ = w.Write([]byte(text))
}

func (a *app) domainFavicon(w http.ResponseWriter, r *http.Request) {
	host, ok := a.requestedHost(w, r)
	switch {
	case !ok:
	case host.FaviconURL == "":
		noFavicon(w, r)
	default:
		w.Header().Set("Location", host.FaviconURL)
		w.Header().Set("Cache-Control", "max-age=86400")
		w.WriteHeader(http.StatusFound)
	}
}

// noFavicon responds that the host has no icon. Browsers cache the response for a day.
func noFavicon(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Cache-Control", "max-age=86400")
	w.WriteHeader(http.StatusNoContent)
}

// document answers with an app association document. Programs follow no redirect there.
func (a *app) document(d resolve.Document) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		unknownHost := a.admission(r)
		text, ok, err := a.Links.Resolver.Document(r.Context(), web.Host(r), d, a.now(), unknownHost.Admit)
		if ok {
			unknownHost.Release()
		}
		switch {
		case err != nil:
			a.hostUnavailable(w, r, err)
		case text == "":
			a.nothing(w, r)
		default:
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("X-Content-Type-Options", "nosniff")
			_, _ = w.Write([]byte(text))
		}
	}
}
