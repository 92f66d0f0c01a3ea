package dispatch_test

import (
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/linkforge/linkforge/internal/event/audit"
	"github.com/linkforge/linkforge/internal/event/dispatch"
	"github.com/linkforge/linkforge/internal/event/webhook"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/poll/polltest"
	"github.com/linkforge/linkforge/internal/platform/ratelimit"
)

// TestDispatcher_LimitsRates sends while the attempts of a second are used up: the delivery waits,
// and is not claimed.
func TestDispatcher_LimitsRates(t *testing.T) {
	t.Parallel()
	if a, b := dispatch.Rates(); a.Attempts != 20 || b.Attempts != 100 || a.Window != time.Second ||
		b.Window != time.Second {
		t.Errorf("rates %+v, %+v", a, b)
	}
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b, r := setup(t, d), newReceiver(t)
		b.dispatcher.Limits = ratelimit.New(dbtest.Redis(t, ""), b.dispatcher.Log, time.Now)
		w, _ := b.create(t, r.URL, audit.LinkUpdated)
		for _, ofWorkspace := range []bool{false, true} {
			until(t, "a delivery waits", func() bool { // it is sent if the second ends before the attempt
				b.write(t, audit.LinkUpdated, newLinkID())
				b.readEvents(t, w)
				sent := len(r.got())
				b.dispatcher.UseUpRate(t.Context(), w, ofWorkspace)
				b.send(t, w)
				return len(r.got()) == sent
			})
			if got := b.delivery(t, w); got.Tries != 0 || got.ClaimedUntil != nil || !b.dispatcher.IsPaused(w.ID) {
				t.Errorf("%d tries, claimed until %v", got.Tries, got.ClaimedUntil)
			}
			until(t, "it is sent in the next second", func() bool {
				b.send(t, w)
				return b.waiting(t, w) == 0
			})
		}
	})
}

// TestDispatcher_BoundsConnections has requests wait: a workspace has 4 to a host on a node, and a
// webhook has 8 on all nodes.
func TestDispatcher_BoundsConnections(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		nodes, webhooks int
		want            int64
	}{
		"of a workspace to a host":  {1, 3, 4},
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
				b.exec(t, "UPDATE webhooks SET concurrency = 8")
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
	eachReceiving(t, func(t *testing.T, b *bundle, r *receiver) {
		b.dispatcher.Limits = ratelimit.New(dbtest.Redis(t, ""), b.dispatcher.Log, time.Now)
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

// TestDispatcher_TestsWithinCaps sends tests while all requests to the host, or the attempts of all
// nodes are used up.
func TestDispatcher_TestsWithinCaps(t *testing.T) {
	eachReceiving(t, func(t *testing.T, b *bundle, r *receiver) {
		w, _ := b.create(t, r.URL, audit.LinkUpdated)
		isRefused := func() bool {
			_, err := b.dispatcher.Test(t.Context(), b.m, w.ID, audit.LinkUpdated)
			if err != nil && !errs.Is(err, errs.RateLimited) {
				t.Fatal(err)
			}
			return err != nil
		}
		if n := must.Value(b.dispatcher.Occupy(t.Context(), w.ID, 100))(t); n != 4 || !isRefused() {
			t.Errorf("sent beside %d requests", n)
		}
		b.dispatcher.Vacate()
		b.dispatcher.Limits = ratelimit.New(dbtest.Redis(t, ""), b.dispatcher.Log, time.Now)
		for _, ofWorkspace := range []bool{false, true} {
			refused := false
			for range 4 { // tests have a rate of their own, and a second may end before the attempt
				b.dispatcher.UseUpRate(t.Context(), w, ofWorkspace)
				refused = refused || isRefused()
			}
			if !refused {
				t.Errorf("not refused, of the workspace: %t", ofWorkspace)
			}
		}
		if n := b.dispatcher.InFlight(); n != 0 {
			t.Errorf("%d requests in flight", n)
		}
	})
}

// TestStore_LimitsWebhooks creates one webhook more than a workspace may have.
func TestStore_LimitsWebhooks(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		for range 20 {
			b.create(t, "http://127.0.0.1:9999/", audit.LinkUpdated)
		}
		_, _, err := b.Webhooks.Create(t.Context(), b.m, hook("http://127.0.0.1:9999/", audit.LinkUpdated))
		if !errs.Is(err, errs.QuotaExceeded) {
			t.Error(err)
		}
	})
}

// TestDispatcher_ClaimsUpToTheConcurrency claims on two nodes, and again when claims have ended.
func TestDispatcher_ClaimsUpToTheConcurrency(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := setup(t, d)
		w, _ := b.create(t, "http://127.0.0.1:9999/", audit.LinkUpdated)
		for range 20 {
			b.write(t, audit.LinkUpdated, newLinkID())
		}
		until(t, "the events have deliveries", func() bool {
			must.NoError(t, b.dispatcher.ReadEvents(t.Context(), w.ID))
			return b.waiting(t, w) == 20
		})
		for i, want := range []int{2, 0} {
			if n, err := b.newDispatcher(b.dispatcher.Log).Claim(t.Context(), w.ID); n != want || err != nil {
				t.Errorf("claim %d: %d deliveries, want %d, %v", i+1, n, want, err)
			}
		}
		b.clock.advance(2 * time.Minute)
		if n, err := b.dispatcher.Claim(t.Context(), w.ID); n != 2 || err != nil {
			t.Errorf("after the claims have ended: %d deliveries, %v", n, err)
		}
	})
}
