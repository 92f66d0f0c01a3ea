package redirect

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/dbtest"
	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/throttle"
)

// from visits a path from an address.
func (b *bundle) from(t *testing.T, address, method, path string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, path, nil)
	r.RemoteAddr = address
	w := httptest.NewRecorder()
	b.mux.ServeHTTP(w, r)
	return w
}

// TestHandler_ThrottlesOneLink: a client that follows a link too often consumes nothing beyond its
// rate, and others still receive the destination.
func TestHandler_ThrottlesOneLink(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := setup(t, d)
		b.HitQuota, b.LinkRate = 70, throttle.New(60)
		most := int64(62)
		flooded := b.link(t, link.New{URL: "https://example.com/flooded"})
		limited := b.link(t, link.New{URL: "https://example.com/limited", MaxClicks: &most})
		const client, other = "192.0.2.1:4000", "192.0.2.2:4000"
		for _, l := range []*link.Link{flooded, limited} {
			path, answers := "/"+l.Code, map[int]int{}
			for range 1000 {
				w := b.from(t, client, http.MethodGet, path)
				answers[w.Code]++
				if w.Code == http.StatusTooManyRequests && w.Header().Get("Retry-After") != "60" {
					t.Fatalf("Retry-After %q, want 60", w.Header().Get("Retry-After"))
				}
			}
			if answers[http.StatusFound] != 60 || answers[http.StatusTooManyRequests] != 940 {
				t.Errorf("answers %v, want 60 redirects", answers)
			}
			for range 2 {
				if w := b.from(t, other, http.MethodGet, path); w.Code != http.StatusFound {
					t.Errorf("another client got %d", w.Code)
				}
			}
			if got := b.clicks(t, l); got != 62 {
				t.Errorf("%d clicks, want 62", got)
			}
		}
		if w := b.from(t, client, http.MethodHead, "/"+flooded.Code); w.Code != http.StatusFound {
			t.Errorf("HEAD got %d", w.Code)
		}
		if links, codes := b.Throttled(); links != 1880 || codes != 0 {
			t.Errorf("%d and %d refusals are counted, want 1880 and 0", links, codes)
		}
		b.ahead.Add(int64(time.Minute))
		if w := b.from(t, client, http.MethodGet, "/"+flooded.Code); w.Code != http.StatusFound {
			t.Errorf("the client got %d after the window", w.Code)
		}
	})
}

// TestHandler_ThrottlesUnknownCodes: a client that guesses codes causes no queries, and still gets
// the links that are in memory.
func TestHandler_ThrottlesUnknownCodes(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := setup(t, d)
		b.UnknownCodes = throttle.New(30)
		known := b.link(t, link.New{URL: "https://example.com/known"})
		cold := b.link(t, link.New{URL: "https://example.com/cold"})
		const client, other = "192.0.2.1:4000", "192.0.2.2:4000"
		b.from(t, client, http.MethodGet, "/"+known.Code)
		answers := map[int]int{}
		for i := range 100 {
			answers[b.from(t, client, http.MethodGet, fmt.Sprintf("/aaaa%04d", i)).Code]++
		}
		if answers[http.StatusNotFound] != 30 || answers[http.StatusTooManyRequests] != 70 {
			t.Errorf("answers %v, want 30 times 404", answers)
		}
		misses := b.Resolver.CacheStats().Misses
		for path, want := range map[string]int{
			"/" + known.Code: http.StatusFound, "/" + cold.Code: http.StatusTooManyRequests,
			"/aaaa0000": http.StatusTooManyRequests, "/bbbb0000": http.StatusTooManyRequests,
		} {
			if w := b.from(t, client, http.MethodGet, path); w.Code != want {
				t.Errorf("%s: %d, want %d", path, w.Code, want)
			}
		}
		if now := b.Resolver.CacheStats().Misses; now != misses {
			t.Errorf("%d queries for a client that guesses", now-misses)
		}
		for path, want := range map[string]int{"/" + cold.Code: http.StatusFound, "/cccc0000": http.StatusNotFound} {
			if w := b.from(t, other, http.MethodGet, path); w.Code != want {
				t.Errorf("another client got %d for %s, want %d", w.Code, path, want)
			}
		}
		b.ahead.Add(int64(time.Minute))
		if w := b.from(t, client, http.MethodGet, "/dddd0000"); w.Code != http.StatusNotFound {
			t.Errorf("the client got %d after the window", w.Code)
		}
	})
}
