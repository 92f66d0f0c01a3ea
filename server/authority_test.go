package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/linkforge/linkforge/internal/platform/faulttest"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/poll/polltest"
	"github.com/linkforge/linkforge/internal/platform/proctest"
)

// The tests of this file order certificates from Pebble, the test server of Let's Encrypt. Nodes are processes with a
// loopback address each, and one PostgreSQL.

const (
	// pebblePrograms names the folder with pebble and pebble-challtestsrv.
	pebblePrograms = "LINKFORGE_TEST_PEBBLE"
	// testPace is the unit of time between attempts of nodes.
	testPace  = 300 * time.Millisecond
	ownHost   = "go.lf.test"
	acmeEmail = "ada@acme.example"
)

// authority is an authority of certificates, behind a proxy that can fail.
type authority struct {
	// url is that of the proxy, rootsFile verifies it.
	url, rootsFile string
	// httpPort and tlsPort are where it checks hosts, names the address of the API of its name server.
	httpPort, tlsPort, names string
	// issued are the roots of its certificates.
	issued *x509.CertPool

	mu sync.Mutex
	// answer replaces the answers of the authority, if it is set, and says whether it has.
	answer func(w http.ResponseWriter, r *http.Request) bool
	orders int
}

// newAuthority starts an authority whose certificates last for a time.
func newAuthority(t *testing.T, validity time.Duration) *authority {
	t.Helper()
	programs := os.Getenv(pebblePrograms)
	if programs == "" {
		t.Skip("runs by make test-acme")
	}
	folder := t.TempDir()
	address, management, dns := proctest.FreeAddress(), proctest.FreeAddress(), proctest.FreeAddress()
	a := &authority{httpPort: freePort(t), tlsPort: freePort(t), names: proctest.FreeAddress(),
		rootsFile: filepath.Join(folder, "authority.pem")}
	certificate, key := filepath.Join(folder, "certificate.pem"), filepath.Join(folder, "key.pem")
	certify(t, certificate, key, 1)
	settings := map[string]any{"pebble": map[string]any{
		"listenAddress": address, "managementListenAddress": management, "certificate": certificate, "privateKey": key,
		"httpPort": must.Value(strconv.Atoi(a.httpPort))(t), "tlsPort": must.Value(strconv.Atoi(a.tlsPort))(t),
		"ocspResponderURL": "", "externalAccountBindingRequired": false, "domainBlocklist": []string{"blocked.lf.test"},
		"retryAfter": map[string]int{"authz": 1, "order": 1}, "keyAlgorithm": "ecdsa",
		"profiles": map[string]any{"default": map[string]any{
			"description": "of tests", "validityPeriod": int(validity.Seconds()),
		}},
	}}
	config := filepath.Join(folder, "pebble.json")
	must.NoError(t, os.WriteFile(config, must.Value(json.Marshal(settings))(t), 0o600))
	a.run(t, folder, filepath.Join(programs, "pebble-challtestsrv"), "-management", a.names, "-dnsserver", dns,
		"-defaultIPv4", "127.0.0.1", "-defaultIPv6", "", "-http01", "", "-https01", "", "-tlsalpn01", "", "-doh", "")
	a.run(t, folder, filepath.Join(programs, "pebble"), "-config", config, "-dnsserver", dns)
	a.issued = x509.NewCertPool()
	polltest.Until(t, "the authority answers", func() bool {
		insecure := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
		response, err := insecure.Get("https://" + management + "/roots/0")
		if err != nil {
			return false
		}
		defer response.Body.Close()
		root, err := io.ReadAll(response.Body)
		return err == nil && a.issued.AppendCertsFromPEM(root)
	})
	a.serve(t, "https://"+address)
	return a
}

// freePort returns a port that is free at all loopback addresses.
func freePort(t *testing.T) string {
	t.Helper()
	_, port, err := net.SplitHostPort(proctest.FreeAddress())
	must.NoError(t, err)
	return port
}

