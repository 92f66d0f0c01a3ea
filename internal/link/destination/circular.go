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
)

// Circular returns those of the URLs that lead to this instance: by a host of its own, or by a
// verified domain of any workspace, at any port.
func (c *Checker) Circular(ctx context.Context, conn bun.IDB, urls ...string) (map[string]bool, error) {
	all := make([]Destination, 0, len(urls))
	for _, url := range urls {
		all = append(all, Destination{URL: url})
	}
	lookup, circular := c.circular(conn, all)
	if err := lookup.Run(ctx); err != nil {
		return nil, fmt.Errorf("looking up verified hosts: %w", err)
	}
	found := map[string]bool{}
	for d := range circular() {
		found[d.URL] = true
	}
	return found, nil
}

// claim is a host that a workspace has added, or, without a workspace, one that is verified.
type claim struct{ Host, WorkspaceID string }

// circular returns a lookup, and a function that returns, after it, the errors of those of the
// destinations that lead to this instance, or will once a domain of their workspace is verified.
func (c *Checker) circular(
	conn bun.IDB, all []Destination,
) (lookup db.Lookup, circular func() map[Destination]*errs.Error) {
	found, byHost, workspaces := map[Destination]*errs.Error{}, map[string][]Destination{}, map[string]bool{}
	for _, d := range all {
		u, err := urlnorm.Canonical(d.URL)
		switch {
		case err != nil:
		case c.Own.Serves(u):
			found[d] = errCircular()
		default:
			byHost[u.Host()] = append(byHost[u.Host()], d)
			workspaces[d.WorkspaceID] = true
		}
	}
	delete(workspaces, "")
	var claims []claim
	if len(byHost) > 0 {
		lookup = c.claims(conn, slices.Sorted(maps.Keys(byHost)), slices.Sorted(maps.Keys(workspaces)), &claims)
	}
	return lookup, func() map[Destination]*errs.Error {
		for _, one := range claims {
			for _, d := range byHost[one.Host] {
				switch {
				case one.WorkspaceID == "":
					found[d] = errCircular()
				case one.WorkspaceID == d.WorkspaceID && found[d] == nil:
					found[d] = errPending(one.Host)
				}
			}
		}
		return found
	}
}

// claims looks up which of the hosts are verified, and which ones each of the workspaces has added.
// A mere claim of another workspace has no effect: anyone can add any host.
func (c *Checker) claims(conn bun.IDB, hosts, workspaceIDs []string, dest *[]claim) db.Lookup {
	p := c.DB.Params()
	q := conn.NewSelect().Table("verified_hosts").ColumnExpr("host, '' AS workspace_id").
		Where("host ?", db.Among(p, hosts))
	if len(workspaceIDs) > 0 {
		q = q.UnionAll(conn.NewSelect().Table("domains").Column("host", "workspace_id").
			Where("workspace_id ?", db.Among(p, workspaceIDs)).Where("host ?", db.Among(p, hosts)))
	}
	return db.Lookup{Params: p, Dest: dest, Query: q}
}

func errCircular() *errs.Error {
	return errs.New(errs.UnsafeURL,
		"The URL must not point to this instance or to a verified domain: that would be a redirect loop.")
}

func errPending(host string) *errs.Error {
	return errs.New(errs.UnsafeURL, "The URL must not point to %s, a domain of this workspace: that would be a "+
		"redirect loop once it is verified. Use another URL, or remove the domain.", host)
}
