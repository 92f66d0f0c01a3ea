package dispatch_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/linkforge/linkforge/internal/click"
	"github.com/linkforge/linkforge/internal/click/clicktest"
	"github.com/linkforge/linkforge/internal/event/audit"
	"github.com/linkforge/linkforge/internal/event/webhook"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/optional"
	"github.com/linkforge/linkforge/internal/platform/page"
	"github.com/linkforge/linkforge/internal/tenant/workspace/workspacetest"
)

// TestDispatcher_DeliversMatchingEventsOnce compares requests with the log: types that the webhook
// does not have, and events from before it, are not sent.
func TestDispatcher_DeliversMatchingEventsOnce(t *testing.T) {
	eachReceiving(t, func(t *testing.T, b *bundle, r *receiver) {
		b.write(t, audit.LinkUpdated, newLinkID())
		until(t, "the first event is final", func() bool { return b.isFinal(t, 1) })
		b.create(t, r.URL, audit.LinkUpdated, audit.LinkDeleted)
		b.run(t)
		var want []string
		for i := range 30 {
			want = append(want, b.write(t, audit.LinkUpdated, newLinkID()))
			if i%3 == 0 {
				b.write(t, audit.LinkCreated, newLinkID())
			}
		}
		until(t, "all are sent", func() bool { return len(r.got()) >= len(want) })
		got := r.ids()
		slices.Sort(got)
		slices.Sort(want)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		body := fmt.Sprintf(`{"type":"link.updated","timestamp":"%s","workspaceId":%q,"data":`,
			dbtest.Noon.UTC().Format(time.RFC3339Nano), b.m.ID())
		for _, request := range r.got() {
			if got := request.body[:min(len(request.body), len(body))]; got != body {
				t.Errorf("body %s, want %s", request.body, body)
			}
			if request.header.Get("User-Agent") != "Linkforge-Webhooks/1" ||
				request.header.Get("Content-Type") != "application/json" {
				t.Errorf("headers %v", request.header)
			}
		}
	})
}

// isFinal reports whether the feed has n events.
func (b *bundle) isFinal(t *testing.T, n int) bool {
	t.Helper()
	p, _, err := b.Workspaces.Events(t.Context(), b.m, audit.FeedRequest{Size: 100})
	must.NoError(t, err)
	return len(p.Items) >= n
}

// TestDispatcher_OrdersFirstAttempts sends the events of a link one after the other, and those of
// others meanwhile.
func TestDispatcher_OrdersFirstAttempts(t *testing.T) {
	eachReceiving(t, func(t *testing.T, b *bundle, r *receiver) {
		b.create(t, r.URL, audit.LinkUpdated)
		links := []string{newLinkID(), newLinkID()}
		want := map[string][]string{}
		var open, most atomic.Int64
		r.respond(func(w http.ResponseWriter, n int) {
			most.Store(max(most.Load(), open.Add(1)))
			time.Sleep(5 * time.Millisecond) //nolint // the duration of a request
			open.Add(-1)
			if n%4 == 0 {
				w.WriteHeader(500)
			}
		})
		total := 0
		for range 10 {
			for _, l := range links {
				want[l] = append(want[l], b.write(t, audit.LinkUpdated, l))
				total++
			}
		}
		b.run(t)
		until(t, "all are tried", func() bool { return len(r.got()) >= total })
		got := map[string][]string{}
		seen := map[string]bool{}
		for _, messageID := range r.ids() {
			for l, ids := range want {
				if slices.Contains(ids, messageID) && !seen[messageID] {
					got[l], seen[messageID] = append(got[l], messageID), true
				}
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("first attempts (-want +got):\n%s", diff)
		}
		if most.Load() > 2 {
			t.Errorf("%d requests at once for two links", most.Load())
		}
	})
}

// TestDispatcher_DisablesOnceAfterFourDays fails all attempts on two nodes, moves the clock by
// hours, and then has everything delivered.
func TestDispatcher_DisablesOnceAfterFourDays(t *testing.T) {
	eachReceiving(t, func(t *testing.T, b *bundle, r *receiver) {
		w, _ := b.create(t, r.URL, audit.LinkUpdated, audit.WebhookDisabled)
		r.respond(status(500))
		var want []string
		for range 3 {
			want = append(want, b.write(t, audit.LinkUpdated, newLinkID()))
		}
		b.run(t)
		other := *b
		other.dispatcher = b.newDispatcher(b.dispatcher.Log)
		other.run(t)
		until(t, "the first attempts are made", func() bool { return len(r.got()) >= 3 })
		for b.reload(t, w.ID).Status == webhook.Active {
			if b.clock.Now().Sub(dbtest.Noon) > 5*24*time.Hour {
				t.Fatal("not disabled after five days")
			}
			b.clock.advance(30 * time.Minute)
			b.dispatcher.Wake()
			b.settle(t, w.ID)
		}
		if after := b.clock.Now().Sub(dbtest.Noon); after < 60*time.Hour || after > 96*time.Hour {
			t.Errorf("disabled after %s", after)
		}
		until(t, "an email is sent", func() bool { return len(b.mails.sent()) > 0 })
		disabled, err := audit.List(db.AsSystem(t.Context()), b.DB, b.m.ID(),
			&audit.Filter{Actions: []audit.Action{audit.WebhookDisabled}}, page.Request{Size: 10})
		mails := b.mails.sent()
		if err != nil || len(disabled.Items) != 1 || len(mails) != 1 || !strings.Contains(mails[0], "ACTIVE") {
			t.Errorf("%d events, emails %q: %v", len(disabled.Items), mails, err)
		}
		sent := len(r.got())
		want = append(want, b.write(t, audit.LinkUpdated, newLinkID()), disabled.Items[0].ID)
		b.clock.advance(time.Hour)
		until(t, "the new events are final", func() bool { return b.isFinal(t, 4) })
		if n := len(r.got()); n != sent {
			t.Errorf("%d requests while disabled", n-sent)
		}
		r.respond(nil)
		b.update(t, w, webhook.Change{Status: optional.Set(webhook.Active)})
		until(t, "everything is delivered", func() bool { return len(b.delivered(t, w)) == len(want) })
		got := b.delivered(t, w)
		slices.Sort(got)
		slices.Sort(want)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("delivered (-want +got):\n%s", diff)
		}
	})
}

