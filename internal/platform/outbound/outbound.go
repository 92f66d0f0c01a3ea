// Package outbound provides an HTTP client for URLs of users. It connects to public addresses only,
// after DNS and after redirects (SSRF protection). It does not bound bodies. probe and webhook use
// it.
package outbound

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"syscall"
	"time"
)

const (
	// timeout bounds a request with redirects and body, connectTimeout DNS and the connection.
	timeout          = 10 * time.Second
	connectTimeout   = 5 * time.Second
	handshakeTimeout = 5 * time.Second
	maxRedirects     = 5
	// maxHeaderBytes bounds the response header.
	maxHeaderBytes = 64 << 10
)

var (
	// ErrRefused is the error of a connection to an address that is not public.
	ErrRefused = errors.New("the address is not public")
	// ErrRedirects is the error of a destination that redirects too often.
	ErrRedirects = errors.New("too many redirects")
)

// Config configures a client.
type Config struct {
	UserAgent string
	// Resolver is optional.
	Resolver *net.Resolver
	// Allow reports whether an address may be connected to; nil selects Public. IPv4-mapped
	// addresses arrive as IPv4, and none has a zone.
	Allow func(netip.Addr) bool
	// Timeout bounds a request with redirects and body; zero selects 10 seconds.
	Timeout time.Duration
	// NoRedirects returns a redirect as the response.
	NoRedirects bool
	// MaxHeaderBytes bounds the response header; zero selects 64 KiB.
	MaxHeaderBytes int64
}

// NewClient returns a client for http and https. Its errors wrap ErrRefused or ErrRedirects, or are
// those of every http.Client. It uses no proxy, cookies, Referer or keep-alive.
func NewClient(c Config) *http.Client {
	allow := c.Allow
	if allow == nil {
		allow = Public
	}
	redirect := checkRedirect
	if c.NoRedirects {
		redirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	}
	dialer := &net.Dialer{Timeout: connectTimeout, Resolver: c.Resolver, ControlContext: guard(allow)}
	return &http.Client{
		Timeout:       cmp.Or(c.Timeout, timeout),
		CheckRedirect: redirect,
		Transport: &agent{name: c.UserAgent, transport: &http.Transport{
			Proxy:                  nil, // a proxy would choose the address
			DialContext:            dialer.DialContext,
			DisableKeepAlives:      true,
			DisableCompression:     true, // callers bound the bytes that they read
			TLSHandshakeTimeout:    handshakeTimeout,
			MaxResponseHeaderBytes: cmp.Or(c.MaxHeaderBytes, maxHeaderBytes),
		}},
	}
}

// guard checks the address of a socket right before it connects. A check of an earlier DNS response
// could differ from the one used (DNS rebinding).
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

// checkRedirect implements http.Client.CheckRedirect.
func checkRedirect(r *http.Request, via []*http.Request) error {
	if len(via) > maxRedirects {
		return ErrRedirects
	}
	r.URL.User = nil // no credentials from a redirect
	return nil
}

// agent sends every request, also after redirects, with one User-Agent and without Referer.
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

// RetryAfter returns how long a response asks to wait (RFC 9110, section 10.2.3): seconds or until
// a date, which may be past. A response that does not say returns absent. The caller bounds the
// wait.
func RetryAfter(r *http.Response, now time.Time, absent time.Duration) time.Duration {
	wish := r.Header.Get("Retry-After")
	if seconds, err := strconv.ParseUint(wish, 10, 31); err == nil {
		return time.Duration(seconds) * time.Second
	}
	if at, err := http.ParseTime(wish); err == nil {
		return at.Sub(now)
	}
	return absent
}
