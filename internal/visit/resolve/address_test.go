package resolve

import (
	"net/url"
	"testing"

	"github.com/linkforge/linkforge/internal/platform/must"
)

func TestPathAddress_IgnoresWhatFollowsAURL(t *testing.T) {
	t.Parallel()
	promo := Address{Code: "promo"}
	below := Address{Slug: "own", Code: "promo"}
	for path, want := range map[string]Address{
		"/promo": promo, "/own/promo": below, "/promo-_": {Code: "promo-_"},
		"/own./promo": {Slug: "own.", Code: "promo"},
		"/promo/":     {Code: "promo", Path: "/"}, "/own/promo/": {Slug: "own", Code: "promo", Path: "/"},
		"/own/promo./":  {Slug: "own", Code: "promo", Path: "/"},
		"/own/promo/a.": {Slug: "own", Code: "promo", Path: "/a."},
		"/promo.":       promo, "/promo,": promo, "/promo)": promo, "/own/promo).": below, "/promo;": promo,
		"/promo!":   promo,
		"/promo%22": promo, "/promo%3E": promo, "/promo%2E%29": promo, "/promo=": promo, "/promo*": promo,
		"/promo'":         promo,
		"/promo%E2%80%A6": promo, "/promo…": promo, "/promo%20": promo, "/promo%C2%A0": promo, "/promo%0D%0A": promo,
		"/promo%E2%80%8B": promo, "/own/promo%EF%BB%BF": below, "/promo%C2%AD": promo,
		"/promo%E2%80%8D%EF%B8%8F": promo,
		"/promo）":                  promo, "/promo」。": promo, "/promo”": promo, "/promo»": promo, "/promo%2F": promo,
		"/promo👍": promo,
		"/promo+": {Code: "promo+"}, "/promo+.": {Code: "promo+"}, "/own/promo.svg,": {Slug: "own", Code: "promo.svg"},
		"/promo&utm_source=x": {Code: "promo", Query: "utm_source=x"},
		"/promo.&a=%20b&c":    {Code: "promo", Query: "a=%20b&c"},
		"/promo%26a%3Db":      {Code: "promo", Query: "a=b"},
		"/own/promo%3Fa=b%23": {Slug: "own", Code: "promo", Query: "a=b%23"},
		"/promo&":             promo, "/promo.html": {Code: "promo.html"}, "/promoä": {Code: "promoä"},
		"/promo%00":              {Code: "promo\x00"},
		"/promo%FF":              {Code: "promo\xff"},
		"/promo&a=x%26b%2B1":     {Code: "promo", Query: "a=x%26b%2B1"},
		"/own/promo&a=%3Fb%23":   {Slug: "own", Code: "promo", Query: "a=%3Fb%23"},
		"/promo%26a%3Dx%2526b":   {Code: "promo", Query: "a=x%26b"},
		"/promo%3fa=1%252B1%2Fb": {Code: "promo", Query: "a=1%2B1/b"},
		"/promo%3Fa=b%2Fc/d":     {Code: "promo", Query: "a=b/c/d"},
		"/promo&a=b/c/":          {Code: "promo", Query: "a=b/c/"},
		"/own/promo&a=b/":        {Slug: "own", Code: "promo", Query: "a=b/"},
	} {
		u := must.Value(url.ParseRequestURI(path))(t)
		if got, ok := PathAddress(u, true); !ok || got != want {
			t.Errorf("%s: %+v, %t, want %+v", path, got, ok, want)
		}
	}
	for _, path := range []string{"/", "//", "/.", "/..", "/...", "/)", "/%2F", "/promo//", "/own//promo", "/own/.",
		"/own/).",
		"/own%2Fpromo", "/%2fpromo", "/promo%2F%2F", "/own/promo%2F%2F", "/promo%2F.", "/own/promo%2F..",
		"/own/promo%2F/a", "/promo%2F%2E%2E"} {
		if got, ok := PathAddress(must.Value(url.ParseRequestURI(path))(t), true); ok {
			t.Errorf("%s is the address %+v", path, got)
		}
	}
	at, ok := PathAddress(must.Value(url.ParseRequestURI("/promo/a/"))(t), false)
	if want := (Address{Code: "promo", Path: "/a/", whole: "promo/a/"}); !ok || at != want {
		t.Errorf("at another host: %+v, want %+v", at, want)
	}
}
