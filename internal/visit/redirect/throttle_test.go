package redirect

import (
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/linkforge/linkforge/internal/click"
	"github.com/linkforge/linkforge/internal/link/creation"
	"github.com/linkforge/linkforge/internal/link/linkfield"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/optional"
	"github.com/linkforge/linkforge/internal/platform/ratelimit"
	"github.com/linkforge/linkforge/internal/route/routing"
	"github.com/linkforge/linkforge/internal/visit/resolve"
)

// visitFrom sends a request from an address.
func (b *bundle) visitFrom(t *testing.T, address, method, path string) *httptest.ResponseRecorder {
	t.Helper()
	return b.visitWith(t, address, method, path, nil)
}

// visitWith sends a request with headers from an address.
func (b *bundle) visitWith(t *testing.T, address, method, path string, head http.Header) *httptest.ResponseRecorder {
	t.Helper()
	w, r := httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), method, path, nil)
	r.RemoteAddr = address
	maps.Copy(r.Header, head)
	b.mux.ServeHTTP(w, r)
	return w
}

// visitAgain is visitFrom for a visitor who comes again while a busy machine answers 503. That has
// consumed nothing.
func (b *bundle) visitAgain(t *testing.T, address, method, path string) (w *httptest.ResponseRecorder) {
	t.Helper()
	for w == nil || w.Code == http.StatusServiceUnavailable && t.Context().Err() == nil {
		w = b.visitFrom(t, address, method, path)
	}
	return w
}

// expectFrom sends a request from an address and checks the status, and that a refusal has the rest
// of a minute in Retry-After.
func (b *bundle) expectFrom(t *testing.T, address, method, path string, status int) {
	t.Helper()
	w := b.visitFrom(t, address, method, path)
	if w.Code != status {
		t.Errorf("%s %s from %s: %d, want %d", method, path, address, w.Code, status)
	}
	wait, _ := strconv.Atoi(w.Header().Get("Retry-After"))
	if status == http.StatusTooManyRequests && (wait < 1 || wait > 60) {
		t.Errorf("%s %s from %s: Retry-After %q", method, path, address, w.Header().Get("Retry-After"))
	}
}

// TestHandler_ThrottlesOneClient: one client sends 10,000 GETs for one link. It consumes 60 hits
// and 60 of the link's own clicks, and all other clients are redirected.
func TestHandler_ThrottlesOneClient(t *testing.T) {
	const attacker, victim = "192.0.2.1:1000", "192.0.2.2:1000"
	each(t, func(t *testing.T, b *bundle, d *db.DB) {
		b.HitQuota, b.LinkRate, b.UnknownCodes = 1000, ratelimit.NewThrottle(60), ratelimit.NewThrottle(300)
		own := int64(1000)
		l := b.link(t, creation.Input{URL: "https://example.com/",
			Fields: linkfield.Change{MaxClicks: optional.Set(&own)}})
		other := b.link(t, creation.Input{URL: "https://example.com/other"})
		got, mu, all := map[int]int{}, sync.Mutex{}, sync.WaitGroup{}
		for range 8 {
			all.Go(func() {
				for range 10_000 / 8 {
					w := b.visitAgain(t, attacker, http.MethodGet, "/"+l.Code)
					mu.Lock()
					got[w.Code]++
					mu.Unlock()
				}
			})
		}
		all.Wait()
		if diff := cmp.Diff(map[int]int{302: 60, 429: 9940}, got); diff != "" || b.clicks(t, l) != 60 {
			t.Errorf("%d clicks, want 60; responses (-want +got):\n%s", b.clicks(t, l), diff)
		}
		b.turnTo(b.now.Add(30 * time.Second))
		b.expectFrom(t, attacker, http.MethodHead, "/"+l.Code, 429)
		b.expectFrom(t, attacker, http.MethodGet, "/"+l.Code, 429)
		b.expectFrom(t, attacker, http.MethodGet, "/"+other.Code, 302)
		b.expectFrom(t, victim, http.MethodGet, "/"+l.Code, 302)
		b.turnTo(b.now.Add(30 * time.Second))
		b.expectFrom(t, attacker, http.MethodGet, "/"+l.Code, 302)
		if n := b.LinkRate.Refused(); n != 9942 || b.clicks(t, l) != 62 {
			t.Errorf("%d requests refused, want 9,942; %d clicks, want 62", n, b.clicks(t, l))
		}
		b.closed()
		used := must.Value(b.Quotas.Hits.Used(t.Context(), click.MonthOf(b.now), l.ID, other.ID))(t)
		if used[l.ID]+used[other.ID] != 63 {
			t.Errorf("%v hits used, want 63", used)
		}
		rows := 0
		ctx := db.AsSystem(t.Context())
		if err := d.NewSelect().Table("unmatched").ColumnExpr("count(*)").Scan(ctx, &rows); err != nil || rows != 0 {
			t.Errorf("%d unmatched requests are recorded of refused visitors, want none: %v", rows, err)
		}
	})
}

