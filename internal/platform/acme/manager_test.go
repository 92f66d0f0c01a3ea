package acme

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddyserver/certmagic"
	"github.com/mholt/acmez/v3/acme"
	"go.uber.org/zap"

	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/feed"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/poll/polltest"
	"github.com/linkforge/linkforge/internal/platform/wanttest"
)

// The tests with an authority are those of package server: see scripts/test-acme.

const email = "ada@example.com"

// selfSigned returns a certificate of a host, valid for 90 days, and its key, in PEM.
func selfSigned(t *testing.T, host string, from time.Time) (certificate, key []byte) {
	t.Helper()
	private := must.Value(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: host}, DNSNames: []string{host},
		NotBefore: from, NotAfter: from.Add(90 * 24 * time.Hour),
	}
	signed := must.Value(x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private))(t)
	key = must.Value(x509.MarshalECPrivateKey(private))(t)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: signed}),
		pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: key})
}

// lines is a log.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

// with returns the lines that contain a text.
func (l *lines) with(text string) (found []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(l.text.String()) {
		if strings.Contains(line, text) {
			found = append(found, line)
		}
	}
	return found
}

// fixture is a manager whose authority is down.
type fixture struct {
	*Manager
	d   *db.DB
	log *lines
	// requests counts those to the authority; admitted and permitted have the hosts of the calls of the manager.
	requests            atomic.Int64
	admitted, permitted sync.Map
}

// eachManager runs the test with a manager that knows go.example.com and *.known.example.
func eachManager(t *testing.T, test func(t *testing.T, f *fixture)) {
	t.Helper()
	eachDatabase(t, func(t *testing.T, d *db.DB, files, _ *Files, _ *clock) {
		f := &fixture{d: d, log: &lines{}}
		authority := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			f.requests.Add(1)
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(http.StatusServiceUnavailable)
			_ = json.NewEncoder(w).Encode(acme.Problem{Type: acme.ProblemTypeServerInternal, Status: 503,
				Detail: "maintenance at 203.0.113.7, write to " + email})
		}))
		t.Cleanup(authority.Close)
		roots := x509.NewCertPool()
		roots.AddCert(authority.Certificate())
		files.Now = time.Now
		isKnown := func(host string) bool {
			return host == "go.example.com" || strings.HasSuffix(host, ".known.example")
		}
		f.Manager = New(Config{
			Files: files, Directory: authority.URL + "/dir", Email: email, Roots: roots,
			TLSListen: "127.0.0.1:8443", HTTPListen: "127.0.0.1:8080", Hosts: []string{"go.example.com"},
			Pace: 20 * time.Millisecond, Now: time.Now,
			Log: slog.New(slog.NewTextHandler(f.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
			Admits: func(_ context.Context, host string, client netip.Addr) (bool, error) {
				f.admitted.Store(host, client)
				return isKnown(host), nil
			},
			MayOrder: func(_ context.Context, host string) (bool, error) {
				f.permitted.Store(host, true)
				return isKnown(host), nil
			},
		})
		running, stop := context.WithCancel(t.Context())
		var ended sync.WaitGroup
		ended.Go(func() {
			if err := f.Run(running); err != nil {
				t.Error(err)
			}
		})
		t.Cleanup(func() {
			stop()
			ended.Wait()
			must.NoError(t, f.Close())
		})
		test(t, f)
	})
}

// store stores a certificate of a host like CertMagic.
func (f *fixture) store(t *testing.T, host string) {
	t.Helper()
	certificate, key := selfSigned(t, host, time.Now().Add(-time.Hour))
	issuer := f.issuer.IssuerKey()
	for name, content := range map[string][]byte{
		certmagic.StorageKeys.SiteCert(issuer, host):       certificate,
		certmagic.StorageKeys.SitePrivateKey(issuer, host): key,
		certmagic.StorageKeys.SiteMeta(issuer, host):       []byte(`{"sans":["` + host + `"]}`),
	} {
		must.NoError(t, f.Files.Store(t.Context(), name, content))
	}
}

// handshake returns the host of the certificate that a client gets.
func (f *fixture) handshake(t *testing.T, host string, protocols ...string) (string, error) {
	t.Helper()
	listener := must.Value(tls.Listen("tcp", "127.0.0.1:0", f.TLSConfig()))(t)
	defer listener.Close()
	var served sync.WaitGroup
	defer served.Wait()
	served.Go(func() {
		if conn, err := listener.Accept(); err == nil {
			_ = conn.(*tls.Conn).Handshake() // the client sees its error
			conn.Close()
		}
	})
	dialer := &net.Dialer{Timeout: time.Minute}
	conn, err := tls.DialWithDialer(dialer, "tcp", listener.Addr().String(),
		&tls.Config{ServerName: host, InsecureSkipVerify: true, NextProtos: protocols})
	if err != nil {
		return "", err
	}
	defer conn.Close()
	return conn.ConnectionState().PeerCertificates[0].DNSNames[0], nil
}

