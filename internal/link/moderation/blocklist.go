package moderation

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/urlnorm"
	"github.com/linkforge/linkforge/internal/platform/validate"
)

// BlockedHost is a host that new links must not redirect to, nor to its subdomains.
type BlockedHost struct {
	bun.BaseModel `bun:"table:blocked_hosts"`

	// Host is in canonical form.
	Host      string `bun:",pk"`
	Reason    string
	CreatedAt time.Time
}

// Blocklist holds the blocked hosts.
type Blocklist struct {
	DB  *db.DB
	Now func() time.Time
}

// Blocked returns a lookup, and a function that returns those of the hosts that are blocked, or
// below a blocked host, after it.
func (b *Blocklist) Blocked(conn bun.IDB, hosts ...string) (lookup db.Lookup, blocked func() map[string]bool) {
	below := map[string][]string{} // the given hosts by themselves and their parents
	for _, host := range hosts {
		for _, parent := range hostAndParents(host) {
			below[parent] = append(below[parent], host)
		}
	}
	var listed []string
	if len(below) > 0 {
		p := b.DB.Params()
		lookup = db.Lookup{Params: p, Dest: &listed, Query: conn.NewSelect().Model((*BlockedHost)(nil)).Column("host").
			Where("host ?", db.Among(p, slices.Collect(maps.Keys(below))))}
	}
	return lookup, func() map[string]bool {
		blocked := map[string]bool{}
		for _, parent := range listed {
			for _, host := range below[parent] {
				blocked[host] = true
			}
		}
		return blocked
	}
}

// Block adds a host to the list. Blocking it again changes the reason. Existing links continue to
// redirect, see Store.DisableHost. It returns InvalidInput.
func (b *Blocklist) Block(ctx context.Context, host, reason string) (*BlockedHost, error) {
	host, err := canonicalHost(host)
	if err != nil {
		return nil, err
	}
	if reason, err = validate.Line("The reason", reason, 0, 200); err != nil {
		return nil, err
	}
	blocked := &BlockedHost{Host: host, Reason: reason, CreatedAt: db.Instant(b.Now())}
	_, err = b.DB.NewInsert().Model(blocked).On("CONFLICT (host) DO UPDATE").Set("reason = excluded.reason").
		Exec(db.AsSystem(ctx))
	if err != nil {
		return nil, fmt.Errorf("blocking a host: %w", err)
	}
	return blocked, nil
}

// Unblock removes a host from the list, and reports whether it was listed. It returns InvalidInput.
func (b *Blocklist) Unblock(ctx context.Context, host string) (bool, error) {
	host, err := canonicalHost(host)
	if err != nil {
		return false, err
	}
	n, err := db.Affected(b.DB.NewDelete().Model((*BlockedHost)(nil)).Where("host = ?", host).Exec(db.AsSystem(ctx)))
	if err != nil {
		return false, fmt.Errorf("unblocking a host: %w", err)
	}
	return n > 0, nil
}

// List returns all blocked hosts in alphabetical order.
func (b *Blocklist) List(ctx context.Context) ([]BlockedHost, error) {
	var hosts []BlockedHost
	if err := b.DB.NewSelect().Model(&hosts).Order("host").Scan(ctx); err != nil {
		return nil, fmt.Errorf("listing blocked hosts: %w", err)
	}
	return hosts, nil
}

// hostAndParents returns the host and the domains above it. An address has none above it, and an
// IPv4 address is the same if it is written as an IPv6 address.
func hostAndParents(host string) (hosts []string) {
	if addr, err := netip.ParseAddr(host); err == nil {
		return []string{addr.Unmap().String()}
	}
	for host != "" {
		hosts = append(hosts, host)
		_, host, _ = strings.Cut(host, ".")
	}
	return hosts
}

// canonicalHost returns a host as hostAndParents has it. It returns InvalidInput.
func canonicalHost(given string) (string, error) {
	host, err := urlnorm.Host(given)
	if err != nil {
		return "", errs.New(errs.InvalidInput,
			"%s is not a host: give a name or an address, without scheme, port and path.",
			cmp.Or(validate.Quote(given), "An empty text"))
	}
	return hostAndParents(host)[0], nil
}
