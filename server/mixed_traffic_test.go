package main

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/poll"
)

// mixedRequests is the number of requests of the mixed traffic: 100,000 in the field, fewer in the
// suite.
var mixedRequests = sized("LINKFORGE_TEST_MIXED_REQUESTS", 8000)

// trafficLink is a link under mixed traffic, with the responses that its clients saw.
type trafficLink struct {
	id, path, kind string
	allowed        string // the statuses that a GET may have
	maxClicks      int64

	seen   atomic.Int64 // redirects that a client received for a GET
	unsure atomic.Int64 // GETs that were sent, perhaps by a retry of the client, and ended without a response
}

// TestMixedTraffic_CountsEachRedirectOnce sends GET and HEAD requests for links of every kind to
// all nodes, one of which is killed halfway. For each link, the redirects that clients saw are its
// clicks, its monthly hits and its grants.
func TestMixedTraffic_CountsEachRedirectOnce(t *testing.T) {
	t.Parallel()
	eachBackend(t, func(t *testing.T, b backend) {
		ends := nextMonth(t)
		quota := max(20, mixedRequests/100)
		nodes := startAll(t, b, b.nodes, fmt.Sprint("LINKFORGE_HIT_QUOTA=", quota))
		links := trafficLinks(t, b, nodes[0], int64(quota))

		var sent atomic.Int64
		var all sync.WaitGroup
		killed := make(chan struct{})
		client := &http.Client{
			Transport:     &http.Transport{MaxIdleConnsPerHost: 64},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
			Timeout:       patience,
		}
		for range 32 {
			all.Go(func() {
				for n := sent.Add(1); n <= int64(mixedRequests); n = sent.Add(1) {
					if n == int64(mixedRequests)/2 {
						close(killed)
					}
					l := links[rand.IntN(len(links))]
					for l.request(t, client, nodes[rand.IntN(len(nodes))].address) == notListening {
						_ = poll.Wait(t.Context(), pollEvery) // the node is restarting
					}
				}
			})
		}
		<-killed
		if err := nodes[0].process.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		<-nodes[0].exited
		nodes[0].again()
		all.Wait()
		for _, node := range nodes {
			node.stop()
		}
		var seen, unsure, clicks int64
		for _, l := range links {
			clicks += l.check(t, b, ends)
			seen += l.seen.Load()
			unsure += l.unsure.Load()
		}
		t.Logf("%d requests: %d redirects seen, %d GETs without a response, %d clicks", mixedRequests, seen, unsure, clicks)
	})
}

// trafficLinks creates four links of each kind. Half of those without a maxClicks belong to a
// workspace with a large quota.
func trafficLinks(t *testing.T, b backend, s *server, quota int64) (links []*trafficLink) {
	t.Helper()
	small, large := s.tenant(t, "small"), s.tenant(t, "large")
	d, err := b.open()
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	ctx := db.AsSystem(t.Context())
	if _, err := d.ExecContext(ctx, "UPDATE workspaces SET hit_quota = 1000000 WHERE id = ?",
		large.workspaceID); err != nil {
		t.Fatal(err)
	}
	for _, kind := range []struct {
		name      string
		owner     tenant
		maxClicks int64
		allowed   string
	}{
		{"unlimited", large, 0, "302"},
		{"limited", large, quota * 2, "302 410"},
		{"over quota", small, 0, "302 429"},
		{"exhausted below its quota", small, quota - 10, "302 410"},
		{"over quota below its limit", small, quota + 10, "302 410 429"},
		{"expired", small, 0, "410"},
	} {
		for n := range 4 {
			more := []any{"strategy", "RANDOM"}
			if kind.maxClicks > 0 {
				more = append(more, "maxClicks", kind.maxClicks)
			}
			made := kind.owner.shorten(t, fmt.Sprintf("https://example.com/%s/%d", strings.ReplaceAll(kind.name, " ", "-"), n),
				more...).Link
			links = append(links, &trafficLink{
				id: made.ID, path: made.path(s), kind: kind.name, allowed: kind.allowed, maxClicks: kind.maxClicks,
			})
			if kind.name == "expired" {
				past := db.Instant(time.Now().Add(-time.Hour))
				if _, err := d.ExecContext(ctx, "UPDATE links SET expires_at = ? WHERE id = ?", past, made.ID); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	return links
}

// What request returns instead of a status.
const (
	notListening = -1
	noResponse   = 0
)

// request sends one GET or, now and then, a HEAD, which consumes nothing. It returns the status.
func (l *trafficLink) request(t *testing.T, client *http.Client, address string) (status int) {
	method := http.MethodGet
	if rand.IntN(5) == 0 {
		method = http.MethodHead
	}
	r, err := http.NewRequest(method, "http://"+address+l.path, nil)
	if err != nil {
		t.Error(err)
		return noResponse
	}
	var sent atomic.Int64 // the client sends a GET again if the connection ends before a response
	trace := &httptrace.ClientTrace{WroteRequest: func(httptrace.WroteRequestInfo) { sent.Add(1) }}
	response, err := client.Do(r.WithContext(httptrace.WithClientTrace(r.Context(), trace)))
	if err == nil {
		_, err = io.Copy(io.Discard, response.Body)
		_ = response.Body.Close()
	}
	if err == nil {
		sent.Add(-1)
	}
	if method == http.MethodGet {
		l.unsure.Add(max(0, sent.Load()))
	}
	if e, ok := errors.AsType[*net.OpError](err); ok && e.Op == "dial" {
		return notListening
	}
	if err != nil {
		return noResponse
	}
	if method == http.MethodHead {
		return response.StatusCode
	}
	if response.StatusCode == http.StatusFound {
		l.seen.Add(1)
	}
	if !strings.Contains(l.allowed, fmt.Sprint(response.StatusCode)) {
		t.Errorf("%s: status %d, want one of %s", l.kind, response.StatusCode, l.allowed)
	}
	return response.StatusCode
}

// check compares the counts of a link after all nodes have stopped, and returns its clicks.
func (l *trafficLink) check(t *testing.T, b backend, ends time.Time) int64 {
	t.Helper()
	total, rollups, rows := clicksOf(t, b, l.id)
	seen, unsure := l.seen.Load(), l.unsure.Load()
	if total != rollups || total != rows || total < seen || total > seen+unsure {
		t.Errorf("%s: %d clicks in total, %d in rollups and %d rows, of %d redirects seen and %d GETs without a response",
			l.kind, total, rollups, rows, seen, unsure)
	}
	if hits := chargedOf(t, b, l.id); hits != total {
		t.Errorf("%s: %d hits are charged, want the %d clicks", l.kind, hits, total)
	}
	d, err := b.open()
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	var granted, leases int64
	ctx := db.AsSystem(t.Context())
	if err := d.NewRaw("SELECT granted FROM links WHERE id = ?", l.id).Scan(ctx, &granted); err != nil {
		t.Fatal(err)
	}
	if err := d.NewRaw("SELECT count(*) FROM click_leases WHERE link_id = ?", l.id).Scan(ctx, &leases); err != nil {
		t.Fatal(err)
	}
	if l.maxClicks > 0 && granted != total || leases != 0 {
		t.Errorf("%s: %d of %d clicks are granted and %d leases are open, want %d and 0", l.kind, granted, l.maxClicks,
			leases, total)
	}
	return total
}
