package acme

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/caddyserver/certmagic"
	"github.com/mholt/acmez/v3"
	"github.com/mholt/acmez/v3/acme"
	"go.uber.org/zap"

	"github.com/linkforge/linkforge/internal/platform/feed"
)

const (
	// handshakeWait is how long a handshake waits for an order, orderDeadline how long an order may take.
	handshakeWait = 30 * time.Second
	orderDeadline = 3 * time.Minute
	// maxInMemory bounds the certificates in memory, which take about 20 KB each. Others are loaded again.
	maxInMemory = 10_000
	// renewalPaces is the time between two looks for certificates to renew, in paces.
	renewalPaces = 10
)

// Config configures a Manager.
type Config struct {
	Files *Files
	// Directory is the URL of the authority's directory, and Email the contact of the account there.
	Directory, Email string
	// ExternalAccount is an account outside of ACME that the authority requires; nil: none.
	ExternalAccount *acme.EAB
	// Roots verify the server of the authority; nil: the roots of the system.
	Roots *x509.CertPool
	// TLSListen and HTTPListen are the addresses, host:port, that the authority reaches as ports 443 and 80.
	TLSListen, HTTPListen string
	// Hosts are those of the instance, at least one. Their certificates are ordered at once. Clients that name no host
	// get the certificate of the first.
	Hosts []string
	// Admits reports whether a certificate or a challenge of a host may be looked up for a client. It is called for
	// hosts that have no certificate in memory, and bounds the look-ups of unknown hosts.
	Admits func(ctx context.Context, host string, client netip.Addr) (bool, error)
	// MayOrder reports whether the host may have a certificate. It is called before each order.
	MayOrder func(ctx context.Context, host string) (bool, error)
	// Pace is the unit of time between attempts: a minute, except in tests.
	Pace time.Duration
	Log  *slog.Logger
	Now  func() time.Time
}

// Manager is the source of the certificates of a TLS listener. It is safe for concurrent use.
type Manager struct {
	Config
	magic  *certmagic.Config
	cache  *certmagic.Cache
	issuer orders
	// wanted passes the hosts of handshakes to Run, until it has ended.
	wanted chan *flight
	ended  chan struct{}

	mu sync.Mutex
	// flights are loading or ordering a certificate, by host.
	flights map[string]*flight
	// refused has when hosts may be tried again after an error, loaded the hosts with a certificate in memory.
	refused map[string]time.Time
	loaded  map[string]bool
	// logged has when failures were logged, and problems those of orders that are in flight.
	logged   map[failure]time.Time
	problems map[string]acme.Problem
}

// flight loads or orders the certificate of a host, for all handshakes that wait for it.
type flight struct {
	host string
	done chan struct{}
	err  error // once done is closed
}

// New returns a manager. The caller runs it, and closes it at the end.
func New(c Config) *Manager {
	m := &Manager{
		Config: c, wanted: make(chan *flight), ended: make(chan struct{}), flights: map[string]*flight{},
		refused: map[string]time.Time{}, loaded: map[string]bool{}, logged: map[failure]time.Time{},
		problems: map[string]acme.Problem{},
	}
	log := zap.New(bridge{log: c.Log, note: m.noteProblem})
	m.cache = certmagic.NewCache(certmagic.CacheOptions{
		GetConfigForCert:   func(certmagic.Certificate) (*certmagic.Config, error) { return m.magic, nil },
		RenewCheckInterval: renewalPaces * c.Pace, Capacity: maxInMemory, Logger: log,
	})
	m.magic = certmagic.New(m.cache, certmagic.Config{
		Storage: c.Files, Logger: log, DisableStorageCheck: true,
		OCSP: certmagic.OCSPConfig{DisableStapling: true}, // revoked certificates are renewed by ARI (RFC 9773)
	})
	listenHost, tlsPort := splitAddress(c.TLSListen)
	_, httpPort := splitAddress(c.HTTPListen)
	m.issuer = orders{certmagic.NewACMEIssuer(m.magic, certmagic.ACMEIssuer{
		CA: c.Directory, Email: c.Email, Agreed: true, ExternalAccount: c.ExternalAccount, TrustedRoots: c.Roots,
		// CertMagic would listen there if this server did not.
		ListenHost: listenHost, AltTLSALPNPort: tlsPort, AltHTTPPort: httpPort, Logger: log,
	}), m}
	m.magic.Issuers = []certmagic.Issuer{m.issuer}
	return m
}

