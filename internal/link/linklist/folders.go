package linklist

import (
	"context"
	"fmt"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/tenant/workspace"
)

// CountInFolders returns the numbers of links in folders of the workspace, without deleted ones.
// Empty folders are omitted.
func (s *Store) CountInFolders(ctx context.Context, m workspace.Membership, ids ...string) (map[string]int64, error) {
	ctx, err := m.Enter(ctx, workspace.ReadLinks)
	if err != nil {
		return nil, err
	}
	var rows []struct {
		FolderID string
		Links    int64
	}
	q := s.DB.NewSelect().TableExpr("links AS link").Column("folder_id").ColumnExpr("count(*) AS links").
		Where("folder_id IN (?)", bun.In(ids)).Apply(m.Inside("folder_id")).Where(notDeleted).Group("folder_id")
	if err := s.DB.Recheck(q, "workspace_id", m.ID()).Scan(ctx, &rows); err != nil {
		return nil, fmt.Errorf("counting the links of folders: %w", err)
	}
	counts := make(map[string]int64, len(rows))
	for _, row := range rows {
		counts[row.FolderID] = row.Links
	}
	return counts, nil
}