// run runs a program until the test ends.
func (a *authority) run(t *testing.T, folder, name string, args ...string) {
	t.Helper()
	out := must.Value(os.Create(filepath.Join(folder, filepath.Base(name)+".log")))(t)
	p := exec.CommandContext(t.Context(), name, args...)
	p.Env = append(os.Environ(), "PEBBLE_VA_NOSLEEP=1", "PEBBLE_AUTHZREUSE=0")
	p.Stdout, p.Stderr = out, out
	must.NoError(t, p.Start())
	t.Cleanup(func() {
		_ = p.Process.Kill()
		_ = p.Wait()
		if t.Failed() {
			lines := strings.Split(strings.TrimSpace(content(t, out)), "\n")
			t.Logf("%s:\n%s", filepath.Base(name), strings.Join(lines[max(0, len(lines)-30):], "\n"))
		}
		out.Close()
	})
}

// serve starts the proxy.
func (a *authority) serve(t *testing.T, target string) {
	t.Helper()
	to := must.Value(url.Parse(target))(t)
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(to)
			r.Out.Host = r.In.Host // URLs of answers lead to the proxy
		},
		Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}},
		ErrorLog:  log.New(io.Discard, "", 0),
		ModifyResponse: func(r *http.Response) error { // Pebble rejects some nonces, whose requests are repeated
			a.mu.Lock()
			defer a.mu.Unlock()
			if r.StatusCode == http.StatusCreated && strings.Contains(r.Request.URL.Path, "order-plz") {
				a.orders++
			}
			return nil
		},
	}
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a.mu.Lock()
		answer := a.answer
		a.mu.Unlock()
		if answer == nil || !answer(w, r) {
			proxy.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(server.Close)
	t.Cleanup(server.CloseClientConnections)
	a.url = server.URL + "/dir"
	must.NoError(t, os.WriteFile(a.rootsFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE",
		Bytes: server.Certificate().Raw}), 0o600))
}

// set replaces the answers of the authority; nil restores them.
func (a *authority) set(answer func(w http.ResponseWriter, r *http.Request) bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.answer = answer
}

func (a *authority) placed() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.orders
}

// away cuts the connections to the authority.
func away(http.ResponseWriter, *http.Request) bool { panic(http.ErrAbortHandler) }

