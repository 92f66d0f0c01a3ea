package dispatch_test

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/linkforge/linkforge/internal/event/audit"
	"github.com/linkforge/linkforge/internal/event/webhook"
	"github.com/linkforge/linkforge/internal/platform/id"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/optional"
	"github.com/linkforge/linkforge/internal/platform/page"
)

const kib = 1 << 10

// TestDispatcher_TruncatesBodies sends changes in bodies of up to 32 KiB.
func TestDispatcher_TruncatesBodies(t *testing.T) {
	eachSending(t, func(t *testing.T, b *bundle, r *receiver, w *webhook.Webhook) {
		text := "x"
		for i, c := range []struct {
			size      int // beside the first, which tells the size without the text
			truncated bool
		}{{0, false}, {32 * kib, false}, {0, true}} {
			b.writeEvents(t, b.updates(1)[0].WithChanges([]*audit.FieldChange{{Field: "note", After: &text}}))
			b.readEvents(t, w, 1)
			b.send(t, w)
			got := b.last(t, r, i+1).body
			var body struct {
				Data      struct{ Changes []struct{ After string } }
				Truncated bool
			}
			if err := json.Unmarshal([]byte(got), &body); err != nil || body.Truncated != c.truncated ||
				(len(body.Data.Changes) == 0) != c.truncated || c.size > 0 && len(got) != c.size || len(got) > 32*kib {
				t.Errorf("a text of %d bytes: %d bytes, %+.200v, %v", len(text), len(got), body, err)
			}
			text += strings.Repeat("x", max(32*kib-len(got), 1))
		}
	})
}

// last returns the n-th request, which is the last.
func (b *bundle) last(t *testing.T, r *receiver, n int) request {
	t.Helper()
	got := r.got()
	if len(got) != n {
		t.Fatalf("%d requests, want %d", len(got), n)
	}
	return got[n-1]
}

// TestDispatcher_RendersEachAttempt changes the link between the attempts of a delivery.
func TestDispatcher_RendersEachAttempt(t *testing.T) {
	eachSending(t, func(t *testing.T, b *bundle, r *receiver, w *webhook.Webhook) {
		linkID := newLinkID()
		b.insertLink(t, linkID)
		r.respond(status(http.StatusInternalServerError))
		messageID := b.write(t, audit.LinkUpdated, linkID)
		b.readEvents(t, w, 1)
		send := func(n int, externalID string) request {
			t.Helper()
			b.exec(t, "UPDATE links SET external_id = ?", externalID)
			b.send(t, w)
			got := b.last(t, r, n)
			if !strings.Contains(got.body, `"externalId":"`+externalID+`"`) ||
				got.header.Get("webhook-id") != messageID {
				t.Errorf("sent %v: %s", got.header, got.body)
			}
			return got
		}
		first := send(1, "a")
		r.respond(nil)
		b.clock.advance(time.Minute)
		if retry := send(2, "b"); retry.header["Webhook-Timestamp"][0] == first.header["Webhook-Timestamp"][0] {
			t.Error("the retry has the time of the first attempt")
		}
		deliveryID := b.delivery(t, w).ID
		n, err := b.Webhooks.Redeliver(t.Context(), b.m, w.ID, webhook.Redelivery{IDs: []string{deliveryID}})
		if n != 1 || err != nil {
			t.Fatal(n, err)
		}
		send(3, "c")
	})
}

// TestDispatcher_SendsDespiteOneFailure panics when it renders an event: the other events of the
// webhook are sent, and the event later.
func TestDispatcher_SendsDespiteOneFailure(t *testing.T) {
	eachSending(t, func(t *testing.T, b *bundle, r *receiver, w *webhook.Webhook) {
		b.exec(t, "UPDATE webhooks SET concurrency = 1")
		linkID := newLinkID()
		want := []string{b.write(t, audit.LinkUpdated, linkID)}
		b.readEvents(t, w, 1)
		want = append(want, b.pending(t, w))
		b.beforeRendering(func(ctx context.Context, query string) context.Context {
			if strings.Contains(query, linkID) {
				panic("rendering failed")
			}
			return ctx
		})
		for range 3 {
			b.send(t, w)
			b.clock.advance(time.Second)
		}
		waiting := must.Value(b.Webhooks.Deliveries(t.Context(), b.m, w.ID, []webhook.DeliveryStatus{webhook.Waiting},
			page.Request{Size: 1}))(t).Items[0]
		if got := r.ids(); !slices.Equal(got, want[1:]) || waiting.Tries != 0 || waiting.ClaimedUntil != nil {
			t.Errorf("sent %v, want %v; the other delivery is %+v", got, want[1:], waiting)
		}
		b.dispatcher.Links = b.Links
		b.clock.advance(10 * time.Second)
		b.send(t, w)
		if got := r.ids(); len(got) != 2 || got[1] != want[0] {
			t.Errorf("sent %v, want %v as the last", got, want[0])
		}
	})
}

