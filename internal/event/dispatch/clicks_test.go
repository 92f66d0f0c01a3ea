package dispatch_test

import (
	"strings"
	"testing"
	"time"

	"github.com/linkforge/linkforge/internal/click"
	"github.com/linkforge/linkforge/internal/click/clicktest"
	"github.com/linkforge/linkforge/internal/event/audit"
	"github.com/linkforge/linkforge/internal/event/webhook"
	"github.com/linkforge/linkforge/internal/link/creation"
	"github.com/linkforge/linkforge/internal/link/linkfield"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/optional"
	"github.com/linkforge/linkforge/internal/platform/page"
	"github.com/linkforge/linkforge/internal/tenant/workspace/workspacetest"
)

// readClicks reads clicks until a webhook has n waiting deliveries.
func (b *bundle) readClicks(t *testing.T, w *webhook.Webhook, want int64) {
	t.Helper()
	until(t, "the clicks are read", func() bool {
		must.NoError(t, b.dispatcher.ReadClicks(t.Context()))
		return b.waiting(t, w) >= want
	})
	if n := b.waiting(t, w); n != want {
		t.Errorf("%d batches, want %d", n, want)
	}
}

// awaitFinal waits until no transaction can add clicks before the recorded ones. A search that sees
// a batch become final finds it, and so does the next one.
func (b *bundle) awaitFinal(t *testing.T) {
	t.Helper()
	if b.DB.Kind == db.SQLite {
		return
	}
	until(t, "the clicks are final", func() bool {
		open := must.Value(b.DB.NewSelect().Table("click_batches").Where("xid >= " + db.OldestTransaction).
			Exists(db.AsSystem(t.Context())))(t)
		return !open
	})
}

// holdTransaction opens a transaction on PostgreSQL, so that later ones are not final until it is
// released.
func (b *bundle) holdTransaction(t *testing.T) (release func()) {
	t.Helper()
	if b.DB.Kind == db.SQLite {
		return func() {}
	}
	ctx := db.AsSystem(t.Context())
	tx, err := b.DB.BeginTx(ctx, nil)
	if err == nil {
		_, err = tx.ExecContext(ctx, "SELECT pg_current_xact_id()")
	}
	must.NoError(t, err)
	return func() {
		if err := tx.Rollback(); err != nil {
			t.Error(err)
		}
	}
}

// TestDispatcher_ReadsClicksOfReceivers has clicks from before a webhook, before it receives
// clicks, of other workspaces, and while it is paused. The clicks that its workspace has while
// another webhook receives them are in batches of their own.
func TestDispatcher_ReadsClicksOfReceivers(t *testing.T) {
	eachReceiving(t, func(t *testing.T, b *bundle, r *receiver) {
		other := *b
		other.m = workspacetest.New(t, b.DB, "other")
		record := b.recorder(t)
		b.readClicks(t, &webhook.Webhook{}, 0) // no webhook receives clicks
		early, _ := b.create(t, r.URL, audit.LinkClicked)
		foreign, _ := other.create(t, r.URL, audit.LinkClicked)
		events, _ := b.create(t, r.URL, audit.LinkUpdated)
		record(1, b.m)
		b.awaitFinal(t)
		late, _ := b.create(t, r.URL, audit.LinkClicked)
		b.update(t, events, webhook.Change{Types: optional.Set([]audit.Action{audit.LinkClicked, audit.LinkUpdated})})
		b.readClicks(t, early, 1)
		record(250, b.m)
		record(1, other.m)
		b.awaitFinal(t)
		for w, want := range map[*webhook.Webhook]int64{early: 3, late: 2, events: 2, foreign: 1} {
			b.readClicks(t, w, want)
		}
		b.update(t, late, webhook.Change{Status: optional.Set(webhook.Paused)})
		record(7, b.m)
		b.awaitFinal(t)
		b.readClicks(t, early, 4)
		if got := b.reload(t, late.ID); got.SkippedClicks != 7 || b.waiting(t, late) != 2 {
			t.Errorf("%d clicks skipped, want 7", got.SkippedClicks)
		}
		if got := b.reload(t, early.ID); got.SkippedClicks != 0 {
			t.Errorf("%d clicks skipped by an active webhook", got.SkippedClicks)
		}
	})
}

