package web

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestOrigins_Allow(t *testing.T) {
	t.Parallel()
	own := Origins{Hosts: []string{"localhost", "sho.rt"}, Listed: []string{"https://app.example.com",
		"http://app.example.com:8080"}}
	for origin, want := range map[string]bool{
		"":                             true, // no page
		"http://api.internal":          true, // the request's own host
		"http://api.internal:99":       true,
		"https://sho.rt":               true,
		"https://SHO.RT:8443":          true,
		"http://localhost:5173":        true,
		"https://app.example.com":      true,
		"http://app.example.com:8080":  true,
		"http://app.example.com":       false, // another scheme
		"https://app.example.com:8080": false, // another port
		"https://evil.example":         false,
		"https://sho.rt.evil.example":  false,
		"https://sho.rt@evil.example":  false,
		"null":                         false,
		"chrome-extension://sho.rt":    false,
		"app://localhost":              false,
		"*":                            false,
		"%":                            false,
	} {
		r := httptest.NewRequest(http.MethodPost, "http://api.internal:8080/graphql", nil)
		if origin != "" {
			r.Header.Set("Origin", origin)
		}
		if got := own.Allow(r); got != want {
			t.Errorf("%q: %t, want %t", origin, got, want)
		}
		if all := (Origins{Listed: []string{"*"}}); !all.Allow(r) {
			t.Errorf("%q is not every origin", origin)
		}
	}
}

func TestCORS_AnswersPreflight(t *testing.T) {
	t.Parallel()
	const app, evil = "https://app.example.com", "https://evil.example"
	const preflight = "Origin, Access-Control-Request-Method, Access-Control-Request-Headers"
	const exposed = "X-Request-Id, Ratelimit, Ratelimit-Policy, Retry-After" // names of headers ignore case
	inner := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Access-Control-Request-Method") != "" {
			t.Error("a preflight request came through")
		}
		w.Header().Add("Vary", "Accept")
		w.WriteHeader(http.StatusTeapot)
	})
	type headers map[string]string
	for name, c := range map[string]struct {
		listed, method, origin string
		isPreflight            bool
		want                   headers
	}{
		"no page":      {app, "POST", "", false, headers{"Vary": "Origin, Accept"}},
		"another page": {app, "POST", evil, false, headers{"Vary": "Origin", "Content-Type": "application/json"}},
		"a listed page": {app, "POST", app, false, headers{
			"Vary": "Origin, Accept", "Access-Control-Allow-Origin": app, "Access-Control-Expose-Headers": exposed,
		}},
		"every page": {"*", "GET", evil, false, headers{
			"Vary": "Origin, Accept", "Access-Control-Allow-Origin": "*", "Access-Control-Expose-Headers": exposed,
		}},
		"no preflight": {app, "OPTIONS", "", false, headers{"Vary": "Origin, Accept"}},
		// an API key may permit the request that follows
		"another page's preflight": {app, "OPTIONS", evil, true, headers{
			"Vary": preflight, "Access-Control-Allow-Origin": evil, "Access-Control-Allow-Methods": "POST",
			"Access-Control-Allow-Headers": "authorization,content-type", "Access-Control-Max-Age": "86400",
		}},
		"another page's preflight without a key": {app, "OPTIONS", evil, true, headers{"Vary": preflight}},
		"a preflight": {app, "OPTIONS", app, true, headers{
			"Vary": preflight, "Access-Control-Allow-Origin": app, "Access-Control-Allow-Methods": "POST",
			"Access-Control-Allow-Headers": "authorization,content-type", "Access-Control-Max-Age": "86400",
		}},
	} {
		w := serve(Origins{Listed: []string{c.listed}}.CORS("GET", "POST")(inner), "/", func(r *http.Request) {
			r.Method = c.method
			if c.origin != "" {
				r.Header.Set("Origin", c.origin)
			}
			if c.isPreflight {
				r.Header.Set("Access-Control-Request-Method", "POST")
				r.Header.Set("Access-Control-Request-Headers", "authorization,content-type")
			}
			if strings.HasSuffix(name, "without a key") {
				r.Header.Set("Access-Control-Request-Headers", "content-type")
			}
		})
		status := http.StatusTeapot
		if name == "another page" {
			status = http.StatusForbidden
		}
		if c.isPreflight {
			status = http.StatusNoContent
		}
		if diff := cmp.Diff(c.want, headers(joined(w.Header()))); diff != "" || w.Code != status {
			t.Errorf("%s: status %d, headers (-want +got):\n%s", name, w.Code, diff)
		}
	}
}

// joined are headers with one value each.
func joined(h http.Header) map[string]string {
	all := map[string]string{}
	for name, values := range h {
		for _, value := range values {
			if all[name] != "" {
				value = ", " + value
			}
			all[name] += value
		}
	}
	return all
}
