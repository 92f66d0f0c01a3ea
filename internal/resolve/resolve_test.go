package resolve

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/dbtest"
	"github.com/linkforge/linkforge/internal/errs"
)

func open(t *testing.T, d *db.DB) *Resolver {
	t.Helper()
	r, err := New(Config{
		DB: d, PublicURL: "http://sho.rt", CacheBytes: 1 << 20, Log: slog.New(slog.DiscardHandler), Now: time.Now,
	})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestParseShortURL_ReadsHostAndCode(t *testing.T) {
	t.Parallel()
	r := open(t, nil)
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
		t.Run(in, func(t *testing.T) {
			if got, err := r.ParseShortURL(in); err != nil || got != want {
				t.Errorf("%+v, %v; want %+v", got, err, want)
			}
		})
	}
	for _, in := range []string{"", "abc", "ftp://sho.rt/abc", "\x00"} {
		if got, err := r.ParseShortURL(in); !errs.Is(err, errs.NotFound) {
			t.Errorf("%q: %+v, %v; want NotFound", in, got, err)
		}
	}
}

// TestResolver_MemoryIsBounded: however many codes that do not exist are requested.
func TestResolver_MemoryIsBounded(t *testing.T) {
	t.Parallel()
	r := open(t, dbtest.MigratedSQLite(t))
	if err := r.CatchUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i := range 20_000 {
		target, err := r.Resolve(t.Context(), Address{Code: fmt.Sprintf("unknown%d", i)}, time.Now(), nil)
		if err != nil || !target.Unknown {
			t.Fatal(target, err)
		}
	}
	r.entries.CleanUp()
	if at := r.CacheStats(); at.Bytes > 1<<20 || at.Misses != 20_000 {
		t.Errorf("%+v", at)
	}
}
