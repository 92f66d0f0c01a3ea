package resolve

import (
	"net/url"
	"slices"
	"testing"

	"github.com/linkforge/linkforge/internal/platform/must"
)

// TestCandidates_OfPaths at the instance, at a host with the codes of its workspace, and at one with codes of
// its own. Nil means that a path is no address.
func TestCandidates_OfPaths(t *testing.T) {
	t.Parallel()
	promo, below := []Address{{Code: "promo"}}, []Address{{Slug: "own", Code: "promo"}}
	own := func(sent, path, query string) Address {
		code, _ := url.PathUnescape(sent)
		return Address{Code: code, Path: path, Query: query, IsOwn: true, sent: sent}
	}
	for place, table := range map[string]map[string][]Address{
		"instance": {
			"/promo": promo, "/own/promo": below, "/promo-_": {{Code: "promo-_"}, {Code: "promo"}},
			"/own./promo": {{Slug: "own.", Code: "promo"}}, "/OWN/promo": below, "/%4Fwn/promo": below,
			"/\u212Aey/promo": {{Slug: "\u212Aey", Code: "promo"}}, "/OWN": {{Code: "OWN"}},
			"/own/promo_/a": {
				{Slug: "own", Code: "promo_", Path: "/a"}, {Slug: "own", Code: "promo", Path: "/a"},
			},
			"/promo/":       {{Code: "promo", Path: "/"}},
			"/own/promo/":   {{Slug: "own", Code: "promo", Path: "/"}},
			"/own/promo./":  {{Slug: "own", Code: "promo", Path: "/"}},
			"/own/promo/a.": {{Slug: "own", Code: "promo", Path: "/a."}},
			"/promo.":       promo, "/promo,": promo, "/promo)": promo, "/own/promo).": below, "/promo;": promo,
			"/promo!": promo, "/promo%22": promo, "/promo%3E": promo, "/promo%2E%29": promo, "/promo=": promo,
			"/promo*": promo, "/promo'": promo, "/promo%E2%80%A6": promo, "/promo…": promo, "/promo%20": promo,
			"/promo%C2%A0": promo, "/promo%0D%0A": promo, "/promo%E2%80%8B": promo, "/own/promo%EF%BB%BF": below,
			"/promo%C2%AD": promo, "/promo%E2%80%8D%EF%B8%8F": promo, "/promo）": promo, "/promo」。": promo,
			"/promo”": promo, "/promo»": promo, "/promo%2F": promo, "/promo👍": promo,
			"/promo+": {{Code: "promo+"}}, "/promo+.": {{Code: "promo+"}},
			"/own/promo.svg,":        {{Slug: "own", Code: "promo.svg"}},
			"/promo&utm_source=x":    {{Code: "promo", Query: "utm_source=x"}},
			"/promo.&a=%20b&c":       {{Code: "promo", Query: "a=%20b&c"}},
			"/promo%26a%3Db":         {{Code: "promo", Query: "a=b"}},
			"/own/promo%3Fa=b%23":    {{Slug: "own", Code: "promo", Query: "a=b%23"}},
			"/promo&":                promo,
			"/promo.html":            {{Code: "promo.html"}},
			"/promoä":                {{Code: "promoä"}},
			"/promo%00":              {{Code: "promo\x00"}},
			"/promo%FF":              {{Code: "promo\xff"}},
			"/promo&a=x%26b%2B1":     {{Code: "promo", Query: "a=x%26b%2B1"}},
			"/own/promo&a=%3Fb%23":   {{Slug: "own", Code: "promo", Query: "a=%3Fb%23"}},
			"/promo%26a%3Dx%2526b":   {{Code: "promo", Query: "a=x%26b"}},
			"/promo%3fa=1%252B1%2Fb": {{Code: "promo", Query: "a=1%2B1/b"}},
			"/promo%3Fa=b%2Fc/d":     {{Code: "promo", Query: "a=b/c/d"}},
			"/promo&a=b/c/":          {{Code: "promo", Query: "a=b/c/"}},
			"/own/promo&a=b/":        {{Slug: "own", Code: "promo", Query: "a=b/"}},
			"/":                      nil, "//": nil, "/.": nil, "/..": nil, "/...": nil, "/)": nil, "/%2F": nil,
			"/promo//": nil, "/own//promo": nil, "/own/.": nil, "/own/).": nil, "/own%2Fpromo": nil, "/%2fpromo": nil,
			"/promo%2F%2F": nil, "/own/promo%2F%2F": nil, "/promo%2F.": nil, "/own/promo%2F..": nil,
			"/own/promo%2F/a": nil, "/promo%2F%2E%2E": nil,
		},
		"host": {
			"/promo/a/": {{Code: "promo", Path: "/a/", sent: "promo/a/"}},
			"/promo_.":  {{Code: "promo_", sent: "promo_."}, {Code: "promo", sent: "promo_."}},
			"//promo":   nil, "/./promo": nil, "/%2E%2E": nil,
		},
		"own host": {
			"/docs":      {own("docs", "", "")},
			"/%64ocs/v1": {own("%64ocs/v1", "", ""), own("%64ocs", "/v1", "")},
			"/docs/v1/":  {own("docs/v1", "/", ""), own("docs", "/v1/", "")},
			"/docs%2Fv1": {own("docs%2Fv1", "", "")},
			"/a&b/c":     {own("a&b/c", "", ""), own("a", "", "b/c"), own("a&b", "/c", "")},
			"/a-%3F%26b": {own("a-%3F%26b", "", ""), own("a-", "", "&b"), own("a", "", "&b")},
			"/a_).":      {own("a_).", "", ""), own("a", "", "")},
			"/a/-_/":     {own("a/-_", "/", ""), own("a", "", ""), own("a", "/-_/", "")},
			"/a//":       {own("a/", "/", ""), own("a", "//", "")},
			"/1/2/3/4/5/6/7/8/9/a": {
				own("1/2/3/4/5/6/7/8/9/a", "", ""), own("1/2/3/4/5/6/7/8/9", "/a", ""),
				own("1/2/3/4/5/6/7/8", "/9/a", ""), own("1/2/3/4/5/6/7", "/8/9/a", ""),
				own("1/2/3/4/5/6", "/7/8/9/a", ""), own("1/2/3/4/5", "/6/7/8/9/a", ""),
				own("1/2/3/4", "/5/6/7/8/9/a", ""), own("1/2/3", "/4/5/6/7/8/9/a", ""),
				own("1/2", "/3/4/5/6/7/8/9/a", ""),
			},
			"//docs": nil, "/..": nil,
		},
	} {
		for path, want := range table {
			at, ok := PathAddress(must.Value(url.ParseRequestURI(path))(t), place == "instance")
			got := slices.Collect(at.Interpret(place == "own host").Candidates())
			if ok != (want != nil) || ok && !slices.Equal(got, want) {
				t.Errorf("%s at the %s: %t, %+v, want %+v", path, place, ok, got, want)
			}
		}
	}
}
