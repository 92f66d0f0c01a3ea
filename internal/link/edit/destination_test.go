package edit_test

import (
	"net"
	"net/netip"
	"slices"
	"testing"

	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/link/creation"
	"github.com/linkforge/linkforge/internal/link/destination"
	"github.com/linkforge/linkforge/internal/link/edit"
	"github.com/linkforge/linkforge/internal/link/linktest"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/id"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/urlnorm"
	"github.com/linkforge/linkforge/internal/route/routing"
	"github.com/linkforge/linkforge/internal/tenant/domain"
)

// ownURLs lead to the instance that bundle.own describes. The rule itself is tested in
// internal/link/destination.
var ownURLs = []string{
	"http://SHO.rt./abc", "https://sho.rt/abc", "http://sho.rt:8080/abc",
	"https://internal.example/abc", "http://internal.example:8080/abc",
	"http://127.0.0.1:8080/abc", "http://127.1.2.3:8080/abc", "http://[::1]:8080/abc",
	"http://[::ffff:7f00:1]:8080/abc",
	"http://0.0.0.0:8080/abc", "http://localhost.:8080/abc", "http://a.localhost:8080/abc", "http://10.1.2.3:8080/abc",
	"https://tenant.example/abc", "http://TENANT.example.:8080/abc", "http://tenant.example:3000/",
	"https://sho.rt:9443/",
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
			b.Change(t, kept, link.Change{Title: to(new("still there"))}).Status(b.Now) != routing.Active {
			t.Error("an existing link does not stay as it is")
		}
		for _, url := range []string{
			"http://127.0.0.1:3000/", "http://10.1.2.4:8080/", "http://www.sho.rt/",
		} {
			b.Make(t, creation.Input{URL: url})
		}
		for _, url := range []string{
			"http://2130706433:8080/", "http://0x7f.1:8080/", "http://127.1:8080/", "http://0177.0.0.1:8080/",
		} {
			b.Refuse(t, creation.Input{URL: url}, errs.InvalidURL)
		}
	})
}

// refuseOwn expects that no operation gives a link the URL.
func (b *bundle) refuseOwn(t *testing.T, free *link.Link, url string) {
	t.Helper()
	check := func(operation string, err error) {
		t.Helper()
		if e := errs.From(err); e.Kind != errs.UnsafeURL || !slices.Equal(e.Field, []string{"url"}) {
			t.Errorf("%s %s: %v at %v", operation, url, err, e.Field)
		}
	}
	_, _, err := b.Create(t.Context(), b.Mine, creation.Input{URL: url})
	check("creating", err)
	_, _, err = b.Create(t.Context(), b.Mine, creation.Input{URL: url, MaxClicks: new(int64(1))})
	check("creating with maxClicks", err)
	_, _, err = b.CreateAnonymous(t.Context(), "192.0.2.1", url)
	check("creating anonymously", err)
	_, err = b.Edit.Update(t.Context(), b.Mine, link.Change{ID: free.ID, URL: to(url)})
	check("updating", err)
	if _, err = b.Preview(t.Context(), b.Mine, url); !errs.Is(err, errs.UnsafeURL) {
		t.Errorf("previewing %s: %v", url, err)
	}
	results := b.MakeMany(t, link.SkipFailed, &creation.Input{URL: url}, &creation.Input{URL: url},
		&creation.Input{URL: "https://good.example/?" + url})
	linktest.Equal(t, []string{"UNSAFE_URL", "UNSAFE_URL", "created"}, outcomes(results), "a batch with %s", url)
}
