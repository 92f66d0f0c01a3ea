// Package destination decides which URLs the instance sends visitors to: none at the instance
// itself, at a verified domain, or at a host that the operator has blocked. Packages link,
// creation, workspace and domain check every URL that members set.
package destination

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/urlnorm"
	"github.com/linkforge/linkforge/internal/route/routing"
)

// Checker checks destinations.
type Checker struct {
	DB *db.DB
	// Own are the hosts of the instance.
	Own *OwnHosts
	// Blocklist may be nil.
	Blocklist Blocklist
}

// Blocklist is what this package needs of package moderation.
type Blocklist interface {
	// Blocked returns a lookup, and a function that returns the blocked ones among the hosts after
	// it.
	Blocked(conn bun.IDB, hosts ...string) (db.Lookup, func() map[string]bool)
}

// Check returns UnsafeURL if visitors may not be sent to the URL, which is accepted by package
// urlnorm.
func (c *Checker) Check(ctx context.Context, conn bun.IDB, url string) error {
	refused, err := c.Refused(ctx, conn, url)
	if e := refused[url]; e != nil {
		return e
	}
	return err
}

// CheckFallback is Check for a URL that check.Fallback accepts.
func (c *Checker) CheckFallback(ctx context.Context, conn bun.IDB, url string) error {
	return c.Check(ctx, conn, routing.WithoutPlaceholders(url))
}

// Refused returns an UnsafeURL error for each of the URLs that visitors may not be sent to. It
// takes two statements, however many URLs. It skips texts that are no URLs.
func (c *Checker) Refused(ctx context.Context, conn bun.IDB, urls ...string) (map[string]*errs.Error, error) {
	lookups, refused := c.Lookups(conn, urls...)
	for _, l := range lookups {
		if err := l.Run(ctx); err != nil {
			return nil, fmt.Errorf("looking up the hosts of destinations: %w", err)
		}
	}
	return refused(), nil
}

// Lookups returns what Refused looks up, and a function that returns its result afterwards.
func (c *Checker) Lookups(conn bun.IDB, urls ...string) (lookups []db.Lookup, refused func() map[string]*errs.Error) {
	byHost := map[string][]string{}
	for _, url := range urls {
		if u, err := urlnorm.Canonical(url); err == nil {
			byHost[u.Host()] = append(byHost[u.Host()], url)
		}
	}
	blocked := func() map[string]bool { return nil }
	if c.Blocklist != nil && len(byHost) > 0 {
		var lookup db.Lookup
		lookup, blocked = c.Blocklist.Blocked(conn, slices.Sorted(maps.Keys(byHost))...)
		lookups = append(lookups, lookup)
	}
	lookup, circular := c.circular(conn, urls)
	return append(lookups, lookup), func() map[string]*errs.Error {
		refused := map[string]*errs.Error{}
		for host := range blocked() {
			for _, url := range byHost[host] {
				refused[url] = errs.New(errs.UnsafeURL,
					"The operator of this service does not allow links to this host.")
			}
		}
		for url := range circular() {
			refused[url] = errs.New(errs.UnsafeURL, "The URL must not point to this instance or to a verified domain: "+
				"that would be a redirect loop.")
		}
		return refused
	}
}
