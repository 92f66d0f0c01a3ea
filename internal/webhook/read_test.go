package webhook_test

import (
	"context"
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/linkforge/linkforge/internal/audit"
	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/dbtest"
	"github.com/linkforge/linkforge/internal/must"
	"github.com/linkforge/linkforge/internal/optional"
	"github.com/linkforge/linkforge/internal/webhook"
	"github.com/linkforge/linkforge/internal/workspace"
	"github.com/linkforge/linkforge/internal/workspace/workspacetest"
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

// TestDispatcher_ReadsAsFarAsItCanSend has 450 events: 200 deliveries exist before their first attempt, and all in the
// end, in the order of the log. The others count as waiting.
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
		for i, sent := range []string{"", "number <= 50", "number <= 250", "number <= 450"} {
			if sent != "" {
				b.exec(t, "UPDATE webhook_deliveries SET status = 'DELIVERED', tries = 1 WHERE "+sent)
			}
			if i == 1 { // clicks have their own bound, and retries none
				b.exec(t, "UPDATE webhook_deliveries SET type = 'LINK_CLICKED' WHERE number = 51")
				b.exec(t, "UPDATE webhook_deliveries SET tries = 1 WHERE number = 52")
			}
			waiting := []int64{200, 202, 200, 0}[i]
			until(t, "the next events have deliveries", func() bool {
				must.NoError(t, b.dispatcher.ReadEvents(t.Context(), w.ID))
				return b.waiting(t, w) >= waiting
			})
			if n := b.waiting(t, w); n != waiting {
				t.Errorf("%d deliveries wait, want %d", n, waiting)
			}
			if n, want := b.backlog(t, w), []int64{450, 400, 200, 0}[i]; n != want {
				t.Errorf("step %d: the backlog is %d, want %d", i, n, want)
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

// TestStore_CountsEventsAsWaiting has events of other types, links with other tags, other workspaces, and of more than
// 30 days.
func TestStore_CountsEventsAsWaiting(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := setup(t, d)
		change := hook("http://127.0.0.1:9999/", audit.LinkUpdated)
		change.Tags = optional.Set([]string{"a&b", "c"})
		tagged, _ := b.createWith(t, change)
		w, _ := b.create(t, "http://127.0.0.1:9999/", audit.LinkUpdated)
		other := *b
		other.m = workspacetest.New(t, d, "other")
		other.write(t, audit.LinkUpdated, newLinkID())
		b.write(t, audit.LinkUpdated, newLinkID())
		b.write(t, audit.LinkCreated, newLinkID())
		b.update(t, w, webhook.Change{Status: optional.Set(webhook.Paused)})
		if n := b.backlog(t, w); n != 1 {
			t.Errorf("%d wait for a paused webhook", n)
		}
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

func (r blocking) Events(
	ctx context.Context, m workspace.Membership, selection *string, events []*audit.Event,
) ([]json.RawMessage, string, error) {
	if m.ID() == r.workspaceID {
		r.started <- struct{}{}
		select {
		case <-r.released:
		case <-ctx.Done():
			return nil, "", ctx.Err()
		}
	}
	return r.plain.Events(ctx, m, selection, events)
}

// TestDispatcher_SendsWhileItReads blocks the rendering of one workspace: its deliveries are sent, and the events of
// other workspaces read.
func TestDispatcher_SendsWhileItReads(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b, r := setup(t, d), newReceiver(t)
		other := *b
		other.m = workspacetest.New(t, d, "other")
		w, _ := b.create(t, r.URL, audit.LinkUpdated)
		first := b.write(t, audit.LinkUpdated, newLinkID())
		b.readEvents(t, w)
		renderer := blocking{workspaceID: b.m.ID(), started: make(chan struct{}, 100), released: make(chan struct{})}
		b.dispatcher.Renderer = renderer
		second := b.write(t, audit.LinkUpdated, newLinkID())
		b.exec(t, "UPDATE webhooks SET due_at = NULL")
		b.run(t)
		<-renderer.started
		b.exec(t, "UPDATE webhooks SET due_at = ?", b.clock.Now())
		until(t, "the first event is sent", func() bool { return slices.Equal(r.ids(), []string{first}) })
		elsewhere, _ := other.create(t, r.URL, audit.LinkUpdated)
		third := other.write(t, audit.LinkUpdated, newLinkID())
		until(t, "the event of the other workspace is sent", func() bool {
			return slices.Equal(other.delivered(t, elsewhere), []string{third})
		})
		close(renderer.released)
		until(t, "the second event is sent", func() bool { return slices.Contains(b.delivered(t, w), second) })
		if got := r.ids(); len(got) != 3 {
			t.Errorf("sent %v", got)
		}
	})
}

// TestDispatcher_SkipsLockedWebhooks moves the positions among events and clicks of two webhooks,
// one of which is locked.
func TestDispatcher_SkipsLockedWebhooks(t *testing.T) {
	t.Parallel()
	d := dbtest.MigratedPostgres(t)
	b, r := setup(t, d), newReceiver(t)
	free, _ := b.create(t, r.URL, audit.DomainLost, audit.LinkClicked)
	locked, _ := b.create(t, r.URL, audit.DomainLost, audit.LinkClicked)
	b.write(t, audit.LinkUpdated, newLinkID())
	until(t, "the event is final", func() bool { return b.isFinal(t, 1) })
	b.clock.advance(time.Hour + time.Second)
	dbtest.WhileLocked(t, d, "webhooks", "id = '"+locked.ID+"'", func(ctx context.Context) {
		if _, err := b.dispatcher.FindEvents(ctx); err != nil {
			t.Error(err)
		}
		b.recorder(t)(1, workspacetest.New(t, d, "other"))
		if _, err := b.dispatcher.FindClicks(ctx); err != nil {
			t.Error(err)
		}
	})
	for _, c := range []struct {
		webhook *webhook.Webhook
		moves   bool
	}{{free, true}, {locked, false}} {
		got := b.reload(t, c.webhook.ID)
		if moved := got.Position != c.webhook.Position; moved != c.moves {
			t.Errorf("position among events %v after %v, want moved: %t", got.Position, c.webhook.Position, c.moves)
		}
		if moved := got.ClicksAt.After(c.webhook.ClicksAt); moved != c.moves {
			t.Errorf("position among clicks of %s after %s, want moved: %t", got.ClicksAt, c.webhook.ClicksAt, c.moves)
		}
	}
}

// TestDispatcher_MovesPositionsPastOtherEvents compares positions with the log: only a matching event makes a webhook
// fall behind.
func TestDispatcher_MovesPositionsPastOtherEvents(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b, r := setup(t, d), newReceiver(t)
		idle, _ := b.create(t, r.URL, audit.DomainLost)
		w, _ := b.create(t, r.URL, audit.LinkUpdated, audit.DomainLost)
		paused, _ := b.create(t, r.URL, audit.DomainLost)
		b.update(t, paused, webhook.Change{Status: optional.Set(webhook.Paused)})
		b.write(t, audit.LinkUpdated, newLinkID())
		until(t, "the event is final", func() bool { return b.isFinal(t, 1) })
		behind, err := b.dispatcher.FindEvents(t.Context())
		if err != nil || !slices.Equal(behind, []string{w.ID}) {
			t.Errorf("behind are %v, want %s, %v", behind, w.ID, err)
		}
		for _, c := range []struct {
			webhook *webhook.Webhook
			moves   bool
		}{{idle, true}, {w, false}, {paused, false}} {
			if got := b.reload(t, c.webhook.ID).Position; (got != c.webhook.Position) != c.moves {
				t.Errorf("position %v after %v, want moved: %t", got, c.webhook.Position, c.moves)
			}
		}
		b.write(t, audit.LinkCreated, newLinkID())
		until(t, "the next event is final", func() bool { return b.isFinal(t, 2) })
		if behind, err := b.dispatcher.FindEvents(t.Context()); err != nil || !slices.Equal(behind, []string{w.ID}) {
			t.Errorf("behind after an event of another type are %v, want %s, %v", behind, w.ID, err)
		}
		want := b.write(t, audit.DomainLost, newLinkID())
		b.run(t)
		until(t, "the matching event is delivered", func() bool { return slices.Equal(b.delivered(t, idle), []string{want}) })
	})
}