// TestManager_RefusesUnknownHosts: a handshake for an unknown host leads to no order.
func TestManager_RefusesUnknownHosts(t *testing.T) {
	eachManager(t, func(t *testing.T, f *fixture) {
		for _, protocols := range [][]string{nil, {"acme-tls/1"}} {
			if got, err := f.handshake(t, "Unknown.example", protocols...); err == nil {
				t.Errorf("a certificate of %s", got)
			}
		}
		client, wasAsked := f.admitted.Load("unknown.example")
		if !wasAsked || client != netip.MustParseAddr("127.0.0.1") {
			t.Errorf("admission of %v", client)
		}
		if _, isPermitted := f.permitted.Load("unknown.example"); isPermitted {
			t.Error("an order begins")
		}
		r := httptest.NewRequest("GET", "http://unknown.example/.well-known/acme-challenge/token", nil)
		if f.ServeChallenge(httptest.NewRecorder(), r, "unknown.example", netip.MustParseAddr("192.0.2.1")) {
			t.Error("a challenge of an unknown host")
		}
	})
}

// TestManager_ServesFromMemory: a certificate is loaded once, and served while the database is down. After a
// change of the domain, it is looked up again.
func TestManager_ServesFromMemory(t *testing.T) {
	eachManager(t, func(t *testing.T, f *fixture) {
		f.store(t, "go.example.com")
		f.store(t, "a.known.example")
		same := func(host, want string) {
			t.Helper()
			if got, err := f.handshake(t, host); got != want || err != nil {
				t.Errorf("%q gets the certificate of %q: %v", host, got, err)
			}
		}
		polltest.Until(t, "the pause of the first order is over", func() bool {
			_, err := f.handshake(t, "go.example.com")
			return err == nil
		})
		same("A.known.example", "a.known.example")
		same("", "go.example.com") // a health check by address
		if end := f.End(); time.Until(end) < 80*24*time.Hour || time.Until(end) > 90*24*time.Hour {
			t.Errorf("the first certificate ends at %s", end)
		}
		f.admitted.Clear()
		f.Follow(t.Context(), feed.News{Subjects: []string{"@b.known.example", "ws_1"}})
		same("a.known.example", "a.known.example")
		if _, wasAsked := f.admitted.Load("a.known.example"); wasAsked {
			t.Error("looked up again")
		}
		for _, n := range []feed.News{{Subjects: []string{"@a.known.example"}}, {IsGap: true}} {
			f.Follow(t.Context(), n)
			f.admitted.Clear()
			same("a.known.example", "a.known.example")
			same("go.example.com", "go.example.com")
			if _, wasAsked := f.admitted.Load("a.known.example"); !wasAsked {
				t.Error("a changed domain is not looked up")
			}
		}
		must.NoError(t, f.d.Close())
		same("a.known.example", "a.known.example")
		same("go.example.com", "go.example.com")
	})
}

// TestManager_LogsOutageOnce: an authority that is down is one line, without addresses, and few requests.
func TestManager_LogsOutageOnce(t *testing.T) {
	eachManager(t, func(t *testing.T, f *fixture) {
		polltest.Until(t, "several orders have failed", func() bool { return f.requests.Load() > 10 })
		if _, err := f.handshake(t, "a.known.example"); err == nil {
			t.Error("a certificate without an authority")
		}
		if said := f.log.with("level=WARN"); len(said) != 1 || !strings.Contains(said[0], string(ofAuthority)) ||
			!strings.Contains(said[0], "maintenance at (address), write to (address)") {
			t.Errorf("the log says %q", said)
		}
		for _, secret := range []string{email, "203.0.113.7", "127.0.0.1", "PRIVATE", "level=ERROR"} {
			if said := f.log.with(secret); len(said) > 0 {
				t.Errorf("the log has %s: %q", secret, said)
			}
		}
	})
}

// TestManager_PausesFailedOrders: after a failure of a host, no node orders for it until the pause has ended.
func TestManager_PausesFailedOrders(t *testing.T) {
	eachManager(t, func(t *testing.T, f *fixture) {
		const host = "a.known.example"
		content := must.Value(json.Marshal(pause{2, time.Now().Add(time.Hour)}))(t)
		must.NoError(t, f.Files.Store(t.Context(), pauseFile(host), content))
		if err := f.obtain(t.Context(), host); !errors.Is(err, errPaused) {
			t.Errorf("during the pause: %v", err)
		}
		content = must.Value(json.Marshal(pause{2, time.Now().Add(-time.Second)}))(t)
		must.NoError(t, f.Files.Store(t.Context(), pauseFile(host), content))
		short, cancel := context.WithTimeout(t.Context(), time.Second) // there is no authority
		defer cancel()
		if err := f.obtain(short, host); err == nil || errors.Is(err, errPaused) {
			t.Errorf("after the pause: %v", err)
		}
		if err := f.obtain(t.Context(), "unknown.example"); !errors.Is(err, errRefused) {
			t.Errorf("of an unknown host: %v", err)
		}
	})
}

