package dispatch_test

import (
	"context"
	"io"
	"net/http"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/linkforge/linkforge/internal/event/audit"
	"github.com/linkforge/linkforge/internal/event/dispatch"
	"github.com/linkforge/linkforge/internal/event/webhook"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/optional"
	"github.com/linkforge/linkforge/internal/platform/outbound"
	"github.com/linkforge/linkforge/internal/platform/page"
)

// schedule has the pauses before the attempts, by the specification.
var schedule = []time.Duration{
	0, 5 * time.Second, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 5 * time.Hour, 10 * time.Hour,
	14 * time.Hour, 20 * time.Hour, 24 * time.Hour,
}

// TestDispatcher_FollowsTheSchedule fails the ten attempts of a delivery, each when it is due.
func TestDispatcher_FollowsTheSchedule(t *testing.T) {
	eachSending(t, func(t *testing.T, b *bundle, r *receiver, w *webhook.Webhook) {
		r.respond(status(http.StatusBadGateway))
		b.pending(t, w)
		for i, pause := range schedule {
			wait := b.delivery(t, w).DueAt.Sub(b.clock.Now())
			if diff := wait - pause; diff < -pause/10 || diff > pause/10 {
				t.Errorf("attempt %d after %s, want %s", i+1, wait, pause)
			}
			b.clock.advance(wait)
			if got := b.reload(t, w.ID); got.Status != webhook.Active || i > 0 && !got.FailingSince.Equal(dbtest.Noon) {
				t.Errorf("before attempt %d: %s, failing since %v", i+1, got.Status, got.FailingSince)
			}
			b.send(t, w)
			if got := b.delivery(t, w); got.Tries != i+1 || got.ClickCount() != nil {
				t.Fatalf("%d attempts, want %d, clicks %v", got.Tries, i+1, got.ClickCount())
			}
		}
		if got := b.delivery(t, w); got.Status != webhook.Failed || b.reload(t, w.ID).Status != webhook.Disabled {
			t.Errorf("the delivery is %s", got.Status)
		}
		b.update(t, w, webhook.Change{Status: optional.Set(webhook.Active)})
		if got := b.delivery(t, w); got.Status != webhook.Waiting || got.Tries != 0 || !got.DueAt.Equal(b.clock.Now()) {
			t.Errorf("when the webhook is active again: %+v", got)
		}
		attempts := must.Value(b.Webhooks.AttemptsOf(t.Context(), b.m, b.delivery(t, w).ID))(t)
		for _, list := range attempts {
			if len(list) != len(schedule) || list[0].Status == nil || *list[0].Status != 502 ||
				*list[0].Error != webhook.StatusError || !list[0].SentAt.Equal(dbtest.Noon) {
				t.Errorf("%d attempts, the first: %+v", len(list), list[0])
			}
		}
	})
}

// TestDispatcher_StaysActiveAfterASuccess between the first and the last attempt of a delivery.
func TestDispatcher_StaysActiveAfterASuccess(t *testing.T) {
	eachSending(t, func(t *testing.T, b *bundle, r *receiver, w *webhook.Webhook) {
		r.respond(func(rw http.ResponseWriter, n int) {
			if n != 2 {
				rw.WriteHeader(http.StatusBadGateway)
			}
		})
		for range 2 {
			b.pending(t, w)
			b.send(t, w)
		}
		b.exec(t, "UPDATE webhook_deliveries SET tries = 9 WHERE status = 'WAITING'")
		b.clock.advance(time.Minute)
		b.send(t, w)
		if n, got := b.waiting(t, w), b.reload(t, w.ID).Status; n != 0 || len(r.got()) != 3 || got != webhook.Active {
			t.Errorf("after %d requests, %d deliveries wait, and the webhook is %s", len(r.got()), n, got)
		}
	})
}

