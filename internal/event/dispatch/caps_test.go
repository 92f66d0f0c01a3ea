package dispatch_test

import (
	"net/http"
	"slices"
	"strings"
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
	"github.com/linkforge/linkforge/internal/tenant/workspace/workspacetest"
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
				b.pending(t, w)
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

// TestDispatcher_BoundsConnections has requests wait: a workspace has four to a host on a node.
func TestDispatcher_BoundsConnections(t *testing.T) {
	eachReceiving(t, func(t *testing.T, b *bundle, r *receiver) {
		var open, most atomic.Int64
		release := make(chan struct{})
		r.respond(func(http.ResponseWriter, int) {
			most.Store(max(most.Load(), open.Add(1)))
			<-release
			open.Add(-1)
		})
		for range 3 {
			b.create(t, r.URL, audit.LinkUpdated)
		}
		b.exec(t, "UPDATE webhooks SET concurrency = 8")
		b.writeEvents(t, b.updates(20)...)
		b.run(t)
		until(t, "all connections are used", func() bool { return open.Load() >= 4 })
		polltest.Elapse(600 * time.Millisecond) // two steps
		close(release)
		until(t, "all are sent", func() bool { return len(r.got()) == 60 })
		if most.Load() != 4 {
			t.Errorf("%d requests at once", most.Load())
		}
	})
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
	eachSending(t, func(t *testing.T, b *bundle, r *receiver, w *webhook.Webhook) {
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

// TestDispatcher_ClaimsUpToTheConcurrency claims on nodes that die, and again when claims have ended.
func TestDispatcher_ClaimsUpToTheConcurrency(t *testing.T) {
	eachSending(t, func(t *testing.T, b *bundle, _ *receiver, w *webhook.Webhook) {
		b.writeEvents(t, b.updates(20)...)
		b.readEvents(t, w, 20)
		for i, c := range []struct {
			after time.Duration
			want  int
		}{{0, 2}, {2*time.Minute - time.Second, 0}, {time.Second, 2}} {
			b.clock.advance(c.after)
			if n, err := b.newDispatcher(b.dispatcher.Log).Claim(t.Context(), w.ID); n != c.want || err != nil {
				t.Errorf("claim %d: %d deliveries, want %d, %v", i+1, n, c.want, err)
			}
		}
	})
}

// TestDispatcher_TakesTurns has webhooks of two workspaces due: those of the first have been due
// for longer.
func TestDispatcher_TakesTurns(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		other := *b
		other.m = workspacetest.New(t, b.DB, "other")
		var names, got []string
		for i, tenant := range []*bundle{b, b, b, &other, &other} {
			w, _ := tenant.create(t, "http://127.0.0.1:9999/", audit.LinkUpdated)
			b.exec(t, "UPDATE webhooks SET due_at = ? WHERE id = ?", dbtest.Noon.Add(time.Duration(i-9)*time.Second),
				w.ID)
			names = append(names, w.ID)
		}
		due := func() []string { return must.Value(b.dispatcher.Due(t.Context()))(t) }
		want := []string{names[0], names[3], names[1], names[4], names[2]}
		if got = due(); !slices.Equal(got, want) {
			t.Errorf("due: %v, want %v", got, want)
		}
		must.Value(b.dispatcher.Occupy(t.Context(), names[0], 2))(t)
		want = []string{names[3], names[4], names[0], names[1], names[2]}
		if got = due(); !slices.Equal(got, want) {
			t.Errorf("due with two requests of the first workspace in flight: %v, want %v", got, want)
		}
	})
}

// TestDispatcher_BoundsShares uses up the requests of one subject after the other: others may send,
// and due leaves out the webhooks of the subject.
func TestDispatcher_BoundsShares(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		owner := workspacetest.Actor(t, b.DB)
		var hooks []string
		for _, slug := range []string{"one", "two", "three", "foreign"} {
			tenant := *b
			if tenant.m = workspacetest.New(t, b.DB, slug); slug != "foreign" {
				tenant.m = workspacetest.Of(t, b.DB, owner, slug+"-owned")
			}
			w, _ := tenant.create(t, "http://127.0.0.1:9999/", audit.LinkUpdated)
			hooks = append(hooks, w.ID)
		}
		b.createdByKey(t, &webhook.Webhook{ID: hooks[1]})
		b.exec(t, "UPDATE webhooks SET due_at = ?, concurrency = 300", dbtest.Noon)
		occupy := func(i int) int64 { return must.Value(b.dispatcher.Occupy(t.Context(), hooks[i], 300))(t) }
		everywhere := func(i int, hosts string) func() int64 {
			return func() (n int64) {
				for _, host := range strings.Split(hosts, "") {
					b.exec(t, "UPDATE webhooks SET host = ?", host)
					n += occupy(i)
				}
				return n
			}
		}
		for _, c := range []struct {
			name string
			do   func() int64
			want int64
			due  int
		}{
			{"a workspace and a host", func() int64 { return occupy(0) }, 4, 3},
			{"an account and a host", func() int64 { return occupy(1) + occupy(2) }, 4, 1},
			{"a foreign account at the host", func() int64 { return occupy(3) }, 4, 0},
			{"a workspace", everywhere(0, "abcdefgh"), 28, 3},
			{"an account", everywhere(1, "ijklmnop"), 28, 1},
		} {
			if n := c.do(); n != c.want {
				t.Errorf("%s: %d requests, want %d", c.name, n, c.want)
			}
			if n := len(must.Value(b.dispatcher.Due(t.Context()))(t)); n != c.due {
				t.Errorf("%s: %d webhooks are due, want %d", c.name, n, c.due)
			}
		}
	})
}

