package dispatch_test

import (
	"strings"
	"testing"
	"time"

	"github.com/linkforge/linkforge/internal/event/audit"
	"github.com/linkforge/linkforge/internal/event/webhook"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/optional"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
	"github.com/linkforge/linkforge/internal/tenant/workspace/workspacetest"
)

// calls send events of a webhook to a URL of the caller, or return its secret.
func (b *bundle) calls(
	t *testing.T, w *webhook.Webhook, deliveryID string,
) map[string]func(workspace.Membership) error {
	update := func(c webhook.Change) func(workspace.Membership) error {
		return func(m workspace.Membership) error {
			_, err := b.Webhooks.Update(t.Context(), m, w.ID, c)
			return err
		}
	}
	redeliver := func(way webhook.Redelivery) func(workspace.Membership) error {
		return func(m workspace.Membership) error {
			_, err := b.Webhooks.Redeliver(t.Context(), m, w.ID, way)
			return err
		}
	}
	return map[string]func(workspace.Membership) error{
		"a new URL": update(webhook.Change{URL: optional.Set("http://127.0.0.1:9999/")}),
		"a new URL without the types": update(webhook.Change{
			URL: optional.Set("http://127.0.0.1:9999/"), Types: optional.Set([]audit.Action{audit.LinkCreated}),
		}),
		"resuming": update(webhook.Change{Status: optional.Set(webhook.Active)}),
		"rotating the secret": func(m workspace.Membership) error {
			_, _, err := b.Webhooks.Rotate(t.Context(), m, w.ID, time.Hour)
			return err
		},
		"a test": func(m workspace.Membership) error {
			_, err := b.dispatcher.Test(t.Context(), m, w.ID, audit.LinkUpdated)
			return err
		},
		"redelivery by ids":    redeliver(webhook.Redelivery{IDs: []string{deliveryID}}),
		"redelivery by range":  redeliver(webhook.Redelivery{From: new(dbtest.Noon), To: new(dbtest.Noon.Add(1))}),
		"redelivery of FAILED": redeliver(webhook.Redelivery{Failed: true}),
	}
}

// TestStore_NeedsWhatTheWebhookReceives calls with an API key that may not read the events of an
// administrator's webhook.
func TestStore_NeedsWhatTheWebhookReceives(t *testing.T) {
	eachReceiving(t, func(t *testing.T, b *bundle, r *receiver) {
		for name, c := range map[string]struct {
			change webhook.Change
			scope  string
		}{
			"clicks":  {hook(r.URL, audit.LinkClicked), "STATS_READ"},
			"domains": {hook(r.URL, audit.DomainLost), "DOMAINS_READ"},
			"links":   {hook(r.URL, audit.LinkUpdated), "LINKS_READ"},
		} {
			w, _ := b.createWith(t, c.change)
			scopes := strings.Replace("WEBHOOKS_WRITE LINKS_READ STATS_READ DOMAINS_READ", " "+c.scope, "", 1)
			key := workspacetest.Key(t, b.DB, b.m.ID(), strings.Fields(scopes)...)
			plain, _ := b.create(t, r.URL, audit.LinkClaimed)
			if _, err := b.Webhooks.Update(t.Context(), key, plain.ID, c.change); !errs.Is(err, errs.Forbidden) {
				t.Errorf("%s: another webhook receives it: %v", name, err)
			}
			for call, try := range b.calls(t, w, "dlv_") {
				if err := try(key); !errs.Is(err, errs.Forbidden) || !strings.Contains(err.Error(), c.scope) {
					t.Errorf("%s, %s: %v, want FORBIDDEN that names %s", name, call, err, c.scope)
				}
				all := workspacetest.Key(t, b.DB, b.m.ID(), append(strings.Fields(scopes), c.scope)...)
				if err := try(all); errs.Is(err, errs.Forbidden) {
					t.Errorf("%s, %s, with %s: %v", name, call, c.scope, err)
				}
				b.update(t, w, c.change) // the calls with all scopes have changed it
			}
			if got := b.reload(t, w.ID).URL; got != r.URL {
				t.Errorf("%s: the URL is %s", name, got)
			}
		}
	})
}

// TestStore_NeedsWhatWasReceived calls with a key that may not read the deliveries of a webhook
// which receives only other types by now, and reads their events.
func TestStore_NeedsWhatWasReceived(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		w, _ := b.create(t, "http://127.0.0.1:9999/", audit.DomainLost)
		eventID := b.write(t, audit.DomainLost, "dom_1")
		b.readEvents(t, w, 1)
		deliveryID := b.delivery(t, w).ID
		b.update(t, w, webhook.Change{Types: optional.Set([]audit.Action{audit.LinkCreated})})
		key := workspacetest.Key(t, b.DB, b.m.ID(), "WEBHOOKS_WRITE", "LINKS_READ", "STATS_READ")
		for _, call := range []string{"a new URL", "resuming", "redelivery by ids"} {
			if err := b.calls(t, w, deliveryID)[call](key); !errs.Is(err, errs.Forbidden) {
				t.Errorf("%s: %v", call, err)
			}
		}
		events, err := b.Workspaces.EventsByID(t.Context(), key, eventID)
		if err != nil || len(events) != 0 {
			t.Errorf("the key reads %v of a domain, %v", events, err)
		}
		if events, err = b.Workspaces.EventsByID(t.Context(), b.m, eventID); err != nil || len(events) != 1 {
			t.Errorf("an owner reads %v, %v", events, err)
		}
	})
}
