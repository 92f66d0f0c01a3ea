package dispatch_test

import (
	"strings"
	"testing"

	"github.com/linkforge/linkforge/internal/event/audit"
	"github.com/linkforge/linkforge/internal/event/webhook"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/id"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/optional"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
	"github.com/linkforge/linkforge/internal/tenant/workspace/workspacetest"
)

// TestDispatcher_AnnouncesAfterACrash has a webhook whose node died after it had disabled the
// webhook: two other nodes send one email.
func TestDispatcher_AnnouncesAfterACrash(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		b.create(t, "http://127.0.0.1:9999/", audit.LinkUpdated)
		b.exec(t, "UPDATE webhooks SET status = 'DISABLED', notice = 'RECEIVER'")
		other := *b
		other.dispatcher = b.newDispatcher(b.dispatcher.Log)
		b.run(t)
		other.run(t)
		until(t, "an email is sent", func() bool { return len(b.mails.sent()) > 0 })
		until(t, "the notice is removed", func() bool {
			n, err := b.DB.NewSelect().Table("webhooks").Where("notice IS NULL").Count(db.AsSystem(t.Context()))
			return n == 1 && err == nil
		})
		if got := b.mails.sent(); len(got) != 1 || !strings.Contains(got[0], "did not accept requests") {
			t.Errorf("emails %q", got)
		}
	})
}

// TestDispatcher_DisablesWebhooksOfLostAccounts: nothing more is sent, and another member can take
// the webhook over.
func TestDispatcher_DisablesWebhooksOfLostAccounts(t *testing.T) {
	t.Parallel()
	for _, lose := range []string{
		"DELETE FROM members WHERE account_id = ?",
		"UPDATE members SET role = 'EDITOR' WHERE account_id = ?",
		"UPDATE accounts SET disabled_at = '2026-11-20' WHERE id = ?",
	} {
		dbtest.Each(t, func(t *testing.T, d *db.DB) {
			b := setup(t, d)
			r := newReceiver(t)
			admin := workspacetest.Join(t, d, b.m.ID(), workspace.Admin)
			w, _, err := b.Webhooks.Create(t.Context(), admin, webhook.Change{
				Name: optional.Set("n"), URL: optional.Set(r.URL),
				Types: optional.Set([]audit.Action{audit.LinkUpdated}),
			})
			must.NoError(t, err)
			b.exec(t, lose, admin.AccountID())
			b.write(t, audit.LinkUpdated, id.New(id.Link))
			b.run(t)
			until(t, "the webhook is disabled", func() bool { return b.reload(t, w.ID).Status == webhook.Disabled })
			until(t, "an email is sent", func() bool { return len(b.mails.sent()) > 0 })
			if got := b.mails.sent(); !strings.Contains(got[0], "has left the workspace") || len(r.got()) != 0 {
				t.Errorf("%s: emails %q, %d requests", lose, got, len(r.got()))
			}
			key := workspacetest.Key(t, d, b.m.ID(), "WEBHOOKS_WRITE", "LINKS_READ")
			active := webhook.Change{Status: optional.Set(webhook.Active)}
			if _, err := b.Webhooks.Update(t.Context(), key, w.ID, active); !errs.Is(err, errs.Forbidden) {
				t.Errorf("%s: enabled by an API key: %v", lose, err)
			}
			b.update(t, w, active)
			b.write(t, audit.LinkUpdated, id.New(id.Link))
			until(t, "an event is sent", func() bool { return len(r.got()) > 0 })
			if got := b.reload(t, w.ID); got.Status != webhook.Active || got.CreatedBy != admin.AccountID() {
				t.Errorf("%s: %+v", lose, got)
			}
		})
	}
}