// TestHandler_SlowsDownGuesses: a client that guesses codes gets 429 after the rate, and causes no
// query of the database. Links in memory still redirect it.
func TestHandler_SlowsDownGuesses(t *testing.T) {
	const guesser, victim = "192.0.2.1:1000", "192.0.2.2:1000"
	each(t, func(t *testing.T, b *bundle, _ *db.DB) {
		b.HitQuota, b.LinkRate, b.UnknownCodes = 1000, ratelimit.NewThrottle(60), ratelimit.NewThrottle(300)
		cached := b.link(t, creation.Input{URL: "https://example.com/cached"})
		stored := b.link(t, creation.Input{URL: "https://example.com/stored"})
		deleted := b.link(t, creation.Input{URL: "https://example.com/deleted"})
		must.Value(b.edit.Delete(t.Context(), b.mine, deleted.ID))(t)
		b.expectFrom(t, victim, http.MethodGet, "/"+cached.Code, 302)
		b.expectFrom(t, victim, http.MethodGet, "/"+deleted.Code, 404)
		got, mu, all := map[int]int{}, sync.Mutex{}, sync.WaitGroup{}
		misses := b.Resolver.CacheStats().Misses
		for client := range 8 {
			all.Go(func() {
				for i := range 500 {
					path := []string{"/x%d-%d", "/ada/x%d-%d"}[i%2]
					w := b.visitAgain(t, guesser, []string{"GET", "HEAD"}[client%2], fmt.Sprintf(path, client, i))
					mu.Lock()
					got[w.Code]++
					mu.Unlock()
				}
			})
		}
		all.Wait()
		if diff := cmp.Diff(map[int]int{404: 300, 429: 3700}, got); diff != "" {
			t.Errorf("responses (-want +got):\n%s", diff)
		}
		if queries := b.Resolver.CacheStats().Misses - misses; queries > 310 {
			t.Errorf("%d queries for 300 unknown codes", queries)
		}
		b.expectFrom(t, guesser, http.MethodGet, "/"+cached.Code, 302)
		b.expectFrom(t, guesser, http.MethodGet, "/"+stored.Code, 429)  // unknown to this node
		b.expectFrom(t, guesser, http.MethodGet, "/"+deleted.Code, 429) // in memory, and not recognizable
		b.expectFrom(t, victim, http.MethodGet, "/"+stored.Code, 302)
		b.expectFrom(t, victim, http.MethodGet, "/unknown", 404)
		b.expectFrom(t, guesser, http.MethodGet, "/"+stored.Code, 302) // in memory by now
		b.turnTo(b.now.Add(time.Minute))
		b.expectFrom(t, guesser, http.MethodGet, "/unknown", 404)
	})
}

