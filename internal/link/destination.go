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
// because the URL leads to this instance or to a verified domain, or because the operator has
// blocked its host. Every operation that creates, edits, restores or claims links calls it for
// those whose URL is new or becomes effective. It takes two statements, however many links.
func (s *Store) refused(ctx context.Context, conn bun.IDB, links []*Link) (map[*Link]*errs.Error, error) {
	found := map[*Link]*errs.Error{}
	blocked, err := s.blocked(ctx, conn, links)
	if err != nil {
		return nil, err
	}
	for _, l := range blocked {
		found[l] = errs.New(errs.UnsafeURL, "The operator of this service does not allow links to this host.")
	}
	own, err := s.leadingHere(ctx, conn, links)
	if err != nil {
		return nil, err
	}
	for _, l := range own {
		found[l] = errs.New(errs.UnsafeURL, "A short URL cannot lead to this service itself: it would go in circles.")
	}
	return found, nil
}

// refuse is refused for one link.
func (s *Store) refuse(ctx context.Context, conn bun.IDB, l *Link) error {
	refused, err := s.refused(ctx, conn, []*Link{l})
	if e := refused[l]; e != nil {
		return e
	}
	return err
}

// leadingHere returns the links that lead to this instance: to its own hosts, or to a workspace's
// verified domain.
func (s *Store) leadingHere(ctx context.Context, conn bun.IDB, links []*Link) (own []*Link, err error) {
	byHost := map[string][]*Link{}
	var hosts []string
	for _, l := range links {
		u, err := urlnorm.Canonical(l.CanonicalURL)
		switch {
		case err != nil: // purged
		case s.Own.Serves(u):
			own = append(own, l)
		case s.Own.ServesDomainsAt(u.Port()):
			if byHost[u.Host()] == nil {
				hosts = append(hosts, u.Host())
			}
			byHost[u.Host()] = append(byHost[u.Host()], l)
		}
	}
	if len(hosts) == 0 {
		return own, nil
	}
	slices.Sort(hosts)
	verified, err := s.Domains.VerifiedHosts(ctx, conn, hosts...)
	for host := range verified {
		own = append(own, byHost[host]...)
	}
	return own, err
}

// blocked returns the links to hosts that the operator has blocked, in one statement.
func (s *Store) blocked(ctx context.Context, conn bun.IDB, links []*Link) (found []*Link, err error) {
	byHost := map[string][]*Link{}
	for _, l := range links {
		if host := l.Host(); host != "" {
			byHost[host] = append(byHost[host], l)
		}
	}
	if s.Blocklist == nil || len(byHost) == 0 {
		return nil, nil
	}
	blocked, err := s.Blocklist.Blocked(ctx, conn, slices.Collect(maps.Keys(byHost))...)
	for host := range blocked {
		found = append(found, byHost[host]...)
	}
	return found, err
}

// Host returns the host of the destination; empty for a purged link.
func (l *Link) Host() string {
	u, err := urlnorm.Canonical(l.CanonicalURL)
	if err != nil {
		return ""
	}
	return u.Host()
}
