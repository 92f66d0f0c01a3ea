package destination

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/urlnorm"
)

// Circular returns those of the URLs that lead to this instance: by a host of its own, or by a
// verified domain of any workspace, at any port.
func (c *Checker) Circular(ctx context.Context, conn bun.IDB, urls ...string) (map[string]bool, error) {
	lookup, circular := c.circular(conn, urls)
	if err := lookup.Run(ctx); err != nil {
		return nil, fmt.Errorf("looking up verified hosts: %w", err)
	}
	return circular(), nil
}

func (c *Checker) circular(conn bun.IDB, urls []string) (lookup db.Lookup, circular func() map[string]bool) {
	found, byHost := map[string]bool{}, map[string][]string{}
	for _, url := range urls {
		u, err := urlnorm.Canonical(url)
		switch {
		case err != nil:
		case c.Own.Serves(u):
			found[url] = true
		default:
			byHost[u.Host()] = append(byHost[u.Host()], url)
		}
	}
	var verified []string
	if len(byHost) > 0 {
		p := c.DB.Params()
		lookup = db.Lookup{Params: p, Dest: &verified, Query: conn.NewSelect().Table("verified_hosts").Column("host").
			Where("host ?", db.Among(p, slices.Sorted(maps.Keys(byHost))))}
	}
	return lookup, func() map[string]bool {
		for _, host := range verified {
			for _, url := range byHost[host] {
				found[url] = true
			}
		}
		return found
	}
}
