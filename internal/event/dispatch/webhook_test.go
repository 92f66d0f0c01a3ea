package dispatch_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"math"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/event/audit"
	"github.com/linkforge/linkforge/internal/event/dispatch"
	"github.com/linkforge/linkforge/internal/event/webhook"
	"github.com/linkforge/linkforge/internal/link/creation"
	"github.com/linkforge/linkforge/internal/link/linkfield"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/id"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/optional"
	"github.com/linkforge/linkforge/internal/platform/outbound"
	"github.com/linkforge/linkforge/internal/platform/page"
	"github.com/linkforge/linkforge/internal/platform/secrets"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
	"github.com/linkforge/linkforge/internal/tenant/workspace/workspacetest"
)

// TestStore_RefusesUnsafeURLs tries them on create and update.
func TestStore_RefusesUnsafeURLs(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		s := *b.Webhooks
		s.AllowHTTP, s.Allow = false, outbound.Public
		s.Lookup = func(_ context.Context, _, host string) ([]netip.Addr, error) {
			if host == "rebinding.example" {
				return []netip.Addr{netip.MustParseAddr("93.184.216.34"), netip.MustParseAddr("10.0.0.1")}, nil
			}
			return []netip.Addr{netip.MustParseAddr("93.184.216.34")}, nil
		}
		must.Value(b.Blocklist.Block(t.Context(), "blocked.example", ""))(t)
		// a pending domain of the workspace stops no deliveries
		must.Value(b.DB.ExecContext(db.AsSystem(t.Context()),
			"INSERT INTO domains (id, workspace_id, host, token, created_at) "+
				"VALUES ('dom_a', ?, 'hooks.example', 't', ?)", b.m.ID(), dbtest.Noon))(t)
		w, _, err := s.Create(t.Context(), b.m, hook(" https://hooks.example:8443/a//?b=2&a=1#part", audit.LinkCreated))
		must.NoError(t, err)
		for url, want := range map[string]errs.Kind{
			"http://hooks.example/":                    errs.InvalidURL,
			"ftp://hooks.example/":                     errs.InvalidURL,
			"https://user:password@hooks.example/":     errs.InvalidURL,
			"https://hooks.example:22/":                errs.InvalidURL,
			"https://hooks.example:80/":                errs.InvalidURL,
			"https://127.0.0.1/":                       errs.UnsafeURL,
			"https://10.1.2.3/":                        errs.UnsafeURL,
			"https://169.254.169.254/latest/meta-data": errs.UnsafeURL,
			"https://[::1]/":                           errs.UnsafeURL,
			"https://[fe80::1]/":                       errs.UnsafeURL,
			"https://[::ffff:10.0.0.1]/":               errs.UnsafeURL,
			"https://[64:ff9b::7f00:1]/":               errs.UnsafeURL,
			"https://[2002:7f00:1::]/":                 errs.UnsafeURL,
			"https://sho.rt/":                          errs.UnsafeURL,
			"https://a.blocked.example/":               errs.UnsafeURL,
			"https://rebinding.example/":               errs.UnsafeURL,
		} {
			_, _, created := s.Create(t.Context(), b.m, hook(url, audit.LinkCreated))
			_, updated := s.Update(t.Context(), b.m, w.ID, webhook.Change{URL: optional.Set(url)})
			for _, err := range []error{created, updated} {
				if e := errs.From(err); e.Kind != want || !slices.Equal(e.Field, []string{"url"}) ||
					strings.Contains(e.Public(), "rule R") {
					t.Errorf("%s: %v, want %s at url", url, err, want)
				}
			}
		}
		// a receiver may distinguish canonically equal URLs
		if got := b.reload(t, w.ID).URL; got != "https://hooks.example:8443/a//?b=2&a=1" {
			t.Errorf("the URL is %s", got)
		}
	})
}

