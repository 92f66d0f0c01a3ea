package main

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"time"

	acmeclient "github.com/mholt/acmez/v3/acme"

	"github.com/linkforge/linkforge/internal/platform/acme"
	"github.com/linkforge/linkforge/internal/platform/web"
	"github.com/linkforge/linkforge/internal/tenant/domain"
)

// This file is LINKFORGE_TLS=auto: certificates from an authority, and the port of HTTP.

// certificatePace is the unit of time between attempts to order certificates. Tests of this package
// shorten it.
var certificatePace = time.Minute

// openAuthority makes an authority the source of certificates.
func (a *app) openAuthority() error {
	c, hosts := a.config.ACME, a.config.CertifiedHosts()
	settings := acme.Config{
		Files: a.Certificates, Directory: c.Directory, Email: c.Email, TLSListen: a.config.Listen,
		HTTPListen: c.HTTPListen, Hosts: hosts, Pace: certificatePace, Log: a.log, Now: a.now,
		Admits: func(ctx context.Context, host string, client netip.Addr) (bool, error) {
			if slices.Contains(hosts, host) {
				return true, nil
			}
			return a.servesDomain(ctx, host, client)
		},
		MayOrder: func(ctx context.Context, host string) (bool, error) {
			may, err := a.MayHaveCertificate(ctx, []string{host})
			return may[host], err
		},
	}
	if c.KeyID != "" {
		settings.ExternalAccount = &acmeclient.EAB{KeyID: c.KeyID, MACKey: c.Key}
	}
	if c.Roots != "" {
		content, err := os.ReadFile(c.Roots)
		settings.Roots = x509.NewCertPool()
		if err == nil && !settings.Roots.AppendCertsFromPEM(content) {
			err = errors.New("the file has no certificate in PEM")
		}
		if err != nil {
			return fmt.Errorf("LINKFORGE_ACME_CA: %w", err)
		}
	}
	a.authority = acme.New(settings)
	a.certificates, a.opened = a.authority, append(a.opened, a.authority.Close)
	a.Feed.Subscribe(a.authority.Follow)
	return nil
}

// servesDomain reports whether a host is a verified domain, from memory if possible. A network that
// connects to unknown hosts is limited like one that guesses codes.
func (a *app) servesDomain(ctx context.Context, host string, client netip.Addr) (bool, error) {
	if canonical, err := domain.CanonicalHost(host); err != nil || canonical != host {
		return false, nil
	}
	unknownHost := a.redirects.UnknownCodes.Admission(client, a.now())
	_, ok, err := a.Links.Resolver.Host(ctx, host, a.now(), unknownHost.Admit)
	if ok {
		unknownHost.Release()
	}
	return ok, err
}

// runCertificates keeps the certificates current, if there are any.
func (a *app) runCertificates(ctx context.Context) error {
	if a.certificates == nil {
		return nil
	}
	return a.certificates.Run(ctx)
}

// runHTTP answers at LINKFORGE_HTTP_LISTEN, with LINKFORGE_TLS=auto, until the context ends.
func (a *app) runHTTP(ctx context.Context) error {
	if a.authority == nil {
		return nil
	}
	listener, err := listen(a.config, "LINKFORGE_HTTP_LISTEN", a.config.ACME.HTTPListen)
	if err != nil {
		return err
	}
	return serveUntil(ctx, a.newServer(a.httpRoutes()), listener, "serving HTTP")
}

// httpRoutes answers without TLS: checks of hosts by the authority, health checks, which must work
// before there is a certificate, and redirects of all else to HTTPS.
func (a *app) httpRoutes() http.Handler {
	public, err := url.Parse(a.config.PublicURL)
	if err != nil { // the configuration has checked it
		panic(err)
	}
	probes := http.NewServeMux()
	probes.HandleFunc("GET /livez", a.live)
	probes.HandleFunc("GET /readyz", a.ready)
	probes.HandleFunc("GET /readyz/redis", a.readyWithRedis)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host := web.Host(r)
		if a.authority.ServeChallenge(w, r, host, web.Peer(r)) {
			return
		}
		if _, pattern := probes.Handler(r); pattern != "" && a.config.IsOwnHost(host) {
			probes.ServeHTTP(w, r)
			return
		}
		redirectToHTTPS(w, r, host, public)
	})
}

// redirectToHTTPS redirects to the same URL, or to the public host if the host can have no certificate.
func redirectToHTTPS(w http.ResponseWriter, r *http.Request, host string, public *url.URL) {
	to, status := *r.URL, http.StatusMovedPermanently
	to.Scheme, to.User, to.Host = "https", nil, public.Host
	if _, err := domain.CanonicalHost(host); err == nil {
		to.Host = host
		if port := public.Port(); port != "" {
			to.Host = net.JoinHostPort(host, port)
		}
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		status = http.StatusPermanentRedirect
	}
	http.Redirect(w, r, to.String(), status)
}
