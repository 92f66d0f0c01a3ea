package edit_test

import (
	"cmp"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/link/creation"
	"github.com/linkforge/linkforge/internal/link/destination"
	"github.com/linkforge/linkforge/internal/link/edit"
	"github.com/linkforge/linkforge/internal/link/linkfield"
	"github.com/linkforge/linkforge/internal/link/linktest"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/id"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/optional"
	"github.com/linkforge/linkforge/internal/platform/urlnorm"
	"github.com/linkforge/linkforge/internal/platform/wanttest"
	"github.com/linkforge/linkforge/internal/route/routing"
	"github.com/linkforge/linkforge/internal/tenant/account"
	"github.com/linkforge/linkforge/internal/tenant/domain"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
	"github.com/linkforge/linkforge/internal/tenant/workspace/workspacetest"
)

// TestDestinationHosts_CoverWhatOthersStored: an API key cannot make a URL effective that a member
// or an anonymous user has stored.
func TestDestinationHosts_CoverWhatOthersStored(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		ctx, m := t.Context(), workspacetest.Require(t, b.DB, account.Actor{Key: &account.Key{
			ID: id.New(id.Key), WorkspaceID: b.Mine.ID(), Scopes: []string{"LINKS_WRITE"},
			DestinationHosts: []string{"example.com"},
		}}, b.Mine.ID())
		const inside, outside = "https://example.com/a", "https://evil.example/a"
		stored := func(url string) *link.Link {
			l := b.Make(t, creation.Input{URL: url, Strategy: new(link.Random)})
			return l
		}
		refuse := func(way string, err error) {
			t.Helper()
			if !errs.Is(err, errs.InvalidInput) {
				t.Errorf("%s: %v", way, err)
			}
		}
		reverted := stored(outside)
		b.Change(t, reverted, linkfield.Change{URL: to(inside)})
		_, err := b.Edit.Revert(ctx, m, reverted.ID, 1, nil)
		refuse("reverting", err)

		undone := stored(outside)
		changed := must.Value(b.Edit.UpdateMany(ctx, b.Mine, []linkfield.Change{{ID: undone.ID, URL: to(inside)}},
			link.SkipFailed))(t)
		undo := must.Value(b.Edit.RevertOperation(ctx, m, changed[0].OperationID))(t)
		refuse("undoing", undo.Results[0].Err)

		deleted := stored(outside)
		b.Remove(t, deleted.ID)
		_, err = b.Edit.Restore(ctx, m, deleted.ID)
		refuse("restoring", err)

		revived := b.Make(t, creation.Input{URL: outside, Strategy: new(link.Deterministic)})
		b.Remove(t, revived.ID)
		_, _, err = b.Create(ctx, m, creation.Input{URL: outside, Strategy: new(link.Deterministic)})
		refuse("reviving", err)

		expired, planned, routed := stored(outside), stored(inside), stored(outside)
		b.Change(t, expired, linkfield.Change{ExpiresAt: to(new(b.Now.Add(time.Minute)))})
		b.Plan(t, planned, time.Hour, linkfield.Change{URL: to(outside)})
		_, err = b.Edit.Update(ctx, m, linkfield.Change{ID: planned.ID, URL: to(inside + "/b")})
		refuse("changing a link with a scheduled change", err)
		b.Tick()
		b.Tick()
		_, err = b.Edit.Update(ctx, m, linkfield.Change{ID: expired.ID, ExpiresAt: to[*time.Time](nil)})
		refuse("extending", err)
		later := to(new(b.Now.Add(time.Minute)))
		_, err = b.Edit.Update(ctx, m,
			linkfield.Change{ID: expired.ID, StartsAt: later, ExpiresAt: to[*time.Time](nil)})
		refuse("scheduling", err)
		_, err = b.Edit.Update(ctx, m,
			linkfield.Change{ID: routed.ID, Routing: to(&routing.Change{EndedURL: to(new(inside))})})
		refuse("changing the routing", err)
		_, err = b.Edit.Update(ctx, m, linkfield.Change{ID: routed.ID, Title: to(new("title"))})
		must.NoError(t, err)

		for _, url := range []string{outside, inside} {
			_, token := b.Anonymous(t, url)
			c := b.ClaimOne(t, m, token)
			if want := url == inside; (c.Status == edit.Claimed) != want ||
				!want && !errs.Is(c.Err, errs.InvalidInput) {
				t.Errorf("claiming %s: %s, %v", url, c.Status, c.Err)
			}
		}
	})
}