// TestDispatcher_RefusesPrivateAddresses sends to a name that has become private, and to an address
// that the check of the URL accepts: nothing arrives, and redirects are not followed.
func TestDispatcher_RefusesPrivateAddresses(t *testing.T) {
	eachSending(t, func(t *testing.T, b *bundle, outside *receiver, w *webhook.Webhook) {
		inside := newReceiver(t)
		outside.respond(func(rw http.ResponseWriter, _ int) {
			rw.Header().Set("Location", inside.URL)
			rw.WriteHeader(http.StatusTemporaryRedirect)
			_, _ = rw.Write([]byte("a secret of the response"))
		})
		a, err := b.dispatcher.Test(t.Context(), b.m, w.ID, audit.LinkUpdated)
		if err != nil || a.Status == nil || *a.Status != 307 || a.Error == nil || *a.Error != webhook.StatusError {
			t.Errorf("after a redirect: %+v, %v", a, err)
		}
		text, err := json.Marshal(a)
		if err != nil || strings.Contains(string(text), "secret") || len(inside.got()) > 0 {
			t.Errorf("%s, %d requests followed: %v", text, len(inside.got()), err)
		}
		guarded := dispatch.New(b.dispatcher.Config)
		guarded.Client = outbound.NewClient(dispatch.ClientConfig(outbound.Config{}))
		before := len(outside.got())
		a, err = guarded.Test(t.Context(), b.m, w.ID, audit.LinkUpdated)
		if err != nil || a.Error == nil || *a.Error != webhook.RefusedError || a.Status != nil ||
			len(outside.got()) != before {
			t.Errorf("to a private address: %+v, %v", a, err)
		}
		must.Value(b.Blocklist.Block(t.Context(), "127.0.0.1", ""))(t)
		a, err = b.dispatcher.Test(t.Context(), b.m, w.ID, audit.LinkUpdated)
		if err != nil || a.Error == nil || *a.Error != webhook.RefusedError || len(outside.got()) != before {
			t.Errorf("to a host that was blocked later: %+v, %v", a, err)
		}
	})
}

// TestStore_RotatesSecrets checks both signatures during the overlap, and one afterwards.
func TestStore_RotatesSecrets(t *testing.T) {
	eachReceiving(t, func(t *testing.T, b *bundle, r *receiver) {
		w, first := b.create(t, r.URL, audit.LinkUpdated)
		_, second, err := b.Webhooks.Rotate(t.Context(), b.m, w.ID, time.Hour)
		if err != nil || first == second || !strings.HasPrefix(second, "whsec_") {
			t.Fatal(second, err)
		}
		raw, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(second, "whsec_"))
		if stored := b.reload(t, w.ID); err != nil || len(raw) != 32 || bytes.Contains(stored.Secret, raw) {
			t.Errorf("the secret of %d bytes is stored as it is, %v", len(raw), err)
		}
		test := func() request {
			must.Value(b.dispatcher.Test(t.Context(), b.m, w.ID, audit.LinkUpdated))(t)
			all := r.got()
			return all[len(all)-1]
		}
		for _, secret := range []string{first, second} {
			if last := test(); !verifies(t, secret, last) {
				t.Errorf("the signature of %v", last.header)
			}
		}
		b.clock.advance(time.Hour)
		if last := test(); verifies(t, first, last) || !verifies(t, second, last) {
			t.Errorf("after the overlap: %v", last.header)
		}
	})
}

// TestStore_NeedsAKey creates without a key, and uses a secret with another one.
func TestStore_NeedsAKey(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		s := *b.Webhooks
		s.Sealed = secrets.Box{}
		_, _, err := s.Create(t.Context(), b.m, hook("https://hooks.example/", audit.LinkCreated))
		if !errs.Is(err, errs.Forbidden) || !strings.Contains(err.Error(), "LINKFORGE_ENCRYPTION_KEY") {
			t.Error(err)
		}
	})
}

// TestDispatcher_StopsWithinASecond stops while a request is open, and starts again.
func TestDispatcher_StopsWithinASecond(t *testing.T) {
	eachSending(t, func(t *testing.T, b *bundle, r *receiver, w *webhook.Webhook) {
		open, ended := make(chan struct{}, 10), make(chan struct{}, 10)
		release := make(chan struct{})
		r.respond(func(_ http.ResponseWriter, _ int) {
			open <- struct{}{}
			<-release
			ended <- struct{}{}
		})
		b.run(t)
		want := b.write(t, audit.LinkUpdated, newLinkID())
		<-open
		began := time.Now()
		must.NoError(t, b.Webhooks.Stop(t.Context()))
		until(t, "the attempt ends", func() bool {
			n, err := b.DB.NewSelect().Table("webhook_deliveries").Where("claimed_until IS NOT NULL").
				Count(db.AsSystem(t.Context()))
			return err == nil && n == 0
		})
		if took := time.Since(began); took > 5*time.Second { // a second, on a machine that is not busy
			t.Errorf("it took %s", took)
		}
		close(release)
		if _, err := b.dispatcher.Test(t.Context(), b.m, w.ID, audit.LinkUpdated); !errs.Is(err, errs.Forbidden) {
			t.Errorf("a test while stopped: %v", err)
		}
		r.respond(nil)
		must.NoError(t, b.Webhooks.Start(t.Context()))
		until(t, "it is delivered", func() bool { return slices.Equal(b.delivered(t, w), []string{want}) })
	})
}

