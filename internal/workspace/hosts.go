package workspace

import (
	"context"
	"fmt"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/db"
)

// VerifiedHosts implements link.Domains: which of the hosts are verified domains, of whichever workspaces.
func (s *Store) VerifiedHosts(ctx context.Context, conn bun.IDB, hosts ...string) (map[string]bool, error) {
	var verified []string
	p := s.DB.Params()
	err := conn.NewSelect().Table("verified_hosts").Column("host").Where("host ?", db.Among(p, hosts)).
		Scan(p.Bind(ctx), &verified)
	if err != nil {
		return nil, fmt.Errorf("looking for verified hosts: %w", err)
	}
	found := make(map[string]bool, len(verified))
	for _, host := range verified {
		found[host] = true
	}
	return found, nil
}
