package creation

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/link/linkfield"
	"github.com/linkforge/linkforge/internal/link/linktest"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/id"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/optional"
	"github.com/linkforge/linkforge/internal/platform/wanttest"
	"github.com/linkforge/linkforge/internal/platform/web"
	"github.com/linkforge/linkforge/internal/route/routing"
	"github.com/linkforge/linkforge/internal/tenant/account"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
	"github.com/linkforge/linkforge/internal/tenant/workspace/workspacetest"
)

// keyOf returns the membership of an API key of Mine.
func (b *bundle) keyOf(t *testing.T, k account.Key) workspace.Membership {
	t.Helper()
	k.ID, k.WorkspaceID = id.New(id.Key), b.Mine.ID()
	return must.Value(workspacetest.Store(b.DB).Require(t.Context(), account.Actor{Key: &k}, b.Mine.ID()))(t)
}

// TestDestinationHosts_AreCompared by the canonical form, in all ways that a key can lead visitors
// somewhere.
func TestDestinationHosts_AreCompared(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		b.Quota.Default = 1000
		key := b.keyOf(t, account.Key{
			Scopes:           []string{"LINKS_WRITE"},
			DestinationHosts: []string{"example.com", ".shop.example", "xn--bcher-kva.example"},
		})
		for _, url := range []string{
			"https://example.com/", "http://EXAMPLE.com:8080/x?y#z", "https://example.com./", "https://shop.example/",
			"https://a.b.shop.example/", "https://bücher.example/", "https://BÜCHER.example/",
			"https://xn--bcher-kva.example/", "https://ｅｘａｍｐｌｅ.com/", "https://example.com/@evil.example/",
			"https://example.com/?https://evil.example", "https://example.com\\@x/",
			"https://example.com/redirect?to=//evil.example",
		} {
			l, _, err := b.Create(t.Context(), key, Input{URL: url, Strategy: new(link.Random)})
			if err != nil && !errs.Is(err, errs.InvalidURL) {
				t.Errorf("%s: %v", url, err)
			} else if err == nil && l.Host() != "example.com" && !strings.HasSuffix(l.Host(), "shop.example") &&
				l.Host() != "xn--bcher-kva.example" {
				t.Errorf("%s leads to %s", url, l.Host())
			}
		}
		for _, url := range []string{
			"https://evil.example/", "https://example.com.evil.example/", "https://evilexample.com/",
			"https://www.example.com/", "https://example.com@evil.example/", "https://example.com:80@evil.example/",
			"https://evil.example:443/", "https://evil.example/example.com", "https://evil.example?example.com",
			"https://evil.example#example.com", "https://evil.example\\.example.com/", "//example.com/",
			"https:///example.com/", "https:/example.com/", "https://evil.example%2eexample.com/",
			"https://evil.example%00.example.com/", "https://example.com%40evil.example/", "https://evilshop.example/",
			"https://bucher.example/", "https://bücher.example.evil.example/", "https://еxample.com/",
			"https://example。evil.example/", "http://93.184.216.34/", "http://[2606:2800:220:1::1]/",
			"http://2130706433/", "http://0x7f.1/", "javascript:alert(1)//example.com", "https://exаmple.com/",
			"https://example.com:99999/", "https://example.com\t.evil.example/",
			"https://user:pass@example.com@evil.example/", "https://evil.example/\\example.com",
			"https://evil.example\u2044example.com/", "HTTPS://EVIL.EXAMPLE/", "https://.shop.example.evil.example/",
			"https://shop.example.evil.example./", "https://example.co/", "https://xample.com/",
			"https://example.com%23.evil.example/", "https://example.com;evil.example/",
			"https://evil.example:80#@example.com/", "https://[::ffff:93.184.216.34]/",
			"https://example.com..evil.example/", "https://evil.example/?u=https://example.com/",
			"https://EXAMPLE.COM.EVIL.EXAMPLE", "https://example.com\u200b.evil.example/", "https://example.comm/",
			"ftp://example.com/", "https://ex%61mple.com.evil.example/",
		} {
			if l, _, err := b.Create(t.Context(), key, Input{URL: url, Strategy: new(link.Random)}); err == nil {
				t.Errorf("%q leads to %s", url, l.Host())
			} else if !errs.Is(err, errs.InvalidInput) && !errs.Is(err, errs.InvalidURL) &&
				!errs.Is(err, errs.UnsafeURL) {
				t.Errorf("%q: %v", url, err)
			}
		}
		l, _, err := b.Create(t.Context(), key, Input{URL: "https://example.com/mine", Strategy: new(link.Random)})
		must.NoError(t, err)
		evil := "https://evil.example/"
		rules := func(url string) *routing.Change {
			return &routing.Change{EndedURL: optional.Edit[*string]{Set: true, To: &url}}
		}
		for name, err := range map[string]error{
			"update": func() error {
				_, err := b.Edit.Update(t.Context(), key, linkfield.Change{ID: l.ID, URL: to(evil)})
				return err
			}(),
			"routing": func() error {
				_, err := b.Edit.Update(t.Context(), key, linkfield.Change{ID: l.ID, Routing: to(rules(evil))})
				return err
			}(),
			"create": func() error {
				_, _, err := b.Create(t.Context(), key, Input{URL: "https://example.com/r",
					Fields: linkfield.Change{Routing: to(rules(evil))}})
				return err
			}(),
			"upsert": func() error {
				_, err := b.Upsert(t.Context(), key, &Input{URL: evil,
					Fields: linkfield.Change{ExternalID: to(new("7"))}})
				return err
			}(),
		} {
			if !errs.Is(err, errs.InvalidInput) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if _, err := b.Edit.Update(t.Context(), key, linkfield.Change{ID: l.ID, Title: to(new("kept"))}); err != nil {
			t.Errorf("a change without a destination: %v", err)
		}
	})
}

