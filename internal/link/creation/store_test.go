package creation

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/link/linkfield"
	"github.com/linkforge/linkforge/internal/link/linktest"
	"github.com/linkforge/linkforge/internal/link/shortcode"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/optional"
	"github.com/linkforge/linkforge/internal/platform/wanttest"
	"github.com/linkforge/linkforge/internal/route/routing"
	"github.com/linkforge/linkforge/internal/tenant/account"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
	"github.com/linkforge/linkforge/internal/visit/resolve"
)

// noon is when the tests begin.
var noon = dbtest.Noon

// bundle is a store with two workspaces of one person each.
type bundle struct {
	*Store
	*linktest.World
}

func setup(t testing.TB, d *db.DB) *bundle {
	t.Helper()
	w := linktest.New(t, d)
	return &bundle{NewStore(Config{
		Links: w.Links, Quota: w.Quota, CodeSecrets: [][]byte{[]byte("a secret")}, AnonymousTTL: 8 * time.Hour,
		Limits: w.Limits,
	}), w}
}

// each runs the test with a fresh bundle on each kind of database.
func each(t *testing.T, test func(t *testing.T, b *bundle)) {
	t.Helper()
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) { test(t, setup(t, d)) })
}

var pairs, kindOf, outcomes = linktest.Pairs, linktest.KindOf, linktest.Outcomes

// custom is the input for a link with the code.
func custom(url, code string) Input { return Input{URL: url, CustomCode: &code} }

// urls are the inputs for links to numbered URLs.
func urls(from, to int) []*Input {
	var in []*Input
	for i := from; i < to; i++ {
		in = append(in, &Input{URL: fmt.Sprintf("https://example.com/%d", i)})
	}
	return in
}

func (b *bundle) create(t *testing.T, in Input) (l *link.Link, created bool) {
	t.Helper()
	l, created, err := b.Create(t.Context(), b.Mine, in)
	must.NoError(t, err)
	return l, created
}

// createAtOnce creates links by n calls at the same time, and counts the outcomes.
func (b *bundle) createAtOnce(t *testing.T, n int, in func(i int) Input) map[string]int {
	t.Helper()
	return linktest.AtOnce(n, func(i int) string {
		l, created, err := b.Create(t.Context(), b.Mine, in(i))
		return linktest.Outcome(link.Result{Link: l, Created: created, Err: err})
	})
}

func to[T any](value T) optional.Edit[T] { return optional.Edit[T]{Set: true, To: value} }

func (b *bundle) refuse(t *testing.T, in Input, want errs.Kind) {
	t.Helper()
	if _, _, err := b.Create(t.Context(), b.Mine, in); !errs.Is(err, want) {
		t.Errorf("creating %+v: %v, want %s", in, err, want)
	}
}

func TestStore_CreateReturnsTheExistingLink(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		first, created := b.create(t, Input{URL: "HTTP://Example.com:80/a/?b=2&a=1#top"})
		if !created || first.CanonicalURL != "http://example.com/a?a=1&b=2" {
			t.Errorf("created %t, canonical %s", created, first.CanonicalURL)
		}
		if want := shortcode.Deterministic(first.CanonicalURL, b.Mine.ID(), 0); first.Code != want {
			t.Errorf("code %s, want %s", first.Code, want)
		}
		again, created := b.create(t, Input{URL: "http://example.com/a?a=1&b=2"})
		if created || again.ID != first.ID || again.OriginalURL != "HTTP://Example.com:80/a/?b=2&a=1#top" {
			t.Errorf("created %t, id %s, original %s", created, again.ID, again.OriginalURL)
		}
		b.ExpectUsed(t, 1)
	})
}

func TestStore_CreateConcurrently(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		got := b.createAtOnce(t, 100, func(i int) Input {
			return Input{URL: "https://example.com/?" + strings.Repeat("&", i)}
		})
		wanttest.Equal(t, map[string]int{"created": 1, "there": 99}, got, "outcomes")
		b.ExpectRows(t, 1, "links", "TRUE")
		b.ExpectUsed(t, 1)
	})
}

