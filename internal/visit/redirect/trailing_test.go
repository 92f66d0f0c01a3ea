package redirect

import (
	"testing"

	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/link/creation"
	"github.com/linkforge/linkforge/internal/link/linkfield"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/optional"
	"github.com/linkforge/linkforge/internal/route/routing"
)

// TestHandler_IgnoresWhatFollowsAShortURL requests short URLs with slashes, punctuation and
// parameters behind them.
func TestHandler_IgnoresWhatFollowsAShortURL(t *testing.T) {
	each(t, func(t *testing.T, b *bundle, _ *db.DB) {
		b.HitQuota = 100
		create := func(code, url string, change *routing.Change) *link.Link {
			return b.link(t, creation.Input{URL: url, CustomCode: &code,
				Fields: linkfield.Change{Routing: optional.Set(change)}})
		}
		promo := create("promo", "https://example.com/promo", nil)
		create("promo_", "https://example.com/marked", nil)
		create("gone", "https://example.com/gone", nil)
		must.Value(b.edit.Delete(t.Context(), b.mine, create("gone-", "https://example.com/deleted", nil).ID))(t)
		create("manual", "https://example.com/d", &routing.Change{ForwardPath: optional.Set(new(true))})
		create("folder", "https://example.com/f/", &routing.Change{ForwardPath: optional.Set(new(true))})
		rule := &routing.Rule{Targets: []*routing.Target{{URL: new("https://example.com/ruled")}}}
		create("ruled", "https://example.com/own", &routing.Change{Rules: optional.Set([]*routing.Rule{rule}),
			Query: optional.Set(&routing.Forwarding{Mode: routing.Add})})
		for path, want := range map[string]string{
			"/ada/promo/": "https://example.com/promo", "/ada/promo).": "https://example.com/promo",
			"/ada/promo%E2%80%8B": "https://example.com/promo", "/ada/promo./": "https://example.com/promo",
			"/ada/promo_": "https://example.com/marked", "/ada/promo_.": "https://example.com/marked",
			"/ada/promo__": "https://example.com/promo", "/ada/promo-": "https://example.com/promo",
			"/ada/gone": "https://example.com/gone", "/ada/gone-": "", "/ada/gone_": "https://example.com/gone",
			"/ada/promo/x": "", "/ada/promox.": "", "/ada/promox_": "",
			"/ada/manual": "https://example.com/d", "/ada/manual/": "https://example.com/d/",
			"/ada/manual/a/b/": "https://example.com/d/a/b/", "/ada/manual/a": "https://example.com/d/a",
			"/ada/manual/a.": "https://example.com/d/a.",
			"/ada/folder/":   "https://example.com/f/", "/ada/folder/a/": "https://example.com/f/a/",
			"/ada/ruled/":                "https://example.com/ruled",
			"/ada/ruled&utm_source=x":    "https://example.com/ruled?utm_source=x",
			"/ada/ruled.&a=%20b?c=d":     "https://example.com/ruled?a=%20b&c=d",
			"/ada/ruled%3Fa=b%26c%3Dd":   "https://example.com/ruled?a=b&c=d",
			"/ada/promo&utm_source=news": "https://example.com/promo",
			"/ada/ruled&a=b/c/":          "https://example.com/ruled?a=b/c/",
			"/ada/ruled&a=x%26b%2B1":     "https://example.com/ruled?a=x%26b%2B1",
			"/ada/ruled%26a%3Dx%2526b":   "https://example.com/ruled?a=x%26b",
			"/ada/promo%2F%2F":           "", "/ada/promo%2F..": "", "/ada/manual%2F/a": "",
			"/ada/manual/a&b": "https://example.com/d/a&b",
		} {
			for _, method := range []string{"GET", "HEAD"} {
				w := b.visit(t, method, path)
				if got := w.Header().Get("Location"); got != want || (w.Code == 302) != (want != "") {
					t.Errorf("%s %s: %d to %s, want %q", method, path, w.Code, got, want)
				}
			}
		}
		if got := b.clicks(t, promo); got != 7 {
			t.Errorf("%d clicks, want 7", got)
		}
		for path, want := range map[string]uint64{
			"/never1": 1, "/never2.": 1, "/never3).&a=b": 1, "/never4_": 2, "/never5/": 1, "/never6.html": 0,
		} {
			before := b.Resolver.CacheStats().Misses
			b.visit(t, "GET", path)
			if got := b.Resolver.CacheStats().Misses - before; got != want {
				t.Errorf("%s: %d lookups, want %d", path, got, want)
			}
		}
	})
}

// TestCookiePath: a browser sends the cookie back to the short URL as it was requested, see RFC
// 6265, section 5.1.4.
func TestCookiePath(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ path, requested, want string }{
		{"/ada/plans", "/ada/plans", "/ada/plans"},
		{"/ada/plans", "/ada/plans/2026", "/ada/plans"},
		{"/ada/plans", "/ada/plans&utm_source=news", "/ada/"},
		{"/ada/plans", "/ada/plans.", "/ada/"},
		{"/ada/plans", "/ada/%70lans", "/ada/"},
		{"/plans", "/plans_", "/"},
		{"/ada/plans;2026", "/ada/plans;2026", "/ada/"},
		{"/a;b/plans", "/a;b/plans", "/"},
	} {
		if got := cookiePath(c.path, c.requested); got != c.want {
			t.Errorf("%s requested as %s: %s, want %s", c.path, c.requested, got, c.want)
		}
	}
}