// TestManager_KeepsValidCertificate when the new one is not valid yet by the clock of the node.
func TestManager_KeepsValidCertificate(t *testing.T) {
	eachManager(t, func(t *testing.T, f *fixture) {
		const host = "a.known.example"
		check := func(from time.Duration) error {
			chain, _ := selfSigned(t, host, time.Now().Add(from))
			return f.checkClock(t.Context(), host, chain)
		}
		must.NoError(t, check(time.Hour)) // better than none
		if said := f.log.with(string(ofClock)); len(said) != 1 {
			t.Errorf("the log says %q", said)
		}
		f.store(t, host)
		must.Value(f.handshake(t, host))(t)
		must.NoError(t, check(-time.Minute))
		if err := check(time.Hour); !errors.Is(err, errClock) {
			t.Errorf("not valid yet: %v", err)
		}
	})
}

func TestKindOf(t *testing.T) {
	t.Parallel()
	wrap := func(err error) error { return &url.Error{Op: "Post", URL: "https://ca/new-order", Err: err} }
	problem := func(kind string, status int) error {
		return errors.Join(errors.New("solving challenge"), acme.Problem{Type: kind, Status: status})
	}
	for name, c := range map[string]struct {
		err  error
		want kind
	}{
		"no connection":       {wrap(&net.OpError{Op: "dial", Err: errors.New("connection refused")}), ofAuthority},
		"unknown certificate": {wrap(x509.UnknownAuthorityError{}), ofAuthority},
		"clock":               {wrap(x509.CertificateInvalidError{Reason: x509.Expired}), ofClock},
		"not yet valid":       {errClock, ofClock},
		"limit":               {problem(acme.ProblemTypeRateLimited, 429), ofLimit},
		"limit of a proxy":    {problem("about:blank", 429), ofLimit},
		"down":                {problem(acme.ProblemTypeServerInternal, 500), ofAuthority},
		"down, in HTML":       {errors.New("getting directory: HTTP 503: <html>"), ofAuthority},
		"elsewhere":           {problem(acme.ProblemTypeConnection, 400), ofHost},
		"another server":      {problem(acme.ProblemTypeUnauthorized, 403), ofHost},
		"no name":             {problem(acme.ProblemTypeDNS, 400), ofHost},
		"forbidden by CAA":    {problem(acme.ProblemTypeCAA, 403), ofHost},
		"refused name":        {problem(acme.ProblemTypeRejectedIdentifier, 400), ofOrder},
		"database":            {errors.New("getting ACME account: closed"), ofOrder},
	} {
		wanttest.Equal(t, c.want, kindOf(c.err), "%s", name)
	}
}

func TestWithoutAddresses(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"203.0.113.5: Fetching http://a.example: refused": "(address): Fetching http://a.example: refused",
		"dial [2001:db8::1]:443: timeout, 127.0.0.1:80.":  "dial [(address)]:443: timeout, (address):80.",
		"account [mailto:ada@example.com] with server":    "account [mailto:(address)] with server",
		"after 2026-12-01 10:11:12 UTC: see face.cafe":    "after 2026-12-01 10:11:12 UTC: see face.cafe",
	} {
		wanttest.Equal(t, want, withoutAddresses(text), "%s", text)
	}
}

// TestBridge_PassesNoAddress: fields of CertMagic name clients and the account.
func TestBridge_PassesNoAddress(t *testing.T) {
	t.Parallel()
	log := &lines{}
	z := zap.New(bridge{log: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	z = z.With(zap.String("remote_ip", "192.0.2.1"), zap.String("identifier", "go.example.com"))
	z.Info("noise")
	z.Warn("failed", zap.Strings("account_contact", []string{email}), zap.Error(errors.New("dial 192.0.2.1:1")))
	z.Error("panic", zap.Any("error", "boom"))
	wanttest.Equal(t, 2, len(log.with("")), "lines")
	wanttest.Equal(t, 1, len(log.with(`level=DEBUG msg="TLS certificates" event=failed error="dial (address):1" `+
		`identifier=go.example.com`)), "failures")
	wanttest.Equal(t, 1, len(log.with("level=ERROR")), "panics")
}
