package outbound

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/outbound/outboundtest"
	"github.com/linkforge/linkforge/internal/platform/wanttest"
)

// anywhere lets everything through.
func anywhere(netip.Addr) bool { return true }

func get(t *testing.T, c *http.Client, url string) (*http.Response, error) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	must.NoError(t, err)
	answer, err := c.Do(r)
	if err == nil {
		t.Cleanup(func() { answer.Body.Close() })
	}
	return answer, err
}

// redirector answers /to?… with a redirect to what stands behind the question mark.
func redirector() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/to", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Location", r.URL.RawQuery)
		w.WriteHeader(http.StatusFound)
	})
	return mux
}

// TestClient_NeverReachesPrivateAddresses tries every way in twice: the real client does not reach
// the canary, and one that lets everything through does, so there is something to keep out.
func TestClient_NeverReachesPrivateAddresses(t *testing.T) {
	t.Parallel()
	n := outboundtest.Open(t, redirector(), map[string][][]string{
		"private.test":  {{outboundtest.Private}},
		"both.test":     {{outboundtest.Silent, outboundtest.Private}},
		"mapped.test":   {{"::ffff:127.0.0.1"}},
		"wildcard.test": {{"0.0.0.0"}},
		"six.test":      {{outboundtest.Private6}},
	})
	ways := map[string]string{
		"an address":           n.URL("127.0.0.1", "/"),
		"unspecified":          n.URL("0.0.0.0", "/"),
		"IPv4-mapped":          n.URL("::ffff:127.0.0.1", "/"),
		"hexadecimal":          n.URL("0x7f.1", "/"),
		"localhost":            n.URL("localhost", "/"),
		"a name":               n.URL("private.test", "/"),
		"a name of both kinds": n.URL("both.test", "/"),
		"a mapped name":        n.URL("mapped.test", "/"),
		"a name of every host": n.URL("wildcard.test", "/"),
		"a redirect":           n.URL("a.public.test", "/to?"+n.URL("127.0.0.1", "/")),
		"a redirect to a name": n.URL("a.public.test", "/to?"+n.URL("private.test", "/")),
		"two redirects":        n.URL("a.public.test", "/to?"+n.URL("b.public.test", "/to?"+n.URL("localhost", "/"))),
	}
	if n.IPv6 {
		ways["IPv6"] = n.URL("::1", "/")
		ways["unspecified IPv6"] = n.URL("::", "/")
		ways["an IPv6 name"] = n.URL("six.test", "/")
		ways["a redirect to IPv6"] = n.URL("a.public.test", "/to?"+n.URL("::1", "/"))
	}
	for name, url := range ways {
		t.Run(name, func(t *testing.T) {
			if answer, err := get(t, NewClient(Config{Resolver: n.Resolver, Allow: n.Allow}), url); err == nil {
				t.Errorf("answered %s", answer.Status)
			}
			if got := n.Reached(t); got != 0 {
				t.Errorf("the canary was reached %d times", got)
			}
			if _, err := get(t, NewClient(Config{Resolver: n.Resolver, Allow: anywhere}), url); err != nil ||
				n.Reached(t) == 0 {
				t.Errorf("a client without scruples does not reach the canary either: %v", err)
			}
		})
	}
}

// TestClient_RefusesDNSRebinding has a name lead to the public server first, and to the canary when
// that redirects to it again. A client without scruples follows.
func TestClient_RefusesDNSRebinding(t *testing.T) {
	t.Parallel()
	for _, want := range []int64{0, 1} {
		n := outboundtest.Open(t, redirector(), map[string][][]string{
			"rebind.test": {{outboundtest.Public}, {outboundtest.Private}},
		})
		allow := n.Allow
		if want > 0 {
			allow = anywhere
		}
		_, err := get(t, NewClient(Config{Resolver: n.Resolver, Allow: allow}),
			n.URL("rebind.test", "/to?"+n.URL("rebind.test", "/")))
		if refused := errors.Is(err, ErrRefused); refused != (want == 0) {
			t.Errorf("%v, want %d answers of the canary", err, want)
		}
		if got, lookups := n.Reached(t), n.Lookups("rebind.test"); got != want || lookups != 2 {
			t.Errorf("the canary was reached %d times after %d look-ups; want %d after 2", got, lookups, want)
		}
	}
}