func TestStore_CustomCodesArePerWorkspace(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		mine, _ := b.create(t, custom("https://example.com/mine", "promo"))
		theirs, created, err := b.Create(t.Context(), b.Foreign, custom("https://example.com/theirs", "promo"))
		if err != nil || !created {
			t.Fatalf("created %t: %v", created, err)
		}
		if got := b.ShortURL(mine); got != "http://sho.rt/mine/promo" {
			t.Errorf("short URL %s", got)
		}
		for slug, want := range map[string]string{"mine": mine.ID, "foreign": theirs.ID} {
			target, err := b.At(t.Context(), resolve.Address{Slug: slug, Code: "promo"})
			if err != nil || target.ID != want {
				t.Errorf("%s resolves to %v: %v", slug, target, err)
			}
		}
		linktest.Refused(b.At(t.Context(), resolve.Address{Code: "promo"}))(t, errs.NotFound,
			"a custom code at the root")
		linktest.Refused(b.Get(t.Context(), b.Mine, theirs.ID))(t, errs.NotFound, "a foreign link")
		linktest.Refused(b.Edit.Delete(t.Context(), b.Mine, theirs.ID))(t, errs.NotFound, "deleting a foreign link")
	})
}

func TestStore_CollisionsUseTheNextSalt(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		codes := shortcode.Salts
		var want []string
		b.Candidate = func(_, workspaceID string, salt int) string {
			if salt == 1 {
				return "login" // a reserved word is passed over
			}
			return shortcode.Deterministic("the same for all", workspaceID, salt)
		}
		for salt := range shortcode.Salts {
			if code := b.Candidate("", b.Mine.ID(), salt); code != "login" {
				want = append(want, code)
			}
		}
		var got []string
		for i := range codes - 1 {
			l, created := b.create(t, Input{URL: fmt.Sprintf("https://example.com/%d", i)})
			if !created {
				t.Errorf("link %d was not created", i)
			}
			got = append(got, l.Code)
		}
		wanttest.Equal(t, want, got, "codes")
		b.refuse(t, Input{URL: "https://example.com/one-too-many"}, errs.CodeExhausted)
		if n := b.ExhaustedCodes(); n != 1 {
			t.Errorf("%d refused links counted, want 1", n)
		}
		if again, created := b.create(t, Input{URL: "https://example.com/3"}); created || again.Code != got[3] {
			t.Errorf("the same URL again: created %t, code %s, want %s", created, again.Code, got[3])
		}
	})
}

func TestStore_GeneratedCodesAreUniqueOverTheInstance(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		b.Candidate = func(canonical, _ string, salt int) string {
			return shortcode.Deterministic(canonical, "ws_everyone", salt)
		}
		mine, _ := b.create(t, Input{URL: "https://example.com"})
		theirs, created, err := b.Create(t.Context(), b.Foreign, Input{URL: "https://example.com"})
		if err != nil || !created || theirs.Code == mine.Code {
			t.Errorf("created %t, codes %s and %s: %v", created, mine.Code, theirs.Code, err)
		}
	})
}

