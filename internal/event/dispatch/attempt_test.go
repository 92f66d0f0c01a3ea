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

// failAll makes all attempts of the only delivery, which fail, each when it is due. before is
// called before the last.
func (b *bundle) failAll(t *testing.T, w *webhook.Webhook, before func()) {
	t.Helper()
	for i, pause := range schedule {
		delivery := b.delivery(t, w)
		wait := delivery.DueAt.Sub(b.clock.Now())
		if diff := wait - pause; diff < -pause/10 || diff > pause/10 {
			t.Errorf("attempt %d after %s, want %s", i+1, wait, pause)
		}
		b.clock.advance(wait)
		if i == len(schedule)-1 {
			before()
		}
		b.send(t, w)
		if got := b.delivery(t, w).Tries; got != i+1 {
			t.Fatalf("%d attempts, want %d", got, i+1)
		}
	}
}

// TestDispatcher_FollowsTheSchedule fails the ten attempts of a delivery.
func TestDispatcher_FollowsTheSchedule(t *testing.T) {
	eachReceiving(t, func(t *testing.T, b *bundle, r *receiver) {
		w, _ := b.create(t, r.URL, audit.LinkUpdated)
		r.respond(status(http.StatusBadGateway))
		b.write(t, audit.LinkUpdated, newLinkID())
		b.readEvents(t, w)
		b.failAll(t, w, func() {
			if got := b.reload(t, w.ID); got.Status != webhook.Active || got.FailingSince == nil ||
				!got.FailingSince.Equal(dbtest.Noon) {
				t.Errorf("before the last attempt: %s, failing since %v", got.Status, got.FailingSince)
			}
		})
		if got := b.delivery(t, w); got.Status != webhook.Failed || b.reload(t, w.ID).Status != webhook.Disabled {
			t.Errorf("the delivery is %s", got.Status)
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

// TestDispatcher_StaysActiveAfterASuccess delivers another event before the last attempt.
func TestDispatcher_StaysActiveAfterASuccess(t *testing.T) {
	eachReceiving(t, func(t *testing.T, b *bundle, r *receiver) {
		w, _ := b.create(t, r.URL, audit.LinkUpdated)
		r.respond(status(http.StatusBadGateway))
		b.write(t, audit.LinkUpdated, newLinkID())
		b.readEvents(t, w)
		b.failAll(t, w, func() {
			r.respond(nil)
			must.Value(b.DB.NewRaw("UPDATE webhook_deliveries SET due_at = ?", b.clock.Now().Add(time.Hour)).
				Exec(db.AsSystem(t.Context())))(t)
			other := b.write(t, audit.LinkUpdated, newLinkID())
			until(t, "the other event has a delivery", func() bool {
				must.NoError(t, b.dispatcher.ReadEvents(t.Context(), w.ID))
				return b.waiting(t, w) == 2
			})
			b.send(t, w)
			if got := b.delivered(t, w); !slices.Equal(got, []string{other}) {
				t.Fatalf("delivered %v", got)
			}
			r.respond(status(http.StatusBadGateway))
			b.clock.advance(time.Hour)
			must.Value(b.DB.NewRaw("DELETE FROM webhook_deliveries WHERE event_id = ?", other).
				Exec(db.AsSystem(t.Context())))(t)
		})
		if got := b.delivery(t, w); got.Status != webhook.Failed || b.reload(t, w.ID).Status != webhook.Active {
			t.Errorf("the delivery is %s, the webhook %s", got.Status, b.reload(t, w.ID).Status)
		}
	})
}

// TestDispatcher_RespectsRetryAfter responds with statuses and pauses.
func TestDispatcher_RespectsRetryAfter(t *testing.T) {
	eachReceiving(t, func(t *testing.T, b *bundle, r *receiver) {
		w, _ := b.create(t, r.URL, audit.LinkUpdated)
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
			b.write(t, audit.LinkUpdated, newLinkID())
			b.readEvents(t, w)
			b.send(t, w)
			got := b.delivery(t, w).DueAt.Sub(b.clock.Now())
			if got < c.want-c.want/10 || got > c.want+c.want/10 || c.want >= time.Hour && got != c.want {
				t.Errorf("%s: due after %s, want %s", name, got, c.want)
			}
			must.Value(b.DB.NewRaw("DELETE FROM webhook_deliveries WHERE 1 = 1").Exec(db.AsSystem(t.Context())))(t)
		}
	})
}

// TestDispatcher_RepeatsLostAttempts claims on a node that dies: another node sends after two
// minutes.
func TestDispatcher_RepeatsLostAttempts(t *testing.T) {
	eachReceiving(t, func(t *testing.T, b *bundle, r *receiver) {
		w, _ := b.create(t, r.URL, audit.LinkUpdated)
		want := []string{b.write(t, audit.LinkUpdated, newLinkID())}
		b.readEvents(t, w)
		if n, err := b.newDispatcher(b.dispatcher.Log).Claim(t.Context(), w.ID); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		for _, c := range []struct {
			after time.Duration
			want  []string
		}{{2*time.Minute - time.Second, nil}, {time.Second, want}} {
			b.clock.advance(c.after)
			b.send(t, w)
			if got := r.ids(); !slices.Equal(got, c.want) {
				t.Errorf("%v, want %v", got, c.want)
			}
		}
	})
}

// TestDispatcher_IgnoresAttemptsAfterTheClaim claims on a node that sends after its claim has
// ended, and another node has failed.
func TestDispatcher_IgnoresAttemptsAfterTheClaim(t *testing.T) {
	eachReceiving(t, func(t *testing.T, b *bundle, r *receiver) {
		w, _ := b.create(t, r.URL, audit.LinkUpdated)
		r.respond(status(http.StatusBadGateway))
		b.write(t, audit.LinkUpdated, newLinkID())
		b.readEvents(t, w)
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
	t.Parallel()
	config := dispatch.ClientConfig(outbound.Config{})
	if config.Timeout != 15*time.Second || !config.NoRedirects || config.MaxHeaderBytes != 4<<10 {
		t.Errorf("%+v", config)
	}
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b, r := setup(t, d), newReceiver(t)
		w, _ := b.create(t, r.URL, audit.LinkUpdated)
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

// TestDispatcher_ChecksURLsOfAttempts blocks the host of a webhook after the webhook was created.
func TestDispatcher_ChecksURLsOfAttempts(t *testing.T) {
	eachReceiving(t, func(t *testing.T, b *bundle, r *receiver) {
		w, _ := b.create(t, r.URL, audit.LinkUpdated)
		must.Value(b.Blocklist.Block(t.Context(), "127.0.0.1", ""))(t)
		b.write(t, audit.LinkUpdated, newLinkID())
		b.readEvents(t, w)
		b.send(t, w)
		deliveryID := b.delivery(t, w).ID
		attempts, err := b.Webhooks.AttemptsOf(t.Context(), b.m, deliveryID)
		if err != nil || len(attempts[deliveryID]) != 1 || *attempts[deliveryID][0].Error != webhook.RefusedError ||
			len(r.got()) > 0 {
			t.Errorf("%+v, %d requests, %v", attempts, len(r.got()), err)
		}
	})
}

// TestStore_ContinuesAfterAPause has events of more than 30 days, waiting deliveries and a backlog.
func TestStore_ContinuesAfterAPause(t *testing.T) {
	eachReceiving(t, func(t *testing.T, b *bundle, r *receiver) {
		w, _ := b.create(t, r.URL, audit.LinkUpdated)
		r.respond(status(http.StatusBadGateway))
		waiting := b.write(t, audit.LinkUpdated, newLinkID())
		b.readEvents(t, w)
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

// TestStore_StartsWaitingDeliveriesAgain activates a webhook whose last attempt, of another
// delivery, has succeeded.
func TestStore_StartsWaitingDeliveriesAgain(t *testing.T) {
	eachReceiving(t, func(t *testing.T, b *bundle, r *receiver) {
		w, _ := b.create(t, r.URL, audit.LinkUpdated)
		r.respond(status(http.StatusBadGateway))
		b.write(t, audit.LinkUpdated, newLinkID())
		b.readEvents(t, w)
		b.send(t, w)
		b.exec(t, "UPDATE webhooks SET failing_since = NULL")
		b.update(t, w, webhook.Change{Status: optional.Set(webhook.Paused)})
		b.update(t, w, webhook.Change{Status: optional.Set(webhook.Active)})
		if got := b.delivery(t, w); got.Tries != 0 || !got.DueAt.Equal(b.clock.Now()) {
			t.Errorf("%d tries, due at %s", got.Tries, got.DueAt)
		}
	})
}

// TestStore_SkipsWaitingDeliveries skips the backlog of a webhook with a waiting delivery.
func TestStore_SkipsWaitingDeliveries(t *testing.T) {
	eachReceiving(t, func(t *testing.T, b *bundle, r *receiver) {
		w, _ := b.create(t, r.URL, audit.LinkUpdated)
		b.write(t, audit.LinkUpdated, newLinkID())
		b.readEvents(t, w)
		b.update(t, w, webhook.Change{Status: optional.Set(webhook.Active), SkipBacklog: true})
		if err := b.dispatcher.SendNext(t.Context(), w.ID, w.Host); err != nil || len(r.got()) > 0 {
			t.Errorf("%d requests, %v", len(r.got()), err)
		}
		if got := b.delivery(t, w).Status; got != webhook.Skipped {
			t.Errorf("the delivery is %s", got)
		}
	})
}

// TestDispatcher_RedeliversFailed repeats the failed deliveries only.
func TestDispatcher_RedeliversFailed(t *testing.T) {
	eachReceiving(t, func(t *testing.T, b *bundle, r *receiver) {
		w, _ := b.create(t, r.URL, audit.LinkUpdated)
		failed := b.write(t, audit.LinkUpdated, newLinkID())
		b.write(t, audit.LinkUpdated, newLinkID())
		b.run(t)
		until(t, "both are delivered", func() bool { return len(b.delivered(t, w)) == 2 })
		_, err := b.DB.NewRaw("UPDATE webhook_deliveries SET status = 'FAILED' WHERE event_id = ?", failed).
			Exec(db.AsSystem(t.Context()))
		must.NoError(t, err)
		n, err := b.Webhooks.Redeliver(t.Context(), b.m, w.ID, webhook.Redelivery{Failed: true})
		if n != 1 || err != nil {
			t.Fatal(n, err)
		}
		until(t, "it is delivered again", func() bool { return len(r.got()) == 3 && len(b.delivered(t, w)) == 2 })
		if got := r.ids(); got[2] != failed {
			t.Errorf("redelivered %v, want %s", got, failed)
		}
	})
}

// TestDispatcher_LimitsRedelivery has a range with more than 10,000 events.
func TestDispatcher_LimitsRedelivery(t *testing.T) {
	eachReceiving(t, func(t *testing.T, b *bundle, r *receiver) {
		w, _ := b.create(t, r.URL, audit.LinkUpdated)
		b.update(t, w, webhook.Change{Status: optional.Set(webhook.Paused)})
		var events []*audit.Event
		for range 10_001 {
			events = append(events, audit.New(b.m.ID(), "", audit.LinkUpdated, newLinkID(), nil, b.clock.Now()))
		}
		b.writeEvents(t, events[:10_000]...)
		span := webhook.Redelivery{From: new(dbtest.Noon.Add(-time.Hour)), To: new(dbtest.Noon.Add(time.Hour))}
		until(t, "the events are final", func() bool {
			n := must.Value(b.Webhooks.Redeliver(t.Context(), b.m, w.ID, span))(t)
			return n == 10_000
		})
		b.writeEvents(t, events[10_000:]...)
		until(t, "one more is refused", func() bool {
			_, err := b.Webhooks.Redeliver(t.Context(), b.m, w.ID, span)
			return err != nil
		})
	})
}

// TestStore_ContinuesAfterARestore restores into another cluster, whose transactions have other
// numbers.
func TestStore_ContinuesAfterARestore(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b, r := setup(t, d), newReceiver(t)
		w, _ := b.create(t, r.URL, audit.LinkUpdated)
		want := []string{b.write(t, audit.LinkUpdated, newLinkID())}
		b.readEvents(t, w)
		b.send(t, w)
		want = append(want, b.write(t, audit.LinkUpdated, newLinkID()))
		until(t, "the events are final", func() bool { return b.isFinal(t, 2) })
		ctx := db.AsSystem(t.Context())
		if d.Kind == db.Postgres { // the other cluster has fewer transactions
			must.Value(d.NewRaw("UPDATE webhooks SET click_xid = click_xid + 1000000000").Exec(ctx))(t)
		}
		restore := func(ctx context.Context) error {
			if err := b.Webhooks.AfterRestore(ctx); err != nil {
				return err
			}
			return audit.AfterRestore(ctx, d)
		}
		for range 2 { // it can be repeated
			must.NoError(t, restore(t.Context()))
		}
		head, err := b.Webhooks.Clicks.Head(t.Context())
		if got := b.reload(t, w.ID); err != nil || d.Kind == db.Postgres && got.Clicks.XID > head.XID {
			t.Errorf("the position among clicks is %d, the newest transaction %d, %v", got.Clicks.XID, head.XID, err)
		}
		b.run(t)
		want = append(want, b.write(t, audit.LinkUpdated, newLinkID()))
		until(t, "all are delivered", func() bool { return len(b.delivered(t, w)) == len(want) })
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
