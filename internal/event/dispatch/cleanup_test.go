package dispatch_test

import (
	"strings"
	"testing"
	"time"

	"github.com/linkforge/linkforge/internal/event/audit"
	"github.com/linkforge/linkforge/internal/event/webhook"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/optional"
	"github.com/linkforge/linkforge/internal/platform/page"
)

// rows is the number of rows of a table.
func (b *bundle) rows(t *testing.T, table string) int {
	t.Helper()
	return int(must.Value(b.DB.NewSelect().Table(table).Count(db.AsSystem(t.Context())))(t))
}

func (b *bundle) cleanUp(t *testing.T) {
	t.Helper()
	must.NoError(t, b.Webhooks.CleanUp(t.Context()))
}

// insertDeliveries inserts due deliveries about different links, with the numbers from 1.
func (b *bundle) insertDeliveries(t *testing.T, w *webhook.Webhook, n int) {
	t.Helper()
	b.exec(t, `INSERT INTO webhook_deliveries (id, workspace_id, webhook_id, event_id, subject_id, type, number,
		status, due_at, created_at) WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
		SELECT 'n' || i, ?, ?, 'n' || i, 'n' || i, 'LINK_UPDATED', i, 'WAITING', ?, ? FROM n`,
		n, b.m.ID(), w.ID, b.clock.Now(), b.clock.Now())
}

// TestStore_RetainsDeliveries cleans up after 30 days.
func TestStore_RetainsDeliveries(t *testing.T) {
	eachSending(t, func(t *testing.T, b *bundle, r *receiver, w *webhook.Webhook) {
		b.pending(t, w)
		b.send(t, w)
		for _, c := range []struct {
			after time.Duration
			want  int
		}{{30*24*time.Hour - time.Second, 1}, {time.Second, 0}} {
			b.clock.advance(c.after)
			b.cleanUp(t)
			for _, table := range []string{"webhook_deliveries", "webhook_attempts"} {
				if n := b.rows(t, table); n != c.want {
					t.Errorf("%d rows of %s, want %d", n, table, c.want)
				}
			}
		}
	})
}

// TestStore_ReleasesDeliveriesAfterCleanUp removes a delivery that waits before another one about
// the same link.
func TestStore_ReleasesDeliveriesAfterCleanUp(t *testing.T) {
	eachSending(t, func(t *testing.T, b *bundle, r *receiver, w *webhook.Webhook) {
		linkID := newLinkID()
		b.write(t, audit.LinkUpdated, linkID)
		b.readEvents(t, w, 1)
		b.clock.advance(30*24*time.Hour - time.Minute)
		want := b.write(t, audit.LinkUpdated, linkID)
		b.readEvents(t, w, 2)
		b.clock.advance(time.Minute)
		b.cleanUp(t)
		if got := b.delivery(t, w); got.EventID != want || got.DueAt == nil || b.waiting(t, w) != 1 {
			t.Fatalf("%+v waits for a removed delivery", got)
		}
		if due := b.reload(t, w.ID).DueAt; due == nil || !due.Equal(b.clock.Now()) {
			t.Errorf("the webhook is due at %v", due)
		}
		b.send(t, w)
		if got := b.delivered(t, w); len(got) != 1 || got[0] != want {
			t.Errorf("delivered %v, want %s", got, want)
		}
	})
}