// overLimit refuses new orders.
func overLimit(w http.ResponseWriter, r *http.Request) bool {
	if !strings.Contains(r.URL.Path, "order-plz") {
		return false
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.Header().Set("Replay-Nonce", "bm9uY2U")
	w.WriteHeader(http.StatusTooManyRequests)
	_, _ = io.WriteString(w, `{"type": "urn:ietf:params:acme:error:rateLimited", "status": 429,
		"detail": "too many certificates already issued for \"lf.test\" in the last 168h0m0s by `+acmeEmail+`"}`)
	return true
}

// point has a host lead to an address.
func (a *authority) point(t *testing.T, host, address string) {
	t.Helper()
	for _, call := range []string{"clear-a", "add-a"} {
		body := must.Value(json.Marshal(map[string]any{"host": host, "addresses": []string{address}}))(t)
		response := must.Value(http.Post("http://"+a.names+"/"+call, "application/json", bytes.NewReader(body)))(t)
		response.Body.Close()
	}
}

// node starts a node, in a process, at a loopback address.
func (a *authority) node(t *testing.T, b backend, ip string, settings ...string) *server {
	t.Helper()
	return automatic(t, b.inProcesses(), net.JoinHostPort(ip, a.tlsPort), net.JoinHostPort(ip, a.httpPort),
		append(settings, "LINKFORGE_ACME_DIRECTORY="+a.url, "LINKFORGE_ACME_CA="+a.rootsFile,
			"LINKFORGE_PUBLIC_URL=https://"+ownHost+":"+a.tlsPort, certificatePaceVariable+"="+testPace.String())...)
}

// automatic starts a node with LINKFORGE_TLS=auto. Its health checks use HTTP.
func automatic(t *testing.T, b backend, tlsAddress, httpAddress string, settings ...string) *server {
	t.Helper()
	s := &server{t: t, address: httpAddress, public: "http://" + httpAddress, ownProcess: b.ownProcess, fails: b.fails,
		http: newClient()}
	s.env = slices.Concat(b.env, []string{"LINKFORGE_TLS=auto", "LINKFORGE_ACME_EMAIL=" + acmeEmail,
		"LINKFORGE_LISTEN=" + tlsAddress, "LINKFORGE_HTTP_LISTEN=" + httpAddress,
		"LINKFORGE_RATE_LIMITS=off", "LINKFORGE_HIT_QUOTA=1000000000", "LINKFORGE_DRAIN_DELAY=0s"}, settings)
	s.launch()
	s.awaitReady()
	return s
}

// TestAuthority_StartsWithoutCertificate: a node whose authority is down answers health checks and
// redirects, and refuses handshakes.
func TestAuthority_StartsWithoutCertificate(t *testing.T) {
	t.Parallel()
	down := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	defer down.Close()
	roots := filepath.Join(t.TempDir(), "roots.pem")
	must.NoError(t, os.WriteFile(roots, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE",
		Bytes: down.Certificate().Raw}), 0o600))
	tlsAddress, admin := proctest.FreeAddress(), proctest.FreeAddress()
	s := automatic(t, embedded(t), tlsAddress, proctest.FreeAddress(), "LINKFORGE_PUBLIC_URL=https://"+ownHost,
		"LINKFORGE_ACME_DIRECTORY="+down.URL, "LINKFORGE_ACME_CA="+roots, "LINKFORGE_ADMIN_LISTEN="+admin)
	hasTexts(t, "the banner", content(t, s.out), "https://"+ownHost+"/{code}", tlsAddress, s.address)
	if said, stderr, status := command(t, s.env, "", "healthcheck"); said != "ready\n" || status != 0 {
		t.Errorf("healthcheck: %q, exit status %d: %s", said, status, stderr)
	}
	moved := s.expect(t, http.StatusMovedPermanently, "GET", "/code").header.Get("Location")
	same(t, "the location", moved, "https://"+ownHost+"/code")
	for _, host := range []string{"unknown.example", "127.0.0.1"} {
		conn, err := tls.Dial("tcp", tlsAddress, &tls.Config{ServerName: host, InsecureSkipVerify: true})
		if err == nil {
			conn.Close()
			t.Errorf("%s has a certificate", host)
		}
	}
	polltest.Until(t, "the log says why", func() bool { return len(logged(t, s, saysAuthority)) == 1 })
	if !strings.Contains(must.Value(s.request("GET", "/livez", ""))(t).body, "alive") {
		t.Error("not alive")
	}
}

// TestAuthority_RefusesBrokenRoots: a node does not start with a file that has no certificate.
func TestAuthority_RefusesBrokenRoots(t *testing.T) {
	t.Parallel()
	empty := filepath.Join(t.TempDir(), "empty.pem")
	must.NoError(t, os.WriteFile(empty, []byte("nothing"), 0o600))
	for _, file := range []string{empty, empty + ".missing"} {
		said := failing(t, append(embedded(t).env, "LINKFORGE_TLS=auto", "LINKFORGE_ACME_EMAIL="+acmeEmail,
			"LINKFORGE_PUBLIC_URL=https://"+ownHost, "LINKFORGE_ACME_CA="+file)...)
		if !strings.HasPrefix(said, "LINKFORGE_ACME_CA: ") {
			t.Errorf("%s: %s", file, said)
		}
	}
}

// visitor connects to the nodes by their addresses, and accepts certificates of the authority alone.
func (a *authority) visitor(ip string, protocols ...string) *http.Client {
	return &http.Client{
		Timeout:       patience,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			DisableKeepAlives: true, ForceAttemptHTTP2: len(protocols) == 0,
			TLSClientConfig: &tls.Config{RootCAs: a.issued, NextProtos: protocols},
			DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
				_, port, _ := net.SplitHostPort(address)
				return new(net.Dialer).DialContext(ctx, network, net.JoinHostPort(ip, port))
			},
		},
	}
}