// TestDispatcher_EndsWithTheKey revokes the key that created a webhook.
func TestDispatcher_EndsWithTheKey(t *testing.T) {
	eachSending(t, func(t *testing.T, b *bundle, r *receiver, w *webhook.Webhook) {
		b.createdByKey(t, w)
		b.exec(t, "UPDATE api_keys SET revoked_at = created_at")
		b.write(t, audit.LinkUpdated, newLinkID())
		b.run(t)
		until(t, "it is disabled", func() bool { return b.reload(t, w.ID).Status == webhook.Disabled })
		if n := len(r.got()); n > 0 {
			t.Errorf("%d requests", n)
		}
		_, err := b.Webhooks.Update(t.Context(), b.m, w.ID, webhook.Change{Status: optional.Set(webhook.Active)})
		if !errs.Is(err, errs.InvalidInput) {
			t.Errorf("ACTIVE: %v", err)
		}
		until(t, "an email is sent", func() bool { return len(b.mails.sent()) > 0 })
		if text := b.mails.sent()[0]; strings.Contains(text, "ACTIVE") ||
			!strings.Contains(text, "Create another webhook") {
			t.Errorf("the email has a remedy that is refused: %s", text)
		}
	})
}

// createdByKey has an API key be the creator of a webhook.
func (b *bundle) createdByKey(t *testing.T, w *webhook.Webhook) {
	t.Helper()
	keyID := id.New(id.Key)
	b.exec(t, `INSERT INTO api_keys (id, workspace_id, name, prefix, hash, scopes, created_by, created_at)
		SELECT ?, workspace_id, 'key', '', ?, '', created_by, created_at FROM webhooks WHERE id = ?`,
		keyID, []byte(keyID), w.ID)
	b.exec(t, "UPDATE webhooks SET created_by = ? WHERE id = ?", keyID, w.ID)
}

// TestStore_OperatorsWordStands disables a host, which members cannot undo.
func TestStore_OperatorsWordStands(t *testing.T) {
	eachSending(t, func(t *testing.T, b *bundle, r *receiver, w *webhook.Webhook) {
		if n, err := b.Webhooks.BlockHost(t.Context(), "127.0.0.1"); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		_, err := b.Webhooks.Update(t.Context(), b.m, w.ID, webhook.Change{Status: optional.Set(webhook.Active)})
		if !errs.Is(err, errs.UnsafeURL) {
			t.Error(err)
		}
		if err := b.Webhooks.SetBlocked(t.Context(), w.ID, false); err != nil ||
			b.reload(t, w.ID).Status != webhook.Active {
			t.Error(err)
		}
	})
}

// TestDispatcher_DisablesGoneReceiversOnce has two requests in flight, and both return 410.
func TestDispatcher_DisablesGoneReceiversOnce(t *testing.T) {
	eachSending(t, func(t *testing.T, b *bundle, r *receiver, w *webhook.Webhook) {
		r.respond(status(http.StatusGone))
		b.writeEvents(t, b.updates(2)...)
		b.readEvents(t, w, 2)
		b.send(t, w)
		if n, got := len(r.got()), b.reload(t, w.ID).Status; n != 2 || got != webhook.Disabled {
			t.Errorf("after %d requests it is %s", n, got)
		}
		must.NoError(t, b.dispatcher.AnnounceDisabled(t.Context()))
		disabled, err := audit.List(db.AsSystem(t.Context()), b.DB, b.m.ID(),
			&audit.Filter{Actions: []audit.Action{audit.WebhookDisabled}}, page.Request{Size: 10})
		mails := b.mails.sent()
		if err != nil || len(disabled.Items) != 1 || len(mails) != 1 || !strings.Contains(mails[0], "ACTIVE") {
			t.Errorf("%d events, emails %q, %v", len(disabled.Items), mails, err)
		}
	})
}

