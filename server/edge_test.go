package main

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/linkforge/linkforge/internal/platform/must"
)

// TestEdge_RefusesOtherOrigins may call the API where the operator has listed them, by every transport,
// and nowhere else.
func TestEdge_RefusesOtherOrigins(t *testing.T) {
	t.Parallel()
	const app, evil = "https://app.example.com", "https://evil.example"
	s := start(t, embedded(t), "LINKFORGE_ORIGINS="+app)
	who := s.tenant(t, "pages")
	preflight := func(origin, headers string) answer {
		return s.expect(t, http.StatusNoContent, http.MethodOptions, "/graphql", "Origin", origin,
			"Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", headers)
	}
	for origin, allowed := range map[string]bool{app: true, s.public: true, "http://localhost:5173": true, evil: false,
		"null": false} {
		want := ""
		if allowed {
			want = origin
		}
		response := preflight(origin, "content-type")
		announced := preflight(origin, "authorization,content-type") // an API key may permit the request that follows
		if got := announced.header.Get("Access-Control-Allow-Origin"); got != origin {
			t.Errorf("the preflight of %s with a credential: %v", origin, announced.header)
		}
		if got := response.header.Get("Access-Control-Allow-Origin"); got != want ||
			(response.header.Get("Access-Control-Allow-Headers") != "") != allowed {
			t.Errorf("the preflight of %s: %v", origin, response.header)
		}
		for name, a := range map[string]answer{
			"an answer":  post(t, who.client, `{"query": "{ me { id } }"}`, origin),
			"a refusal":  post(t, client{server: s, token: "nonsense"}, `{"query": "{ me { id } }"}`, origin),
			"no GraphQL": post(t, who.client, `nonsense`, origin),
		} {
			if got := a.header.Get("Access-Control-Allow-Origin"); got != want ||
				(a.header.Get("Access-Control-Expose-Headers") != "") != allowed {
				t.Errorf("%s to %s: %v", name, origin, a.header)
			}
			if a.header.Get("Access-Control-Allow-Credentials") != "" ||
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
	for method, status := range map[string]int{"OPTIONS": 204, "PUT": 405, "DELETE": 405, "BREW": 405} {
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

func post(t *testing.T, c client, body, origin string) answer {
	t.Helper()
	a := must.Value(c.post([]byte(body), "Origin", origin))(t)
	return a
}

// TestWebSocket_ClosesWithoutInit are closed with the codes of the protocol: those of
// TestWebSocket_ClosesOnViolations have done so.
func TestWebSocket_ClosesWithoutInit(t *testing.T) {
	t.Parallel()
	s := start(t, embedded(t))
	for name, c := range map[string]struct {
		protocols []string
		said      string
		code      websocket.StatusCode
	}{
		"no protocol":      {nil, `{"type": "connection_init"}`, 4406},
		"another protocol": {[]string{"graphql-ws"}, `{"type": "connection_init"}`, 4406},
		"nothing is said":  {[]string{"graphql-transport-ws"}, "", 4408},
		"only a ping":      {[]string{"graphql-transport-ws"}, `{"type": "ping"}`, 4408},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			conn, _, err := websocket.Dial(ctx, "ws://"+s.address+"/graphql", &websocket.DialOptions{
				Host: strings.TrimPrefix(s.public, "http://"), Subprotocols: c.protocols,
			})
			must.NoError(t, err)
			defer conn.CloseNow()
			if c.said != "" {
				_ = conn.Write(ctx, websocket.MessageText, []byte(c.said)) // it may have been closed
			}
			began := time.Now()
			for err == nil {
				_, _, err = conn.Read(ctx)
			}
			if code := websocket.CloseStatus(err); code != c.code {
				t.Errorf("closed with %d after %s, want %d: %v", code, time.Since(began), c.code, err)
			}
		})
	}
}