// TestDispatcher_CountsExpiredClicks reads nothing for more than 23 hours. The clicks of the last
// 23 hours are delivered, and the others counted. The batch of the former is not final yet when the
// latter are counted.
func TestDispatcher_CountsExpiredClicks(t *testing.T) {
	eachReceiving(t, func(t *testing.T, b *bundle, r *receiver) {
		other := workspacetest.New(t, b.DB, "other")
		w, _ := b.create(t, r.URL, audit.LinkClicked)
		record := b.recorder(t)
		must.NoError(t, b.dispatcher.ReadClicks(t.Context()))
		b.clock.advance(time.Minute)
		record(3, b.m)
		record(2, other)
		b.awaitFinal(t) // transactions of other databases are not open for a day
		b.clock.advance(20 * time.Hour)
		release := b.holdTransaction(t)
		record(5, b.m)
		b.clock.advance(4 * time.Hour)
		must.NoError(t, b.ClickStream.DeleteExpiredBatches(t.Context()))
		until(t, "the clicks are counted", func() bool {
			must.NoError(t, b.dispatcher.ReadClicks(t.Context()))
			return b.reload(t, w.ID).SkippedClicks > 0
		})
		release()
		b.awaitFinal(t)
		until(t, "the other clicks are delivered", func() bool {
			must.NoError(t, b.dispatcher.ReadClicks(t.Context()))
			return b.waiting(t, w) > 0
		})
		if got := b.reload(t, w.ID); got.SkippedClicks != 3 {
			t.Errorf("%d clicks skipped, want 3", got.SkippedClicks)
		}
		if got := b.delivery(t, w); got.Clicks != 5 {
			t.Errorf("%d clicks delivered, want 5", got.Clicks)
		}
	})
}

// TestDispatcher_DeliversClicksOfTaggedLinks alone to a webhook with tags, and counts no others.
func TestDispatcher_DeliversClicksOfTaggedLinks(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		made := must.Value(b.Creation.CreateMany(t.Context(), b.m, creation.Batch{Links: []*creation.Input{
			{URL: "https://example.com/1", Fields: linkfield.Change{Tags: optional.Set([]string{"partner", "other"})}},
			{URL: "https://example.com/2", Fields: linkfield.Change{Tags: optional.Set([]string{"other"})}},
			{URL: "https://example.com/3"},
		}}))(t)
		hooks := map[*webhook.Webhook]int{}
		for tags, want := range map[string]int{"partner": 1, "other": 2, "partner other": 2, "none": 0, "": 3} {
			change := hook("https://8.8.8.8/", audit.LinkClicked)
			change.Tags = optional.Set(strings.Fields(tags))
			w, _ := b.createWith(t, change)
			hooks[w] = want
		}
		clicks := clicktest.New(t, b.DB, b.clock.Now)
		clicktest.Run(t, clicks.Recorder)
		record := func() {
			for _, r := range made {
				clicks.Record(&click.Click{WorkspaceID: b.m.ID(), LinkID: r.Link.ID, Status: 302,
					ClickedAt: b.clock.Now()})
			}
			must.NoError(t, clicks.Flush(t.Context()))
			b.awaitFinal(t)
		}
		record()
		for w, want := range hooks {
			b.readClicks(t, w, int64(min(want, 1)))
			p := must.Value(b.Webhooks.Deliveries(t.Context(), b.m, w.ID, nil, page.Request{Size: 10}))(t)
			if want > 0 && *p.Items[0].ClickCount() != want {
				t.Errorf("%v: %d clicks, want %d", w.Tags, *p.Items[0].ClickCount(), want)
			}
			b.update(t, w, webhook.Change{Status: optional.Set(webhook.Paused)})
		}
		record()
		until(t, "clicks are skipped", func() bool {
			must.NoError(t, b.dispatcher.ReadClicks(t.Context()))
			for w, want := range hooks {
				if b.reload(t, w.ID).SkippedClicks != int64(want) {
					return false
				}
			}
			return true
		})
	})
}
