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
	"github.com/linkforge/linkforge/internal/routing"
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
	// Allowed adds to a statement what must hold so that none of the hosts is blocked, and returns the condition. It
	// reports false if one is.
	Allowed(statement *db.Combined, hosts ...string) (condition string, possible bool)
}

// Check returns UnsafeURL if visitors may not be sent to the URL, which is accepted by package urlnorm.
func (c *Checker) Check(ctx context.Context, conn bun.IDB, url string) error {
	refused, err := c.Refused(ctx, conn, url)
	if e := refused[url]; e != nil {
		return e
	}
	return err
}

// CheckFallback validates a URL with placeholders, to which visitors without a destination are sent. It
// returns InvalidURL or UnsafeURL.
func (c *Checker) CheckFallback(ctx context.Context, conn bun.IDB, url string) error {
	if err := routing.CheckFallback(url); err != nil {
		return err
	}
	return c.Check(ctx, conn, routing.WithoutPlaceholders(url))
}

// Refused returns an UnsafeURL error for each of the URLs that visitors may not be sent to. It takes two
// statements, however many URLs. It skips texts that are no URLs.
func (c *Checker) Refused(ctx context.Context, conn bun.IDB, urls ...string) (map[string]*errs.Error, error) {
	refused := map[string]*errs.Error{}
	blocked, err := c.blocked(ctx, conn, urls)
	if err != nil {
		return nil, err
	}
	for _, url := range blocked {
		refused[url] = errs.New(errs.UnsafeURL, "The operator of this service does not allow links to this host.")
	}
	circular, err := c.Circular(ctx, conn, urls...)
	for url := range circular {
		refused[url] = errs.New(errs.UnsafeURL, "The URL must not point to this instance or to a verified domain: "+
			"that would be a redirect loop.")
	}
	return refused, err
}

// Allowed adds to a statement what must hold so that Refused is empty for the URLs, and returns the condition. It
// reports false if that is known not to hold.
func (c *Checker) Allowed(statement *db.Combined, urls ...string) (condition string, possible bool) {
	var hosts []string
	for _, url := range urls {
		u, err := urlnorm.Canonical(url)
		if err != nil || c.Own.Serves(u) {
			return "", false
		}
		hosts = append(hosts, u.Host())
	}
	condition = fmt.Sprintf("NOT EXISTS (SELECT FROM verified_hosts WHERE host = ANY(%s))", statement.Of(hosts))
	if c.Blocklist == nil {
		return condition, true
	}
	listed, possible := c.Blocklist.Allowed(statement, hosts...)
	return condition + " AND " + listed, possible
}

// blocked returns those of the URLs whose hosts the operator has blocked.
func (c *Checker) blocked(ctx context.Context, conn bun.IDB, urls []string) (blocked []string, err error) {
	byHost := map[string][]string{}
	for _, url := range urls {
		if u, err := urlnorm.Canonical(url); err == nil {
			byHost[u.Host()] = append(byHost[u.Host()], url)
		}
	}
	if c.Blocklist == nil || len(byHost) == 0 {
		return nil, nil
	}
	hosts, err := c.Blocklist.Blocked(ctx, conn, slices.Sorted(maps.Keys(byHost))...)
	for host := range hosts {
		blocked = append(blocked, byHost[host]...)
	}
	return blocked, err
}

// Circular returns those of the URLs that lead to this instance: by a host of its own, or by a verified
// domain of any workspace, at any port.
func (c *Checker) Circular(ctx context.Context, conn bun.IDB, urls ...string) (map[string]bool, error) {
	circular, byHost := map[string]bool{}, map[string][]string{}
	for _, url := range urls {
		u, err := urlnorm.Canonical(url)
		switch {
		case err != nil:
		case c.Own.Serves(u):
			circular[url] = true
		default:
			byHost[u.Host()] = append(byHost[u.Host()], url)
		}
	}
	if len(byHost) == 0 {
		return circular, nil
	}
	var verified []string
	p := c.DB.Params()
	err := conn.NewSelect().Table("verified_hosts").Column("host").
		Where("host ?", db.Among(p, slices.Sorted(maps.Keys(byHost)))).Scan(p.Bind(ctx), &verified)
	if err != nil {
		return nil, fmt.Errorf("looking up verified hosts: %w", err)
	}
	for _, host := range verified {
		for _, url := range byHost[host] {
			circular[url] = true
		}
	}
	return circular, nil
}
