package dispatch_test

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/event/audit"
	"github.com/linkforge/linkforge/internal/event/webhook"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/optional"
	"github.com/linkforge/linkforge/internal/tenant/workspace/workspacetest"
)

// backlog is the number of deliveries and events of a webhook that wait, as its users see it.
func (b *bundle) backlog(t *testing.T, w *webhook.Webhook) int64 {
	t.Helper()
	return must.Value(b.Webhooks.WaitingOf(t.Context(), b.m, w.ID))(t)[w.ID]
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
	eachSending(t, func(t *testing.T, b *bundle, _ *receiver, w *webhook.Webhook) {
		events := b.updates(450)
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
			b.readEvents(t, w, c.waiting)
			if n, backlog := b.waiting(t, w), b.backlog(t, w); n != c.waiting || backlog != c.backlog {
				t.Errorf("after %d: %d of %d wait, want %d of %d", c.sent, n, backlog, c.waiting, c.backlog)
			}
		}
		var got []string
		must.NoError(t, b.DB.NewSelect().Table("webhook_deliveries").Column("event_id").Order("number").
			Scan(db.AsSystem(t.Context()), &got))
		if !slices.EqualFunc(got, events, func(id string, e *audit.Event) bool { return id == e.ID }) {
			t.Errorf("%d deliveries, want %d in the order of the log", len(got), len(events))
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

// TestDispatcher_SendsWhileItRenders blocks the rendering of one workspace: the events of other
// workspaces are sent.
func TestDispatcher_SendsWhileItRenders(t *testing.T) {
	eachReceiving(t, func(t *testing.T, b *bundle, r *receiver) {
		other := *b
		other.m = workspacetest.New(t, b.DB, "other")
		w, _ := b.create(t, r.URL, audit.LinkUpdated)
		elsewhere, _ := other.create(t, r.URL, audit.LinkUpdated)
		started, released := make(chan struct{}, 100), make(chan struct{})
		b.beforeRendering(func(ctx context.Context, query string) context.Context {
			if !strings.Contains(query, b.m.ID()) {
				return ctx
			}
			started <- struct{}{}
			select {
			case <-released:
			case <-ctx.Done():
			}
			return ctx
		})
		first := b.write(t, audit.LinkUpdated, newLinkID())
		b.run(t)
		<-started
		second := other.write(t, audit.LinkUpdated, newLinkID())
		until(t, "the event of the other workspace is sent", func() bool {
			return slices.Equal(other.delivered(t, elsewhere), []string{second})
		})
		close(released)
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
	eachSending(t, func(t *testing.T, b *bundle, r *receiver, w *webhook.Webhook) {
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
		b.readEvents(t, w, 1)
		if got := b.delivery(t, w).EventID; got != messageID {
			t.Errorf("delivers %s, want %s", got, messageID)
		}
	})
}

// once calls a function after the first query with one of the texts.
type once struct {
	texts []string
	do    func()
	done  atomic.Bool
}

func (o *once) BeforeQuery(ctx context.Context, _ *bun.QueryEvent) context.Context { return ctx }

func (o *once) AfterQuery(_ context.Context, e *bun.QueryEvent) {
	for _, text := range o.texts {
		if strings.Contains(e.Query, text) && o.done.CompareAndSwap(false, true) {
			o.do()
		}
	}
}

// meanwhile calls a function after the first query of work with one of the texts.
func (b *bundle) meanwhile(t *testing.T, do, work func(), texts ...string) {
	t.Helper()
	whole := b.Webhooks.DB
	defer func() { b.Webhooks.DB = whole }()
	o := &once{texts: texts, do: func() {
		b.Webhooks.DB = whole
		do()
	}}
	b.Webhooks.DB = &db.DB{DB: whole.WithQueryHook(o), Kind: whole.Kind}
	if work(); !o.done.Load() {
		t.Errorf("no query has one of %q", texts)
	}
}

// readUpTo reads the log until an event was read.
func (b *bundle) readUpTo(t *testing.T, eventID string) {
	t.Helper()
	until(t, "the event was read", func() bool {
		must.NoError(t, b.dispatcher.FindEvents(t.Context()))
		n := must.Value(b.DB.NewSelect().TableExpr("webhook_readers AS reader").
			Join("JOIN audit_events AS event ON event.id = ?", eventID).
			Where("log = 'EVENTS'").Where("(reader.xid, reader.seq) >= (event.xid, event.seq)").
			Count(db.AsSystem(t.Context())))(t)
		return n == 1
	})
}

// TestStore_LosesNoEventWhileItChanges: events that are read while a webhook becomes active, or
// skips its backlog, are sent or skipped.
func TestStore_LosesNoEventWhileItChanges(t *testing.T) {
	t.Parallel()
	for name, skips := range map[string]bool{"continues": false, "skips": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dbtest.Each(t, func(t *testing.T, d *db.DB) {
				b, r := setup(t, d), newReceiver(t)
				w, _ := b.create(t, r.URL, audit.LinkUpdated)
				b.update(t, w, webhook.Change{Status: optional.Set(webhook.Paused)})
				b.meanwhile(t, func() { b.readUpTo(t, b.write(t, audit.LinkUpdated, newLinkID())) }, func() {
					b.update(t, w, webhook.Change{Status: optional.Set(webhook.Active), SkipBacklog: skips})
				}, "\"seq\" AS seq")
				b.run(t)
				until(t, "nothing waits", func() bool { return b.backlog(t, w) == 0 })
				if n := len(r.got()); skips && n > 0 {
					t.Errorf("%d of the backlog are sent", n)
				}
				next := b.write(t, audit.LinkUpdated, newLinkID())
				until(t, "the next event is sent", func() bool {
					return len(r.got()) > 0 && r.ids()[len(r.got())-1] == next
				})
			})
		})
	}
}

// TestStore_AddsTypesFromNowOn: a webhook receives no events from before it received their type.
func TestStore_AddsTypesFromNowOn(t *testing.T) {
	eachReceiving(t, func(t *testing.T, b *bundle, r *receiver) {
		w, _ := b.create(t, r.URL, audit.LinkDeleted)
		b.readUpTo(t, b.write(t, audit.LinkUpdated, newLinkID()))
		b.update(t, w, webhook.Change{Types: optional.Set([]audit.Action{audit.LinkDeleted, audit.LinkUpdated})})
		b.readUpTo(t, b.write(t, audit.LinkUpdated, newLinkID()))
		b.readEvents(t, w, 1)
		if n := b.waiting(t, w); n != 1 {
			t.Errorf("%d deliveries, want 1", n)
		}
	})
}

// TestStore_KeepsConcurrentChanges of the types of a webhook while it waits for the webhook.
func TestStore_KeepsConcurrentChanges(t *testing.T) {
	t.Parallel()
	d := dbtest.MigratedPostgres(t)
	b, r := setup(t, d), newReceiver(t)
	w, _ := b.create(t, r.URL, audit.LinkUpdated)
	done := make(chan error, 1)
	must.NoError(t, d.Tx(db.AsSystem(t.Context()), func(ctx context.Context, tx bun.Tx) error {
		must.Value(tx.NewRaw("UPDATE webhooks SET name = 'x' WHERE id = ?", w.ID).Exec(ctx))(t)
		go func() {
			_, err := b.Webhooks.Update(t.Context(), b.m, w.ID, webhook.Change{Name: optional.Set("renamed")})
			done <- err
		}()
		until(t, "the change waits", func() bool {
			q := d.NewSelect().Table("pg_stat_activity").Where("datname = current_database()").
				Where("wait_event_type = 'Lock'")
			return must.Value(q.Exists(db.AsOwner(t.Context())))(t)
		})
		_, err := tx.NewRaw("UPDATE webhook_types SET type = 'LINK_DELETED' WHERE webhook_id = ?", w.ID).Exec(ctx)
		return err
	}))
	must.NoError(t, <-done)
	if got := b.reload(t, w.ID); got.Name != "renamed" || len(got.Types) != 1 || got.Types[0] != audit.LinkDeleted {
		t.Errorf("it is %s with the types %v", got.Name, got.Types)
	}
}

// TestDispatcher_ReadsClicksOfWebhooksThatFollow: a webhook is created after a node has looked up
// the receivers of clicks.
func TestDispatcher_ReadsClicksOfWebhooksThatFollow(t *testing.T) {
	eachReceiving(t, func(t *testing.T, b *bundle, r *receiver) {
		other := *b
		other.m = workspacetest.New(t, b.DB, "other")
		b.create(t, r.URL, audit.LinkClicked)
		record := b.recorder(t)
		must.NoError(t, b.dispatcher.ReadClicks(t.Context()))
		var w *webhook.Webhook
		b.meanwhile(t, func() {
			w, _ = other.create(t, r.URL, audit.LinkClicked)
			record(3, other.m)
			b.awaitFinal(t)
		}, func() { must.NoError(t, b.dispatcher.ReadClicks(t.Context())) },
			"SELECT webhook_id FROM webhook_types WHERE type")
		b.readClicks(t, w, 1)
	})
}

// TestDispatcher_SplitsOnlyItsOwn: a large batch of clicks that was skipped while it was claimed
// stays skipped.
func TestDispatcher_SplitsOnlyItsOwn(t *testing.T) {
	eachReceiving(t, func(t *testing.T, b *bundle, r *receiver) {
		w, _ := b.create(t, r.URL, audit.LinkClicked)
		b.recorder(t)(150, b.m)
		b.awaitFinal(t)
		b.exec(t, "UPDATE clicks SET utm_term = ?", strings.Repeat("x", 3*kib))
		b.readClicks(t, w, 1)
		send := must.Value(b.dispatcher.ClaimForLater(t.Context(), w.ID))(t)
		b.update(t, w, webhook.Change{Status: optional.Set(webhook.Active), SkipBacklog: true})
		send()
		if n, got := b.waiting(t, w), b.delivery(t, w).Status; n != 0 || got != webhook.Skipped || len(r.got()) != 0 {
			t.Errorf("%d deliveries wait, one is %s, %d requests", n, got, len(r.got()))
		}
	})
}

// TestDispatcher_WaitsWithoutRoom: while too many deliveries wait for a later attempt, a webhook
// that is behind is not due before them.
func TestDispatcher_WaitsWithoutRoom(t *testing.T) {
	eachSending(t, func(t *testing.T, b *bundle, r *receiver, w *webhook.Webhook) {
		events := b.updates(250)
		b.writeEvents(t, events...)
		b.readUpTo(t, events[249].ID)
		b.readEvents(t, w, 1)
		later := b.clock.Now().Add(10 * time.Second)
		b.exec(t, "UPDATE webhook_deliveries SET due_at = ?", later)
		must.Value(b.dispatcher.Claim(t.Context(), w.ID))(t)
		if got := b.reload(t, w.ID); !got.IsBehind() || got.DueAt == nil || !got.DueAt.Equal(later) {
			t.Errorf("it is due at %v, want %v", got.DueAt, later)
		}
	})
}