// TestDispatcher_FailingWebhookDoesNotStopOthers cannot render the events and clicks of the first
// of two workspaces.
func TestDispatcher_FailingWebhookDoesNotStopOthers(t *testing.T) {
	eachReceiving(t, func(t *testing.T, b *bundle, r *receiver) {
		broken := *b
		broken.m = workspacetest.New(t, b.DB, "broken")
		b.dispatcher.Renderer = failing{workspaceID: broken.m.ID()}
		broken.create(t, r.URL, audit.LinkUpdated, audit.LinkClicked)
		w, _ := b.create(t, r.URL, audit.LinkUpdated, audit.LinkClicked)
		clicks := clicktest.New(t, b.DB, b.clock.Now)
		clicktest.Run(t, clicks.Recorder)
		b.run(t)
		for _, tenant := range []*bundle{&broken, b} {
			tenant.write(t, audit.LinkUpdated, newLinkID())
			clicks.Record(&click.Click{WorkspaceID: tenant.m.ID(), LinkID: newLinkID(), Status: 302,
				ClickedAt: b.clock.Now()})
		}
		must.NoError(t, clicks.Flush(t.Context()))
		until(t, "the other webhook has its event and its click", func() bool { return len(b.delivered(t, w)) == 2 })
		if n := len(r.got()); n != 2 {
			t.Errorf("%d requests", n)
		}
	})
}

// settle waits until no delivery of a webhook is due.
func (b *bundle) settle(t *testing.T, webhookID string) {
	t.Helper()
	until(t, "no delivery is due", func() bool {
		n := must.Value(b.DB.NewSelect().Table("webhook_deliveries").Where("webhook_id = ?", webhookID).
			Where("status = 'WAITING'").Where("due_at <= ? OR claimed_until IS NOT NULL", b.clock.Now()).
			Count(db.AsSystem(t.Context())))(t)
		return n == 0 || b.reload(t, webhookID).Status != webhook.Active
	})
}

// delivered are the events of delivered deliveries.
func (b *bundle) delivered(t *testing.T, w *webhook.Webhook) (ids []string) {
	t.Helper()
	p := must.Value(b.Webhooks.Deliveries(t.Context(), b.m, w.ID, []webhook.DeliveryStatus{webhook.Delivered},
		page.Request{Size: 100}))(t)
	for _, delivery := range p.Items {
		ids = append(ids, delivery.EventID)
	}
	return ids
}