// TestDispatcher_BatchesClicks sends each click, in bodies of at most 200 clicks and 128 KiB.
func TestDispatcher_BatchesClicks(t *testing.T) {
	eachReceiving(t, func(t *testing.T, b *bundle, r *receiver) {
		w, _ := b.create(t, r.URL, audit.LinkClicked)
		b.recorder(t)(450, b.m)
		b.awaitFinal(t)
		b.exec(t, "UPDATE clicks SET utm_term = ?", strings.Repeat("x", 700)) // of about 1,000 bytes each
		b.run(t)
		seen := map[string]bool{}
		until(t, "all clicks arrive", func() bool {
			for _, request := range r.got() {
				var body struct {
					Type string
					Data struct{ Clicks []struct{ ID string } }
				}
				if err := json.Unmarshal([]byte(request.body), &body); err != nil || body.Type != "link.clicked" ||
					len(request.body) > 128*kib || request.header.Get("webhook-id") != body.Data.Clicks[0].ID {
					t.Fatal(len(request.body), request.header, err)
				}
				for _, c := range body.Data.Clicks {
					seen[c.ID] = true
				}
			}
			return len(seen) == 450
		})
		var counts []int
		for _, delivery := range must.Value(b.Webhooks.Deliveries(t.Context(), b.m, w.ID, nil,
			page.Request{Size: 100}))(t).Items {
			counts = append(counts, *delivery.ClickCount())
		}
		slices.Sort(counts) // of 200 clicks, a body has those that fit into 128 KiB
		if n := len(counts); n != 5 || counts[0] != 50 || counts[1]+counts[4] != 200 || counts[2]+counts[3] != 200 {
			t.Errorf("batches of %v clicks, %d requests", counts, len(r.got()))
		}
	})
}

// TestDispatcher_ReadsPastClicksOfOthers records more clicks of another workspace than one read
// returns before a click of its own.
func TestDispatcher_ReadsPastClicksOfOthers(t *testing.T) {
	eachReceiving(t, func(t *testing.T, b *bundle, r *receiver) {
		other := workspacetest.New(t, b.DB, "other")
		b.create(t, r.URL, audit.LinkClicked)
		record := b.recorder(t)
		record(10_000, other)
		record(1, other)
		record(1, b.m)
		b.run(t)
		until(t, "the click arrives", func() bool { return len(r.got()) == 1 })
	})
}

// TestStore_SkipsAndRedelivers skips a backlog, and has events of before the webhook sent.
func TestStore_SkipsAndRedelivers(t *testing.T) {
	eachReceiving(t, func(t *testing.T, b *bundle, r *receiver) {
		early := b.write(t, audit.LinkUpdated, newLinkID())
		until(t, "the event is final", func() bool { return b.isFinal(t, 1) })
		w, _ := b.create(t, r.URL, audit.LinkUpdated)
		b.update(t, w, webhook.Change{Status: optional.Set(webhook.Paused)})
		b.run(t)
		skipped := b.write(t, audit.LinkUpdated, newLinkID())
		until(t, "the event is final", func() bool { return b.isFinal(t, 2) })
		b.update(t, w, webhook.Change{Status: optional.Set(webhook.Active), SkipBacklog: true})
		after := b.write(t, audit.LinkUpdated, newLinkID())
		until(t, "the event after it is delivered", func() bool {
			return slices.Equal(b.delivered(t, w), []string{after})
		})
		n, err := b.Webhooks.Redeliver(t.Context(), b.m, w.ID, webhook.Redelivery{
			From: new(dbtest.Noon.Add(-time.Hour)), To: new(dbtest.Noon.Add(time.Hour)),
		})
		if n != 3 || err != nil {
			t.Errorf("%d deliveries, %v", n, err)
		}
		until(t, "all are delivered", func() bool {
			got := b.delivered(t, w)
			return slices.Contains(got, early) && slices.Contains(got, skipped) && len(r.got()) == 4
		})
		_, without := b.Webhooks.Redeliver(t.Context(), b.m, w.ID, webhook.Redelivery{})
		foreign := webhook.Redelivery{IDs: []string{id.New(id.Delivery)}}
		_, unknown := b.Webhooks.Redeliver(t.Context(), b.m, w.ID, foreign)
		if !errs.Is(without, errs.InvalidInput) || !errs.Is(unknown, errs.NotFound) {
			t.Errorf("no way: %v, a foreign delivery: %v", without, unknown)
		}
	})
}

// TestStore_ChecksPermissions creates webhooks with API keys.
func TestStore_ChecksPermissions(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		for name, c := range map[string]struct {
			scopes string
			types  audit.Action
			ok     bool
		}{
			"without WEBHOOKS_WRITE":    {"LINKS_READ", audit.LinkCreated, false},
			"without LINKS_READ":        {"WEBHOOKS_WRITE", audit.LinkCreated, false},
			"both":                      {"WEBHOOKS_WRITE LINKS_READ", audit.LinkCreated, true},
			"clicks":                    {"WEBHOOKS_WRITE LINKS_READ", audit.LinkClicked, false},
			"domains":                   {"WEBHOOKS_WRITE LINKS_READ", audit.DomainLost, false},
			"domains with DOMAINS_READ": {"WEBHOOKS_WRITE LINKS_READ DOMAINS_READ", audit.DomainLost, true},
			"clicks with STATS_READ":    {"WEBHOOKS_WRITE LINKS_READ STATS_READ", audit.LinkClicked, true},
		} {
			m := workspacetest.Key(t, b.DB, b.m.ID(), strings.Fields(c.scopes)...)
			_, _, err := b.Webhooks.Create(t.Context(), m, hook("http://127.0.0.1:9999/", c.types))
			if c.ok != (err == nil) || err != nil && !errs.Is(err, errs.Forbidden) {
				t.Errorf("%s: %v", name, err)
			}
		}
		viewer := workspacetest.Join(t, b.DB, b.m.ID(), workspace.Editor)
		if _, err := b.Webhooks.Rows().List(t.Context(), viewer, page.Request{Size: 1}); !errs.Is(err, errs.Forbidden) {
			t.Error(err)
		}
	})
}