// TestBlockedHosts_CoverLinksThatAreNotActiveYet: no operation makes a blocked URL effective that
// is so at a later instant, or after the link's end.
func TestBlockedHosts_CoverLinksThatAreNotActiveYet(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		ctx, never := t.Context(), to[*time.Time](nil)
		past, future := b.Now.Add(time.Minute), b.Now.Add(time.Hour)
		later, expires := to(&future), linkfield.Change{StartsAt: never, ExpiresAt: to(&past)}
		const good, blocked = "https://example.com/a", "https://blocked.example.com/a"
		var operation string
		keep, remove := func(*link.Link) {}, func(l *link.Link) { b.Remove(t, l.ID) }
		update := func(c linkfield.Change) func(l *link.Link) error {
			return func(l *link.Link) error {
				c.ID = l.ID
				_, err := b.Edit.Update(ctx, b.Mine, c)
				return err
			}
		}
		restore := func(l *link.Link) error {
			_, err := b.Edit.Restore(ctx, b.Mine, l.ID)
			return err
		}
		ways := map[string]struct {
			in     creation.Input
			before func(l *link.Link)
			change func(l *link.Link) error
		}{
			"update to ACTIVE": {creation.Input{Fields: linkfield.Change{ExpiresAt: optional.Set(&past)}}, keep,
				update(linkfield.Change{ExpiresAt: never})},
			"update to SCHEDULED": {creation.Input{Fields: linkfield.Change{ExpiresAt: optional.Set(&past)}}, keep,
				update(linkfield.Change{StartsAt: later, ExpiresAt: never})},
			"update, restore": {creation.Input{}, remove, func(l *link.Link) error {
				return cmp.Or(update(linkfield.Change{StartsAt: later})(l), restore(l))
			}},
			"restore to SCHEDULED": {creation.Input{Fields: linkfield.Change{StartsAt: optional.Set(&future)}}, remove,
				restore},
			"restore to EXPIRED": {creation.Input{URL: good, Fields: linkfield.Change{ExpiresAt: optional.Set(&past),
				Routing: optional.Set(&routing.Change{EndedURL: to(new(blocked))})}}, remove, restore},
			"revert": {creation.Input{Fields: linkfield.Change{StartsAt: optional.Set(&future)}},
				func(l *link.Link) { b.Change(t, l, expires) },
				func(l *link.Link) error {
					_, err := b.Edit.Revert(ctx, b.Mine, l.ID, 1, nil)
					return err
				}},
			"undo": {creation.Input{Fields: linkfield.Change{StartsAt: optional.Set(&future)}}, func(l *link.Link) {
				operation = *link.OperationOf(
					b.updateMany(t, linkfield.Change{ID: l.ID, StartsAt: never, ExpiresAt: to(&past)}))
			}, func(*link.Link) error {
				return must.Value(b.Edit.RevertOperation(ctx, b.Mine, operation))(t).Results[0].Err
			}},
			"upsert": {creation.Input{Fields: linkfield.Change{ExternalID: optional.Set(new("gone"))}}, remove,
				func(*link.Link) error {
					_, err := b.Upsert(ctx, b.Mine,
						&creation.Input{URL: blocked, Fields: linkfield.Change{ExternalID: optional.Set(new("gone")),
							StartsAt: later}})
					return err
				}},
		}
		links := map[string]*link.Link{}
		for name, way := range ways {
			way.in.URL, way.in.Strategy = cmp.Or(way.in.URL, blocked), new(link.Random)
			links[name] = b.Make(t, way.in)
			way.before(links[name])
		}
		b.Now = past
		b.Destinations.Blocklist = blockedHost("blocked.example.com")
		for name, way := range ways {
			if err := way.change(links[name]); !errs.Is(err, errs.UnsafeURL) {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

// ownURLs lead to the instance that bundle.own describes. The rule itself is tested in
// internal/link/destination.
var ownURLs = []string{
	"http://SHO.rt./abc", "https://internal.example/abc", "http://127.1.2.3:8080/abc",
	"http://[::ffff:7f00:1]:8080/abc", "http://a.localhost:8080/abc", "http://10.1.2.3:8080/abc",
	"http://TENANT.example.:3000/abc",
}

// own describes an instance that listens on 10.1.2.3:8080 and has a verified domain.
func (b *bundle) own(t *testing.T, d *db.DB) {
	t.Helper()
	var err error
	if b.Destinations.Own, err = destination.NewOwnHosts("http://sho.rt", "internal.example", "localhost",
		"sho.rt"); err != nil {
		t.Fatal(err)
	}
	b.Destinations.Own.Listen(net.TCPAddrFromAddrPort(netip.MustParseAddrPort("10.1.2.3:8080")))
	domain := domain.Domain{
		ID: id.New(id.Domain), WorkspaceID: b.Foreign.ID(), Host: "tenant.example", Token: "t", CreatedAt: noon,
		VerifiedAt: &noon,
	}
	must.Value(d.NewInsert().Model(&domain).Exec(db.AsSystem(t.Context())))(t)
}

func TestStore_RefusesOwnHostsInEveryOperation(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		var deleted []*link.Link
		var tokens []string
		for _, url := range ownURLs { // as before the operator configured these hosts
			if b.Destinations.Own.Serves(must.Value(urlnorm.Canonical(url))(t)) {
				continue
			}
			l := b.Make(t, creation.Input{URL: url})
			must.Value(b.Edit.Delete(t.Context(), b.Mine, l.ID))(t)
			_, token := b.Anonymous(t, url)
			deleted, tokens = append(deleted, l), append(tokens, token)
		}
		kept := b.Make(t, creation.Input{URL: "http://127.0.0.1:8080/kept"})
		free := b.Make(t, creation.Input{URL: "https://example.com/free", Strategy: new(link.Random)})
		b.own(t, b.DB)
		for _, url := range ownURLs {
			b.refuseOwn(t, free, url)
		}
		for _, l := range deleted {
			linktest.Refused(b.Edit.Restore(t.Context(), b.Mine, l.ID))(t, errs.UnsafeURL, "restoring a link to %s",
				l.OriginalURL)
		}
		for _, token := range tokens {
			if c := b.ClaimOne(t, b.Mine, token); c.Status != edit.ClaimRefused || !errs.Is(c.Err, errs.UnsafeURL) {
				t.Errorf("claiming: %+v", c)
			}
		}
		if len(deleted) == 0 ||
			b.Change(t, kept, linkfield.Change{Title: to(new("still there"))}).Status(b.Now) != routing.Active {
			t.Error("an existing link does not stay as it is")
		}
		for _, url := range []string{"http://127.0.0.1:3000/", "http://10.1.2.4:8080/", "http://www.sho.rt/"} {
			b.Make(t, creation.Input{URL: url})
		}
	})
}

// pendingURLs lead to xn--bcher-kva.example.
var pendingURLs = []string{
	"https://bücher.example/abc", "http://BÜCHER.Example.:8443/a?b=c#d", "https://XN--bcher-kva.example",
	"https://bücher。example/?x",
}

// pend adds a domain, which is not verified, to a workspace.
func (b *bundle) pend(t *testing.T, m workspace.Membership) *domain.Domain {
	t.Helper()
	d := &domain.Domain{
		ID: id.New(id.Domain), WorkspaceID: m.ID(), Host: "xn--bcher-kva.example", Token: "t", CreatedAt: noon,
	}
	must.Value(b.DB.NewInsert().Model(d).Exec(db.AsSystem(t.Context())))(t)
	return d
}

// TestStore_RefusesPendingDomainsInEveryOperation: those of the workspace, until they are removed, and none of others.
func TestStore_RefusesPendingDomainsInEveryOperation(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		ctx, deleted, tokens := t.Context(), map[string]*link.Link{}, map[string]string{}
		free := b.Make(t, creation.Input{URL: "https://example.com/free", Strategy: new(link.Random)})
		kept := b.Make(t, creation.Input{URL: pendingURLs[0], Strategy: new(link.Random)})
		b.pend(t, b.Foreign)
		for _, url := range pendingURLs {
			deleted[url] = b.Make(t, creation.Input{URL: url, Strategy: new(link.Random)})
			b.Remove(t, deleted[url].ID)
			_, tokens[url] = b.Anonymous(t, url)
		}
		pending := b.pend(t, b.Mine)
		for _, url := range pendingURLs {
			check := func(operation string, err error, field ...string) {
				t.Helper()
				if e := errs.From(err); e.Kind != errs.UnsafeURL || !slices.Equal(e.Field, field) ||
					!strings.Contains(e.Message, pending.Host+", a domain of this workspace") {
					t.Errorf("%s %s: %v at %v", operation, url, err, e.Field)
				}
			}
			b.refuseURL(t, free, url)
			_, err := b.Edit.Update(ctx, b.Mine,
				linkfield.Change{ID: free.ID, Routing: to(&routing.Change{EndedURL: to(new(url))})})
			check("routing to", err, "routing", "endedUrl")
			_, err = b.Schedule.Add(ctx, b.Mine, free.ID, b.Now.Add(time.Hour), linkfield.Change{URL: to(url)})
			check("scheduling", err, "change", "url")
			_, err = b.Upsert(ctx, b.Mine,
				&creation.Input{URL: url, Fields: linkfield.Change{ExternalID: optional.Set(new("mine"))}})
			check("upserting", err, "url")
			_, err = b.Edit.Restore(ctx, b.Mine, deleted[url].ID)
			check("restoring", err)
			check("claiming", b.ClaimOne(t, b.Mine, tokens[url]).Err)
		}
		b.Change(t, kept, linkfield.Change{Title: to(new("still there"))})
		b.Make(t, creation.Input{URL: "https://www.bücher.example/"})
		b.Anonymous(t, pendingURLs[0])
		must.Value(b.DB.NewDelete().Model(pending).WherePK().Exec(db.AsSystem(ctx)))(t)
		b.Make(t, creation.Input{URL: pendingURLs[0]})
	})
}

