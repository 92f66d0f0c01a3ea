package dispatch_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/linkforge/linkforge/internal/click"
	"github.com/linkforge/linkforge/internal/event/audit"
	"github.com/linkforge/linkforge/internal/event/webhook"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/id"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/optional"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
)

// sized renders data of given sizes, and reports a problem with selections.
type sized struct {
	plain

	selected, changes, normal, click int
	problem                          string
}

func (s sized) Event(
	_ context.Context, _ workspace.Membership, selection *string, e *audit.Event,
) (json.RawMessage, string, error) {
	size := s.normal
	if selection != nil {
		size = s.selected
	} else if e.Changes != nil {
		size = s.changes
	}
	return json.RawMessage(`"` + strings.Repeat("x", size) + `"`), s.problem, nil
}

func (s sized) Clicks(
	_ context.Context, _ workspace.Membership, clicks []*click.Click,
) (data []json.RawMessage, err error) {
	for _, c := range clicks {
		data = append(data,
			json.RawMessage(fmt.Sprintf(`{"id":%q,"text":%q}`, c.PublicID(), strings.Repeat("x", s.click))))
	}
	return data, nil
}

const kib = 1 << 10

// TestDispatcher_TruncatesBodies renders more than 32 KiB for the selection, and for the changes.
func TestDispatcher_TruncatesBodies(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b, r := setup(t, d), newReceiver(t)
		change := hook(r.URL, audit.LinkUpdated)
		change.Selection = optional.Set(webhook.Selection{Text: new("{ id }")})
		w, _ := b.createWith(t, change)
		for i, c := range []struct {
			rendered  sized
			size      int
			truncated bool
		}{
			{sized{selected: 32*kib - 200, changes: 5}, 32*kib - 200, false},
			{sized{selected: 32 * kib, changes: 50}, 50, true},
			{sized{selected: 40 * kib, changes: 33 * kib, normal: 70}, 70, true},
		} {
			b.dispatcher.Renderer = c.rendered
			b.writeChange(t)
			b.readEvents(t, w)
			b.send(t, w)
			text := b.last(t, r, i+1).body
			var body struct {
				Data      string
				Truncated bool
			}
			if err := json.Unmarshal([]byte(text), &body); err != nil || len(body.Data) != c.size ||
				body.Truncated != c.truncated || len(text) > 32*kib {
				t.Errorf("%+v: %d bytes of %d, truncated: %v, %v", c.rendered, len(body.Data), len(text),
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

// writeChange writes an event with changes.
func (b *bundle) writeChange(t *testing.T) {
	t.Helper()
	e := audit.New(b.m.ID(), "", audit.LinkUpdated, newLinkID(), nil, b.clock.Now()).
		WithChanges([]*audit.FieldChange{{Field: "title", Before: new("a"), After: new("b")}})
	b.writeEvents(t, e)
}

// TestDispatcher_BoundsBatchesOfClicks renders clicks that do not fit into one body.
func TestDispatcher_BoundsBatchesOfClicks(t *testing.T) {
	eachReceiving(t, func(t *testing.T, b *bundle, r *receiver) {
		b.dispatcher.Renderer = sized{click: 3 * kib}
		b.create(t, r.URL, audit.LinkClicked)
		record := b.recorder(t)
		record(100, b.m)
		b.run(t)
		until(t, "all clicks arrive", func() bool {
			seen := 0
			for _, request := range r.got() {
				if len(request.body) > 128*kib {
					t.Fatalf("a body of %d bytes", len(request.body))
				}
				seen += strings.Count(request.body, `"id"`)
			}
			return seen == 100
		})
		if n := len(r.got()); n != 3 { // 42 clicks fit into 128 KiB
			t.Errorf("%d batches", n)
		}
	})
}

// TestDispatcher_RendersEachAttempt changes the rendering between the attempts of a delivery, and
// reports the problem of a selection until the next rendering.
func TestDispatcher_RendersEachAttempt(t *testing.T) {
	eachReceiving(t, func(t *testing.T, b *bundle, r *receiver) {
		change := hook(r.URL, audit.LinkUpdated)
		change.Selection = optional.Set(webhook.Selection{Text: new("{ id }")})
		w, _ := b.createWith(t, change)
		r.respond(func(rw http.ResponseWriter, n int) {
			if n == 1 {
				rw.WriteHeader(http.StatusInternalServerError)
			}
		})
		b.dispatcher.Renderer = sized{selected: 10, problem: "a field was removed"}
		messageID := b.write(t, audit.LinkUpdated, newLinkID())
		b.readEvents(t, w)
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
		b.dispatcher.Renderer = sized{selected: 20}
		b.clock.advance(time.Minute)
		const timestamp = "webhook-timestamp"
		if retry := send(2, 20); retry.header.Get(timestamp) == first.header.Get(timestamp) {
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

// TestDispatcher_RecoversFromPanics panics when the body of a delivery is rendered: it is sent
// later.
func TestDispatcher_RecoversFromPanics(t *testing.T) {
	eachReceiving(t, func(t *testing.T, b *bundle, r *receiver) {
		w, _ := b.create(t, r.URL, audit.LinkUpdated)
		b.write(t, audit.LinkUpdated, newLinkID())
		b.readEvents(t, w)
		b.send(t, w)
		way := webhook.Redelivery{IDs: []string{b.delivery(t, w).ID}}
		if n, err := b.Webhooks.Redeliver(t.Context(), b.m, w.ID, way); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		b.dispatcher.Renderer = failing{workspaceID: b.m.ID()}
		b.send(t, w)
		if got := b.delivery(t, w); got.Status != webhook.Waiting || got.Tries != 0 || got.ClaimedUntil != nil {
			t.Errorf("after a panic: %+v", got)
		}
		b.dispatcher.Renderer = plain{}
		b.clock.advance(10 * time.Second)
		b.send(t, w)
		b.last(t, r, 2)
	})
}

// TestDispatcher_DoesWithoutLargeData renders nothing for an event whose selection is too large,
// and the default.
func TestDispatcher_DoesWithoutLargeData(t *testing.T) {
	t.Parallel()
	b, r := setup(t, dbtest.MigratedSQLite(t)), newReceiver(t)
	change := hook(r.URL, audit.LinkUpdated)
	change.Selection = optional.Set(webhook.Selection{Text: new("{ id }")})
	w, _ := b.createWith(t, change)
	b.dispatcher.Renderer = dropped{}
	messageID := b.write(t, audit.LinkUpdated, newLinkID())
	b.readEvents(t, w)
	b.send(t, w)
	if got := b.last(t, r, 1).body; !strings.Contains(got, messageID) || !strings.Contains(got, `"truncated":true`) {
		t.Errorf("sent %s", got)
	}
}

// dropped renders no data of selections.
type dropped struct{ plain }

func (p dropped) Event(
	ctx context.Context, m workspace.Membership, selection *string, e *audit.Event,
) (json.RawMessage, string, error) {
	if selection != nil {
		return nil, "", nil
	}
	return p.plain.Event(ctx, m, nil, e)
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
	eachReceiving(t, func(t *testing.T, b *bundle, r *receiver) {
		w, _ := b.create(t, r.URL, audit.LinkUpdated)
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

// TestDispatcher_SendsToTheNewURL changes the URL while a delivery waits.
func TestDispatcher_SendsToTheNewURL(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b, former, r := setup(t, d), newReceiver(t), newReceiver(t)
		w, _ := b.create(t, former.URL, audit.LinkUpdated)
		b.write(t, audit.LinkUpdated, newLinkID())
		b.readEvents(t, w)
		b.update(t, w, webhook.Change{URL: optional.Set(r.URL)})
		b.send(t, w)
		if len(former.got()) != 0 || len(r.got()) != 1 {
			t.Errorf("%d requests to the former URL, %d to the new one", len(former.got()), len(r.got()))
		}
	})
}

// TestDispatcher_SkipsClicksWhileTooManyWait has 10,001 deliveries wait.
func TestDispatcher_SkipsClicksWhileTooManyWait(t *testing.T) {
	eachReceiving(t, func(t *testing.T, b *bundle, r *receiver) {
		w, _ := b.create(t, r.URL, audit.LinkClicked)
		if err := b.Webhooks.Stop(t.Context()); err != nil { // deliveries wait
			t.Fatal(err)
		}
		record := b.recorder(t)
		insert := func(from, to int) {
			must.Value(
				b.DB.NewRaw(
					`INSERT INTO webhook_deliveries (id, workspace_id, webhook_id, event_id, subject_id, type, number,
				status, created_at)
				WITH RECURSIVE n (i) AS (SELECT CAST(? AS INTEGER) UNION ALL SELECT i + 1 FROM n WHERE i < ?)
				SELECT 'n' || i, ?, ?, 'n' || i, 'n' || i, 'LINK_UPDATED', i, 'WAITING', ? FROM n`,
					from, to, b.m.ID(), w.ID,
					b.clock.Now()).Exec(db.AsSystem(t.Context())))(t)
		}
		insert(1, 10_000)
		b.run(t)
		record(1, b.m)
		until(t, "clicks are delivered while 10,000 wait", func() bool { return b.waiting(t, w) == 10_001 })
		record(1, b.m)
		until(t, "clicks are skipped", func() bool { return b.reload(t, w.ID).SkippedClicks == 1 })
		if n := b.waiting(t, w); n != 10_001 {
			t.Errorf("%d deliveries wait", n)
		}
	})
}
