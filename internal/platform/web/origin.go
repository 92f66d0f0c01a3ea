package web

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/rs/cors"
)

// Origins are the pages that may call the API from a browser: those of the instance's own hosts, on
// any port, and those of further origins that the operator has listed.
type Origins struct {
	// Hosts are the names of the instance itself.
	Hosts []string
	// Listed are further origins as browsers write them, see urlnorm.Origin; "*" is every one.
	Listed []string
	// PermittedByKey reports whether the API key in an Authorization header permits an origin; nil
	// permits none.
	PermittedByKey func(ctx context.Context, authorization, origin string) bool
}

// exposed are the response headers that a page of another origin may read, in addition to the
// default ones.
var exposed = []string{"X-Request-Id", "RateLimit", "RateLimit-Policy", "Retry-After"}

// preflightSeconds is how long browsers may cache a preflight response: no browser accepts more
// than a day.
const preflightSeconds = 86400

// Allow says that the page which makes a request may, if it is one
// (https://www.rfc-editor.org/rfc/rfc6454#section-7).
func (o Origins) Allow(r *http.Request) bool {
	origin := r.Header.Get("Origin")
	if origin == "" || o.any() || slices.Contains(o.Listed, origin) {
		return true
	}
	u, err := url.Parse(origin)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
		return false // null, or a page of an extension or app, whose host is no name of this instance
	}
	host := strings.ToLower(u.Hostname())
	return strings.EqualFold(u.Host, r.Host) || host == Host(r) || slices.Contains(o.Hosts, host)
}

func (o Origins) any() bool { return slices.Contains(o.Listed, "*") }

// CORS lets pages of these origins read the responses of a handler
// (https://fetch.spec.whatwg.org/#http-cors-protocol). It never allows credentials: there are no
// cookies, so a page can do no more than any other client with the user's token. For the same
// reason a page may send any header.
func (o Origins) CORS(methods ...string) Middleware {
	options := cors.Options{
		AllowedMethods:       methods,
		AllowedHeaders:       []string{"*"},
		ExposedHeaders:       exposed,
		MaxAge:               preflightSeconds,
		OptionsSuccessStatus: http.StatusNoContent,
	}
	if o.any() {
		options.AllowedOrigins = []string{"*"}
		return cors.New(options).Handler
	}
	options.AllowOriginRequestFunc = func(r *http.Request, _ string) bool { return o.permits(r) || announcesKey(r) }
	answer := cors.New(options).Handler
	return func(next http.Handler) http.Handler { return answer(refuseOthers(next)) }
}

// permits reports whether the page that makes a request may, by the list or by the API key of the
// request.
func (o Origins) permits(r *http.Request) bool {
	return o.Allow(r) || o.PermittedByKey != nil &&
		o.PermittedByKey(r.Context(), r.Header.Get("Authorization"), r.Header.Get("Origin"))
}

// refuseOthers refuses the requests of other pages before they have an effect: the answer to a
// preflight request that announces an API key does not stop them. Package cors has named the
// permitted origin in the response.
func refuseOthers(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		isPermitted := r.Header.Get("Origin") == "" || w.Header().Get("Access-Control-Allow-Origin") != ""
		if r.Method != http.MethodOptions && !isPermitted {
			RefuseJSON(w, http.StatusForbidden, "FORBIDDEN",
				"Pages of this origin may not use the API. The operator or an API key can permit the origin.")
			return
		}
		next.ServeHTTP(w, r)
	})
}

// RefuseJSON answers a program that its request has failed, in the format of GraphQL.
func RefuseJSON(w http.ResponseWriter, status int, code, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	type failure struct {
		Message    string            `json:"message"`
		Extensions map[string]string `json:"extensions"`
	}
	_ = json.NewEncoder(w).Encode(map[string][]failure{"errors": {{message, map[string]string{"code": code}}}})
}

// announcesKey reports whether a preflight request announces a request that may have an API key,
// which permits the origin or not: only that one names the key.
func announcesKey(r *http.Request) bool {
	names := strings.ToLower(r.Header.Get("Access-Control-Request-Headers"))
	return r.Method == http.MethodOptions && slices.Contains(strings.FieldsFunc(names, isSeparator), "authorization")
}

func isSeparator(c rune) bool { return c == ',' || c == ' ' }

// Options answers OPTIONS requests that are no preflight requests.
func Options(methods string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Allow", methods)
		w.WriteHeader(http.StatusNoContent)
	})
}
