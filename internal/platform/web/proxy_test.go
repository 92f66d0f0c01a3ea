package web

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
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
		// the client made the first up
		{"10.0.0.1:1234", []string{"192.0.2.66, 198.51.100.1"}, "198.51.100.1:0"},
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
		got := ""
		handler := Before((&Forwarding{Proxies: proxies}).Forward)(http.HandlerFunc(func(_ http.ResponseWriter,
			r *http.Request) {
			got = r.RemoteAddr
		}))
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.RemoteAddr, r.Header["X-Forwarded-For"] = one.remote, one.forwarded
		handler.ServeHTTP(httptest.NewRecorder(), r)
		if got != one.want {
			t.Errorf("%s, %q: from %s, want %s", one.remote, one.forwarded, got, one.want)
		}
	}
}

// TestForwarding_RemovesHeadersOfOthers: what any client can set is neither used nor passed on, and
// is warned of once.
func TestForwarding_RemovesHeadersOfOthers(t *testing.T) {
	t.Parallel()
	headers := []string{"X-Forwarded-For", "X-Forwarded-Proto", "X-Forwarded-Host", "Forwarded"}
	for name, c := range map[string]struct {
		trusted, remote string
		warns           bool
		passes          bool
	}{
		"no proxies":         {"", "127.0.0.1:1", true, false},
		"another sender":     {"10.0.0.0/8", "203.0.113.9:1", true, false},
		"no address":         {"10.0.0.0/8", "@", true, false},
		"a proxy":            {"10.0.0.0/8", "10.0.0.1:1", false, true},
		"a proxy over IPv6":  {"10.0.0.0/8", "[::ffff:10.0.0.1]:1", false, true},
		"the PROXY protocol": {"10.0.0.0/8", "203.0.113.9:1", false, false},
	} {
		var log bytes.Buffer
		f := &Forwarding{}
		if c.trusted != "" {
			f.Proxies = Proxies{netip.MustParsePrefix(c.trusted)}
		}
		if name != "the PROXY protocol" {
			f.Log = slog.New(slog.NewTextHandler(&log, nil))
		}
		for range 3 {
			r := httptest.NewRequest(http.MethodGet, "/", nil)
			r.RemoteAddr = c.remote
			for _, header := range headers {
				r.Header.Set(header, "198.51.100.1")
			}
			f.Forward(nil, r)
			if got := len(r.Header); got != 0 && !c.passes || c.passes && got != len(headers) {
				t.Errorf("%s: the handler gets %v", name, r.Header)
			}
			if isClient := r.RemoteAddr == "198.51.100.1:0"; isClient != c.passes {
				t.Errorf("%s: from %s", name, r.RemoteAddr)
			}
		}
		said := log.String()
		if warned := strings.Count(said, "LINKFORGE_TRUSTED_PROXIES") == 1; warned != c.warns ||
			strings.Contains(said, "198.51.100.1") || strings.Contains(said, "203.0.113.9") {
			t.Errorf("%s: warned %q", name, said)
		}
	}
}
