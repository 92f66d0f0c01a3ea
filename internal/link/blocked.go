package link

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/audit"
	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/errs"
	"github.com/linkforge/linkforge/internal/urlnorm"
	"github.com/linkforge/linkforge/internal/validate"
)

// BlockedHost is a host that no link may lead to, nor to anything below it.
type BlockedHost struct {
	bun.BaseModel `bun:"table:blocked_hosts"`

	// Host is in canonical form.
	Host      string `bun:",pk"`
	Reason    string
	CreatedAt time.Time
}

// Block puts a host on the list of those that no new link may lead to. Blocking it again changes the reason. Links
// that are there go on redirecting: see DisableHost. It returns InvalidInput.
func (s *Store) Block(ctx context.Context, host, reason string) (*BlockedHost, error) {
	host, err := canonicalHost(host)
	if err != nil {
		return nil, err
	}
	if reason, err = validate.Line("The reason", reason, 0, 200); err != nil {
		return nil, err
	}
	b := &BlockedHost{Host: host, Reason: reason, CreatedAt: s.now()}
	_, err = s.DB.NewInsert().Model(b).On("CONFLICT (host) DO UPDATE").Set("reason = excluded.reason").Exec(db.AsSystem(ctx))
	if err != nil {
		return nil, fmt.Errorf("blocking a host: %w", err)
	}
	return b, nil
}

// Unblock takes a host off the list, and reports whether it was on it. It returns InvalidInput.
func (s *Store) Unblock(ctx context.Context, host string) (bool, error) {
	host, err := canonicalHost(host)
	if err != nil {
		return false, err
	}
	n, err := affected(s.DB.NewDelete().Model((*BlockedHost)(nil)).Where("host = ?", host).Exec(db.AsSystem(ctx)))
	if err != nil {
		return false, fmt.Errorf("unblocking a host: %w", err)
	}
	return n > 0, nil
}

// BlockedHosts lists the blocked hosts in their order.
func (s *Store) BlockedHosts(ctx context.Context) ([]BlockedHost, error) {
	var hosts []BlockedHost
	if err := s.DB.NewSelect().Model(&hosts).Order("host").Scan(ctx); err != nil {
		return nil, fmt.Errorf("listing blocked hosts: %w", err)
	}
	return hosts, nil
}

// DisableHost disables every link to a host and to all below it, and returns how many it has disabled. EnableHost
// takes that back. Both look at every link of the instance, in batches. They return InvalidInput.
func (s *Store) DisableHost(ctx context.Context, host string) (int, error) {
	now := s.now()
	return s.setDisabled(ctx, host, "disabled_at IS NULL", &now)
}

// EnableHost is the opposite of DisableHost.
func (s *Store) EnableHost(ctx context.Context, host string) (int, error) {
	return s.setDisabled(ctx, host, "disabled_at IS NOT NULL", nil)
}

func (s *Store) setDisabled(ctx context.Context, host, candidates string, disabledAt *time.Time) (changed int, err error) {
	if host, err = canonicalHost(host); err != nil {
		return 0, err
	}
	for after := ""; ; {
		var n int
		var last string
		err := s.DB.Tx(db.AsSystem(ctx), func(ctx context.Context, tx bun.Tx) error {
			var links []*Link
			q := tx.NewSelect().Model(&links).Where("id > ?", after).Where(candidates).Order("id").Limit(sweepBatch)
			if err := s.DB.ForUpdate(q).Scan(ctx); err != nil {
				return err
			}
			if last = ""; len(links) > 0 {
				last = links[len(links)-1].ID
			}
			links = leadingTo(links, host)
			n = len(links)
			return s.disable(ctx, tx, links, disabledAt)
		})
		if err != nil {
			return changed, fmt.Errorf("disabling links: %w", err)
		}
		if changed += n; last == "" {
			return changed, nil
		}
		after = last
	}
}

// leadingTo are the links to the host and everything below it.
func leadingTo(links []*Link, host string) []*Link {
	return slices.DeleteFunc(links, func(l *Link) bool { return !slices.Contains(hostAndParents(l.host()), host) })
}

// disable takes links down for the operator, or takes that back if the instant is nil.
func (s *Store) disable(ctx context.Context, tx bun.Tx, links []*Link, disabledAt *time.Time) error {
	cause := audit.LinkDisabled
	if disabledAt == nil {
		cause = audit.LinkEnabled
	}
	changes := make([]change, 0, len(links))
	for _, l := range links {
		before := *l
		l.DisabledAt = disabledAt
		l.touch(s.now())
		changes = append(changes, change{before: &before, after: l})
	}
	return s.apply(ctx, tx, cause, changes)
}

// blocked finds out which of the links lead to a blocked host, in one statement.
func (s *Store) blocked(ctx context.Context, conn bun.IDB, links []*Link) (map[*Link]bool, error) {
	leading := map[string][]*Link{} // to the host or something below it
	for _, l := range links {
		for _, host := range hostAndParents(l.host()) {
			leading[host] = append(leading[host], l)
		}
	}
	if len(leading) == 0 {
		return nil, nil
	}
	hosts := make([]string, 0, len(leading))
	for host := range leading {
		hosts = append(hosts, host)
	}
	var listed []string
	p := s.DB.Params()
	err := conn.NewSelect().Model((*BlockedHost)(nil)).Column("host").Where("host ?", db.Among(p, hosts)).Scan(p.Bind(ctx), &listed)
	if err != nil {
		return nil, fmt.Errorf("looking for blocked hosts: %w", err)
	}
	found := map[*Link]bool{}
	for _, host := range listed {
		for _, l := range leading[host] {
			found[l] = true
		}
	}
	return found, nil
}

// host is where the link leads. A purged link leads nowhere.
func (l *Link) host() string {
	u, err := urlnorm.Canonical(l.CanonicalURL)
	if err != nil {
		return ""
	}
	return u.Host()
}

// hostAndParents are the host and the domains above it.
func hostAndParents(host string) (hosts []string) {
	for host != "" {
		hosts = append(hosts, host)
		_, host, _ = strings.Cut(host, ".")
	}
	return hosts
}

// canonicalHost is a host as canonical URLs have it. An IPv6 address may have brackets. It returns
// InvalidInput.
func canonicalHost(host string) (string, error) {
	written := host
	if addr, err := netip.ParseAddr(host); err == nil && addr.Is6() {
		written = "[" + host + "]"
	}
	u, err := urlnorm.Canonical("https://" + written)
	whole := u.String()
	if err != nil || whole != "https://"+u.Host()+"/" && whole != "https://["+u.Host()+"]/" {
		return "", errs.New(errs.InvalidInput, "%s is not a host: give a name or an address, without scheme, port and path.",
			cmp.Or(validate.Quote(host), "An empty text"))
	}
	return u.Host(), nil
}
