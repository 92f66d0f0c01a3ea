package creation

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/link/linktest"
	"github.com/linkforge/linkforge/internal/link/shortcode"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/optional"
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

var (
	pairs, kindOf, outcomes = linktest.Pairs, linktest.KindOf, linktest.Outcomes
)

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
		if got := b.Used(t); got != 1 {
			t.Errorf("%d links used, want 1", got)
		}
	})
}

func TestStore_CreateConcurrently(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		const askers = 100
		var mu sync.Mutex
		ids, winners := map[string]bool{}, 0
		var all sync.WaitGroup
		for i := range askers {
			all.Go(func() {
				l, created, err := b.Create(t.Context(), b.Mine,
					Input{URL: fmt.Sprintf("https://example.com/?%s", strings.Repeat("&", i))})
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					t.Error(err)
					return
				}
				ids[l.ID] = true
				if created {
					winners++
				}
			})
		}
		all.Wait()
		if len(ids) != 1 || winners != 1 || b.Used(t) != 1 {
			t.Errorf("%d ids, %d created, %d used; want one of each", len(ids), winners, b.Used(t))
		}
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

func TestStore_CustomCodes(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		first, _ := b.create(t, custom("https://example.com/a", "promo"))
		again, created := b.create(t, custom("https://EXAMPLE.com/a/", "promo"))
		if created || again.ID != first.ID {
			t.Errorf("created %t, id %s, want %s", created, again.ID, first.ID)
		}
		b.refuse(t, custom("https://example.com/b", "promo"), errs.CodeTaken)
		b.refuse(t, custom("https://example.com/b", "GraphQL"), errs.CodeReserved)
		b.refuse(t, custom("https://example.com/b", "no spaces"), errs.InvalidInput)
		b.refuse(t, Input{URL: "https://example.com/b", Strategy: new(link.Custom)}, errs.InvalidInput)
		code := "promo2"
		b.refuse(t, Input{URL: "https://example.com/b", Strategy: new(link.Deterministic), CustomCode: &code},
			errs.InvalidInput)
		if got := b.Used(t); got != 1 {
			t.Errorf("%d links used, want 1", got)
		}
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
		linktest.Equal(t, want, got, "codes")
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

func TestStore_CreateRevivesDeletedLinks(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		for _, in := range []Input{{URL: "https://example.com/a"}, custom("https://example.com/a", "promo")} {
			l, _ := b.create(t, in)
			b.Now = b.Now.Add(time.Minute)
			for range 2 { // deleting twice is deleting once
				deleted, err := b.Edit.Delete(t.Context(), b.Mine, l.ID)
				if err != nil || deleted.Status(b.Now) != routing.Deleted {
					t.Fatalf("deleted: %+v: %v", deleted, err)
				}
			}
			title := "again"
			in.Title = &title
			revived, created := b.create(t, in)
			if created || revived.ID != l.ID || revived.Code != l.Code || revived.Status(b.Now) != routing.Active ||
				*revived.Title != title {
				t.Errorf("created %t, revived %+v, want %s", created, revived, l.ID)
			}
		}
		if got := b.Used(t); got != 2 {
			t.Errorf("%d links used, want 2", got)
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
			in.ExpiresAt, in.MaxClicks, in.Routing = new(b.Now.Add(time.Hour)), &most, full
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
				if diff := cmp.Diff(dropped, r.Dropped); r.Err != nil || r.Link.DeletedAt != nil || diff != "" {
					t.Errorf("revived by a writer: %v (-want +got):\n%s", r.Err, diff)
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
		must.Value(b.DB.NewUpdate().Model(l).Set("disabled_at = ?", noon).WherePK().
			Exec(db.AsSystem(t.Context())))(t)
		must.Value(b.Edit.Delete(t.Context(), b.Mine, l.ID))(t)
		_, _, err := b.Create(t.Context(), b.Mine, Input{URL: "https://example.com/a"})
		if diff := cmp.Diff([]string{"url"}, errs.From(err).Field); diff != "" || !errs.Is(err, errs.UnsafeURL) {
			t.Errorf("%v, at (-want +got):\n%s", err, diff)
		}
	})
}

func TestStore_LinkQuotaIsExact(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		b.Quota.Default = 7
		var mu sync.Mutex
		made, refused := 0, 0
		var all sync.WaitGroup
		for i := range 40 {
			all.Go(func() {
				_, created, err := b.Create(t.Context(), b.Mine, Input{URL: fmt.Sprintf("https://example.com/%d", i)})
				mu.Lock()
				defer mu.Unlock()
				switch {
				case created:
					made++
				case errs.Is(err, errs.QuotaExceeded):
					refused++
				default:
					t.Error(err)
				}
			})
		}
		all.Wait()
		rows, err := b.DB.NewSelect().Model((*link.Link)(nil)).Count(db.AsSystem(t.Context()))
		if err != nil || made != 7 || refused != 33 || rows != 7 || b.Used(t) != 7 {
			t.Errorf("%d made, %d refused, %d rows, %d used; want 7, 33, 7, 7: %v", made, refused, rows, b.Used(t), err)
		}
		b.Now = time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)
		b.create(t, Input{URL: "https://example.com/next-month"})
		if got := b.Used(t); got != 1 {
			t.Errorf("%d links used in the new month, want 1", got)
		}
	})
}

func TestStore_LinkQuotaOfZero(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		b.Quota.Default = 0
		b.refuse(t, Input{URL: "https://example.com/"}, errs.QuotaExceeded)
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
		"scheme":             {Input{URL: "ftp://example.com/"}, errs.InvalidURL},
		"empty":              {Input{URL: ""}, errs.InvalidURL},
		"a loop":             {Input{URL: "http://SHO.rt:80/abc"}, errs.UnsafeURL},
		"expired already":    {Input{URL: u, ExpiresAt: &past}, errs.InvalidInput},
		"ends before it has": {Input{URL: u, StartsAt: &later, ExpiresAt: &soon}, errs.InvalidInput},
		"not a redirect":     {Input{URL: u, RedirectStatus: &status}, errs.InvalidInput},
		"title":              {Input{URL: u, Title: &title}, errs.InvalidInput},
	} {
		t.Run(name, func(t *testing.T) { b.refuse(t, c.in, c.want) })
	}
	if got := b.Used(t); got != 0 {
		t.Errorf("%d links used, want 0", got)
	}
}