func TestClient_RefusalIsRecognizable(t *testing.T) {
	t.Parallel()
	n := outboundtest.Open(t, redirector(), nil)
	for _, url := range []string{
		n.URL("127.0.0.1", "/"), n.URL("private.test", "/"), n.URL("a.public.test", "/to?"+n.URL("127.0.0.1", "/")),
		"http://169.254.169.254/latest/meta-data/", "http://[fe80::1%25lo]/", "https://10.0.0.1/",
	} {
		if _, err := get(t, NewClient(Config{Resolver: n.Resolver, Allow: n.Allow}), url); !errors.Is(err, ErrRefused) {
			t.Errorf("%s: %v", url, err)
		}
	}
	_, err := get(t, NewClient(Config{Resolver: n.Resolver, Allow: n.Allow}), n.URL(outboundtest.Silent, "/"))
	if err == nil || errors.Is(err, ErrRefused) {
		t.Errorf("a public address that does not answer: %v", err)
	}
}

// TestClient_UsesSystemResolver has names that some resolvers take for addresses, as browsers do.
func TestClient_UsesSystemResolver(t *testing.T) {
	t.Parallel()
	n := outboundtest.Open(t, http.NotFoundHandler(), nil)
	for _, host := range []string{"localhost", "127.0.0.1", "::1", "2130706433", "0x7f.1", "0x7f000001", "0177.0.0.1",
		"127.1"} {
		if answer, err := get(t, NewClient(Config{}), n.URL(host, "/")); err == nil {
			t.Errorf("%s answered %s", host, answer.Status)
		}
	}
	if got := n.Reached(t); got != 0 {
		t.Errorf("the canary was reached %d times", got)
	}
}

// TestClient_ChecksTheDialedAddress is the one that the socket is about to connect to, in the form
// that prefixes know.
func TestClient_ChecksTheDialedAddress(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"192.0.2.1:80":           "192.0.2.1",
		"[2001:db8::1]:80":       "2001:db8::1",
		"[::ffff:192.0.2.1]:80":  "192.0.2.1",
		"[fe80::1%eth0]:80":      "fe80::1",
		"[::ffff:a00:1%eth0]:80": "10.0.0.1",
	} {
		got := ""
		judge := func(a netip.Addr) bool {
			got = a.String()
			return true
		}
		if err := guard(judge)(t.Context(), "tcp", address, nil); err != nil || got != want {
			t.Errorf("%s is judged as %q, want %s: %v", address, got, want, err)
		}
	}
	for _, address := range []string{"", "192.0.2.1", "example.com:80", "/run/socket"} {
		if err := guard(anywhere)(t.Context(), "tcp", address, nil); !errors.Is(err, ErrRefused) {
			t.Errorf("%q: %v", address, err)
		}
	}
}

func TestClient_UsesNoProxy(t *testing.T) {
	n := outboundtest.Open(t, http.NotFoundHandler(), nil)
	for _, name := range []string{"HTTP_PROXY", "http_proxy", "ALL_PROXY"} {
		t.Setenv(name, n.URL(outboundtest.Private, ""))
	}
	answer, err := get(t, NewClient(Config{Resolver: n.Resolver, Allow: n.Allow}), n.URL("a.public.test", "/"))
	if err != nil || answer.StatusCode != http.StatusNotFound || n.Reached(t) != 0 {
		t.Errorf("not answered by the server itself: %v", err)
	}
}

func TestClient_RefusesOtherSchemes(t *testing.T) {
	t.Parallel()
	n := outboundtest.Open(t, redirector(), nil)
	client := NewClient(Config{Resolver: n.Resolver, Allow: anywhere})
	for _, target := range []string{
		"file:///etc/passwd", "ftp://a.public.test/", "gopher://a.public.test/", "data:text/plain,a", "unix:/run/a",
		"ws://a.public.test/", "//",
	} {
		for _, url := range []string{target, n.URL("a.public.test", "/to?"+target)} {
			if answer, err := get(t, client, url); err == nil {
				t.Errorf("%s: answered %s", url, answer.Status)
			}
		}
	}
}

