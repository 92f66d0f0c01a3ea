package web

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// Origins are the pages that may call the API from a browser: those of the instance's own hosts, on
// any port, and those of further origins that the operator has listed.
type Origins struct {
	// Hosts are the names of the instance itself.
	Hosts []string
	// Listed are further origins as browsers write them, scheme://host:port without the scheme's own
	// port; "*" is every one.
	Listed []string
}

// exposed are the headers of an answer that a page of another origin may read, beside those that it
// always may.
const exposed = "X-Request-Id, RateLimit, RateLimit-Policy, Retry-After"

// preflightGood is for how many seconds a browser need not ask again: the longest that any of them
// believes is a day.
const preflightGood = "86400"

// Allow says that the page which makes a request may, if it is one
// (https://www.rfc-editor.org/rfc/rfc6454#section-7).
func (o Origins) Allow(r *http.Request) bool {
	origin := r.Header.Get("Origin")
	if origin == "" || o.any() || slices.Contains(o.Listed, origin) {
		return true
	}
	u, err := url.Parse(origin)
	if err != nil || u.Host == "" { // "null" is the origin of pages that have none
		return false
	}
	host := strings.ToLower(u.Hostname())
	return strings.EqualFold(u.Host, r.Host) || host == Host(r) || slices.Contains(o.Hosts, host)
}

func (o Origins) any() bool { return slices.Contains(o.Listed, "*") }

// CORS lets pages of these origins read what the handler answers
// (https://fetch.spec.whatwg.org/#http-cors-protocol), and answers OPTIONS itself. It never allows
// credentials: there are no cookies, so a page can do no more than anybody who has the user's
// token. For the same reason a page may send any header. Pages of other origins are answered as if
// CORS did not exist, and their browser keeps the answer from them.
func (o Origins) CORS(methods string) Middleware {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			h := w.Header()
			h.Add("Vary", "Origin")
			allowed := r.Header.Get("Origin") != "" && o.Allow(r)
			if allowed {
				h.Set("Access-Control-Allow-Origin", o.name(r))
			}
			if r.Method == http.MethodOptions {
				o.preflight(w, r, methods, allowed)
				return
			}
			if allowed {
				h.Set("Access-Control-Expose-Headers", exposed)
			}
			next.ServeHTTP(w, r)
		})
	}
}

// name is how an answer names the origin of a page that may read it.
func (o Origins) name(r *http.Request) string {
	if o.any() {
		return "*"
	}
	return r.Header.Get("Origin")
}

// preflight answers a browser that asks what a page may send.
func (o Origins) preflight(w http.ResponseWriter, r *http.Request, methods string, allowed bool) {
	h := w.Header()
	h.Add("Vary", "Access-Control-Request-Method, Access-Control-Request-Headers")
	h.Set("Allow", methods)
	if allowed && r.Header.Get("Access-Control-Request-Method") != "" {
		h.Set("Access-Control-Allow-Methods", methods)
		h.Set("Access-Control-Max-Age", preflightGood)
		if headers := r.Header.Get("Access-Control-Request-Headers"); headers != "" {
			h.Set("Access-Control-Allow-Headers", headers)
		}
	}
	w.WriteHeader(http.StatusNoContent)
}
