package dispatch_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/linkforge/linkforge/internal/event/audit"
	"github.com/linkforge/linkforge/internal/event/webhook"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/must"
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
	eachSending(t, func(t *testing.T, b *bundle, r *receiver, _ *webhook.Webhook) {
		var open, most atomic.Int64
		r.respond(func(w http.ResponseWriter, n int) {
			most.Store(max(most.Load(), open.Add(1)))
			time.Sleep(5 * time.Millisecond) //nolint // the duration of a request
			open.Add(-1)
			if n%4 == 0 {
				w.WriteHeader(500)
			}
		})
		links, linkOf := []string{newLinkID(), newLinkID()}, map[string]string{}
		want, got := map[string][]string{}, map[string][]string{}
		for i := range 20 {
			l := links[i%2]
			messageID := b.write(t, audit.LinkUpdated, l)
			want[l], linkOf[messageID] = append(want[l], messageID), l
		}
		b.run(t)
		until(t, "all are tried", func() bool { return len(r.got()) >= len(linkOf) })
		for _, messageID := range r.ids() {
			if l := linkOf[messageID]; !slices.Contains(got[l], messageID) {
				got[l] = append(got[l], messageID)
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

// TestDispatcher_FailingWebhookDoesNotStopOthers cannot render the events and clicks of the first
// of two workspaces.
func TestDispatcher_FailingWebhookDoesNotStopOthers(t *testing.T) {
	eachReceiving(t, func(t *testing.T, b *bundle, r *receiver) {
		broken := *b
		broken.m = workspacetest.New(t, b.DB, "broken")
		b.beforeRendering(func(ctx context.Context, query string) context.Context {
			if !strings.Contains(query, broken.m.ID()) {
				return ctx
			}
			ended, cancel := context.WithCancel(ctx)
			cancel()
			return ended
		})
		broken.create(t, r.URL, audit.LinkUpdated, audit.LinkClicked)
		w, _ := b.create(t, r.URL, audit.LinkUpdated, audit.LinkClicked)
		record := b.recorder(t)
		b.run(t)
		for _, tenant := range []*bundle{&broken, b} {
			tenant.write(t, audit.LinkUpdated, newLinkID())
			record(1, tenant.m)
		}
		until(t, "the other webhook has its event and its click", func() bool { return len(b.delivered(t, w)) == 2 })
		if n := len(r.got()); n != 2 {
			t.Errorf("%d requests", n)
		}
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