// splitAddress splits an address that the configuration has checked.
func splitAddress(address string) (host string, port int) {
	host, text, _ := net.SplitHostPort(address)
	port, _ = strconv.Atoi(text)
	return host, port
}

// Close ends the renewals.
func (m *Manager) Close() error {
	m.cache.Stop()
	return nil
}

// TLSConfig returns the configuration of the listener.
func (m *Manager) TLSConfig() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12, NextProtos: []string{acmez.ACMETLS1Protocol}, GetCertificate: m.certificate,
	}
}

var errUnknownHost = errors.New("the host has no certificate here")

// certificate returns the certificate of a handshake. One that is not in memory is loaded or ordered, if the host may
// have one; the handshake waits for it.
func (m *Manager) certificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	host := strings.ToLower(cmp.Or(hello.ServerName, m.Hosts[0]))
	isChallenge := slices.Equal(hello.SupportedProtos, []string{acmez.ACMETLS1Protocol})
	if found := m.inMemory(hello, host); found != nil && !isChallenge {
		return found, nil
	}
	ctx := hello.Context()
	client, _ := netip.ParseAddrPort(hello.Conn.RemoteAddr().String())
	if ok, err := m.Admits(ctx, host, client.Addr()); err != nil || !ok {
		return nil, cmp.Or(err, errUnknownHost)
	}
	if isChallenge {
		return m.magic.GetCertificate(hello)
	}
	ctx, cancel := context.WithTimeout(ctx, handshakeWait)
	defer cancel()
	_ = hello.Conn.SetDeadline(time.Now().Add(handshakeWait + time.Second)) // if it fails, the handshake ends earlier
	if err := m.await(ctx, host); err != nil {
		return nil, err
	}
	if found := m.inMemory(hello, host); found != nil {
		return found, nil
	}
	return nil, errUnknownHost
}

// inMemory returns nil if there is none. Of several, it returns one that is valid now, if any is.
func (m *Manager) inMemory(hello *tls.ClientHelloInfo, host string) *tls.Certificate {
	all := m.cache.AllMatchingCertificates(host)
	if len(all) == 0 {
		return nil
	}
	chosen, err := certmagic.DefaultCertificateSelector(hello, all)
	if err != nil {
		return nil
	}
	return &chosen.Certificate
}

// ServeChallenge answers the requests of the authority that check a host. It reports false for other requests.
func (m *Manager) ServeChallenge(w http.ResponseWriter, r *http.Request, host string, client netip.Addr) bool {
	if !certmagic.LooksLikeHTTPChallenge(r) {
		return false
	}
	ok, err := m.Admits(r.Context(), host, client)
	return err == nil && ok && m.issuer.HandleHTTPChallenge(w, r)
}

