package creation

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"testing"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"

	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/link/linkfield"
	"github.com/linkforge/linkforge/internal/link/linktest"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/id"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/poll/polltest"
	"github.com/linkforge/linkforge/internal/platform/wanttest"
	"github.com/linkforge/linkforge/internal/route/routing"
	"github.com/linkforge/linkforge/internal/tenant/domain"
	"github.com/linkforge/linkforge/internal/visit/resolve"
)

// addDomain adds a verified domain to Mine.
func (b *bundle) addDomain(t *testing.T, host string, space domain.CodeSpace, isCaseSensitive bool) *domain.Domain {
	t.Helper()
	d := &domain.Domain{
		ID: id.New(id.Domain), WorkspaceID: b.Mine.ID(), Host: host, CodeSpace: space, CaseSensitive: isCaseSensitive,
		CreatedAt: noon, VerifiedAt: &noon,
	}
	must.Value(b.DB.NewInsert().Model(d).Exec(db.AsSystem(t.Context())))(t)
	return d
}

// own is the input for a link with a code of a domain.
func own(d *domain.Domain, code string) Input {
	return Input{URL: "https://example.com/", CustomCode: &code, DomainID: &d.ID}
}

// at resolves a path as it is sent to a host.
func (b *bundle) at(t *testing.T, host, path string) resolve.Target {
	t.Helper()
	u := must.Value(url.ParseRequestURI(path))(t)
	at, ok := resolve.PathAddress(u, false)
	if !ok {
		return resolve.Target{Program: routing.Program{Unknown: true}}
	}
	at.Host = host
	var target resolve.Target
	// on a busy machine, a look-up may meet its deadline
	polltest.Until(t, path+" is resolved", func() (isResolved bool) {
		var err error
		target, err = b.Links.Resolver.Resolve(t.Context(), at, b.Now, nil)
		return err == nil
	})
	return target
}

// encodings are the paths of a code as a browser sends it, and with all bytes percent-encoded.
func encodings(code string) []string {
	var all strings.Builder
	for i := range len(code) {
		fmt.Fprintf(&all, "%%%02X", code[i])
	}
	return []string{(&url.URL{Path: "/" + code}).EscapedPath(), "/" + all.String(),
		(&url.URL{Path: "/" + code}).EscapedPath() + "/"}
}

// TestOwnCodes_AreFoundAsTheyAreSent creates codes of all kinds of characters, at a domain where
// case matters and at one where it does not.
func TestOwnCodes_AreFoundAsTheyAreSent(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		for _, isCaseSensitive := range []bool{true, false} {
			host := fmt.Sprintf("go-%t.example.com", isCaseSensitive)
			at := b.addDomain(t, host, domain.Own, isCaseSensitive)
			for _, code := range []string{
				"aB", "Straße/SS", "ﬁ.svg", "é/é", "ΩςΣ", "İı", "日本/ع", "½€5",
				"❤️🎉", "🇩🇪", "क्ष.png", "+-_.~!$'()*,:;=@&",
			} {
				in := own(at, code)
				in.URL = "https://example.com/" + url.PathEscape(code)
				l, _ := b.create(t, in)
				if want := norm.NFC.String(code); l.ShownCode() != want {
					t.Errorf("%q is shown as %q", code, l.ShownCode())
				}
				sent := code
				if !isCaseSensitive {
					sent = cases.Fold().String(code)
				}
				for _, path := range encodings(sent) {
					if got := b.at(t, host, path); got.Location != in.URL {
						t.Errorf("%s %s goes to %q, want %q", host, path, got.Location, in.URL)
					}
				}
			}
		}
	})
}