// TestDispatcher_RespectsRetryAfter responds with statuses and pauses.
func TestDispatcher_RespectsRetryAfter(t *testing.T) {
	eachSending(t, func(t *testing.T, b *bundle, r *receiver, w *webhook.Webhook) {
		for name, c := range map[string]struct {
			status int
			after  string
			want   time.Duration
		}{
			"seconds":       {429, "3600", time.Hour},
			"an instant":    {503, dbtest.Noon.Add(2 * time.Hour).UTC().Format(http.TimeFormat), 2 * time.Hour},
			"more than 24h": {503, strconv.Itoa(25 * 3600), 24 * time.Hour},
			"less":          {429, "1", 5 * time.Second},
			"another error": {500, "3600", 5 * time.Second},
			"a redirect":    {307, "3600", 5 * time.Second},
			"not a number":  {429, "soon", 5 * time.Second},
		} {
			r.respond(func(rw http.ResponseWriter, _ int) {
				rw.Header().Set("Retry-After", c.after)
				rw.WriteHeader(c.status)
			})
			b.pending(t, w)
			b.send(t, w)
			got := b.delivery(t, w).DueAt.Sub(b.clock.Now())
			if got < c.want-c.want/10 || got > c.want+c.want/10 || c.want >= time.Hour && got != c.want {
				t.Errorf("%s: due after %s, want %s", name, got, c.want)
			}
			b.exec(t, "DELETE FROM webhook_deliveries WHERE 1 = 1")
		}
	})
}

// TestDispatcher_IgnoresAttemptsAfterTheClaim claims on a node that sends after its claim has
// ended, and another node has failed.
func TestDispatcher_IgnoresAttemptsAfterTheClaim(t *testing.T) {
	eachSending(t, func(t *testing.T, b *bundle, r *receiver, w *webhook.Webhook) {
		r.respond(status(http.StatusBadGateway))
		b.pending(t, w)
		sendLate := must.Value(b.newDispatcher(b.dispatcher.Log).ClaimForLater(t.Context(), w.ID))(t)
		b.clock.advance(2 * time.Minute)
		b.send(t, w)
		before := b.delivery(t, w)
		sendLate()
		if got := b.delivery(t, w); before.Tries != 1 || got.Tries != 1 || !got.DueAt.Equal(*before.DueAt) {
			t.Errorf("%d tries, due at %s; before the late attempt %d and %s", got.Tries, got.DueAt, before.Tries,
				before.DueAt)
		}
		if n := len(r.got()); n != 2 {
			t.Errorf("%d requests", n)
		}
	})
}

// endless is a receiver whose response has no end. It counts the bytes that are read.
type endless struct{ read int }

func (e *endless) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(io.LimitReader(e, 1<<20))}, nil
}

func (e *endless) Read(p []byte) (int, error) {
	e.read += len(p)
	return len(p), nil
}

// TestDispatcher_BoundsResponses reads 4 KiB of a response.
func TestDispatcher_BoundsResponses(t *testing.T) {
	t.Parallel()
	b := setup(t, dbtest.MigratedSQLite(t))
	w, _ := b.create(t, "http://127.0.0.1:9999/", audit.LinkUpdated)
	receiver := &endless{}
	b.dispatcher.Client.Transport = receiver
	if a, err := b.dispatcher.Test(t.Context(), b.m, w.ID, audit.LinkUpdated); err != nil || a.Error != nil ||
		receiver.read != 4<<10 {
		t.Errorf("%d bytes read, %+v, %v", receiver.read, a, err)
	}
}

// TestDispatcher_ClassifiesTimeouts has a receiver respond too late.
func TestDispatcher_ClassifiesTimeouts(t *testing.T) {
	eachSending(t, func(t *testing.T, b *bundle, r *receiver, w *webhook.Webhook) {
		config := dispatch.ClientConfig(outbound.Config{})
		if config.Timeout != 15*time.Second || !config.NoRedirects || config.MaxHeaderBytes != 4<<10 {
			t.Errorf("%+v", config)
		}
		release := make(chan struct{})
		defer close(release)
		r.respond(func(http.ResponseWriter, int) { <-release })
		b.dispatcher.Client.Timeout = 50 * time.Millisecond
		a, err := b.dispatcher.Test(t.Context(), b.m, w.ID, audit.LinkUpdated)
		if err != nil || a.Error == nil || *a.Error != webhook.TimeoutError {
			t.Errorf("%+v, %v", a, err)
		}
	})
}

