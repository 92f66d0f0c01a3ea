package link

import (
	"strings"
	"testing"

	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/dbtest"
	"github.com/linkforge/linkforge/internal/errs"
)

func TestParseShortURL(t *testing.T) {
	t.Parallel()
	b := setup(t, dbtest.Migrated(t, dbtest.SQLite(t)))
	for in, want := range map[string]Address{
		"http://sho.rt/abc":         {Code: "abc"},
		"HTTP://SHO.RT:80/abc":      {Code: "abc"},
		"http://sho.rt/promo/abc":   {Slug: "promo", Code: "abc"},
		"http://sho.rt/promo/a/b/c": {Slug: "promo", Code: "a/b/c"},
		"http://sho.rt/abc?utm=1#x": {Code: "abc"},
		"http://sho.rt/%61bc/":      {Code: "abc"},
		// Whose these are, Resolve finds out.
		"http://sho.rt.evil.com/abc":      {Host: "sho.rt.evil.com", Code: "abc"},
		"https://sho.rt/abc":              {Host: "sho.rt", Code: "abc"},
		"https://LINKS.example.com/abc?x": {Host: "links.example.com", Code: "abc"},
		"http://other/a/b":                {Host: "other", Code: "a/b"},
	} {
		if got, err := b.ParseShortURL(in); err != nil || got != want {
			t.Errorf("%s: %+v, %v; want %+v", in, got, err, want)
		}
	}
	for _, in := range []string{"", "abc", "ftp://sho.rt/abc", "\x00"} {
		if got, err := b.ParseShortURL(in); !errs.Is(err, errs.NotFound) {
			t.Errorf("%q: %+v, %v; want NotFound", in, got, err)
		}
	}
}

func TestHostileCodesAreNotFound(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := setup(t, d)
		for _, code := range []string{"", "a", "' OR 1=1 --", "abc\x00", "\xff\xfe\xfd", strings.Repeat("a", 10_000), "a?b", "äöü"} {
			for _, a := range []Address{{Code: code}, {Slug: "mine", Code: code}, {Slug: code, Code: "abc"}, {Host: code, Code: "abc"}, {Host: "links.example.com", Code: code}} {
				if a.Slug == "" && a.Host == "" && a.Code == "abc" {
					continue
				}
				if _, err := b.At(t.Context(), a); !errs.Is(err, errs.NotFound) {
					t.Errorf("%+v: %v", a, err)
				}
			}
			if _, err := b.Get(t.Context(), b.mine, code); !errs.Is(err, errs.NotFound) {
				t.Errorf("id %q: %v", code, err)
			}
		}
	})
}
