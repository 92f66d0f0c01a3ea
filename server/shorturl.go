package main

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"strings"

	"github.com/linkforge/linkforge/internal/link/shortcode"
	"github.com/linkforge/linkforge/internal/platform/web"
	"github.com/linkforge/linkforge/internal/visit/fastpath"
	"github.com/linkforge/linkforge/internal/visit/resolve"
)

// shortURL returns the address that a request names: /CODE or /SLUG/CODE at the instance's own
// hosts, and /CODE at any other host, which may be a workspace's domain. It reports false for all
// other requests. The code may end in statsSuffix or the format of an image.
func (a *app) shortURL(r *http.Request) (at resolve.Address, ok bool) {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete:
	default:
		return resolve.Address{}, false
	}
	host := web.Host(r)
	isOwnHost := a.config.IsOwnHost(host)
	if at, ok = resolve.PathAddress(r.URL, isOwnHost); !ok {
		return resolve.Address{}, false
	}
	if isOwnHost {
		return at, !shortcode.Reserved(cmp.Or(at.Slug, at.Code))
	}
	at.Host = host
	at = at.Interpret(a.hasOwnCodes(r, host))
	first, _, _ := strings.Cut(at.Code, "/")
	return at, host != "" && !shortcode.IsDomainPath(first) // see domainRoutes
}

// hasOwnCodes reports whether a host is that of a domain with codes of its own.
func (a *app) hasOwnCodes(r *http.Request, host string) bool {
	admission := a.redirects.UnknownCodes.Admission(web.Peer(r), a.now())
	h, isKnown, err := a.Links.Resolver.Host(r.Context(), host, a.now(), admission.Admit)
	if err == nil && isKnown {
		admission.Release()
	}
	return h.OwnID != ""
}

// isOfRedirect reports whether an address that seems to name the page or the image of a link is
// redirected instead: own codes may end in .svg and .png, and another link may forward the path if
// there is none for the page.
func (a *app) isOfRedirect(r *http.Request, at resolve.Address, suffix string) bool {
	admission := a.redirects.UnknownCodes.Admission(web.Peer(r), a.now())
	target, err := a.Links.Resolver.Resolve(r.Context(), at, a.now(), admission.Admit)
	if err != nil { // which the redirect reports
		return true
	}
	if !target.At.IsOwn { // at no domain with codes of its own
		return false
	}
	named := at.TrimSuffix(suffix)
	page, err := a.Links.Resolver.Resolve(r.Context(), named, a.now(), admission.Admit)
	hasPage := err == nil && !page.Unknown && page.At.Code == named.Code
	if hasPage || !target.Unknown {
		admission.Release()
	}
	return !target.Unknown && (!hasPage || target.At.Code == at.Code)
}

// isStatsPage reports whether an address is that of a link's stats page.
func isStatsPage(at resolve.Address) bool {
	return (at.Path == "" || at.Path == "/") && strings.HasSuffix(at.Code, statsSuffix)
}

// pageSuffix returns the end of an address that names the page or an image of a link; empty for other addresses.
func pageSuffix(at resolve.Address) string {
	if format := qrFormat(at); format != "" {
		return "." + string(format)
	} else if isStatsPage(at) {
		return statsSuffix
	}
	return ""
}

// shortURLs answers requests for short URLs, and reports false for all others, stats pages and images.
// It runs before all middleware, which would cost several times as much as a redirect.
func (a *app) shortURLs() fastpath.Answer {
	serve := a.tracedRedirects()
	if a.log.Enabled(context.Background(), slog.LevelDebug) {
		serve = a.loggedRedirects(serve)
	}
	return func(w http.ResponseWriter, r *http.Request) bool {
		a.setStrictTransport(w, r)
		at, ok := a.shortURL(r)
		suffix := pageSuffix(at)
		if !ok || suffix != "" && (at.Host == "" || !a.isOfRedirect(r, at, suffix)) {
			return false
		}
		serve(w, r, at)
		return true
	}
}

// fastPath answers short URLs without net/http. A node with a certificate answers nothing without
// TLS.
func (a *app) fastPath() fastpath.Answer {
	answer := a.shortURLs()
	return func(w http.ResponseWriter, r *http.Request) bool {
		if a.certificates != nil {
			return false
		}
		a.forwarding.Forward(w, r)
		return answer(w, r)
	}
}

// shortURLsFirst answers short URLs, and leaves all other requests to next.
func (a *app) shortURLsFirst(next http.Handler) http.Handler {
	answer := a.shortURLs()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !answer(w, r) {
			next.ServeHTTP(w, r)
		}
	})
}

type serveAddress = func(http.ResponseWriter, *http.Request, resolve.Address)

// tracedRedirects returns the handler of redirects. With tracing, the redirects that have asked the
// database or Redis have a span; nearly all others are answered from memory.
func (a *app) tracedRedirects() serveAddress {
	t := a.traces.Tracer()
	if t == nil {
		return a.redirects.Serve
	}
	return func(w http.ResponseWriter, r *http.Request, at resolve.Address) {
		r = web.ExtractTrace(r)
		ctx, span := startQuiet(r.Context(), t, "redirect")
		defer span.End()
		a.redirects.Serve(w, r.WithContext(ctx), at)
	}
}

// loggedRedirects names and logs each redirect.
func (a *app) loggedRedirects(serve serveAddress) serveAddress {
	logged := web.Log(a.log, a.now)
	return func(w http.ResponseWriter, r *http.Request, at resolve.Address) {
		r.Pattern = "GET /{code}"
		if at.Slug != "" {
			r.Pattern = "GET /{slug}/{code}"
		}
		if r.Method != http.MethodHead {
			r.Pattern = r.Method + strings.TrimPrefix(r.Pattern, "GET")
		}
		web.NameRequest(w, r)
		logged(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { serve(w, r, at) })).ServeHTTP(w, r)
	}
}