// TestHandler_SlowsDownASite: a client with an IPv6 /48 uses a network of 64 bits for each request.
func TestHandler_SlowsDownASite(t *testing.T) {
	t.Parallel()
	b := setup(t, dbtest.MigratedSQLite(t))
	b.HitQuota, b.LinkRate, b.UnknownCodes = 1000, ratelimit.NewThrottle(10), ratelimit.NewThrottle(20)
	l := b.link(t, creation.Input{URL: "https://example.com/"})
	followed, guessed := map[int]int{}, map[int]int{}
	for i := range 500 {
		address := fmt.Sprintf("[2001:db8:1:%x::1]:1000", i)
		followed[b.visitFrom(t, address, http.MethodGet, "/"+l.Code).Code]++
		guessed[b.visitFrom(t, address, http.MethodGet, fmt.Sprintf("/x%d", i)).Code]++
	}
	if diff := cmp.Diff(map[int]int{302: 40, 429: 460}, followed); diff != "" {
		t.Errorf("visits (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[int]int{404: 80, 429: 420}, guessed); diff != "" {
		t.Errorf("guesses (-want +got):\n%s", diff)
	}
	b.expectFrom(t, "[2001:db8:2::1]:1000", http.MethodGet, "/"+l.Code, 302)
}

// TestHandler_CountsOnlyUnknownCodes: neither links that are not in memory yet nor failures of the
// database count as guesses.
func TestHandler_CountsOnlyUnknownCodes(t *testing.T) {
	t.Parallel()
	d := dbtest.MigratedSQLite(t)
	b := setup(t, d)
	b.UnknownCodes = ratelimit.NewThrottle(3)
	for i := range 10 {
		l := b.link(t, creation.Input{URL: fmt.Sprintf("https://example.com/%d", i)})
		b.expectFrom(t, "192.0.2.1:1000", http.MethodGet, "/"+l.Code, 302)
	}
	soon := b.link(t, creation.Input{URL: "https://example.com/soon",
		Fields: linkfield.Change{StartsAt: optional.Set(new(time.Now().Add(time.Hour))),
			Routing: optional.Set(&routing.Change{PendingURL: optional.Set(new("https://example.com/wait"))})}})
	for range 10 { // they learn that the link exists
		b.expectFrom(t, "192.0.2.1:1000", http.MethodGet, "/"+soon.Code, 302)
	}
	must.Value(d.ExecContext(db.AsOwner(t.Context()), "ALTER TABLE links RENAME TO elsewhere"))(t)
	for i := range 10 {
		w := b.visitFrom(t, "192.0.2.1:1000", http.MethodGet, fmt.Sprintf("/unknown%d", i))
		if w.Code != http.StatusServiceUnavailable {
			t.Errorf("without the database: %d", w.Code)
		}
	}
	if n := b.UnknownCodes.Refused(); n != 0 {
		t.Errorf("%d requests refused", n)
	}
}

// BenchmarkHandler_Serve measures the handler alone, without and with the limits.
func BenchmarkHandler_Serve(b *testing.B) {
	for _, c := range []struct {
		name string
		rate int64
	}{{"unlimited", 0}, {"limited", 16_000}} {
		b.Run(c.name, func(b *testing.B) {
			h := setup(b, dbtest.MigratedSQLite(b))
			h.Log = slog.New(slog.DiscardHandler)
			h.HitQuota, h.LinkRate, h.UnknownCodes = 1<<40, ratelimit.NewThrottle(c.rate), ratelimit.NewThrottle(c.rate)
			clients := make([]string, 1024)
			for i := range clients {
				clients[i] = fmt.Sprintf("192.0.%d.%d:1000", i/256, i%256)
			}
			at := resolve.Address{Code: h.link(b, creation.Input{URL: "https://example.com/"}).Code}
			r := httptest.NewRequestWithContext(b.Context(), http.MethodGet, "/"+at.Code, nil)
			r.Header.Set("User-Agent", "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0")
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				r.RemoteAddr = clients[i%len(clients)]
				w := discard{header: http.Header{}}
				if h.Serve(&w, r, at); w.status != http.StatusFound {
					b.Fatal(w.status)
				}
			}
		})
	}
}

// discard is a response that stores only its status.
type discard struct {
	header http.Header
	status int
}

// Header implements http.ResponseWriter.
func (w *discard) Header() http.Header { return w.header }

// Write implements http.ResponseWriter.
func (w *discard) Write(b []byte) (int, error) { return len(b), nil }

// WriteHeader implements http.ResponseWriter.
func (w *discard) WriteHeader(status int) { w.status = status }
