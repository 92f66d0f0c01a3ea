package link

import (
	"context"
	"maps"
	"slices"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/errs"
	"github.com/linkforge/linkforge/internal/urlnorm"
)

// refused returns an UnsafeURL error for each of the links that may not redirect to its URL:
// because the URL is at this instance or a verified domain, or because the operator has blocked its
// host. Every operation that creates, edits, restores or claims links calls it for those whose URL
// is new or becomes effective. It takes two statements, however many links.
func (s *Store) refused(ctx context.Context, conn bun.IDB, links []*Link) (map[*Link]*errs.Error, error) {
	refused, byHost, tenantHosts := map[*Link]*errs.Error{}, map[string][]*Link{}, map[string][]*Link{}
	for _, l := range links {
		u, err := urlnorm.Canonical(l.CanonicalURL)
		if err != nil { // purged
			continue
		}
		byHost[u.Host()] = append(byHost[u.Host()], l)
		switch {
		case s.Own.Serves(u):
			refused[l] = errLoop()
		case s.Own.ServesDomainsAt(u.Port()):
			tenantHosts[u.Host()] = append(tenantHosts[u.Host()], l)
		}
	}
	if s.Blocklist != nil && len(byHost) > 0 {
		blocked, err := s.Blocklist.Blocked(ctx, conn, slices.Sorted(maps.Keys(byHost))...)
		if err != nil {
			return nil, err
		}
		for host := range blocked {
			for _, l := range byHost[host] {
				if refused[l] == nil {
					refused[l] = errs.New(errs.UnsafeURL, "The operator of this service does not allow links to this host.")
				}
			}
		}
	}
	if len(tenantHosts) == 0 {
		return refused, nil
	}
	verified, err := s.Domains.VerifiedHosts(ctx, conn, slices.Sorted(maps.Keys(tenantHosts))...)
	for host := range verified {
		for _, l := range tenantHosts[host] {
			refused[l] = errLoop()
		}
	}
	return refused, err
}

// refuse is refused for one link.
func (s *Store) refuse(ctx context.Context, conn bun.IDB, l *Link) error {
	refused, err := s.refused(ctx, conn, []*Link{l})
	if e := refused[l]; e != nil {
		return e
	}
	return err
}

// Host returns the host of the destination; empty for a purged link.
func (l *Link) Host() string {
	u, err := urlnorm.Canonical(l.CanonicalURL)
	if err != nil {
		return ""
	}
	return u.Host()
}

func errLoop() *errs.Error {
	return errs.New(errs.UnsafeURL, "A short URL cannot lead to this service itself: it would go in circles.")
}
