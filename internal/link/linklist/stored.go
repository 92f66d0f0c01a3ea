package linklist

import (
	"context"
	"fmt"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/link/linkfield"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
)

// Keys identify links of a workspace.
type Keys struct{ IDs, ExternalIDs []string }

// StoredSize is the size of the stored parts of links that a change of them reads.
type StoredSize struct {
	RoutingBytes int64 // of routings as JSON
	Pending      int64 // changes
}

// SizeOf returns the size of the routings of the first links, and of the pending changes of the
// second.
func (s *Store) SizeOf(ctx context.Context, m workspace.Membership, routed, pending Keys) (size StoredSize, err error) {
	if ctx, err = m.Enter(ctx, workspace.WriteLinks); err != nil {
		return size, err
	}
	changes := s.DB.NewSelect().Model((*link.ScheduledChange)(nil)).ColumnExpr("count(*)").
		Where("link_id IN (?)", s.withIDs(m, pending).Column("id").Where("next_change_at IS NOT NULL"))
	err = s.withIDs(m, routed).Where("routing IS NOT NULL").
		ColumnExpr("coalesce(sum(octet_length(CAST(routing AS TEXT))), 0)").ColumnExpr("(?)", changes).
		Scan(ctx, &size.RoutingBytes, &size.Pending)
	if err != nil {
		return size, fmt.Errorf("reading the size of links: %w", err)
	}
	return size, nil
}

// withIDs selects the workspace's links with one of the keys. It leaves out what can be none.
func (s *Store) withIDs(m workspace.Membership, keys Keys) *bun.SelectQuery {
	ids := link.ValidIDs(keys.IDs)
	var known []string
	for _, one := range keys.ExternalIDs {
		if normal, err := linkfield.CheckExternalID(one); err == nil {
			known = append(known, normal)
		}
	}
	return s.DB.NewSelect().Model((*link.Link)(nil)).Where("workspace_id = ?", m.ID()).Apply(m.Inside("folder_id")).
		Where("id IN (?) OR external_id IN (?)", bun.In(ids), bun.In(known))
}