func TestClient_FollowsFiveRedirects(t *testing.T) {
	t.Parallel()
	requests := 0
	n := outboundtest.Open(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests++
		left, _ := strconv.Atoi(strings.TrimPrefix(r.URL.Path, "/"))
		if left > 0 {
			http.Redirect(w, r, "/"+strconv.Itoa(left-1), http.StatusFound)
		}
	}), nil)
	client := NewClient(Config{Resolver: n.Resolver, Allow: n.Allow})
	if answer, err := get(t, client, n.URL("a.public.test", "/5")); err != nil || answer.StatusCode != http.StatusOK {
		t.Errorf("five redirects: %v", err)
	}
	requests = 0
	if _, err := get(t, client, n.URL("a.public.test", "/1000")); !errors.Is(err, ErrRedirects) || requests != 6 {
		t.Errorf("got %d requests, want 6: %v", requests, err)
	}
}

// TestClient_SendsMinimalHeaders has the server see nothing but the agent's name, before and after
// a redirect.
func TestClient_SendsMinimalHeaders(t *testing.T) {
	t.Parallel()
	var seen []http.Header
	n := outboundtest.Open(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen = append(seen, r.Header)
		http.SetCookie(w, &http.Cookie{Name: "id", Value: "1", Path: "/"})
		if r.URL.Path == "/first" {
			http.Redirect(w, r, "http://ada:secret@"+r.Host+"/second", http.StatusFound)
		}
	}), nil)
	client := NewClient(Config{UserAgent: "Bot/1.0", Resolver: n.Resolver, Allow: n.Allow})
	for range 2 {
		must.Value(get(t, client, n.URL("a.public.test", "/first")))(t)
	}
	only := http.Header{"User-Agent": {"Bot/1.0"}, "Connection": {"close"}}
	wanttest.Equal(t, []http.Header{only, only, only, only}, seen, "seen")
}

func TestClient_RefusesALongHeader(t *testing.T) {
	t.Parallel()
	n := outboundtest.Open(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Long", strings.Repeat("a", 2*maxHeaderBytes))
	}), nil)
	if _, err := get(t, NewClient(Config{Resolver: n.Resolver, Allow: n.Allow}),
		n.URL("a.public.test", "/")); err == nil {
		t.Error("a header without bounds was taken")
	}
}

// TestClient_HasOneDeadline has servers that never finish: one before its answer, one within its
// body.
func TestClient_HasOneDeadline(t *testing.T) {
	t.Parallel()
	n := outboundtest.Open(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/body" {
			_ = http.NewResponseController(w).Flush()
		}
		<-r.Context().Done()
	}), nil)
	client, began := NewClient(Config{Resolver: n.Resolver, Allow: n.Allow,
		Timeout: 500 * time.Millisecond}), time.Now()
	if _, err := get(t, client, n.URL("a.public.test", "/")); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("no answer: %v", err)
	}
	answer := must.Value(get(t, client, n.URL("a.public.test", "/body")))(t)
	if _, err := io.Copy(io.Discard, answer.Body); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("no end: %v", err)
	}
	if took := time.Since(began); took >= timeout {
		t.Errorf("it took %s, longer than the usual deadline", took)
	}
}

// TestClient_DoesNotDecompress has an answer that says it is compressed come as it is.
func TestClient_DoesNotDecompress(t *testing.T) {
	t.Parallel()
	n := outboundtest.Open(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = w.Write([]byte("not gzip"))
	}), nil)
	answer := must.Value(get(t, NewClient(Config{Resolver: n.Resolver, Allow: n.Allow}),
		n.URL("a.public.test", "/")))(t)
	if got, err := io.ReadAll(answer.Body); err != nil || !bytes.Equal(got, []byte("not gzip")) {
		t.Errorf("%q: %v", got, err)
	}
}