// visit follows a short URL at a node, and returns its response.
func (a *authority) visit(ip, host, path string, protocols ...string) (*http.Response, error) {
	response, err := a.visitor(ip, protocols...).Get("https://" + net.JoinHostPort(host, a.tlsPort) + path)
	if err == nil {
		response.Body.Close()
	}
	return response, err
}

// leads checks that a short URL works at a node, and returns the serial number of the certificate.
func (a *authority) leads(t *testing.T, ip, host, path string) string {
	t.Helper()
	response, err := a.visit(ip, host, path)
	if err != nil || response.StatusCode != http.StatusFound {
		t.Errorf("%s at %s: %v, %v", host, ip, response, err)
		return ""
	}
	return response.TLS.PeerCertificates[0].SerialNumber.String()
}

// refuses checks that a handshake fails.
func (a *authority) refuses(t *testing.T, ip, host string) {
	t.Helper()
	if response, err := a.visit(ip, host, "/"); err == nil {
		t.Errorf("%s answers at %s: %v", host, ip, response)
	}
}

// logged returns the lines of a node's log with a text.
func logged(t *testing.T, s *server, text string) (found []string) {
	t.Helper()
	for line := range strings.Lines(content(t, s.err)) {
		if strings.Contains(line, text) {
			found = append(found, line)
		}
	}
	return found
}

const (
	firstIP, secondIP, unusedIP = "127.0.0.1", "127.0.0.2", "127.0.0.3"

	saysHost      = "the authority does not find this server at a host"
	saysLimit     = "the authority limits orders"
	saysAuthority = "the authority of TLS certificates cannot be reached"
	saysClock     = "a TLS certificate is not valid yet"
)

// customers are a workspace with a link, which a node without TLS manages.
type customers struct {
	tenant
	api  *server
	b    backend
	path string
}

func newCustomers(t *testing.T, b backend) customers {
	t.Helper()
	api := start(t, b)
	who := api.tenant(t, "engines")
	return customers{who, api, b, "/" + who.shorten(t, "https://example.com/a").Link.Code}
}

// TestACME_TwoNodes: two nodes with one database order the certificates of the instance, and of 50
// domains on demand. All names lead to the second node, so that it answers the challenges of the
// first one's orders.
func TestACME_TwoNodes(t *testing.T) {
	b := production(t)
	a := newAuthority(t, time.Hour)
	e := newCustomers(t, b)
	const domains = 50
	var hosts []string
	for i := range domains {
		hosts = append(hosts, fmt.Sprintf("d%02d.customer.test", i))
		e.verifiedDomain(t, b, hosts[i])
		a.point(t, hosts[i], secondIP)
	}
	a.point(t, ownHost, secondIP)
	second := a.node(t, b, secondIP) // answers the challenges, so it starts first
	first := a.node(t, b, firstIP)
	polltest.Until(t, "both nodes have the certificate of the instance", func() bool {
		_, err := a.visit(firstIP, ownHost, "/")
		_, errOfSecond := a.visit(secondIP, ownHost, "/")
		return err == nil && errOfSecond == nil
	})
	if a.placed() != 1 {
		t.Errorf("%d orders for the instance", a.placed())
	}
	for protocol, want := range map[string]int{"http/1.1": 1, "": 2} {
		var protocols []string
		if protocol != "" {
			protocols = []string{protocol}
		}
		r := must.Value(a.visit(firstIP, ownHost, "/app", protocols...))(t)
		if r.ProtoMajor != want || r.StatusCode != http.StatusOK {
			t.Errorf("HTTP/%d, status %d", r.ProtoMajor, r.StatusCode)
		}
	}
	checkHTTP(t, a)

	began := time.Now()
	var visits sync.WaitGroup
	for i, host := range hosts {
		for range 2 { // the second waits for the order of the first
			visits.Go(func() { a.leads(t, []string{firstIP, secondIP}[i%2], host, e.path) })
		}
	}
	visits.Wait()
	t.Logf("%d domains have certificates after %s", domains, time.Since(began).Round(time.Second))
	for _, host := range hosts {
		if a.leads(t, firstIP, host, e.path) != a.leads(t, secondIP, host, e.path) {
			t.Errorf("the nodes have two certificates of %s", host)
		}
	}
	if a.placed() != 1+domains {
		t.Errorf("%d orders for %d hosts", a.placed(), 1+domains)
	}
	if said := logged(t, first, "level=WARN"); len(said) > 0 {
		t.Errorf("warnings: %q", said)
	}

	claimed := e.claim(t, map[string]any{"host": "claimed.customer.test"})
	for _, host := range []string{"unknown.test", "claimed.customer.test", "x.d00.customer.test", "lf.test"} {
		a.refuses(t, firstIP, host)
	}
	if a.placed() != 1+domains {
		t.Error("a host that is no verified domain was ordered")
	}
	verify(t, b, claimed)
	a.point(t, "claimed.customer.test", firstIP)
	polltest.Until(t, "a new domain works at both nodes", func() bool {
		_, err := a.visit(firstIP, "claimed.customer.test", e.path)
		_, errOfSecond := a.visit(secondIP, "claimed.customer.test", e.path)
		return err == nil && errOfSecond == nil
	})
	removeDomain(t, a, e, claimed)
	for _, s := range []*server{first, second} {
		for _, secret := range []string{acmeEmail, "PRIVATE KEY"} {
			if said := logged(t, s, secret); len(said) > 0 {
				t.Errorf("the log has %s: %q", secret, said)
			}
		}
	}
}