// TestStore_ContinuesAfterAPause has events of more than 30 days, waiting deliveries and a backlog.
func TestStore_ContinuesAfterAPause(t *testing.T) {
	eachSending(t, func(t *testing.T, b *bundle, r *receiver, w *webhook.Webhook) {
		r.respond(status(http.StatusBadGateway))
		waiting := b.pending(t, w)
		b.send(t, w)
		b.update(t, w, webhook.Change{Status: optional.Set(webhook.Paused)})
		b.write(t, audit.LinkUpdated, newLinkID())
		until(t, "the events are final", func() bool { return b.isFinal(t, 2) })
		b.clock.advance(31 * 24 * time.Hour)
		must.NoError(t, b.dispatcher.ReadEvents(t.Context(), w.ID))
		if err := b.dispatcher.SendNext(t.Context(), w.ID, w.Host); err != nil || len(r.got()) != 1 ||
			b.waiting(t, w) != 1 {
			t.Errorf("%d requests, %d deliveries wait while paused, %v", len(r.got()), b.waiting(t, w), err)
		}
		recent := b.write(t, audit.LinkUpdated, newLinkID())
		r.respond(nil)
		b.update(t, w, webhook.Change{Status: optional.Set(webhook.Active)})
		if got := b.delivery(t, w); got.Tries != 0 || !got.DueAt.Equal(b.clock.Now()) {
			t.Errorf("the waiting delivery: %d tries, due at %s", got.Tries, got.DueAt)
		}
		b.run(t)
		until(t, "both are delivered", func() bool { return len(b.delivered(t, w)) == 2 })
		got, want := b.delivered(t, w), []string{recent, waiting}
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("delivered %v, want %v", got, want)
		}
	})
}

// TestDispatcher_RedeliversFailed repeats the failed deliveries only.
func TestDispatcher_RedeliversFailed(t *testing.T) {
	eachSending(t, func(t *testing.T, b *bundle, r *receiver, w *webhook.Webhook) {
		failed := b.pending(t, w)
		b.send(t, w)
		b.exec(t, "UPDATE webhook_deliveries SET status = 'FAILED'")
		b.pending(t, w)
		b.send(t, w)
		must.Value(b.Webhooks.Redeliver(t.Context(), b.m, w.ID, webhook.Redelivery{Failed: true}))(t)
		b.send(t, w)
		if got := r.ids(); len(got) != 3 || got[2] != failed || len(b.delivered(t, w)) != 2 {
			t.Errorf("redelivered %v, want %s", got, failed)
		}
	})
}

// TestDispatcher_LimitsRedelivery has a range with more than 10,000 events.
func TestDispatcher_LimitsRedelivery(t *testing.T) {
	eachSending(t, func(t *testing.T, b *bundle, r *receiver, w *webhook.Webhook) {
		b.update(t, w, webhook.Change{Status: optional.Set(webhook.Paused)})
		b.writeEvents(t, b.updates(10_000)...)
		span := webhook.Redelivery{From: new(dbtest.Noon.Add(-time.Hour)), To: new(dbtest.Noon.Add(time.Hour))}
		until(t, "the events are final", func() bool {
			return must.Value(b.Webhooks.Redeliver(t.Context(), b.m, w.ID, span))(t) == 10_000
		})
		b.write(t, audit.LinkUpdated, newLinkID())
		until(t, "one more is refused", func() bool {
			_, err := b.Webhooks.Redeliver(t.Context(), b.m, w.ID, span)
			return err != nil
		})
	})
}

