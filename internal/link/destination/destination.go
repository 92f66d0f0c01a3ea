// Package destination decides which URLs the instance sends visitors to: none at the instance
// itself, at a verified domain, at a domain that their workspace has added, or at a host that the
// operator has blocked. Packages link, creation, workspace and domain check every URL that members
// set.
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

// Destination is a URL that a workspace sends visitors to. Without a workspace, pending domains do
// not matter.
type Destination struct{ WorkspaceID, URL string }

// Check returns UnsafeURL if visitors may not be sent to the URL, which is accepted by package
// urlnorm.
func (c *Checker) Check(ctx context.Context, conn bun.IDB, d Destination) error {
	refused, err := c.Refused(ctx, conn, d)
	if e := refused[d]; e != nil {
		return e
	}
	return err
}

// CheckFallback is Check for a URL that check.Fallback accepts.
func (c *Checker) CheckFallback(ctx context.Context, conn bun.IDB, d Destination) error {
	d.URL = routing.WithoutPlaceholders(d.URL)
	return c.Check(ctx, conn, d)
}

// Refused returns an UnsafeURL error for each of the URLs that visitors may not be sent to. It
// takes two statements, however many URLs. It skips texts that are no URLs.
func (c *Checker) Refused(
	ctx context.Context, conn bun.IDB, all ...Destination,
) (map[Destination]*errs.Error, error) {
	lookups, refused := c.Lookups(conn, all...)
	for _, l := range lookups {
		if err := l.Run(ctx); err != nil {
			return nil, fmt.Errorf("looking up the hosts of destinations: %w", err)
		}
	}
	return refused(), nil
}

// Lookups returns what Refused looks up, and a function that returns its result afterwards.
func (c *Checker) Lookups(
	conn bun.IDB, all ...Destination,
) (lookups []db.Lookup, refused func() map[Destination]*errs.Error) {
	byHost := map[string][]Destination{}
	for _, d := range all {
		if u, err := urlnorm.Canonical(d.URL); err == nil {
			byHost[u.Host()] = append(byHost[u.Host()], d)
		}
	}
	blocked := func() map[string]bool { return nil }
	if c.Blocklist != nil && len(byHost) > 0 {
		var lookup db.Lookup
		lookup, blocked = c.Blocklist.Blocked(conn, slices.Sorted(maps.Keys(byHost))...)
		lookups = append(lookups, lookup)
	}
	lookup, circular := c.circular(conn, all)
	return append(lookups, lookup), func() map[Destination]*errs.Error {
		refused := map[Destination]*errs.Error{}
		for host := range blocked() {
			for _, d := range byHost[host] {
				refused[d] = errs.New(errs.UnsafeURL,
					"The operator of this service does not allow links to this host.")
			}
		}
		maps.Copy(refused, circular())
		return refused
	}
}