// TestStore_DeletesWebhooks deletes a webhook with more deliveries than a batch of the clean-up
// has: it is invisible at once, and removed later.
func TestStore_DeletesWebhooks(t *testing.T) {
	eachReceiving(t, func(t *testing.T, b *bundle, r *receiver) {
		w, _ := b.create(t, r.URL, audit.LinkUpdated, audit.LinkClicked)
		b.insertDeliveries(t, w, 1001)
		other, _ := b.create(t, r.URL, audit.LinkUpdated)
		must.Value(b.Webhooks.Delete(t.Context(), b.m, w.ID))(t)
		if n := b.rows(t, "webhook_deliveries"); n != 1001 {
			t.Errorf("%d deliveries after the mutation", n)
		}
		_, updated := b.Webhooks.Update(t.Context(), b.m, w.ID, webhook.Change{Name: optional.Set("n")})
		_, _, rotated := b.Webhooks.Rotate(t.Context(), b.m, w.ID, time.Hour)
		_, deleted := b.Webhooks.Delete(t.Context(), b.m, w.ID)
		_, found := b.Webhooks.Rows().WorkspaceOf(t.Context(), w.ID)
		blocked := b.Webhooks.SetBlocked(t.Context(), w.ID, true)
		_, redelivered := b.Webhooks.Redeliver(t.Context(), b.m, w.ID, webhook.Redelivery{Failed: true})
		for i, err := range []error{updated, rotated, deleted, found, blocked, redelivered} {
			if !errs.Is(err, errs.NotFound) {
				t.Errorf("call %d: %v", i, err)
			}
		}
		p, err := b.Webhooks.Rows().List(t.Context(), b.m, page.Request{Size: 10})
		if err != nil || len(p.Items) != 1 || p.Items[0].ID != other.ID {
			t.Errorf("listed %v, %v", p.Items, err)
		}
		if listed, err := b.Webhooks.AdminList(t.Context(), "", 10); err != nil || len(listed) != 1 {
			t.Errorf("the operator sees %v, %v", listed, err)
		}
		b.send(t, w)
		b.pending(t, other)
		if err := b.dispatcher.ReadEvents(t.Context(), w.ID); err != nil || len(r.got()) != 0 {
			t.Errorf("%d requests, %v", len(r.got()), err)
		}
		b.cleanUp(t)
		if n, left := b.rows(t, "webhooks"), b.rows(t, "webhook_deliveries"); n != 1 || left != 1 {
			t.Errorf("%d webhooks and %d deliveries after the clean-up", n, left)
		}
	})
}

// TestStore_PurgesWorkspaces removes the webhooks of a workspace, also deleted ones.
func TestStore_PurgesWorkspaces(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		w, _ := b.create(t, "http://127.0.0.1:9999/", audit.LinkUpdated)
		b.insertDeliveries(t, w, 3)
		deleted, _ := b.create(t, "http://127.0.0.1:9999/", audit.LinkUpdated)
		must.Value(b.Webhooks.Delete(t.Context(), b.m, deleted.ID))(t)
		must.NoError(t, b.Webhooks.Purge(db.AsSystem(t.Context()), b.m.ID()))
		if n, left := b.rows(t, "webhooks"), b.rows(t, "webhook_deliveries"); n != 0 || left != 0 {
			t.Errorf("%d webhooks and %d deliveries are left", n, left)
		}
	})
}

// insertLink stores a link.
func (b *bundle) insertLink(t *testing.T, linkID string) {
	t.Helper()
	b.exec(t,
		`INSERT INTO links (id, workspace_id, code, root_code, strategy, original_url, canonical_url, canonical_hash,
		redirect_status, created_at, updated_at) VALUES (?0, ?1, ?0, ?0, 'RANDOM', 'u', 'u', ?2, 302, ?3, ?3)`,
		linkID, b.m.ID(), []byte(linkID), b.clock.Now())
}

// TestDispatcher_RendersClicksAgain redelivers a batch of clicks after the removal of one.
func TestDispatcher_RendersClicksAgain(t *testing.T) {
	eachReceiving(t, func(t *testing.T, b *bundle, r *receiver) {
		w, _ := b.create(t, r.URL, audit.LinkClicked)
		b.run(t)
		b.recorder(t)(3, b.m)
		until(t, "a batch is delivered", func() bool { return len(b.delivered(t, w)) == 1 })
		first := b.last(t, r, 1)
		again := func(n int) string {
			t.Helper()
			way := webhook.Redelivery{IDs: []string{b.delivery(t, w).ID}}
			must.Value(b.Webhooks.Redeliver(t.Context(), b.m, w.ID, way))(t)
			until(t, "the batch is delivered again", func() bool {
				return len(r.got()) == n && len(b.delivered(t, w)) == 1
			})
			return b.last(t, r, n).body
		}
		if got := again(2); got != first.body || strings.Count(got, `"id"`) != 3 {
			t.Errorf("sent %s after %s", got, first.body)
		}
		b.exec(t, "DELETE FROM clicks WHERE id = (SELECT max(id) FROM clicks)")
		if got := again(3); strings.Count(got, `"id"`) != 2 {
			t.Errorf("sent %s after a click was removed", got)
		}
	})
}
