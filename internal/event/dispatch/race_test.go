package dispatch_test

import (
	"context"
	"encoding/json"
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
	"github.com/linkforge/linkforge/internal/tenant/workspace"
	"github.com/linkforge/linkforge/internal/tenant/workspace/workspacetest"
)

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
		b.readEvents(t, w)
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
		b.dispatcher.Renderer = sized{click: 3 * kib}
		w, _ := b.create(t, r.URL, audit.LinkClicked)
		b.recorder(t)(150, b.m)
		b.awaitFinal(t)
		b.readClicks(t, w, 1)
		send := must.Value(b.dispatcher.ClaimForLater(t.Context(), w.ID))(t)
		b.update(t, w, webhook.Change{Status: optional.Set(webhook.Active), SkipBacklog: true})
		send()
		if n := b.waiting(t, w); n != 0 || len(r.got()) != 0 {
			t.Errorf("%d deliveries wait, %d requests", n, len(r.got()))
		}
	})
}

// poison cannot render one event.
type poison struct {
	plain

	eventID string
}

func (p poison) Event(
	ctx context.Context, m workspace.Membership, selection *string, e *audit.Event,
) (json.RawMessage, string, error) {
	if e.ID == p.eventID {
		return nil, "", errRender
	}
	return p.plain.Event(ctx, m, selection, e)
}

// TestDispatcher_SendsDespiteOneFailure to render: the other events of the webhook are sent.
func TestDispatcher_SendsDespiteOneFailure(t *testing.T) {
	eachReceiving(t, func(t *testing.T, b *bundle, r *receiver) {
		w, _ := b.create(t, r.URL, audit.LinkUpdated)
		b.exec(t, "UPDATE webhooks SET concurrency = 1")
		b.dispatcher.Renderer = poison{eventID: b.write(t, audit.LinkUpdated, newLinkID())}
		b.readUpTo(t, b.write(t, audit.LinkUpdated, newLinkID()))
		for range 3 {
			b.send(t, w)
			b.clock.advance(time.Second)
		}
		b.last(t, r, 1)
	})
}

// TestStore_RestoresTwice: a restore that was interrupted can be repeated, and sends no events from
// before a webhook.
func TestStore_RestoresTwice(t *testing.T) {
	eachReceiving(t, func(t *testing.T, b *bundle, r *receiver) {
		b.write(t, audit.LinkUpdated, newLinkID())
		until(t, "the event is final", func() bool { return b.isFinal(t, 1) })
		w, _ := b.create(t, r.URL, audit.LinkUpdated)
		for range 2 {
			must.NoError(t, b.Webhooks.AfterRestore(t.Context()))
		}
		must.NoError(t, audit.AfterRestore(t.Context(), b.DB))
		must.Value(b.dispatcher.Claim(t.Context(), w.ID))(t)
		if n := b.waiting(t, w); n != 0 {
			t.Errorf("%d deliveries of events from before the webhook", n)
		}
	})
}

// TestDispatcher_WaitsWithoutRoom: while too many deliveries wait for a later attempt, a webhook
// that is behind is not due before them.
func TestDispatcher_WaitsWithoutRoom(t *testing.T) {
	eachReceiving(t, func(t *testing.T, b *bundle, r *receiver) {
		w, _ := b.create(t, r.URL, audit.LinkUpdated)
		var events []*audit.Event
		for range 250 {
			events = append(events, audit.New(b.m.ID(), "", audit.LinkUpdated, newLinkID(), nil, b.clock.Now()))
		}
		b.writeEvents(t, events...)
		b.readUpTo(t, events[249].ID)
		b.readEvents(t, w)
		later := b.clock.Now().Add(10 * time.Second)
		b.exec(t, "UPDATE webhook_deliveries SET due_at = ?", later)
		must.Value(b.dispatcher.Claim(t.Context(), w.ID))(t)
		if got := b.reload(t, w.ID); !got.IsBehind() || got.DueAt == nil || !got.DueAt.Equal(later) {
			t.Errorf("it is due at %v, want %v", got.DueAt, later)
		}
	})
}
