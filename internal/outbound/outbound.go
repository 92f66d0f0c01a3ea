// Package outbound makes the HTTP client for addresses that strangers have chosen. Whatever a name
// resolves to, and wherever a redirect leads, it connects to public addresses only: nobody can have
// the server ask its own network.
package outbound

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"syscall"
	"time"
)

const (
	// timeout bounds a request with its redirects and its body, connectTimeout the look-up of the name
	// and the connection, handshakeTimeout TLS.
	timeout          = 10 * time.Second
	connectTimeout   = 5 * time.Second
	handshakeTimeout = 5 * time.Second
	// maxRedirects is how many redirects are followed.
	maxRedirects = 5
	// maxHeaderBytes bounds an answer's header. The body is the caller's to bound.
	maxHeaderBytes = 64 << 10
)

var (
	// ErrRefused is the error of a connection to an address that is not public.
	ErrRefused = errors.New("the address is not public")
	// ErrRedirects is the error of a destination that redirects too often.
	ErrRedirects = errors.New("too many redirects")
)

// Config is what a client needs.
type Config struct {
	// UserAgent is the name that the client goes by.
	UserAgent string
	// Resolver looks names up; nil means the system's.
	Resolver *net.Resolver
	// Allow says which addresses may be connected to; nil means Public. An IPv4 address that comes in
	// the form of an IPv6 one reaches it as IPv4, and none has a zone.
	Allow func(netip.Addr) bool
	// Timeout bounds a request with its redirects and its body; zero means 10 seconds.
	Timeout time.Duration
}

// NewClient makes a client for http and https. Its requests fail with ErrRefused or ErrRedirects in
// the error's chain, or as those of every http.Client do. It uses no proxy, sends neither cookies
// nor Referer, and keeps no connection.
func NewClient(c Config) *http.Client {
	allow := c.Allow
	if allow == nil {
		allow = Public
	}
	dialer := &net.Dialer{Timeout: connectTimeout, Resolver: c.Resolver, ControlContext: guard(allow)}
	return &http.Client{
		Timeout:       cmp.Or(c.Timeout, timeout),
		CheckRedirect: checkRedirect,
		Transport: &agent{name: c.UserAgent, transport: &http.Transport{
			Proxy:                  nil, // a proxy would connect for us, to whatever it likes
			DialContext:            dialer.DialContext,
			DisableKeepAlives:      true,
			DisableCompression:     true, // what is bounded must not unpack to more
			TLSHandshakeTimeout:    handshakeTimeout,
			MaxResponseHeaderBytes: maxHeaderBytes,
		}},
	}
}

// guard refuses addresses at the last moment, when the name has been looked up and the socket is
// about to connect: a name that is looked up to be judged may lead elsewhere when it is looked up
// to be connected to (DNS rebinding).
func guard(allow func(netip.Addr) bool) func(context.Context, string, string, syscall.RawConn) error {
	return func(_ context.Context, _, address string, _ syscall.RawConn) error {
		target, err := netip.ParseAddrPort(address)
		if err != nil {
			return fmt.Errorf("%w: %w", ErrRefused, err) // what cannot be judged is not let through
		}
		if !allow(plain(target.Addr())) {
			return ErrRefused
		}
		return nil
	}
}

// checkRedirect implements http.Client.CheckRedirect. The transport knows no schemes but http and
// https.
func checkRedirect(r *http.Request, via []*http.Request) error {
	if len(via) > maxRedirects {
		return ErrRedirects
	}
	r.URL.User = nil // nobody has the server log in
	return nil
}

// agent sends every request, those after a redirect too, under one name and without a Referer.
type agent struct {
	name      string
	transport http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (a *agent) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("User-Agent", a.name)
	r.Header.Del("Referer")
	return a.transport.RoundTrip(r)
}