// TestStore_ContinuesAfterARestore restores into another cluster, whose transactions have other
// numbers. It can be interrupted and repeated.
func TestStore_ContinuesAfterARestore(t *testing.T) {
	eachReceiving(t, func(t *testing.T, b *bundle, r *receiver) {
		b.write(t, audit.LinkUpdated, newLinkID())
		until(t, "the event before the webhook is final", func() bool { return b.isFinal(t, 1) })
		w, _ := b.create(t, r.URL, audit.LinkUpdated)
		want := []string{b.pending(t, w)}
		b.send(t, w)
		want = append(want, b.write(t, audit.LinkUpdated, newLinkID()))
		until(t, "the events are final", func() bool { return b.isFinal(t, 3) })
		late, _ := b.create(t, newReceiver(t).URL, audit.LinkUpdated)
		if b.DB.Kind == db.Postgres { // the other cluster has fewer transactions
			b.exec(t, "UPDATE webhooks SET click_xid = click_xid + 1000000000")
		}
		for range 2 {
			must.NoError(t, b.Webhooks.AfterRestore(t.Context()))
			must.NoError(t, b.Webhooks.AfterRestore(t.Context()))
			must.NoError(t, audit.AfterRestore(t.Context(), b.DB))
		}
		head, err := b.Webhooks.Clicks.Head(t.Context())
		if got := b.reload(t, w.ID); err != nil || b.DB.Kind == db.Postgres && got.Clicks.XID > head.XID {
			t.Errorf("the position among clicks is %d, the newest transaction %d, %v", got.Clicks.XID, head.XID, err)
		}
		b.run(t)
		want = append(want, b.write(t, audit.LinkUpdated, newLinkID()))
		until(t, "all are delivered", func() bool { return len(b.delivered(t, w))+len(b.delivered(t, late)) == 4 })
		got := r.ids()
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("sent %v, want %v", got, want)
		}
	})
}

// delivery returns the newest delivery of a webhook.
func (b *bundle) delivery(t *testing.T, w *webhook.Webhook) *webhook.Delivery {
	t.Helper()
	p, err := b.Webhooks.Deliveries(t.Context(), b.m, w.ID, nil, page.Request{Size: 1})
	if err != nil || len(p.Items) == 0 {
		t.Fatal(len(p.Items), err)
	}
	return p.Items[0]
}

// TestDispatcher_FreesConnections sends to a webhook whose URL changed after it was found due, and
// fails a claim.
func TestDispatcher_FreesConnections(t *testing.T) {
	eachReceiving(t, func(t *testing.T, b *bundle, r *receiver) {
		w, _ := b.create(t, "http://127.0.0.1:9999/", audit.LinkUpdated)
		want := []string{b.pending(t, w)}
		b.update(t, w, webhook.Change{URL: optional.Set(r.URL)})
		must.NoError(t, b.dispatcher.SendNext(t.Context(), w.ID, "former.example"))
		if got := r.ids(); !slices.Equal(got, want) {
			t.Errorf("sent %v, want %v", got, want)
		}
		if got := b.dispatcher.InFlight(); got > 0 {
			t.Errorf("%d requests after the end", got)
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if err := b.dispatcher.SendNext(ended, w.ID, "former.example"); err == nil {
			t.Error("the claim did not fail")
		}
		if got := b.dispatcher.InFlight(); got > 0 {
			t.Errorf("%d requests after a failed claim", got)
		}
	})
}

// TestDispatcher_StartsNoAttemptAfterItsEnd delivers after the last interrupt: the delivery waits
// for other nodes.
func TestDispatcher_StartsNoAttemptAfterItsEnd(t *testing.T) {
	eachSending(t, func(t *testing.T, b *bundle, r *receiver, w *webhook.Webhook) {
		want := []string{b.pending(t, w)}
		must.NoError(t, b.dispatcher.DeliverLate(t.Context(), w.ID))
		if got := r.ids(); len(got) > 0 {
			t.Errorf("sent %v", got)
		}
		must.NoError(t, b.newDispatcher(b.dispatcher.Log).SendNext(t.Context(), w.ID, "127.0.0.1"))
		if got := r.ids(); !slices.Equal(got, want) {
			t.Errorf("another node sent %v, want %v", got, want)
		}
	})
}
