package dispatch_test

import (
	"context"
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/linkforge/linkforge/internal/event/audit"
	"github.com/linkforge/linkforge/internal/event/webhook"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/optional"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
	"github.com/linkforge/linkforge/internal/tenant/workspace/workspacetest"
)

// backlog is the number of deliveries and events of a webhook that wait, as its users see it.
func (b *bundle) backlog(t *testing.T, w *webhook.Webhook) int64 {
	t.Helper()
	n := must.Value(b.Webhooks.WaitingOf(t.Context(), b.m, w.ID))(t)
	return n[w.ID]
}

// exec executes a statement.
func (b *bundle) exec(t *testing.T, statement string, args ...any) {
	t.Helper()
	must.Value(b.DB.NewRaw(statement, args...).Exec(db.AsSystem(t.Context())))(t)
}

// TestDispatcher_ReadsAsFarAsItCanSend has 450 events: 200 deliveries exist before their first
// attempt, and all in the end, in the order of the log. The others count as waiting, and get their
// deliveries when half of the room is free.
func TestDispatcher_ReadsAsFarAsItCanSend(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := setup(t, d)
		w, _ := b.create(t, "http://127.0.0.1:9999/", audit.LinkUpdated)
		var events []*audit.Event
		var want []string
		for range 450 {
			e := audit.New(b.m.ID(), "", audit.LinkUpdated, newLinkID(), nil, b.clock.Now())
			events, want = append(events, e), append(want, e.ID)
		}
		b.writeEvents(t, events...)
		b.write(t, audit.LinkCreated, newLinkID())
		until(t, "the events are final", func() bool { return b.isFinal(t, 100) })
		const first = "id IN (SELECT id FROM webhook_deliveries ORDER BY number LIMIT ?)"
		for _, c := range []struct {
			sent, waiting, backlog int64
		}{{0, 200, 450}, {50, 150, 400}, {150, 202, 300}, {352, 98, 98}, {450, 0, 0}} {
			b.exec(t, "UPDATE webhook_deliveries SET status = 'DELIVERED', tries = 1 WHERE "+first, c.sent)
			if c.sent == 150 { // clicks have their own bound, and retries none
				b.exec(t, "UPDATE webhook_deliveries SET type = 'LINK_CLICKED' WHERE status = 'WAITING' AND "+first,
					151)
				b.exec(t, "UPDATE webhook_deliveries SET tries = 1 WHERE status = 'WAITING' AND type <> "+
					"'LINK_CLICKED' AND "+first, 152)
			}
			until(t, "the next events have deliveries", func() bool {
				must.NoError(t, b.dispatcher.ReadEvents(t.Context(), w.ID))
				return b.waiting(t, w) >= c.waiting
			})
			if n := b.waiting(t, w); n != c.waiting {
				t.Errorf("after %d: %d deliveries wait, want %d", c.sent, n, c.waiting)
			}
			if n := b.backlog(t, w); n != c.backlog {
				t.Errorf("after %d: the backlog is %d, want %d", c.sent, n, c.backlog)
			}
		}
		var got []string
		err := d.NewSelect().Table("webhook_deliveries").Column("event_id").Order("number").
			Scan(db.AsSystem(t.Context()), &got)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%d deliveries, want %d in the order of the log, %v", len(got), len(want), err)
		}
	})
}

// TestStore_CountsEventsAsWaiting has events of other types, links with other tags, other
// workspaces, and of more than 30 days.
func TestStore_CountsEventsAsWaiting(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		change := hook("http://127.0.0.1:9999/", audit.LinkUpdated)
		change.Tags = optional.Set([]string{"a&b", "c"})
		tagged, _ := b.createWith(t, change)
		w, _ := b.create(t, "http://127.0.0.1:9999/", audit.LinkUpdated)
		other := *b
		other.m = workspacetest.New(t, b.DB, "other")
		other.write(t, audit.LinkUpdated, newLinkID())
		b.write(t, audit.LinkUpdated, newLinkID())
		b.write(t, audit.LinkCreated, newLinkID())
		b.update(t, w, webhook.Change{Status: optional.Set(webhook.Paused)})
		until(t, "an event waits for a paused webhook", func() bool {
			must.NoError(t, b.dispatcher.FindEvents(t.Context()))
			return b.isFinal(t, 2) && b.backlog(t, w) == 1
		})
		if n := b.backlog(t, tagged); n != 0 {
			t.Errorf("%d wait without a matching tag", n)
		}
		b.clock.advance(31 * 24 * time.Hour)
		if n := b.backlog(t, w); n != 0 {
			t.Errorf("%d wait after 30 days", n)
		}
	})
}

// blocking renders events of a workspace when it is released, and sends to started before.
type blocking struct {
	plain

	workspaceID       string
	started, released chan struct{}
}

