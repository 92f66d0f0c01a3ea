package main

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/linkforge/linkforge/internal/platform/must"
)

// TestEdge_RefusesOtherOrigins: pages may call the API where the operator has listed them, by every transport,
// and nowhere else.
func TestEdge_RefusesOtherOrigins(t *testing.T) {
	t.Parallel()
	const app = "https://app.example.com"
	s := start(t, embedded(t), "LINKFORGE_ORIGINS="+app)
	who := s.tenant(t, "pages")
	for origin, allowed := range map[string]bool{app: true, s.public: true, "http://localhost:5173": true,
		"https://evil.example": false, "null": false} {
		want := ""
		if allowed {
			want = origin
		}
		bad := client{server: s, token: "nonsense"}
		for name, a := range map[string]answer{
			"a preflight": s.expect(t, http.StatusNoContent, http.MethodOptions, "/graphql", "Origin", origin,
				"Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", "content-type"),
			"an answer":  must.Value(who.post([]byte(`{"query": "{ me { id } }"}`), "Origin", origin))(t),
			"a refusal":  must.Value(bad.post([]byte(`{"query": "{ me { id } }"}`), "Origin", origin))(t),
			"no GraphQL": must.Value(who.post([]byte(`nonsense`), "Origin", origin))(t),
		} {
			if a.header.Get("Access-Control-Allow-Origin") != want ||
				a.header.Get("Access-Control-Allow-Credentials") != "" ||
				!strings.Contains(strings.Join(a.header.Values("Vary"), ","), "Origin") {
				t.Errorf("%s to %s: %v", name, origin, a.header)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		conn, err := who.dial(ctx, http.Header{"Origin": {origin}})
		if (err == nil) != allowed {
			t.Errorf("a socket of %s: %v", origin, err)
		}
		if err == nil {
			conn.CloseNow()
		}
		cancel()
	}
	for method, status := range map[string]int{"OPTIONS": 204, "PUT": 405, "BREW": 405} {
		if a := s.expect(t, status, method, "/graphql"); a.header.Get("Allow") != "GET, HEAD, OPTIONS, POST" {
			t.Errorf("%s of no page: %v", method, a.header)
		}
	}
	for _, path := range []string{"/livez", "/playground", "/export/clicks"} {
		if a, err := s.get(path, "Origin", app); err != nil || a.header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s may be read: %v: %v", path, a.header, err)
		}
	}
}