// TestDispatcher_SlowReceiversLeaveHalf of the requests that a workspace may have to a host.
func TestDispatcher_SlowReceiversLeaveHalf(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		var hooks []string
		for range 3 {
			w, _ := b.create(t, "http://127.0.0.1:9999/", audit.LinkUpdated)
			hooks = append(hooks, w.ID)
		}
		b.exec(t, "UPDATE webhooks SET due_at = ?, concurrency = CASE id WHEN ? THEN 300 ELSE 1 END", dbtest.Noon,
			hooks[2])
		for i, want := range []int64{2, 0, 2} {
			if n := must.Value(b.dispatcher.Occupy(t.Context(), hooks[i], 300))(t); n != want {
				t.Errorf("webhook %d has %d requests, want %d", i, n, want)
			}
			if i == 1 {
				due := must.Value(b.dispatcher.Due(t.Context()))(t)
				if len(due) != 1 {
					t.Errorf("%d webhooks are due, want the quick one", len(due))
				}
			}
		}
	})
}

// TestDispatcher_SlowReceiverGetsOneRequest lets a request time out, and then succeeds.
func TestDispatcher_SlowReceiverGetsOneRequest(t *testing.T) {
	eachSending(t, func(t *testing.T, b *bundle, r *receiver, w *webhook.Webhook) {
		b.writeEvents(t, b.updates(16)...)
		b.readEvents(t, w, 16)
		release := make(chan struct{})
		r.respond(func(http.ResponseWriter, int) { <-release })
		normal := b.dispatcher.Client.Timeout
		b.dispatcher.Client.Timeout = 500 * time.Millisecond
		b.send(t, w)
		close(release)
		b.dispatcher.Client.Timeout = normal
		r.respond(nil)
		sent := len(r.got())
		for i, want := range []int{1, 2, 4, 4} { // this node sends four to a host
			b.send(t, w)
			if n := len(r.got()) - sent; n != want {
				t.Errorf("round %d after a timeout: %d requests, want %d", i+1, n, want)
			}
			sent = len(r.got())
		}
		if got := b.reload(t, w.ID).Concurrency; got != 8 {
			t.Errorf("concurrency %d", got)
		}
	})
}
