package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestServer_AnswersAlikeOnEveryPath sends the same raw requests through the fast path, through
// net/http, and through http.ServeMux, which a server that logs every request uses for short URLs
// too.
func TestServer_AnswersAlikeOnEveryPath(t *testing.T) {
	t.Parallel()
	fast, mux := start(t, embedded(t)), start(t, embedded(t), "LINKFORGE_LOG_LEVEL=debug")
	code := map[*server]string{}
	for _, s := range []*server{fast, mux} {
		who := s.tenant(t, "owner")
		code[s] = who.shorten(t, "https://example.com/").Link.Code
		who.shorten(t, "https://example.com/", "strategy", "CUSTOM", "customCode", "promo")
	}
	for status, paths := range map[int]string{
		302: "/CODE /owner/CODE /owner/promo /owner/promo?a=b /CODE/ /owner/promo/ /owner/CODE/?a=b /CODE. /CODE)./ " +
			"/owner/promo%E2%80%9D%20 /CODE%2F /CODE_ /CODE&a=b",
		404: "//CODE /./CODE /../CODE /x/../CODE /%2e/CODE /%2E%2E/CODE /%2fCODE /owner//promo /owner/./promo " +
			"//owner/promo /owner/%2e%2e/CODE /./owner/promo /. /.. /owner/. /owner/.. // ///CODE /owner/ " +
			"/owner/promo// /CODE.html /owner./promo /owner/promo/. /.CODE. /CODE/. /CODE// /./CODE+ //CODE?a=b " +
			"/.CODE /... /never /a/b/c /%2e/graphql //graphql /./livez /livez/../CODE",
	} {
		for path := range strings.FieldsSeq(paths) {
			for _, method := range []string{"GET", "HEAD", "POST", "PUT", "OPTIONS"} {
				ask := func(s *server, headers string) answer {
					target := strings.ReplaceAll(path, "CODE", code[s])
					request := fmt.Sprintf("%s %s HTTP/1.1\r\nHost: %s\r\n%s\r\n", method, target, s.address, headers)
					return s.raw(t, request).visible()
				}
				got := ask(fast, "")
				if method == "GET" && got.status != status || status == 404 && got.status/100 != 4 {
					t.Errorf("%s %s: %d, want %d", method, path, got.status, status)
				}
				others := map[string]answer{"net/http": ask(fast, "Pragma: no-cache\r\n"),
					"http.ServeMux": ask(mux, "")}
				for name, other := range others {
					same(t, method+" "+path+" by "+name, other, got, cmp.AllowUnexported(answer{}))
				}
			}
		}
	}
}

// TestServer_SendsStrictTransportSecurity covers the fast path, net/http and http.ServeMux.
func TestServer_SendsStrictTransportSecurity(t *testing.T) {
	t.Parallel()
	const https, year = "LINKFORGE_PUBLIC_URL=https://go.example.com", "max-age=31536000"
	for slug, c := range map[string]struct {
		settings []string
		want     string
	}{
		"secure": {[]string{https}, year},
		"logged": {[]string{https, "LINKFORGE_LOG_LEVEL=debug"}, year},
		"plain":  {[]string{"LINKFORGE_PUBLIC_URL=http://go.example.com"}, ""},
	} {
		s := start(t, embedded(t), c.settings...)
		path := "/" + s.tenant(t, slug).shorten(t, "https://example.com/").Link.Code
		for _, target := range []string{
			path, path + "+", "/never", "/a/b/c", "//x", "/", "/livez", "/playground", "/export/clicks",
			"/graphql?query=%7B__typename%7D",
		} {
			for host, want := range map[string]string{
				"go.example.com": c.want, "GO.example.com.:8443": c.want, s.address: c.want, "tenant.example": "",
			} {
				for _, method := range []string{"GET", "HEAD", "OPTIONS"} {
					a := s.raw(t, fmt.Sprintf("%s %s HTTP/1.1\r\nHost: %s\r\n\r\n", method, target, host))
					if got := a.header.Values("Strict-Transport-Security"); strings.Join(got, "|") != want {
						t.Errorf("%s: %s %s%s has %q, want %q", slug, method, host, target, got, want)
					}
				}
			}
		}
	}
}
