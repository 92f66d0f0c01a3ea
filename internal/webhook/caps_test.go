package webhook_test

import (
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/linkforge/linkforge/internal/audit"
	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/dbtest"
	"github.com/linkforge/linkforge/internal/errs"
	"github.com/linkforge/linkforge/internal/polltest"
	"github.com/linkforge/linkforge/internal/ratelimit"
	"github.com/linkforge/linkforge/internal/webhook"
)

// arrivals has the times of requests, the first of which begins a window of the rate.
type arrivals struct {
	mu    sync.Mutex
	times []time.Time
}

func (a *arrivals) answer(http.ResponseWriter, int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.times = append(a.times, time.Now())
}

func (a *arrivals) count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.times)
}

// TestDispatcher_LimitsRates sends more than two windows of each rate permit.
func TestDispatcher_LimitsRates(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ webhooks, events int }{
		"20 a second per webhook":    {1, 41},
		"100 a second per workspace": {12, 17}, // no webhook needs more than 20
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dbtest.Each(t, func(t *testing.T, d *db.DB) {
				b, r := setup(t, d), newReceiver(t)
				b.dispatcher.Limits = ratelimit.Limiter{KV: dbtest.Redis(t, ""), Log: b.dispatcher.Log}
				var got arrivals
				r.respond(got.answer)
				for range c.webhooks {
					b.create(t, r.URL, audit.LinkUpdated)
				}
				for range c.events {
					b.write(t, audit.LinkUpdated, newLinkID())
				}
				b.run(t)
				until(t, "all events arrive", func() bool {
					b.clock.advance(50 * time.Millisecond) // ends pauses
					return got.count() == c.webhooks*c.events
				})
				// The windows begin with their first attempts, a moment before it arrives.
				if took := got.times[len(got.times)-1].Sub(got.times[0]); took < 1500*time.Millisecond {
					t.Errorf("%d attempts within %s", len(got.times), took)
				}
			})
		})
	}
}

// TestDispatcher_BoundsConnections has requests wait: a node has 4 connections to a host, and all nodes send 8
// deliveries of a webhook.
func TestDispatcher_BoundsConnections(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		nodes, webhooks int
		want            int64
	}{
		"of a node to a host":       {1, 3, 4},
		"of all nodes to a webhook": {3, 1, 8},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dbtest.Each(t, func(t *testing.T, d *db.DB) {
				b, r := setup(t, d), newReceiver(t)
				var open, most atomic.Int64
				release := make(chan struct{})
				r.respond(func(http.ResponseWriter, int) {
					n := open.Add(1)
					for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
					}
					<-release
					open.Add(-1)
				})
				for range c.webhooks {
					b.create(t, r.URL, audit.LinkUpdated)
				}
				for range 20 {
					b.write(t, audit.LinkUpdated, newLinkID())
				}
				b.run(t)
				for range c.nodes - 1 {
					other := *b
					other.dispatcher = b.newDispatcher(b.dispatcher.Log)
					other.run(t)
				}
				until(t, "all connections are used", func() bool { return open.Load() >= c.want })
				polltest.Elapse(600 * time.Millisecond) // two steps of each node
				close(release)
				until(t, "all are sent", func() bool { return len(r.got()) == 20*c.webhooks })
				if most.Load() != c.want {
					t.Errorf("%d requests at once, want %d", most.Load(), c.want)
				}
			})
		})
	}
}

// TestDispatcher_LimitsTests sends tests until the workspace has used its rate.
func TestDispatcher_LimitsTests(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b, r := setup(t, d), newReceiver(t)
		b.dispatcher.Limits = ratelimit.Limiter{KV: dbtest.Redis(t, ""), Log: b.dispatcher.Log}
		var hooks []*webhook.Webhook
		for range 2 {
			w, _ := b.create(t, r.URL, audit.LinkUpdated)
			hooks = append(hooks, w)
		}
		for i := range 11 {
			_, err := b.dispatcher.Test(t.Context(), b.m, hooks[i%2].ID, audit.LinkUpdated)
			if refused := errs.Is(err, errs.RateLimited); refused != (i == 10) || err != nil && !refused {
				t.Errorf("test %d: %v", i+1, err)
			}
		}
		if n := len(r.got()); n != 10 {
			t.Errorf("%d requests", n)
		}
	})
}

// TestStore_LimitsWebhooks creates one webhook more than a workspace may have.
func TestStore_LimitsWebhooks(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := setup(t, d)
		for range 20 {
			b.create(t, "http://127.0.0.1:9999/", audit.LinkUpdated)
		}
		_, _, err := b.Webhooks.Create(t.Context(), b.m, hook("http://127.0.0.1:9999/", audit.LinkUpdated))
		if !errs.Is(err, errs.QuotaExceeded) {
			t.Error(err)
		}
	})
}

// TestDispatcher_ClaimsUpToEight claims on two nodes, and again when claims have ended.
func TestDispatcher_ClaimsUpToEight(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := setup(t, d)
		w, _ := b.create(t, "http://127.0.0.1:9999/", audit.LinkUpdated)
		for range 20 {
			b.write(t, audit.LinkUpdated, newLinkID())
		}
		until(t, "the events have deliveries", func() bool {
			if err := b.dispatcher.ReadEvents(t.Context(), w.ID); err != nil {
				t.Fatal(err)
			}
			return b.waiting(t, w) == 20
		})
		for i, want := range []int{8, 0} {
			if n, err := b.newDispatcher(b.dispatcher.Log).Claim(t.Context(), w.ID); n != want || err != nil {
				t.Errorf("claim %d: %d deliveries, want %d, %v", i+1, n, want, err)
			}
		}
		b.clock.advance(2 * time.Minute)
		if n, err := b.dispatcher.Claim(t.Context(), w.ID); n != 8 || err != nil {
			t.Errorf("after the claims have ended: %d deliveries, %v", n, err)
		}
	})
}