func TestOwnCodes_BelongToTheirDomain(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		one, two := b.addDomain(t, "one.example.com", domain.Own, true), b.addDomain(t, "two.example.com", domain.Own,
			false)
		shared := b.addDomain(t, "all.example.com", domain.Shared, true)
		for code, at := range map[string]*domain.Domain{"one": one, "two": two} {
			in := own(at, "Promo")
			in.URL = "https://example.com/" + code
			l, _ := b.create(t, in)
			if l.RootCode != nil || l.CodeKey != nil || b.ShortURL(l) != "https://"+at.Host+"/Promo" {
				t.Errorf("%+v has the short URL %s", l, b.ShortURL(l))
			}
			if again, created := b.create(t, in); created || again.ID != l.ID {
				t.Errorf("%s again: %+v", code, again)
			}
			if found, err := b.ByCode(t.Context(), b.Mine, "Promo", &at.ID); err != nil || found.ID != l.ID {
				t.Errorf("by code: %v", err)
			}
			at := must.Value(b.Links.Resolver.ParseShortURL(b.ShortURL(l)))(t)
			if found, err := b.At(t.Context(), at); err != nil || found.ID != l.ID {
				t.Errorf("by short URL: %v", err)
			}
		}
		b.create(t, custom("https://example.com/shared", "promo"))
		for _, c := range []struct{ host, path, want string }{
			{"one.example.com", "/Promo", "https://example.com/one"}, {"one.example.com", "/promo", ""},
			{"two.example.com", "/PROMO", "https://example.com/two"},
			{"all.example.com", "/PROMO", "https://example.com/shared"},
			{"one.example.com", "/Promo%00", ""}, {"one.example.com", "/%FF", ""}, {"one.example.com", "//Promo", ""},
			{"all.example.com", "/" + one.ID + "%2FPromo", ""}, {"one.example.com", "/" + one.ID + "%2FPromo", ""},
		} {
			if got := b.at(t, c.host, c.path); got.Location != c.want {
				t.Errorf("%s%s goes to %q, want %q", c.host, c.path, got.Location, c.want)
			}
		}
		b.findByShortURLs(t, one)
		linktest.Refused(b.ByCode(t.Context(), b.Mine, one.ID+"/Promo", nil))(t, errs.NotFound, "by the key")
		if found, err := b.ByCode(t.Context(), b.Foreign, "Promo", &one.ID); !errs.Is(err, errs.NotFound) {
			t.Errorf("of another workspace: %v, %v", found, err)
		}
		b.refuse(t, own(two, "pROMO"), errs.CodeTaken)
		b.refuse(t, own(shared, "x"), errs.InvalidInput)
		b.refuse(t, own(&domain.Domain{ID: id.New(id.Domain)}, "x"), errs.NotFound)
		b.refuse(t, own(&domain.Domain{ID: "x"}, "x"), errs.NotFound)
		for _, strategy := range []link.Strategy{link.Counter, link.Deterministic} {
			b.refuse(t, Input{URL: "https://example.com/", DomainID: &one.ID, Strategy: &strategy}, errs.InvalidInput)
		}
		for _, code := range []string{
			"", "/a", "a/", "a//b", ".", "a/../b", "a+", ".well-known/x", ".Well-Known/x", "robots.txt", "favicon.ICO",
			"a b", "a?b", "a#b", "a%b",
			"a\\b", "a\x00b", "a\u200bb", "\xff", strings.Repeat("x", 256),
		} {
			b.refuse(t, own(one, code), errs.InvalidInput)
		}
		for _, at := range []*domain.Domain{one, two} {
			l, _ := b.create(t, Input{URL: "https://example.com/random", DomainID: &at.ID})
			if want := map[bool]int{true: 7, false: 8}[at.CaseSensitive]; len(l.ShownCode()) != want ||
				l.Strategy != link.Random {
				t.Errorf("%s: %+v", at.Host, l)
			}
			if got := b.at(t, at.Host, "/"+l.ShownCode()); got.Location != "https://example.com/random" {
				t.Errorf("%s goes to %q", l.ShownCode(), got.Location)
			}
		}
	})
}

// TestOwnCodes_ForwardPaths: the longest code that a path begins with, and that forwards the rest,
// answers.
func TestOwnCodes_ForwardPaths(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		at := b.addDomain(t, "go.example.com", domain.Own, true)
		for code, forwards := range map[string]bool{"a": true, "a/b": false, "a/b/c/d": true, "a/x.svg": false} {
			in := own(at, code)
			in.URL = "https://example.com/" + code
			in.Fields.Routing = to(&routing.Change{ForwardPath: to(&forwards)})
			b.create(t, in)
		}
		for path, want := range map[string][2]string{
			"/a/b": {"a/b", ""}, "/a/b/": {"a/b", "/"}, "/a%2Fb": {"a/b", ""}, "/a/z%20z/": {"a", "/z%20z/"},
			"/a/b/c":     {"a", "/b/c"},
			"/a/b/c/d/e": {"a/b/c/d", "/e"}, "/a/x.svg": {"a/x.svg", ""},
			"/a/1/2/3/4/5/6/7/8":   {"a", "/1/2/3/4/5/6/7/8"},
			"/a/1/2/3/4/5/6/7/8/9": {}, "/b": {},
		} {
			got := b.at(t, at.Host, path)
			if want[0] == "" && !got.Unknown || want[0] != "" && (got.At.Code != want[0] || got.At.Path != want[1]) {
				t.Errorf("%s: %+v, want %q", path, got.At, want)
			}
		}
	})
}

// TestOwnCodes_CreatedConcurrently: the index refuses all but one.
func TestOwnCodes_CreatedConcurrently(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		at := b.addDomain(t, "go.example.com", domain.Own, false)
		got := b.createAtOnce(t, 100, func(i int) Input {
			in := own(at, []string{"Straße/é", "STRASSE/E\u0301"}[i%2])
			in.URL = fmt.Sprint("https://example.com/", i)
			return in
		})
		wanttest.Equal(t, map[string]int{"created": 1, "CODE_TAKEN": 99}, got, "outcomes")
	})
}

