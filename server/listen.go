package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/pires/go-proxyproto"

	"github.com/linkforge/linkforge/internal/platform/config"
	"github.com/linkforge/linkforge/internal/platform/poll"
	"github.com/linkforge/linkforge/internal/platform/web"
)

// proxyHeaderDeadline is how long a proxy may take to say whom it speaks for.
const proxyHeaderDeadline = 5 * time.Second

// listen listens at the address of a setting: behind proxies that speak the PROXY protocol, if there
// are any.
func listen(c config.Config, setting, address string) (net.Listener, error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, errListen(setting, address, err)
	}
	if !c.ProxyProtocol {
		return listener, nil
	}
	return &proxyproto.Listener{
		Listener: listener, ReadHeaderTimeout: proxyHeaderDeadline,
		ConnPolicy: func(from proxyproto.ConnPolicyOptions) (proxyproto.Policy, error) {
			return policyFor(web.Proxies(c.TrustedProxies), from.Upstream), nil
		},
	}, nil
}

// errListen names the setting of an address that cannot be listened on, and the remedy.
func errListen(setting, address string, err error) error {
	remedy := "set another address"
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		remedy = "another program listens there: stop it, or set another port, as in " + setting + "=:8081"
	case errors.Is(err, syscall.EACCES):
		remedy = "the port is reserved for privileged users: set one above 1023, as in " + setting + "=:8080"
	}
	return fmt.Errorf("%s: cannot listen on %s; %s (%w)", setting, address, remedy, err)
}

// policyFor requires the PROXY header of trusted proxies, and refuses all other connections.
func policyFor(proxies web.Proxies, from net.Addr) proxyproto.Policy {
	addr, err := netip.ParseAddrPort(from.String())
	if err == nil && proxies.Trusts(addr.Addr()) {
		return proxyproto.REQUIRE
	}
	return proxyproto.REJECT
}

// certificateSource is where the TLS listener has its certificates from: files, or an authority.
type certificateSource interface {
	// TLSConfig returns the configuration of the listener.
	TLSConfig() *tls.Config
	// Run keeps the certificates current until the context ends.
	Run(ctx context.Context) error
	// End returns the end of the certificate that ends first; the zero time without one.
	End() time.Time
}

// certificateFile is the server's certificate from two files, which are read again when they change, so
// that a renewal needs no restart.
type certificateFile struct {
	certificateFile, keyFile string

	files   *poll.Files
	log     *slog.Logger
	current atomic.Pointer[tls.Certificate]
}

// certificateInterval is how often the files are looked at.
const certificateInterval = 10 * time.Second

func openCertificate(certificate, key string, log *slog.Logger) (*certificateFile, error) {
	c := &certificateFile{
		certificateFile: certificate, keyFile: key, log: log,
		files: poll.NewFiles(true, certificate, key), // files that are missing are being replaced
	}
	if err := c.load(); err != nil {
		return nil, fmt.Errorf("LINKFORGE_TLS_CERTIFICATE and LINKFORGE_TLS_KEY: %w", err)
	}
	return c, nil
}

func (c *certificateFile) load() error {
	pair, err := tls.LoadX509KeyPair(c.certificateFile, c.keyFile)
	if err != nil {
		return err
	}
	c.current.Store(&pair)
	return nil
}

// Run reads the files again when they have changed. What cannot be used is logged, and the certificate
// before stays.
func (c *certificateFile) Run(ctx context.Context) error {
	c.files.Watch(ctx, certificateInterval, func(ctx context.Context) {
		if err := c.load(); err != nil {
			c.log.ErrorContext(ctx, "the TLS certificate is not replaced", "error", err)
			return
		}
		c.log.InfoContext(ctx, "the TLS certificate was replaced", "until", c.End().UTC())
	})
	return nil
}

// End implements certificateSource.
func (c *certificateFile) End() time.Time { return c.current.Load().Leaf.NotAfter }

// TLSConfig implements certificateSource.
func (c *certificateFile) TLSConfig() *tls.Config {
	return &tls.Config{
		MinVersion:     tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.current.Load(), nil },
	}
}
