package main

import (
	"fmt"
	"testing"

	"github.com/linkforge/linkforge/internal/platform/poll/polltest"
)

// TestShortURL_KeepsTheMethod sends each method to links of each status. Those with 307 and 308
// redirect all of them, and count them.
func TestShortURL_KeepsTheMethod(t *testing.T) {
	t.Parallel()
	s := start(t, embedded(t))
	who := s.tenant(t, "methods")
	methods := []string{"GET", "POST", "PUT", "PATCH", "DELETE"}
	for _, status := range []int{302, 307, 308} {
		l := who.shorten(t, fmt.Sprintf("https://example.com/%d", status), "redirectStatus", status).Link
		clicks := int64(0)
		for _, method := range methods {
			if method == "GET" || status >= 307 {
				clicks++
				if a := s.expect(t, status, method, l.path(s)); a.header.Get("Location") == "" {
					t.Errorf("%s of %d: %v", method, status, a.header)
				}
			} else if a := s.expect(t, 405, method, l.path(s)); a.header.Get("Allow") != "GET, HEAD" {
				t.Errorf("%s of %d: %v", method, status, a.header)
			}
			for _, suffix := range []string{"+", ".svg"} {
				if method != "GET" {
					s.expect(t, 405, method, l.path(s)+suffix)
				}
			}
		}
		s.expect(t, 405, "OPTIONS", l.path(s))
		polltest.Until(t, "each redirect is a click", func() bool {
			return who.getLink(t, l.ID).ClickCount == clicks
		})
	}
	s.expect(t, 404, "PUT", "/never")
	s.expect(t, 405, "DELETE", "/graphql")

	gated := who.shorten(t, "https://example.com/gated", "customCode", "gated", "redirectStatus", 307, "routing",
		map[string]any{"gate": map[string]any{"password": "correct horse"}}).Link
	path := gated.path(s)
	s.expect(t, 200, "PUT", path)
	for _, method := range methods {
		s.expect(t, 307, method, path, "X-Link-Password", "correct horse")
	}
	form := s.submit(t, path, "password=correct+horse") // must not reach the destination
	wantStatus(t, "the form of the gate", form, 303)
	wantStatus(t, "the form again", s.submit(t, path, "password=correct+horse", "Cookie", pass(t, form)), 303)
	wantStatus(t, "another form", s.submit(t, path, "name=Ada", "Cookie", pass(t, form)), 307)
	who.do(t, "updateLink", map[string]any{"id": gated.ID, "redirectStatus": 302})
	a := s.expect(t, 405, "PUT", path, "X-Link-Password", "correct horse")
	same(t, "Allow", a.header.Get("Allow"), "GET, HEAD, POST")
}