func (r blocking) Event(
	ctx context.Context, m workspace.Membership, selection *string, e *audit.Event,
) (json.RawMessage, string, error) {
	if m.ID() == r.workspaceID {
		r.started <- struct{}{}
		select {
		case <-r.released:
		case <-ctx.Done():
			return nil, "", ctx.Err()
		}
	}
	return r.plain.Event(ctx, m, selection, e)
}

// TestDispatcher_SendsWhileItRenders blocks the rendering of one workspace: the events of other
// workspaces are sent.
func TestDispatcher_SendsWhileItRenders(t *testing.T) {
	eachReceiving(t, func(t *testing.T, b *bundle, r *receiver) {
		other := *b
		other.m = workspacetest.New(t, b.DB, "other")
		w, _ := b.create(t, r.URL, audit.LinkUpdated)
		elsewhere, _ := other.create(t, r.URL, audit.LinkUpdated)
		renderer := blocking{workspaceID: b.m.ID(), started: make(chan struct{}, 100), released: make(chan struct{})}
		b.dispatcher.Renderer = renderer
		first := b.write(t, audit.LinkUpdated, newLinkID())
		b.run(t)
		<-renderer.started
		second := other.write(t, audit.LinkUpdated, newLinkID())
		until(t, "the event of the other workspace is sent", func() bool {
			return slices.Equal(other.delivered(t, elsewhere), []string{second})
		})
		close(renderer.released)
		until(t, "the first event is sent", func() bool { return slices.Contains(b.delivered(t, w), first) })
		if got := r.ids(); len(got) != 2 {
			t.Errorf("sent %v", got)
		}
	})
}

// TestDispatcher_MarksWhatReceives: only webhooks of the workspace with a type of its events are
// behind, also while they are paused.
func TestDispatcher_MarksWhatReceives(t *testing.T) {
	eachReceiving(t, func(t *testing.T, b *bundle, r *receiver) {
		other := *b
		other.m = workspacetest.New(t, b.DB, "other")
		idle, _ := b.create(t, r.URL, audit.DomainLost)
		w, _ := b.create(t, r.URL, audit.LinkUpdated, audit.DomainLost)
		paused, _ := b.create(t, r.URL, audit.LinkUpdated)
		foreign, _ := other.create(t, r.URL, audit.LinkUpdated)
		b.update(t, paused, webhook.Change{Status: optional.Set(webhook.Paused)})
		b.write(t, audit.LinkUpdated, newLinkID())
		until(t, "the event is final", func() bool { return b.isFinal(t, 1) })
		behind := func(w *webhook.Webhook) bool {
			n := must.Value(b.DB.NewSelect().Table("webhooks").Where("id = ?", w.ID).
				Where("(xid, seq) < (until_xid, until_seq)").Where("due_at IS NOT NULL").
				Count(db.AsSystem(t.Context())))(t)
			return n == 1
		}
		must.NoError(t, b.dispatcher.FindEvents(t.Context()))
		if !behind(w) || behind(idle) || !behind(paused) || behind(foreign) {
			t.Errorf("behind are %t %t %t %t", behind(w), behind(idle), behind(paused), behind(foreign))
		}
		want := b.write(t, audit.DomainLost, newLinkID())
		b.run(t)
		until(t, "the matching event is delivered", func() bool {
			return slices.Equal(b.delivered(t, idle), []string{want})
		})
		b.update(t, paused, webhook.Change{Status: optional.Set(webhook.Active)})
		until(t, "the event of the pause is delivered", func() bool { return len(b.delivered(t, paused)) == 1 })
	})
}

// TestReader_IsOneAtATime: while a node reads a log, others do not. They read it after a failure,
// and when the node has not returned.
func TestReader_IsOneAtATime(t *testing.T) {
	eachReceiving(t, func(t *testing.T, b *bundle, r *receiver) {
		w, _ := b.create(t, r.URL, audit.LinkUpdated)
		messageID := b.write(t, audit.LinkUpdated, newLinkID())
		until(t, "the event is final", func() bool { return b.isFinal(t, 1) })
		if err := b.dispatcher.FailReading(t.Context()); err == nil {
			t.Error("no failure")
		}
		claimed := must.Value(b.dispatcher.ClaimEvents(t.Context()))(t)
		must.NoError(t, b.dispatcher.ReadEvents(t.Context(), w.ID))
		if n := b.waiting(t, w); !claimed || n != 0 {
			t.Errorf("%d deliveries while another node reads, %t", n, claimed)
		}
		b.clock.advance(time.Minute)
		b.readEvents(t, w)
		if got := b.delivery(t, w).EventID; got != messageID {
			t.Errorf("delivers %s, want %s", got, messageID)
		}
	})
}
