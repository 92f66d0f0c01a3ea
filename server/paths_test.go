package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestServer_AnswersAlikeOnEveryPath sends the same raw requests through the fast path, through net/http, and through
// http.ServeMux, which a server that logs every request uses for short URLs too.
func TestServer_AnswersAlikeOnEveryPath(t *testing.T) {
	t.Parallel()
	fast, mux := start(t, embedded(t)), start(t, embedded(t), "LINKFORGE_LOG_LEVEL=debug")
	code := map[*server]string{}
	for _, s := range []*server{fast, mux} {
		who := s.tenant(t, "owner")
		code[s] = who.shorten(t, "https://example.com/").Link.Code
		who.shorten(t, "https://example.com/", "strategy", "CUSTOM", "customCode", "promo")
	}
	for path, want := range map[string]int{
		"/CODE": 302, "/owner/CODE": 302, "/owner/promo": 302, "/owner/promo?a=b": 302,
		"//CODE": 404, "/./CODE": 404, "/../CODE": 404, "/x/../CODE": 404, "/%2e/CODE": 404, "/%2E%2E/CODE": 404, "/%2fCODE": 404,
		"/owner//promo": 404, "/owner/./promo": 404, "//owner/promo": 404, "/owner/%2e%2e/CODE": 404, "/./owner/promo": 404,
		"/.": 404, "/..": 404, "/owner/.": 404, "/owner/..": 404, "//": 404, "///CODE": 404,
		"/CODE/": 404, "/owner/promo/": 404, "/owner/": 404, "/CODE/.": 404, "/CODE//": 404, "/./CODE+": 404, "//CODE?a=b": 404,
		"/.CODE": 404, "/...": 404, "/never": 404, "/a/b/c": 404, "/%2e/graphql": 404, "//graphql": 404, "/./livez": 404, "/livez/../CODE": 404,
	} {
		for _, method := range []string{"GET", "HEAD", "POST", "OPTIONS"} {
			ask := func(s *server, headers string) answer {
				target := strings.ReplaceAll(path, "CODE", code[s])
				return s.raw(t, fmt.Sprintf("%s %s HTTP/1.1\r\nHost: %s\r\n%s\r\n", method, target, s.address, headers)).visible()
			}
			got := ask(fast, "")
			if method == "GET" && got.status != want || want == 404 && got.status/100 != 4 {
				t.Errorf("%s %s: %d, want %d", method, path, got.status, want)
			}
			for name, other := range map[string]answer{"net/http": ask(fast, "Pragma: no-cache\r\n"), "http.ServeMux": ask(mux, "")} {
				if diff := cmp.Diff(got, other, cmp.AllowUnexported(answer{})); diff != "" {
					t.Errorf("%s %s (-fast path +%s):\n%s", method, path, name, diff)
				}
			}
		}
	}
}
