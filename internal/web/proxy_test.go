package web

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"
)

// TestProxies_FindClientAddress: headers of trusted proxies are used, others are not, and of a list
// only the part that proxies have written.
func TestProxies_FindClientAddress(t *testing.T) {
	t.Parallel()
	proxies := Proxies{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")}
	for _, one := range []struct {
		remote    string
		forwarded []string
		want      string
	}{
		{"203.0.113.9:1234", nil, "203.0.113.9:1234"},
		{"203.0.113.9:1234", []string{"198.51.100.1"}, "203.0.113.9:1234"}, // not a trusted proxy
		{"10.0.0.1:1234", nil, "10.0.0.1:0"},
		{"10.0.0.1:1234", []string{"198.51.100.1"}, "198.51.100.1:0"},
		{"[::ffff:10.0.0.1]:1234", []string{"198.51.100.1"}, "198.51.100.1:0"},
		{"[fd00::1]:1234", []string{"2001:db8::7"}, "[2001:db8::7]:0"},
		{"10.0.0.1:1234", []string{"192.0.2.66, 198.51.100.1"}, "198.51.100.1:0"},             // the client made the first up
		{"10.0.0.1:1234", []string{"192.0.2.66", "198.51.100.1, 10.0.0.2"}, "198.51.100.1:0"}, // two proxies, two lines
		{"10.0.0.1:1234", []string{"10.0.0.3, 10.0.0.2"}, "10.0.0.3:0"},
		{"10.0.0.1:1234", []string{"198.51.100.1:8080"}, "198.51.100.1:0"},
		{"10.0.0.1:1234", []string{"[2001:db8::7]:8080"}, "[2001:db8::7]:0"},
		{"10.0.0.1:1234", []string{"[2001:db8::7]"}, "[2001:db8::7]:0"},
		{"10.0.0.1:1234", []string{"::ffff:198.51.100.1"}, "198.51.100.1:0"},
		{"10.0.0.1:1234", []string{"unknown"}, "10.0.0.1:0"},
		{"10.0.0.1:1234", []string{"unknown, 10.0.0.2"}, "10.0.0.2:0"},
		{"10.0.0.1:1234", []string{","}, "10.0.0.1:0"},
		{"@", []string{"198.51.100.1"}, "@"},
	} {
		t.Run(fmt.Sprintf("%s for %q", one.remote, one.forwarded), func(t *testing.T) {
			got := ""
			handler := Before(proxies.Forward)(http.HandlerFunc(func(_ http.ResponseWriter,
				r *http.Request) {
				got = r.RemoteAddr
			}))
			r := httptest.NewRequest(http.MethodGet, "/", nil)
			r.RemoteAddr, r.Header["X-Forwarded-For"] = one.remote, one.forwarded
			handler.ServeHTTP(httptest.NewRecorder(), r)
			if got != one.want {
				t.Errorf("%s, %q: from %s, want %s", one.remote, one.forwarded, got, one.want)
			}
		})
	}
}

// TestProxies_NoneTrusted ignores the header of every client.
func TestProxies_NoneTrusted(t *testing.T) {
	t.Parallel()
	got := ""
	handler := Before(Proxies(nil).
		Forward)(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = r.RemoteAddr }))
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.RemoteAddr = "127.0.0.1:1"
	r.Header.Set("X-Forwarded-For", "198.51.100.1")
	handler.ServeHTTP(httptest.NewRecorder(), r)
	if got != "127.0.0.1:1" {
		t.Errorf("from %s", got)
	}
}