// TestStore_RevivesForWriters: a caller that creates links only gets CONFLICT for one that was
// deleted or purged, and a writer learns which restrictions it has lost.
func TestStore_RevivesForWriters(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		b.Passwords = reversible{}
		most := int64(5)
		input := Input{URL: "https://example.com/a"}
		promo := custom("https://example.com/b", "promo")
		full := withPassword("password 1")
		full.Rules, full.Bots = byRule("DE").Rules, optional.Set(new(routing.BlockBots))
		dropped := []string{"expiresAt", "maxClicks", "routing.gate.password", "routing.rules", "routing.bots"}
		restrict := func(in Input) Input {
			in.Fields = linkfield.Change{ExpiresAt: to(new(b.Now.Add(time.Hour))), MaxClicks: to(&most),
				Routing: to(full)}
			return in
		}
		publishable := b.keyOf(t,
			account.Key{Scopes: []string{"LINKS_CREATE"}, DestinationHosts: []string{"example.com"}})
		creator := b.keyOf(t, account.Key{Scopes: []string{"LINKS_CREATE", "LINKS_READ"}})
		writer := b.keyOf(t, account.Key{Scopes: []string{"LINKS_WRITE"}})
		for _, in := range []Input{input, promo} {
			l, _ := b.create(t, restrict(in))
			must.Value(b.Edit.Delete(t.Context(), b.Mine, l.ID))(t)
			for name, m := range map[string]workspace.Membership{"publishable": publishable, "creator": creator} {
				if name == "publishable" && in.CustomCode != nil {
					continue // which gives no code
				}
				for range 2 { // alone, and in a bulk call
					results := must.Value(b.CreateMany(t.Context(), m, Batch{Links: []*Input{&in}}))(t)
					if !errs.Is(results[0].Err, errs.Conflict) {
						t.Errorf("%s revives %s: %+v", name, l.Code, results[0])
					}
				}
			}
			if got := must.Value(b.Get(t.Context(), b.Mine, l.ID))(t); got.DeletedAt == nil || got.ExpiresAt == nil ||
				!got.Routing.HasPassword() {
				t.Errorf("the deleted link has changed: %+v", got)
			}
			results := must.Value(b.CreateMany(t.Context(), writer, Batch{Links: []*Input{&in},
				IdempotencyKey: new("key " + l.Code)}))(t)
			again := must.Value(b.CreateMany(t.Context(), writer, Batch{Links: []*Input{&in},
				IdempotencyKey: new("key " + l.Code)}))(t)
			for _, r := range []link.Result{results[0], again[0]} {
				if diff := cmp.Diff(dropped, r.Dropped); r.Err != nil || r.Created || r.Link.ID != l.ID ||
					r.Link.DeletedAt != nil || diff != "" {
					t.Errorf("revived by a writer: %+v (-want +got):\n%s", r, diff)
				}
			}
			must.Value(b.Edit.Delete(t.Context(), b.Mine, l.ID))(t)
			if r := must.Value(b.CreateMany(t.Context(), b.Mine,
				Batch{Links: []*Input{new(restrict(in))}}))(t); r[0].Err != nil || r[0].Dropped != nil {
				t.Errorf("revived with all restrictions: %+v", r[0])
			}
			must.Value(b.Edit.Delete(t.Context(), b.Mine, l.ID))(t)
			b.Now = b.Now.Add(linktest.Tombstones)
			b.PurgeEnded(t)
			if _, _, err := b.Create(t.Context(), creator, in); in.CustomCode == nil && !errs.Is(err, errs.Conflict) {
				t.Errorf("revived after the purge: %v", err)
			}
		}
	})
}

func TestStore_CreateRefusesDisabledLinks(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		l, _ := b.create(t, Input{URL: "https://example.com/a"})
		b.Set(t, l, "disabled_at = ?", noon)
		must.Value(b.Edit.Delete(t.Context(), b.Mine, l.ID))(t)
		_, _, err := b.Create(t.Context(), b.Mine, Input{URL: "https://example.com/a"})
		if diff := cmp.Diff([]string{"url"}, errs.From(err).Field); diff != "" || !errs.Is(err, errs.UnsafeURL) {
			t.Errorf("%v, at (-want +got):\n%s", err, diff)
		}
	})
}

func TestStore_CreateRefusesInvalidInput(t *testing.T) {
	t.Parallel()
	b := setup(t, dbtest.MigratedSQLite(t))
	past, soon, later, status, title := noon, noon.Add(time.Hour), noon.Add(2*time.Hour), 200, "two\nlines"
	const u = "https://example.com/"
	for name, c := range map[string]struct {
		in   Input
		want errs.Kind
	}{
		"scheme":          {Input{URL: "ftp://example.com/"}, errs.InvalidURL},
		"empty":           {Input{URL: ""}, errs.InvalidURL},
		"a loop":          {Input{URL: "http://SHO.rt:80/abc"}, errs.UnsafeURL},
		"expired already": {Input{URL: u, Fields: linkfield.Change{ExpiresAt: to(&past)}}, errs.InvalidInput},
		"ends before it has": {Input{URL: u, Fields: linkfield.Change{StartsAt: to(&later), ExpiresAt: to(&soon)}},
			errs.InvalidInput},
		"not a redirect":   {Input{URL: u, Fields: linkfield.Change{RedirectStatus: to(status)}}, errs.InvalidInput},
		"title":            {Input{URL: u, Fields: linkfield.Change{Title: to(&title)}}, errs.InvalidInput},
		"a reserved code":  {custom(u, "GraphQL"), errs.CodeReserved},
		"spaces in a code": {custom(u, "no spaces"), errs.InvalidInput},
		"no custom code":   {Input{URL: u, Strategy: new(link.Custom)}, errs.InvalidInput},
		"a code, DETERMINISTIC": {Input{URL: u, Strategy: new(link.Deterministic), CustomCode: new("promo")},
			errs.InvalidInput},
	} {
		t.Run(name, func(t *testing.T) { b.refuse(t, c.in, c.want) })
	}
	b.ExpectUsed(t, 0)
}