// checkHTTP checks the port of HTTP: health checks, and redirects of all else.
func checkHTTP(t *testing.T, a *authority) {
	t.Helper()
	for _, c := range []struct {
		method, host, path, location string
		status                       int
	}{
		{"GET", ownHost, "/readyz", "", 200},
		{"GET", firstIP, "/livez", "", 200},
		{"GET", "d00.customer.test", "/readyz", "https://d00.customer.test:" + a.tlsPort + "/readyz", 301},
		{"GET", "d00.customer.test", "/a%2Fb?x=%20", "https://d00.customer.test:" + a.tlsPort + "/a%2Fb?x=%20", 301},
		{"POST", ownHost, "/graphql", "https://" + ownHost + ":" + a.tlsPort + "/graphql", 308},
		{"GET", firstIP, "/code", "https://" + ownHost + ":" + a.tlsPort + "/code", 301},
		{"GET", ownHost, "/.well-known/acme-challenge/x",
			"https://" + ownHost + ":" + a.tlsPort + "/.well-known/acme-challenge/x", 301},
	} {
		r := must.Value(http.NewRequest(c.method, "http://"+net.JoinHostPort(firstIP, a.httpPort)+c.path, nil))(t)
		r.Host = net.JoinHostPort(c.host, a.httpPort)
		response := must.Value(newClient().Do(r))(t)
		response.Body.Close()
		if response.StatusCode != c.status || response.Header.Get("Location") != c.location {
			t.Errorf("%s %s%s: %d, %v", c.method, c.host, c.path, response.StatusCode, response.Header)
		}
	}
}

// removeDomain removes a domain: no node serves it any more, and its files go.
func removeDomain(t *testing.T, a *authority, e customers, domainID string) {
	t.Helper()
	files := func() int64 {
		return numberOf(t, e.b, "SELECT count(*) FROM acme_files WHERE name LIKE '%/claimed.customer.test/%'")
	}
	if files() != 3 {
		t.Errorf("%d files", files())
	}
	placed := a.placed()
	e.ask(t, `mutation ($d: ID!) { removeDomain(input: {id: $d}) { errors { message } } }`,
		map[string]any{"d": domainID})
	for _, ip := range []string{firstIP, secondIP} {
		polltest.Until(t, "the removed domain is refused", func() bool {
			_, err := a.visit(ip, "claimed.customer.test", "/")
			return err != nil
		})
	}
	succeed(t, slices.Concat(e.b.env, []string{"LINKFORGE_TLS=auto", "LINKFORGE_ACME_EMAIL=" + acmeEmail,
		"LINKFORGE_PUBLIC_URL=https://" + ownHost}), "jobs", "run", "certificates")
	if files() != 0 || a.placed() != placed {
		t.Errorf("%d files stay, %d orders", files(), a.placed()-placed)
	}
}