// verifies checks a request as a receiver does, by the specification.
func verifies(t *testing.T, secret string, r request) bool {
	t.Helper()
	key := must.Value(base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_")))(t)
	want := signature(key, r.header.Get("webhook-id")+"."+r.header.Get("webhook-timestamp")+"."+r.body)
	return slices.Contains(strings.Fields(r.header.Get("webhook-signature")), want)
}

func TestOverlap_ChecksItsRange(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		seconds *int
		want    time.Duration
		err     bool
	}{
		"absent":      {nil, 24 * time.Hour, false},
		"none":        {new(0), 0, false},
		"the maximum": {new(604_800), 7 * 24 * time.Hour, false},
		"too long":    {new(604_801), 0, true},
		"negative":    {new(-1), 0, true},
		"an overflow": {new(math.MaxInt), 0, true},
	} {
		got, err := webhook.Overlap(c.seconds)
		if got != c.want || errs.Is(err, errs.InvalidInput) != c.err {
			t.Errorf("%s: %s, %v", name, got, err)
		}
	}
}

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
			b, r := setup(t, d), newReceiver(t)
			admin := workspacetest.Join(t, d, b.m.ID(), workspace.Admin)
			w, _, err := b.Webhooks.Create(t.Context(), admin, hook(r.URL, audit.LinkUpdated))
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

func TestReplaceTags_ChangesFilters(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		var hooks []*webhook.Webhook
		for _, tags := range [][]string{{"a"}, {"a", "b", "z"}, {"c"}, {}} {
			change := hook("https://8.8.8.8/", audit.LinkUpdated)
			change.Tags = optional.Set(tags)
			w, _ := b.createWith(t, change)
			hooks = append(hooks, w)
		}
		for _, c := range []struct {
			from []string
			to   *string
			want [][]string
		}{
			{[]string{"a", "b"}, new("m"), [][]string{{"m"}, {"m", "z"}, {"c"}, {}}},
			{[]string{"z"}, new("m"), [][]string{{"m"}, {"m"}, {"c"}, {}}},
			{[]string{"m", "x"}, nil, [][]string{{"m"}, {"m"}, {"c"}, {}}},
		} {
			ctx := must.Value(b.m.Enter(t.Context(), workspace.WriteLinks))(t)
			must.NoError(t, b.DB.Tx(ctx, func(ctx context.Context, tx bun.Tx) error {
				return b.Webhooks.ReplaceTags(ctx, tx, b.m, c.from, c.to)
			}))
			var got [][]string
			for _, w := range hooks {
				got = append(got, must.Value(b.Webhooks.Rows().ByID(t.Context(), b.m, w.ID))(t)[0].Tags)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("%v to %v (-want +got):\n%s", c.from, optional.Value(c.to), diff)
			}
		}
		updates := must.Value(b.DB.NewSelect().Model((*audit.Event)(nil)).Where("action = ?", audit.WebhookUpdated).
			Where("changes IS NOT NULL").Count(db.AsSystem(t.Context())))(t)
		if updates != 3 {
			t.Errorf("%d webhooks were updated, want 3", updates)
		}
	})
}

// TestReplaceTags_FollowsLinks through the stores of a process.
func TestReplaceTags_FollowsLinks(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		change := hook("https://8.8.8.8/", audit.LinkUpdated)
		change.Tags = optional.Set([]string{"a", "b"})
		w, _ := b.createWith(t, change)
		must.Value(b.Creation.CreateMany(t.Context(), b.m, creation.Batch{
			Links: []*creation.Input{{URL: "https://example.com/",
				Fields: linkfield.Change{Tags: optional.Set([]string{"a"})}}},
		}))(t)
		must.Value(b.Edit.ReplaceTags(t.Context(), b.m, []string{"a"}, nil))(t)
		got := must.Value(b.Webhooks.Rows().ByID(t.Context(), b.m, w.ID))(t)[0].Tags
		if diff := cmp.Diff([]string{"b"}, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}