// await waits until a host has a certificate in memory, or cannot have one now.
func (m *Manager) await(ctx context.Context, host string) error {
	m.mu.Lock()
	f, isNew := m.flights[host], false
	if f == nil && m.Now().Before(m.refused[host]) {
		m.mu.Unlock()
		return errPaused
	}
	if isNew = f == nil; isNew {
		f = m.begin(host)
	}
	m.mu.Unlock()
	if isNew {
		select {
		case m.wanted <- f:
		case <-m.ended:
			return net.ErrClosed
		}
	}
	select {
	case <-f.done:
		return f.err
	case <-m.ended:
		return net.ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
}

// begin registers a flight. The caller holds mu.
func (m *Manager) begin(host string) *flight {
	f := &flight{host: host, done: make(chan struct{})}
	m.flights[host] = f
	return f
}

// Run orders the certificates of the instance, and of hosts with waiting handshakes, until the context ends. It returns
// once all orders have ended.
func (m *Manager) Run(ctx context.Context) error {
	var flights sync.WaitGroup
	defer flights.Wait()
	defer close(m.ended)
	fly := func(f *flight) { flights.Go(func() { m.fly(ctx, f) }) }
	ticks := time.NewTicker(m.Pace)
	defer ticks.Stop()
	for {
		for _, f := range m.missing() {
			fly(f)
		}
		select {
		case f := <-m.wanted:
			fly(f)
		case <-ticks.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// missing begins flights of the instance's hosts that have no certificate in memory. It forgets refusals that have
// ended.
func (m *Manager) missing() (all []*flight) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.Now()
	for host, until := range m.refused {
		if !now.Before(until) {
			delete(m.refused, host)
		}
	}
	for _, host := range m.Hosts {
		if _, isRefused := m.refused[host]; !isRefused && !m.loaded[host] && m.flights[host] == nil {
			all = append(all, m.begin(host))
		}
	}
	return all
}

// fly ends a flight.
func (m *Manager) fly(ctx context.Context, f *flight) {
	ctx, cancel := context.WithTimeout(ctx, orderDeadline)
	defer cancel()
	f.err = m.obtain(ctx, f.host)
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.flights, f.host)
	if f.err == nil {
		m.loaded[f.host] = true
	} else {
		m.refused[f.host] = m.Now().Add(m.Pace)
	}
	close(f.done)
}

// obtain brings the certificate of a host into memory: from the database, or else from the authority. Certificates in
// memory are renewed in time by CertMagic; one that has expired is renewed here.
func (m *Manager) obtain(ctx context.Context, host string) error {
	found, err := m.magic.CacheManagedCertificate(ctx, host)
	switch {
	case err == nil && !found.Expired():
		return nil
	case err == nil:
		err = m.magic.RenewCertSync(ctx, host, false)
	case errors.Is(err, fs.ErrNotExist):
		err = m.magic.ObtainCertSync(ctx, host)
	}
	if err == nil {
		_, err = m.magic.CacheManagedCertificate(ctx, host)
	}
	if err != nil && !errors.Is(ctx.Err(), context.Canceled) {
		m.logFailure(ctx, host, err)
	}
	return err
}

// Follow forgets the certificates of domains that have changed: the next handshake asks whether the host may have one.
func (m *Manager) Follow(_ context.Context, n feed.News) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for host := range m.loaded {
		if n.IsGap && !slices.Contains(m.Hosts, host) {
			m.forget(host)
		}
	}
	for _, subject := range n.Subjects {
		if host, isHost := strings.CutPrefix(subject, "@"); isHost {
			m.forget(host)
		}
	}
}

// forget removes a host from memory. The caller holds mu.
func (m *Manager) forget(host string) {
	delete(m.refused, host)
	if m.loaded[host] {
		delete(m.loaded, host)
		m.cache.RemoveManaged([]certmagic.SubjectIssuer{{Subject: host}})
	}
}

// End returns the end of the certificate in memory that ends first; the zero time without one. Domains whose renewal
// fails because they lead elsewhere do not count, nor do those whose certificate has ended.
func (m *Manager) End() (end time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.Now()
	for host := range m.loaded {
		isOwn := slices.Contains(m.Hosts, host)
		if _, failed := m.logged[failure{ofHost, host}]; failed && !isOwn {
			continue
		}
		var ends time.Time // the last of the host
		for _, c := range m.cache.AllMatchingCertificates(host) {
			if c.Leaf.NotAfter.After(ends) {
				ends = c.Leaf.NotAfter
			}
		}
		if !ends.IsZero() && (isOwn || now.Before(ends)) && (end.IsZero() || ends.Before(end)) {
			end = ends
		}
	}
	return end
}