// TestACME_RenewsUnderLoad: certificates last 40 seconds, and no visit of two minutes fails.
func TestACME_RenewsUnderLoad(t *testing.T) {
	b := production(t)
	a := newAuthority(t, 40*time.Second)
	e := newCustomers(t, b)
	hosts := []string{ownHost}
	for i := range 4 {
		hosts = append(hosts, fmt.Sprintf("d%d.customer.test", i))
		e.verifiedDomain(t, b, hosts[i+1])
	}
	nodes := []*server{a.node(t, b, firstIP), a.node(t, b, secondIP)}
	for _, host := range hosts {
		polltest.Until(t, "the host has a certificate", func() bool {
			_, err := a.visit(firstIP, host, e.path)
			return err == nil
		})
		a.leads(t, secondIP, host, e.path)
	}
	var visits, failures atomic.Int64
	var serials sync.Map
	var visitors sync.WaitGroup
	end := time.Now().Add(2 * time.Minute)
	for i, host := range hosts {
		for _, ip := range []string{firstIP, secondIP} {
			visitors.Go(func() {
				for time.Now().Before(end) {
					response, err := a.visit(ip, host, e.path)
					visits.Add(1)
					if err != nil || response.StatusCode != http.StatusFound {
						failures.Add(1)
						continue
					}
					serials.Store(fmt.Sprint(i, response.TLS.PeerCertificates[0].SerialNumber), true)
					time.Sleep(pollEvery)
				}
			})
		}
	}
	visitors.Wait()
	certificates := 0
	serials.Range(func(any, any) bool { certificates++; return true })
	if failures.Load() > 0 {
		t.Errorf("%d visits failed", failures.Load())
	}
	t.Logf("%d visits, %d failed; %d hosts had %d certificates by %d orders", visits.Load(), failures.Load(),
		len(hosts), certificates, a.placed())
	if certificates < 3*len(hosts) || a.placed() > certificates+len(hosts) {
		t.Error("certificates are not renewed, or renewed twice")
	}
	for _, s := range nodes {
		if said := logged(t, s, "level=WARN"); len(said) > 0 {
			t.Errorf("warnings: %q", said)
		}
	}
}

// TestACME_SurvivesKill kills the node that waits for the authority in the middle of an order.
func TestACME_SurvivesKill(t *testing.T) {
	b := production(t)
	a := newAuthority(t, time.Hour)
	e := newCustomers(t, b)
	const host = "killed.customer.test"
	e.verifiedDomain(t, b, host)
	a.point(t, host, secondIP)
	first := a.node(t, b, firstIP)
	a.node(t, b, secondIP)
	polltest.Until(t, "the instance has a certificate", func() bool {
		_, err := a.visit(firstIP, ownHost, "/")
		return err == nil
	})
	reached, released := make(chan struct{}), make(chan struct{})
	var once sync.Once
	a.set(func(_ http.ResponseWriter, r *http.Request) bool {
		if strings.Contains(r.URL.Path, "finalize") {
			once.Do(func() { close(reached) })
			<-released
		}
		return false
	})
	go func() { _, _ = a.visit(firstIP, host, e.path) }()
	<-reached
	if n := numberOf(t, b, "SELECT count(*) FROM leases WHERE name LIKE 'certificates: %'"); n != 1 {
		t.Errorf("%d locks during the order", n)
	}
	first.kill()
	a.set(nil)
	close(released)
	began := time.Now()
	polltest.Until(t, "the other node completes the order", func() bool {
		response, err := a.visit(secondIP, host, e.path)
		return err == nil && response.StatusCode == http.StatusFound
	})
	t.Logf("the other node serves the host %s after the kill", time.Since(began).Round(time.Second))
	if n := numberOf(t, b, "SELECT count(*) FROM leases WHERE name LIKE 'certificates: %'"); n != 0 {
		t.Errorf("%d locks after the order", n)
	}
	a.node(t, b, firstIP)
	a.leads(t, firstIP, host, e.path)
}