// TestDispatcher_FiltersByTags sends the events about links that have one of the tags.
func TestDispatcher_FiltersByTags(t *testing.T) {
	eachReceiving(t, func(t *testing.T, b *bundle, r *receiver) {
		matching, other, purged := newLinkID(), newLinkID(), newLinkID()
		for linkID, tags := range map[string][]string{matching: {"a", "news"}, other: {"b"}} {
			b.insertLink(t, linkID)
			for _, tag := range tags {
				b.exec(t, "INSERT INTO link_tags (workspace_id, link_id, tag) VALUES (?, ?, ?)", b.m.ID(), linkID, tag)
			}
		}
		change := hook(r.URL, audit.LinkUpdated, audit.LinkPurged)
		change.Tags = optional.Set([]string{"news", "sale"})
		w, _ := b.createWith(t, change)
		b.write(t, audit.LinkUpdated, other)
		b.write(t, audit.LinkPurged, purged)
		want := []string{b.write(t, audit.LinkUpdated, matching)}
		b.run(t)
		until(t, "the last event is delivered", func() bool { return len(b.delivered(t, w)) > 0 })
		if got := r.ids(); !slices.Equal(got, want) {
			t.Errorf("sent %v, want %v", got, want)
		}
	})
}

// TestDispatcher_SendsTests sends a made-up event to a paused webhook.
func TestDispatcher_SendsTests(t *testing.T) {
	eachSending(t, func(t *testing.T, b *bundle, r *receiver, w *webhook.Webhook) {
		b.update(t, w, webhook.Change{Status: optional.Set(webhook.Paused)})
		r.respond(status(http.StatusTeapot))
		a, err := b.dispatcher.Test(t.Context(), b.m, w.ID, audit.LinkExpired)
		if err != nil || a.Status == nil || *a.Status != http.StatusTeapot || a.Error == nil ||
			*a.Error != webhook.StatusError {
			t.Fatal(a, err)
		}
		got := b.last(t, r, 1)
		var body struct {
			Type string
			Test bool
		}
		if err := json.Unmarshal([]byte(got.body), &body); err != nil || body.Type != "link.expired" || !body.Test ||
			!id.Valid(id.Event, got.header.Get("webhook-id")) || got.method != http.MethodPost {
			t.Errorf("%v %s: %v", got.header, got.body, err)
		}
		if n := b.waiting(t, w); n != 0 || b.reload(t, w.ID).Status != webhook.Paused {
			t.Errorf("%d deliveries after a test", n)
		}
	})
}

// TestDispatcher_SkipsClicksWhileTooManyWait has 10,001 deliveries wait.
func TestDispatcher_SkipsClicksWhileTooManyWait(t *testing.T) {
	eachReceiving(t, func(t *testing.T, b *bundle, r *receiver) {
		w, _ := b.create(t, r.URL, audit.LinkClicked)
		record := b.recorder(t)
		b.insertDeliveries(t, w, 10_000)
		record(1, b.m)
		b.awaitFinal(t)
		b.readClicks(t, w, 10_001)
		record(1, b.m)
		until(t, "clicks are skipped", func() bool {
			must.NoError(t, b.dispatcher.ReadClicks(t.Context()))
			return b.reload(t, w.ID).SkippedClicks == 1
		})
		if n := b.waiting(t, w); n != 10_001 {
			t.Errorf("%d deliveries wait", n)
		}
	})
}
