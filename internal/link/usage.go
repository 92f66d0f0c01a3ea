package link

import (
	"context"
	"fmt"

	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/hitquota"
)

// SpaceUsage is what a workspace has used of its monthly allowance of new links.
type SpaceUsage struct {
	ID, Slug, Name string
	Links, Quota   int64
}

// Usages are those of all workspaces in this month, by their ids: for the operator.
func (s *Store) Usages(ctx context.Context) ([]SpaceUsage, error) {
	var usages []SpaceUsage
	err := s.DB.NewSelect().TableExpr("workspaces AS w").
		Join("LEFT JOIN link_usage AS u ON u.workspace_id = w.id AND u.month = ?", hitquota.MonthOf(s.Now()).String()).
		ColumnExpr("w.id, w.slug, w.name, COALESCE(u.links, 0) AS links, COALESCE(w.link_quota, ?) AS quota", s.LinkQuota).
		Where("w.deleted_at IS NULL").OrderExpr("w.id").Scan(db.AsSystem(ctx), &usages)
	if err != nil {
		return nil, fmt.Errorf("reading what workspaces have used: %w", err)
	}
	return usages, nil
}
