package main

import (
	"net"
	"strings"
	"testing"
)

// TestServer_RefusesLinksToItself covers the wiring: LINKFORGE_HOSTS, the port that is bound, and a
// public URL of another port.
func TestServer_RefusesLinksToItself(t *testing.T) {
	t.Parallel()
	eachBackend(t, func(t *testing.T, b backend) {
		s := start(t, b, "LINKFORGE_PUBLIC_URL=https://go.example.com",
			"LINKFORGE_HOSTS=internal.example,Bücher.example")
		who := s.tenant(t, "loops")
		_, port, err := net.SplitHostPort(s.address)
		if err != nil {
			t.Fatal(err)
		}
		for _, url := range []string{
			"https://GO.example.com./abc", "http://go.example.com:PORT/abc", "https://internal.example/abc",
			"https://go.example.com:9443/abc",
			"http://internal.example:3000/abc", "https://bücher.example/abc", "http://xn--bcher-kva.example:PORT/abc", "http://127.0.0.1:PORT/abc",
			"http://127.9.9.9:PORT/abc", "http://[::1]:PORT/abc", "http://[::ffff:127.0.0.1]:PORT/abc",
			"http://0.0.0.0:PORT/abc", "http://[::]:PORT/abc", "http://LOCALHOST.:PORT/abc",
			"http://any.localhost:PORT/abc", "https://localhost/abc",
		} {
			url = strings.ReplaceAll(url, "PORT", port)
			if got, err := who.create(url); err != nil || len(got.Errors) != 1 || got.Errors[0].Code != "UNSAFE_URL" {
				t.Errorf("%s: %+v, %v", url, got, err)
			}
			var anonymous struct {
				CreateAnonymousLink struct{ Errors []struct{ Code string } }
			}
			err := client{server: s}.try(&anonymous, `mutation ($url: String!) {
				createAnonymousLink(input: {url: $url}) { errors { code } } }`, map[string]any{"url": url})
			if got := anonymous.CreateAnonymousLink.Errors; err != nil || len(got) != 1 || got[0].Code != "UNSAFE_URL" {
				t.Errorf("%s without an account: %+v, %v", url, got, err)
			}
		}
		who.shorten(t, "http://127.0.0.1:1/another-service")
	})
}
