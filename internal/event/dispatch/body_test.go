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
	"github.com/linkforge/linkforge/internal/tenant/workspace"
)

const kib = 1 << 10

// TestDispatcher_TruncatesBodies renders more than 32 KiB for the selection, and for the changes.
func TestDispatcher_TruncatesBodies(t *testing.T) {
	eachReceiving(t, func(t *testing.T, b *bundle, r *receiver) {
		change := hook(r.URL, audit.LinkUpdated)
		change.Selection = optional.Set(webhook.Selection{Text: new("{ id }")})
		w, _ := b.createWith(t, change)
		for i, c := range []struct {
			rendered  renderer
			size      int
			truncated bool
		}{
			{renderer{selected: 32*kib - 300, changes: 5}, 32*kib - 300, false},
			{renderer{selected: 32 * kib, changes: 50}, 50, true},
			{renderer{selected: -1, changes: 60}, 60, true},
			{renderer{selected: 40 * kib, changes: 33 * kib, normal: 70}, 70, true},
		} {
			b.dispatcher.Renderer = c.rendered
			b.writeEvents(t, b.updates(1)[0].
				WithChanges([]*audit.FieldChange{{Field: "title", Before: new("a"), After: new("b")}}))
			b.readEvents(t, w, 1)
			b.send(t, w)
			text := b.last(t, r, i+1).body
			var body struct {
				Data      struct{ Text string }
				Truncated bool
			}
			if err := json.Unmarshal([]byte(text), &body); err != nil || len(body.Data.Text) != c.size ||
				body.Truncated != c.truncated || len(text) > 32*kib {
				t.Errorf("%+v: %d bytes of %d, truncated: %v, %v", c.rendered, len(body.Data.Text), len(text),
					body.Truncated, err)
			}
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

// TestDispatcher_RendersEachAttempt changes the rendering between the attempts of a delivery, and
// reports the problem of a selection until the next rendering.
func TestDispatcher_RendersEachAttempt(t *testing.T) {
	eachReceiving(t, func(t *testing.T, b *bundle, r *receiver) {
		change := hook(r.URL, audit.LinkUpdated)
		change.Selection = optional.Set(webhook.Selection{Text: new("{ id }")})
		w, _ := b.createWith(t, change)
		r.respond(status(http.StatusInternalServerError))
		b.dispatcher.Renderer = renderer{selected: 10, problem: "a field was removed"}
		messageID := b.pending(t, w)
		send := func(n, size int) request {
			t.Helper()
			b.send(t, w)
			got := b.last(t, r, n)
			if !strings.Contains(got.body, `"`+strings.Repeat("x", size)+`"`) ||
				got.header.Get("webhook-id") != messageID {
				t.Errorf("sent %v: %s", got.header, got.body)
			}
			return got
		}
		first := send(1, 10)
		if got := b.reload(t, w.ID).SelectionError; got == nil || *got != "a field was removed" {
			t.Errorf("selectionError: %v", got)
		}
		b.dispatcher.Renderer = renderer{selected: 20}
		r.respond(nil)
		b.clock.advance(time.Minute)
		if retry := send(2, 20); retry.header["Webhook-Timestamp"][0] == first.header["Webhook-Timestamp"][0] {
			t.Error("the retry has the time of the first attempt")
		}
		if got := b.reload(t, w.ID).SelectionError; got != nil {
			t.Errorf("selectionError after a rendering without problems: %s", *got)
		}
		deliveryID := b.delivery(t, w).ID
		n, err := b.Webhooks.Redeliver(t.Context(), b.m, w.ID, webhook.Redelivery{IDs: []string{deliveryID}})
		if n != 1 || err != nil {
			t.Fatal(n, err)
		}
		send(3, 20)
	})
}

// TestDispatcher_SendsDespiteOneFailure panics when it renders an event: the other events of the
// webhook are sent, and the event later.
func TestDispatcher_SendsDespiteOneFailure(t *testing.T) {
	eachSending(t, func(t *testing.T, b *bundle, r *receiver, w *webhook.Webhook) {
		b.exec(t, "UPDATE webhooks SET concurrency = 1")
		want := []string{b.pending(t, w), b.pending(t, w)}
		b.dispatcher.Renderer = renderer{before: func(_ context.Context, _ workspace.Membership, id string) error {
			if id == want[0] {
				panic("rendering failed")
			}
			return nil
		}}
		for range 3 {
			b.send(t, w)
			b.clock.advance(time.Second)
		}
		waiting := must.Value(b.Webhooks.Deliveries(t.Context(), b.m, w.ID, []webhook.DeliveryStatus{webhook.Waiting},
			page.Request{Size: 1}))(t).Items[0]
		if got := r.ids(); !slices.Equal(got, want[1:]) || waiting.Tries != 0 || waiting.ClaimedUntil != nil {
			t.Errorf("sent %v, want %v; the other delivery is %+v", got, want[1:], waiting)
		}
		b.dispatcher.Renderer = renderer{}
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
