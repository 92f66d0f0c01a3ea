// Package destination decides which URLs the instance sends visitors to: none at the instance itself,
// at a verified domain, or at a host that the operator has blocked. Packages link, workspace and domain
// check every URL that members set.
package destination

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/errs"
	"github.com/linkforge/linkforge/internal/ownhost"
	"github.com/linkforge/linkforge/internal/urlnorm"
)

// Checker checks destinations.
type Checker struct {
	DB *db.DB
	// Own are the hosts of the instance.
	Own *ownhost.Hosts
	// Blocklist may be nil.
	Blocklist Blocklist
}

// Blocklist is what this package needs of package moderation.
type Blocklist interface {
	// Blocked returns the blocked ones among the hosts.
	Blocked(ctx context.Context, conn bun.IDB, hosts ...string) (map[string]bool, error)
}

// Check returns UnsafeURL if visitors may not be sent to the URL, which is accepted by package urlnorm.
func (c *Checker) Check(ctx context.Context, conn bun.IDB, url string) error {
	refused, err := c.Refused(ctx, conn, url)
	if e := refused[url]; e != nil {
		return e
	}
	return err
}

// Refused returns an UnsafeURL error for each of the URLs that visitors may not be sent to. It takes two
// statements, however many URLs. It skips texts that are no URLs.
func (c *Checker) Refused(ctx context.Context, conn bun.IDB, urls ...string) (map[string]*errs.Error, error) {
	refused, byHost, tenantHosts := map[string]*errs.Error{}, map[string][]string{}, map[string][]string{}
	for _, url := range urls {
		u, err := urlnorm.Canonical(url)
		if err != nil {
			continue
		}
		byHost[u.Host()] = append(byHost[u.Host()], url)
		switch {
		case c.Own.Serves(u):
			refused[url] = errLoop()
		case c.Own.ServesDomainsAt(u.Port()):
			tenantHosts[u.Host()] = append(tenantHosts[u.Host()], url)
		}
	}
	if c.Blocklist != nil && len(byHost) > 0 {
		blocked, err := c.Blocklist.Blocked(ctx, conn, slices.Sorted(maps.Keys(byHost))...)
		if err != nil {
			return nil, err
		}
		for host := range blocked {
			for _, url := range byHost[host] {
				if refused[url] == nil {
					refused[url] = errs.New(errs.UnsafeURL, "The operator of this service does not allow links to this host.")
				}
			}
		}
	}
	if len(tenantHosts) == 0 {
		return refused, nil
	}
	verified, err := c.verified(ctx, conn, slices.Sorted(maps.Keys(tenantHosts)))
	for _, host := range verified {
		for _, url := range tenantHosts[host] {
			refused[url] = errLoop()
		}
	}
	return refused, err
}

// verified returns which of the hosts are verified domains of any workspace.
func (c *Checker) verified(ctx context.Context, conn bun.IDB, hosts []string) (verified []string, err error) {
	p := c.DB.Params()
	err = conn.NewSelect().Table("verified_hosts").Column("host").Where("host ?", db.Among(p, hosts)).
		Scan(p.Bind(ctx), &verified)
	if err != nil {
		return nil, fmt.Errorf("looking up verified hosts: %w", err)
	}
	return verified, nil
}

func errLoop() *errs.Error {
	return errs.New(errs.UnsafeURL, "A short URL cannot lead to this service itself: it would go in circles.")
}
