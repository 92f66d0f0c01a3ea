package clicksql

import (
	"context"
	"fmt"

	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/month"
)

// Busy reports how many links of a workspace have used a share of their monthly hits, and how many
// hits the link with the most hits has used.
type Busy struct {
	WorkspaceID          string
	Links, Hits, Allowed int64
}

// BusyLinks returns the workspaces with links that have used a share of their monthly hits, by
// workspace ID, for the operator. hitQuota is the quota of workspaces without one of their own.
func (s *Store) BusyLinks(ctx context.Context, share float64, hitQuota int64) (map[string]Busy, error) {
	var found []Busy
	from := month.Of(s.Now()).Start()
	links := s.DB.NewSelect().TableExpr("click_totals AS total").Column("subject_id", "workspace_id").
		ColumnExpr("? AS hits", SinceSQL("total.subject_id", from)).
		Where("last_at >= ?", from).Where("subject_id <> workspace_id")
	err := s.DB.NewSelect().TableExpr("(?) AS l", links).Join("JOIN workspaces AS w ON w.id = l.workspace_id").
		ColumnExpr("l.workspace_id, COUNT(*) AS links, CAST(MAX(l.hits) AS BIGINT) AS hits, COALESCE(w.hit_quota, ?) AS "+
			"allowed", hitQuota).
		Where("w.deleted_at IS NULL").Where("l.hits >= ? * COALESCE(w.hit_quota, ?)", share, hitQuota).
		GroupExpr("l.workspace_id, w.hit_quota").Scan(db.AsSystem(ctx), &found)
	if err != nil {
		return nil, fmt.Errorf("selecting links near their quota: %w", err)
	}
	busy := make(map[string]Busy, len(found))
	for _, one := range found {
		busy[one.WorkspaceID] = one
	}
	return busy, nil
}
