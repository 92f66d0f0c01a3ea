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
	for path, want := range map[string]int{
		"/CODE": 302, "/owner/CODE": 302, "/owner/promo": 302, "/owner/promo?a=b": 302,
		"//CODE": 404, "/./CODE": 404, "/../CODE": 404, "/x/../CODE": 404, "/%2e/CODE": 404,
		"/%2E%2E/CODE": 404, "/%2fCODE": 404,
		"/owner//promo": 404, "/owner/./promo": 404, "//owner/promo": 404, "/owner/%2e%2e/CODE": 404,
		"/./owner/promo": 404,
		"/.":             404, "/..": 404, "/owner/.": 404, "/owner/..": 404, "//": 404, "///CODE": 404,
		"/CODE/": 302, "/owner/promo/": 302, "/owner/CODE/?a=b": 302, "/owner/": 404, "/owner/promo//": 404,
		"/CODE.": 302, "/CODE)./": 302, "/owner/promo%E2%80%9D%20": 302, "/CODE%2F": 302, "/CODE_": 302,
		"/CODE&a=b":  302,
		"/CODE.html": 404, "/owner./promo": 404, "/owner/promo/.": 404, "/.CODE.": 404, "/CODE/.": 404, "/CODE//": 404,
		"/./CODE+": 404, "//CODE?a=b": 404,
		"/.CODE": 404, "/...": 404, "/never": 404, "/a/b/c": 404, "/%2e/graphql": 404,
		"//graphql": 404, "/./livez": 404, "/livez/../CODE": 404,
	} {
		t.Run(path, func(t *testing.T) {
			for _, method := range []string{"GET", "HEAD", "POST", "PUT", "OPTIONS"} {
				ask := func(s *server, headers string) answer {
					target := strings.ReplaceAll(path, "CODE", code[s])
					request := fmt.Sprintf("%s %s HTTP/1.1\r\nHost: %s\r\n%s\r\n", method, target, s.address, headers)
					return s.raw(t, request).visible()
				}
				got := ask(fast, "")
				if method == "GET" && got.status != want || want == 404 && got.status/100 != 4 {
					t.Errorf("%s %s: %d, want %d", method, path, got.status, want)
				}
				others := map[string]answer{"net/http": ask(fast, "Pragma: no-cache\r\n"),
					"http.ServeMux": ask(mux, "")}
				for name, other := range others {
					if diff := cmp.Diff(got, other, cmp.AllowUnexported(answer{})); diff != "" {
						t.Errorf("%s %s (-fast path +%s):\n%s", method, path, name, diff)
					}
				}
			}
		})
	}
}

// TestServer_SendsStrictTransportSecurity covers the fast path, net/http and http.ServeMux.
func TestServer_SendsStrictTransportSecurity(t *testing.T) {
	t.Parallel()
	const https, year = "LINKFORGE_PUBLIC_URL=https://go.example.com", "max-age=31536000"
	for _, c := range map[string]struct {
		slug     string
		settings []string
		want     string
	}{
		"https":             {"secure", []string{https}, year},
		"https, all logged": {"logged", []string{https, "LINKFORGE_LOG_LEVEL=debug"}, year},
		"http":              {"plain", []string{"LINKFORGE_PUBLIC_URL=http://go.example.com"}, ""},
	} {
		t.Run(c.slug, func(t *testing.T) {
			s := start(t, embedded(t), c.settings...)
			who := s.tenant(t, c.slug)
			path := "/" + who.shorten(t, "https://example.com/").Link.Code
			hosts := map[string]string{
				"go.example.com": c.want, "GO.example.com.:8443": c.want, s.address: c.want, "tenant.example": "",
			}
			for _, target := range []string{
				path, path + "+", "/never", "/a/b/c", "//x", "/", "/livez", "/playground", "/export/clicks",
				"/graphql?query=%7B__typename%7D",
			} {
				for host, want := range hosts {
					s.wantStrictTransport(t, host, target, want)
				}
			}
			s.stop()
		})
	}
}

// wantStrictTransport compares the header of responses to several methods.
func (s *server) wantStrictTransport(t *testing.T, host, target, want string) {
	t.Helper()
	for _, method := range []string{"GET", "HEAD", "OPTIONS"} {
		a := s.raw(t, fmt.Sprintf("%s %s HTTP/1.1\r\nHost: %s\r\n\r\n", method, target, host))
		if got := a.header.Values("Strict-Transport-Security"); strings.Join(got, "|") != want {
			t.Errorf("%s %s%s has %q, want %q", method, host, target, got, want)
		}
	}
}