// TestPublishableKey_GivesURLsAlone: anyone can read the key, so it does nothing else.
func TestPublishableKey_GivesURLsAlone(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		key := b.keyOf(t, account.Key{Scopes: []string{"LINKS_CREATE"}, DestinationHosts: []string{"example.com"}})
		if _, created, err := b.Create(t.Context(), key, Input{URL: "https://example.com/"}); err != nil || !created {
			t.Errorf("created: %t, %v", created, err)
		}
		if _, _, err := b.Create(t.Context(), key, Input{URL: "https://evil.example/"}); !errs.Is(err,
			errs.InvalidInput) {
			t.Errorf("another host: %v", err)
		}
		for field, in := range map[string]Input{
			"customCode": {CustomCode: new("promo")}, "strategy": {Strategy: new(link.Random)},
			"title":    {Fields: linkfield.Change{Title: to(new("t"))}},
			"note":     {Fields: linkfield.Change{Note: to(new("n"))}},
			"tags":     {Fields: linkfield.Change{Tags: to([]string{"t"})}},
			"folderId": {Fields: linkfield.Change{FolderID: to(new("x"))}}, "domainId": {DomainID: new("x")},
			"externalId":  {Fields: linkfield.Change{ExternalID: to(new("7"))}},
			"maxClicks":   {Fields: linkfield.Change{MaxClicks: to(new(int64(1)))}},
			"expiresAt":   {Fields: linkfield.Change{ExpiresAt: to(&noon)}},
			"routing":     {Fields: linkfield.Change{Routing: to(&routing.Change{})}},
			"statsPublic": {Fields: linkfield.Change{StatsPublic: to(true)}},
		} {
			in.URL = "https://example.com/" + field
			if _, _, err := b.Create(t.Context(), key, in); !errs.Is(err, errs.InvalidInput) ||
				errs.From(err).Field[0] != field {
				t.Errorf("%s: %v", field, err)
			}
		}
		linktest.Refused(b.CreateMany(t.Context(), key, Batch{Links: urls(0, 11)}))(t, errs.InvalidInput, "11 links")
		linktest.Refused(
			b.CreateMany(t.Context(), key, Batch{Links: urls(0, 1), IdempotencyKey: new("once")}),
		)(t, errs.InvalidInput, "with an idempotency key")
		linktest.Refused(
			b.Upsert(t.Context(), key, &Input{URL: "https://example.com/",
				Fields: linkfield.Change{ExternalID: to(new("7"))}}),
		)(t, errs.Forbidden, "upsert")
		var limited error
		for i := 0; i < 40 && limited == nil; i++ {
			_, limited = b.CreateMany(t.Context(), key, Batch{Links: urls(i, i+1)})
		}
		if !errs.Is(limited, errs.RateLimited) {
			t.Errorf("40 links of an address: %v", limited)
		}
	})
}