// refuseOwn expects that no operation gives a link the URL.
func (b *bundle) refuseOwn(t *testing.T, free *link.Link, url string) {
	t.Helper()
	b.refuseURL(t, free, url)
	_, _, err := b.CreateAnonymous(t.Context(), "192.0.2.1", url)
	if e := errs.From(err); e.Kind != errs.UnsafeURL || !slices.Equal(e.Field, []string{"url"}) {
		t.Errorf("creating anonymously %s: %v at %v", url, err, e.Field)
	}
}

// refuseURL expects that no operation gives a link of Mine the URL.
func (b *bundle) refuseURL(t *testing.T, free *link.Link, url string) {
	t.Helper()
	check := func(operation string, err error) {
		t.Helper()
		if e := errs.From(err); e.Kind != errs.UnsafeURL || !slices.Equal(e.Field, []string{"url"}) {
			t.Errorf("%s %s: %v at %v", operation, url, err, e.Field)
		}
	}
	_, _, err := b.Create(t.Context(), b.Mine, creation.Input{URL: url})
	check("creating", err)
	_, _, err = b.Create(t.Context(), b.Mine, creation.Input{URL: url,
		Fields: linkfield.Change{MaxClicks: optional.Set(new(int64(1)))}})
	check("creating with maxClicks", err)
	_, err = b.Edit.Update(t.Context(), b.Mine, linkfield.Change{ID: free.ID, URL: to(url)})
	check("updating", err)
	if _, err = b.Preview(t.Context(), b.Mine, url); !errs.Is(err, errs.UnsafeURL) {
		t.Errorf("previewing %s: %v", url, err)
	}
	results := b.MakeMany(t, link.SkipFailed, &creation.Input{URL: url}, &creation.Input{URL: url},
		&creation.Input{URL: "https://good.example/?" + url})
	wanttest.Equal(t, []string{"UNSAFE_URL", "UNSAFE_URL", "created"}, outcomes(results), "a batch with %s", url)
}
