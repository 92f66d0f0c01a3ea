package webhook

import (
	"context"
	"errors"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/linkforge/linkforge/internal/link/destination"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/urlnorm"
)

const (
	// minPort is the smallest port besides 443: smaller ones are those of other protocols.
	minPort = 1024
	// lookupTimeout bounds the look-up of a new URL's host.
	lookupTimeout = 2 * time.Second
	maxURL        = 2048
)

// CheckURL returns the canonical form of a URL that requests may be sent to. It is the one check of
// new URLs, tests and attempts. The address is checked again when it is connected to. A host that
// the workspace has only added as a domain is accepted: deliveries would stop. It returns
// InvalidURL or UnsafeURL.
func (s *Store) CheckURL(ctx context.Context, raw string) (urlnorm.URL, error) {
	u, err := s.parseURL(raw)
	if err != nil {
		return u, err
	}
	if addr, err := netip.ParseAddr(u.Host()); err == nil && !s.allows(addr) {
		return u, errNotPublic()
	}
	return u, errs.At(s.Destinations.Check(ctx, s.DB, destination.Destination{URL: u.String()}), "url")
}

// parseURL returns the canonical form of a URL with the syntax of one that requests may be sent to.
// It returns InvalidURL.
func (s *Store) parseURL(raw string) (urlnorm.URL, error) {
	u, err := urlnorm.Canonical(raw)
	if refused, ok := errors.AsType[*urlnorm.Error](err); ok {
		return u, errs.New(errs.InvalidURL, "%s", refused.Reason).Because(err).At("url")
	}
	if err != nil {
		return u, err
	}
	parsed, err := url.Parse(u.String())
	switch {
	case err != nil || parsed.User != nil || strings.Contains(parsed.Host, "@"):
		return u, errs.New(errs.InvalidURL, "The URL must not have a user name or a password.").At("url")
	case len(urlnorm.Location(raw)) > maxURL:
		return u, errs.New(errs.InvalidURL, "The URL must have at most %d bytes.", maxURL).At("url")
	case parsed.Scheme != "https" && !s.AllowHTTP:
		return u, errs.New(errs.InvalidURL, "The URL must start with https://.").At("url")
	case u.Port() != 443 && u.Port() < minPort:
		return u, errs.New(errs.InvalidURL, "The port of url must be 443 or from %d to 65535.", minPort).At("url")
	}
	return u, nil
}

// checkHost returns UnsafeURL if the host of a new URL has an address that is not public. A host
// without addresses is accepted: its record may follow.
func (s *Store) checkHost(ctx context.Context, u urlnorm.URL) error {
	if s.Lookup == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	addresses, err := s.Lookup(ctx, "ip", u.Host())
	if err != nil {
		return nil
	}
	for _, a := range addresses {
		if !s.allows(a) {
			return errNotPublic()
		}
	}
	return nil
}

// allows judges an address in the form of outbound.Config.Allow.
func (s *Store) allows(a netip.Addr) bool { return s.Allow(a.Unmap().WithZone("")) }

func errNotPublic() error {
	return errs.New(errs.UnsafeURL,
		"The host has an address that is not public. Use a host that the internet can reach.").
		At("url")
}