// addressed returns the context of a request from an address.
func addressed(t *testing.T, address string) (ctx context.Context) {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/graphql", nil)
	r.RemoteAddr = address
	web.Client(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { ctx = r.Context() })).
		ServeHTTP(httptest.NewRecorder(), r)
	return ctx
}

// TestPublishableKey_TakesItsPart: of a day, exactly, from any number of networks and with any
// spelling of a page, of the hour from one site, and of the month never the last links, which are
// the members'.
func TestPublishableKey_TakesItsPart(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		publishable := account.Key{Scopes: []string{"LINKS_CREATE"}, DestinationHosts: []string{"example.com"}}
		key := b.keyOf(t, publishable)
		publishable.LinksPerDay = new(1000)
		wide := b.keyOf(t, publishable)
		var created atomic.Pointer[link.Link]
		// expect creates links in calls at once, each from another IPv4 address.
		expect := func(what string, m workspace.Membership, first, links, want int) {
			t.Helper()
			got := linktest.AtOnce(links, func(i int) string {
				page := first + i
				l, _, err := b.Create(addressed(t, fmt.Sprintf("192.0.%d.%d:1", page/250, page%250)), m,
					Input{URL: fmt.Sprintf("https://example.com/page?x=%d", page)})
				if err == nil {
					created.Store(l)
				}
				return kindOf(err)
			})
			wanttest.Equal(t, map[string]int{"": want, "QUOTA_EXCEEDED": links - want}, got, "%s", what)
		}
		expect("a tenth of the month", key, 0, 15, 10)
		if _, isNew, err := b.Create(t.Context(), key, Input{URL: created.Load().CanonicalURL}); isNew || err != nil {
			t.Errorf("a link again: created %t, %v", isNew, err)
		}
		_, _, err := b.Create(t.Context(), key, Input{URL: "https://example.com/another"})
		if got := errs.From(err); got.Kind != errs.QuotaExceeded || got.RetryAfter != 12*time.Hour {
			t.Errorf("after noon: %v, again in %s", err, got.RetryAfter)
		}
		b.Now = b.Now.Add(12 * time.Hour)
		expect("the next day", key, 15, 11, 10)
		expect("a quota of its own", wide, 30, 80, 70) // of 90
		expect("a member", b.Mine, 200, 11, 10)
		b.ExpectUsed(t, 100)
		b.Quota.Default = 1_000_000
		for network := range 5 {
			from := addressed(t, fmt.Sprintf("[2001:db8:0:%x::1]:1", network))
			for call := range 3 {
				m := []workspace.Membership{key, wide}[call%2] // which share it
				_, err := b.CreateMany(from, m, Batch{Links: urls(30*network+10*call, 30*network+10*call+10)})
				if isOver := network == 4; isOver != errs.Is(err, errs.RateLimited) || !isOver && err != nil {
					t.Errorf("call %d of network %d of a site: %v", call, network, err)
				}
			}
		}
	})
}