// TestStore_LinkQuotaIsExact lets single links and large batches that overlap race for fewer links
// than they want.
func TestStore_LinkQuotaIsExact(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		b.Quota.Default = 60
		var mu sync.Mutex
		said := map[string]int{}
		var all sync.WaitGroup
		for i := range 40 {
			all.Go(func() {
				in := urls(100+i, 101+i)
				if i%6 == 0 {
					in = urls(i, i+maxSharedLinks+5)
				}
				results, err := b.CreateMany(t.Context(), b.Mine, Batch{Links: in})
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				for _, one := range outcomes(results) {
					said[one]++
				}
			})
		}
		all.Wait()
		if said["created"] != 60 || said["QUOTA_EXCEEDED"] == 0 {
			t.Errorf("%v, want 60 created", said)
		}
		b.ExpectRows(t, 60, "links", "TRUE")
		b.ExpectUsed(t, 60)
		b.Now = time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)
		b.create(t, Input{URL: "https://example.com/next-month"})
		b.ExpectUsed(t, 1)
	})
}

func (b *bundle) anonymous(t *testing.T, url string) (*link.Link, string) {
	t.Helper()
	l, token, err := b.CreateAnonymous(t.Context(), "192.0.2.1", url)
	must.NoError(t, err)
	return l, token
}

func TestStore_CreateAnonymous(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		l, token := b.anonymous(t, "https://example.com/a")
		if l.Kind() != link.Temporary || l.Strategy != link.Counter || !l.ExpiresAt.Equal(noon.Add(8*time.Hour)) ||
			l.CreatedBy != nil || b.ShortURL(l) != "http://sho.rt/"+l.Code {
			t.Errorf("%+v", l)
		}
		other, otherToken := b.anonymous(t, "https://example.com/a")
		if other.ID == l.ID || otherToken == token {
			t.Error("two visitors got one link")
		}
		if _, _, err := b.CreateAnonymous(t.Context(), "192.0.2.1", "http://sho.rt/a"); !errs.Is(err, errs.UnsafeURL) {
			t.Errorf("a loop: %v", err)
		}
		b.config.AnonymousTTL = 0
		if _, _, err := b.CreateAnonymous(t.Context(), "192.0.2.1", "https://example.com/a"); !errs.Is(err,
			errs.Forbidden) {
			t.Errorf("switched off: %v", err)
		}
	})
}

func TestStore_CreateAnonymousLimitsPerAddress(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		for range 60 {
			b.anonymous(t, "https://example.com/a")
		}
		if _, _, err := b.CreateAnonymous(t.Context(), "192.0.2.1",
			"https://example.com/a"); !errs.Is(err, errs.RateLimited) {
			t.Errorf("one more: %v", err)
		}
		if _, _, err := b.CreateAnonymous(t.Context(), "192.0.2.2", "https://example.com/a"); err != nil {
			t.Errorf("from elsewhere: %v", err)
		}
		var last error
		for i := range 241 { // from a network each of one IPv6 site
			_, _, last = b.CreateAnonymous(t.Context(), fmt.Sprintf("2001:db8:0:%x::/64", i), "https://example.com/a")
			if i < 240 {
				must.NoError(t, last)
			}
		}
		linktest.Refused(0, last)(t, errs.RateLimited, "one more of the site")
	})
}