// TestACME_Failures: each failure is one line of the log, certificates in memory are served, and
// other hosts get theirs.
func TestACME_Failures(t *testing.T) {
	b := production(t)
	a := newAuthority(t, time.Hour)
	e := newCustomers(t, b)
	for _, host := range []string{"old.customer.test", "away.customer.test", "limited.customer.test",
		"elsewhere.customer.test", "good.customer.test", "blocked.lf.test"} {
		e.verifiedDomain(t, b, host)
	}
	a.point(t, "elsewhere.customer.test", unusedIP)
	database, databaseURL := faulttest.ForURL(t, settings(t, b.env)["LINKFORGE_DATABASE_URL"])
	failing := b
	failing.fails = true // the log states the outage of the database
	s := a.node(t, failing, firstIP, "LINKFORGE_DATABASE_URL="+databaseURL)
	polltest.Until(t, "a domain has a certificate", func() bool {
		_, err := a.visit(firstIP, "old.customer.test", e.path)
		return err == nil
	})
	fails := func(host, says string, want int) {
		t.Helper()
		for range 20 { // many handshakes, and many paces
			if response, err := a.visit(firstIP, host, "/"); err == nil {
				t.Errorf("%s answers: %v", host, response)
			}
			time.Sleep(testPace / 2)
		}
		if said := logged(t, s, says); len(said) != want || strings.Contains(fmt.Sprint(said), acmeEmail) ||
			strings.Contains(fmt.Sprint(said), "127.0.0") {
			t.Errorf("the log says %q", said)
		}
		a.leads(t, firstIP, "old.customer.test", e.path)
	}
	a.set(away)
	fails("away.customer.test", saysAuthority, 1)
	a.set(nil)
	polltest.Until(t, "the authority is asked again", func() bool {
		_, err := a.visit(firstIP, "away.customer.test", e.path)
		return err == nil
	})
	a.set(overLimit)
	before := a.placed()
	fails("limited.customer.test", saysLimit, 1)
	if n := a.placed() - before; n > 3 {
		t.Errorf("%d orders of a limited host", n)
	}
	a.set(nil)
	before = a.placed()
	fails("elsewhere.customer.test", saysHost, 1)
	if n := a.placed() - before; n > 9 { // three of each attempt: CertMagic tries two kinds of challenges
		t.Errorf("%d orders of a host that leads elsewhere", n)
	}
	fails("blocked.lf.test", "a TLS certificate could not be ordered", 1)
	a.leads(t, firstIP, "good.customer.test", e.path)

	database.Set(faulttest.Refuse)
	for range 20 {
		a.leads(t, firstIP, "old.customer.test", e.path)
	}
	a.refuses(t, firstIP, "unknown.customer.test")
	database.Set(faulttest.Pass)
}

// TestACME_WrongClock: by the clock of a node, a new certificate is not valid yet. The one before is served.
func TestACME_WrongClock(t *testing.T) {
	b := production(t)
	a := newAuthority(t, 30*time.Second)
	s := a.node(t, b, firstIP, clockAhead+"=-10m")
	polltest.Until(t, "the instance has a certificate", func() bool {
		_, err := a.visit(firstIP, ownHost, "/")
		return err == nil
	})
	serial := must.Value(a.visit(firstIP, ownHost, "/"))(t).TLS.PeerCertificates[0].SerialNumber
	polltest.Until(t, "it is to be renewed", func() bool { return a.placed() > 1 })
	time.Sleep(2 * time.Second)
	after := must.Value(a.visit(firstIP, ownHost, "/"))(t).TLS.PeerCertificates[0].SerialNumber
	if said := logged(t, s, saysClock); len(said) == 0 || len(said) > 2 || serial.Cmp(after) != 0 {
		t.Errorf("the certificate %s follows %s; the log says %q", after, serial, said)
	}
}