// TestOwnCodes_KeepTheirDomain: a domain cannot be removed while a link with a code of it is not
// deleted, also by concurrent calls.
func TestOwnCodes_KeepTheirDomain(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		domains := &domain.Store{DB: b.DB, Now: b.Links.Now}
		for round := range 10 {
			at := b.addDomain(t, fmt.Sprintf("go-%d.example.com", round), domain.Own, true)
			l, _ := b.create(t, own(at, "promo"))
			if _, err := domains.Remove(t.Context(), b.Mine, at.ID); !errs.Is(err, errs.Conflict) {
				t.Fatalf("removing a domain with a link: %v", err)
			}
			b.Remove(t, l.ID)
			var racing sync.WaitGroup
			var removed, restored, created error
			racing.Go(func() { _, removed = domains.Remove(t.Context(), b.Mine, at.ID) })
			racing.Go(func() { _, restored = b.Edit.Restore(t.Context(), b.Mine, l.ID) })
			racing.Go(func() { _, _, created = b.Create(t.Context(), b.Mine, own(at, "other")) })
			racing.Wait()
			switch {
			case removed == nil && (restored == nil || created == nil):
				t.Errorf("removed, restored: %v, created: %v", restored, created)
			case removed != nil && !errs.Is(removed, errs.Conflict),
				restored != nil && !errs.Is(restored, errs.Conflict), created != nil &&
					!errs.Is(created, errs.NotFound):
				t.Errorf("%v, %v, %v", removed, restored, created)
			}
			if removed == nil {
				if l = b.Reload(t, l); b.ShortURL(l) != "https://"+at.Host+"/promo" {
					t.Errorf("the deleted link has the short URL %s", b.ShortURL(l))
				}
			}
		}
		at := b.addDomain(t, "go.example.com", domain.Own, true)
		l, _ := b.create(t, own(at, "promo"))
		b.Remove(t, l.ID)
		must.Value(domains.Remove(t.Context(), b.Mine, at.ID))(t)
		linktest.Refused(b.Edit.Restore(t.Context(), b.Mine, l.ID))(t, errs.Conflict, "its domain was removed")
	})
}

// TestOwnCodes_AreImmutable: an upsert finds the link, and changes neither its code nor its domain.
func TestOwnCodes_AreImmutable(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		one, two := b.addDomain(t, "one.example.com", domain.Own, false), b.addDomain(t, "two.example.com", domain.Own,
			true)
		upsert := func(code string, domainID *string) error {
			_, err := b.Upsert(t.Context(), b.Mine, &Input{URL: "https://example.com/", CustomCode: &code,
				DomainID: domainID, Fields: linkfield.Change{ExternalID: to(new("7"))}})
			return err
		}
		must.NoError(t, upsert("Promo", &one.ID))
		must.NoError(t, errors.Join(upsert("PROMO", &one.ID), upsert("Promo", nil)))
		for code, domainID := range map[string]*string{"other": &one.ID, "promo": &two.ID, "pRomo": nil} {
			if err := upsert(code, domainID); !errs.Is(err, errs.Immutable) {
				t.Errorf("%s: %v", code, err)
			}
		}
	})
}

// findByShortURLs expects that short URLs find the links that they redirect, and no others.
func (b *bundle) findByShortURLs(t *testing.T, one *domain.Domain) {
	t.Helper()
	forward := &routing.Change{ForwardPath: to(new(true))}
	in := own(one, "manual/de")
	in.URL, in.Fields.Routing = "https://example.com/manual", to(forward)
	b.create(t, in)
	in = custom("https://example.com/forwards", "forwards")
	in.Fields.Routing = to(forward)
	b.create(t, in)
	const (
		forwards = "https://example.com/forwards"
		manual   = "https://example.com/manual"
		promo    = "https://example.com/shared"
	)
	for shortURL, want := range map[string]string{
		"https://sho.rt/mine/promo": promo, "http://sho.rt:8080/mine/promo_": promo, "http://sho.rt/mine/promo/a": "",
		"http://sho.rt/mine/forwards-": forwards, "http://sho.rt/mine/forwards/a/b": forwards,
		"http://all.example.com/promo-": promo, "https://all.example.com/forwards/a/b": forwards,
		"https://all.example.com/promo/a":       "",
		"https://one.example.com/manual/de/a/b": manual, "https://one.example.com/manual/de/-_": manual,
		"https://one.example.com/manual": "",
		"https://one.example.com/Promo_": "https://example.com/one", "https://one.example.com/Promo/a": "",
	} {
		at := must.Value(b.Links.Resolver.ParseShortURL(shortURL))(t)
		found, err := b.At(t.Context(), at)
		if err != nil {
			found = &link.Link{}
		}
		if found.OriginalURL != want || (want == "") != errs.Is(err, errs.NotFound) {
			t.Errorf("%s names %q, want %q: %v", shortURL, found.OriginalURL, want, err)
		}
		if at.Host != "" { // whose owner is not recorded
			continue
		}
		then, err := b.History.ByPastAddress(t.Context(), at, b.Now)
		if (want == "") != errs.Is(err, errs.NotFound) || want != "" && then.OriginalURL != want {
			t.Errorf("%s named %v, want %q: %v", shortURL, then, want, err)
		}
	}
}
