package webhook_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/linkforge/linkforge/internal/audit"
	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/dbtest"
	"github.com/linkforge/linkforge/internal/must"
	"github.com/linkforge/linkforge/internal/webhook"
	"github.com/linkforge/linkforge/internal/workspace/workspacetest"
)

// findClicks searches until exactly the webhooks are behind.
func (b *bundle) findClicks(t *testing.T, want ...string) {
	t.Helper()
	slices.Sort(want)
	until(t, "the webhooks with new clicks are found", func() bool {
		behind := must.Value(b.dispatcher.FindClicks(t.Context()))(t)
		return slices.Equal(behind, want)
	})
}

// awaitFinal waits until no transaction can add clicks before the recorded ones. A search that sees a batch become final
// finds it, and so does the next one.
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

// holdTransaction opens a transaction on PostgreSQL, so that later ones are not final until it is released.
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

// TestDispatcher_FindsWebhooksWithNewClicks has clicks of one of two workspaces: webhooks of the other one are not
// read.
// Their positions move after an hour, without being read either.
func TestDispatcher_FindsWebhooksWithNewClicks(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b, r := setup(t, d), newReceiver(t)
		other := *b
		other.m = workspacetest.New(t, d, "other")
		idle, _ := other.create(t, r.URL, audit.LinkClicked)
		b.create(t, r.URL, audit.LinkUpdated)
		w, _ := b.create(t, r.URL, audit.LinkClicked)
		record := b.recorder(t)
		b.findClicks(t)
		record(3, b.m)
		b.awaitFinal(t)
		b.findClicks(t, w.ID)
		must.NoError(t, b.dispatcher.ReadClicks(t.Context()))
		if n := b.waiting(t, w); n != 1 {
			t.Errorf("%d batches", n)
		}
		b.findClicks(t)
		b.clock.advance(time.Hour + time.Second)
		record(1, b.m)
		b.awaitFinal(t)
		b.findClicks(t, w.ID)
		if got := other.reload(t, idle.ID); !got.ClicksAt.Equal(b.clock.Now()) {
			t.Errorf("the idle position is of %s", got.ClicksAt)
		}
		record(1, other.m)
		b.findClicks(t, w.ID, idle.ID)
		must.NoError(t, b.dispatcher.ReadClicks(t.Context()))
		for _, c := range []struct {
			bundle  *bundle
			webhook *webhook.Webhook
			want    int64
		}{{b, w, 2}, {&other, idle, 1}} {
			if n := c.bundle.waiting(t, c.webhook); n != c.want {
				t.Errorf("%d batches, want %d", n, c.want)
			}
		}
	})
}

// TestDispatcher_FindsClicksOfNewWebhooks stores a webhook after the node has read clicks that follow its position.
func TestDispatcher_FindsClicksOfNewWebhooks(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b, r := setup(t, d), newReceiver(t)
		b.create(t, r.URL, audit.LinkClicked)
		w, _ := b.create(t, r.URL, audit.LinkClicked)
		record := b.recorder(t)
		b.exec(t, "UPDATE webhooks SET wants_clicks = FALSE WHERE id = ?", w.ID)
		b.findClicks(t)
		record(1, b.m)
		until(t, "the click was read", func() bool {
			behind, err := b.dispatcher.FindClicks(t.Context())
			return err == nil && len(behind) == 1
		})
		b.exec(t, "UPDATE webhooks SET wants_clicks = TRUE WHERE id = ?", w.ID)
		b.clock.advance(time.Minute)
		until(t, "the webhook is found", func() bool {
			behind, err := b.dispatcher.FindClicks(t.Context())
			return err == nil && slices.Contains(behind, w.ID)
		})
	})
}

// TestDispatcher_CountsExpiredClicks reads nothing for more than 23 hours. The clicks of the last 23 hours are
// delivered, and the others counted. The batch of the former is not final yet when the latter are counted.
func TestDispatcher_CountsExpiredClicks(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b, r := setup(t, d), newReceiver(t)
		other := workspacetest.New(t, d, "other")
		w, _ := b.create(t, r.URL, audit.LinkClicked)
		record := b.recorder(t)
		b.clock.advance(time.Minute)
		record(3, b.m)
		record(2, other)
		b.awaitFinal(t) // transactions of other databases are not open for a day
		b.clock.advance(20 * time.Hour)
		release := b.holdTransaction(t)
		record(5, b.m)
		b.clock.advance(4 * time.Hour)
		must.NoError(t, b.ClickStream.DeleteExpiredBatches(t.Context()))
		b.findClicks(t, w.ID)
		until(t, "the clicks are counted", func() bool {
			must.NoError(t, b.dispatcher.ReadClicks(t.Context()))
			return b.reload(t, w.ID).SkippedClicks > 0
		})
		release()
		b.awaitFinal(t)
		until(t, "the other clicks are delivered", func() bool {
			_, found := b.dispatcher.FindClicks(t.Context())
			must.NoError(t, errors.Join(found, b.dispatcher.ReadClicks(t.Context())))
			return b.waiting(t, w) > 0
		})
		if got := b.reload(t, w.ID); got.SkippedClicks != 3 {
			t.Errorf("%d clicks skipped, want 3", got.SkippedClicks)
		}
		b.findClicks(t)
		if got := b.delivery(t, w); got.Clicks != 5 {
			t.Errorf("%d clicks delivered, want 5", got.Clicks)
		}
	})
}
