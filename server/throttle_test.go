package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/linkforge/linkforge/internal/platform/poll/polltest"
	"github.com/linkforge/linkforge/internal/platform/proctest"
)

// TestServer_ThrottlesRedirects: requests on the fast path and through net/http count together, for
// the client that a trusted proxy names. A refused visit is no click.
func TestServer_ThrottlesRedirects(t *testing.T) {
	t.Parallel()
	eachBackend(t, func(t *testing.T, b backend) {
		admin := proctest.FreeAddress()
		b = b.alone(t)
		s := start(t, b, "LINKFORGE_RATE_LIMITS=on", "LINKFORGE_LINK_RATE=6", "LINKFORGE_UNKNOWN_CODES=8",
			"LINKFORGE_TRUSTED_PROXIES=127.0.0.0/8", "LINKFORGE_ADMIN_LISTEN="+admin)
		who := s.tenant(t, "followed")
		l := who.shorten(t, "https://example.com/").Link
		follow := func(client, path string, i, status int) {
			t.Helper()
			headers := "X-Forwarded-For: " + client + "\r\n"
			if i%2 == 1 {
				headers += "Pragma: no-cache\r\n" // net/http responds
			}
			a := s.raw(t, fmt.Sprintf("GET %s HTTP/1.1\r\nHost: %s\r\n%s\r\n", path, s.address, headers))
			isThrottled := a.header.Get("Retry-After") != ""
			if a.status != status || isThrottled != (status == http.StatusTooManyRequests) {
				t.Errorf("%s from %s, %d: %d with Retry-After %q, want %d", path, client, i, a.status,
					a.header.Get("Retry-After"), status)
			}
		}
		for i := range 20 {
			status := http.StatusFound
			if i >= 6 {
				status = http.StatusTooManyRequests
			}
			follow("203.0.113.1", l.path(s), i, status)
		}
		follow("203.0.113.2", l.path(s), 0, http.StatusFound)
		suffixes := []string{"", ".svg", statsSuffix}
		for i := range 38 { // from five networks of one /48, and a further one
			client, status := fmt.Sprintf("2001:db8:1:%x::1", min(i/6, 5)), http.StatusNotFound
			if i >= 32 {
				status = http.StatusTooManyRequests
			}
			follow(client, fmt.Sprintf("/unknown%d%s", i, suffixes[i%3]), i, status)
		}
		follow("2001:db8:1:5::1", l.path(s), 0, http.StatusFound) // it is in memory
		polltest.Until(t, "the clicks are counted", func() bool { return who.getLink(t, l.ID).ClickCount == 8 })
		metrics := scrape(t, admin)
		for _, want := range []string{`{reason="link"} 14`, `{reason="unknown"} 6`} {
			if !strings.Contains(metrics, "linkforge_redirects_throttled_total"+want+"\n") {
				t.Errorf("no linkforge_redirects_throttled_total%s", want)
			}
		}
		s.stop()
		same(t, "charged hits", chargedOf(t, b, l.ID), 8)
	})
}
