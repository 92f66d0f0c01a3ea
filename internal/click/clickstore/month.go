package clickstore

import (
	"context"
	"fmt"

	"github.com/uptrace/bun"
	"github.com/uptrace/bun/schema"

	"github.com/linkforge/linkforge/internal/click"
	"github.com/linkforge/linkforge/internal/platform/db"
)

// This file counts the clicks of links in a month, for quotas. A total knows how many of its clicks
// were before its latest month, and before the month that precedes it.

// SinceSQL returns the SQL of the number of clicks of a link, an SQL expression, since the start of
// a month; next is the month after it. For a month before the last two that the link has clicks of,
// it is the number of all clicks, so that no quota is exceeded: the clocks of nodes do not differ
// by that much.
func SinceSQL(linkID string, m, next any) schema.QueryWithArgs { return sinceSQL("", linkID, m, next) }

// FloorSQL is SinceSQL, or -1 for a link with clicks that its counter in Redis may lack, see
// click.MonthCount: then Since returns both.
func FloorSQL(linkID string, m, next any) schema.QueryWithArgs {
	return sinceSQL("WHEN total._month = ?0 AND total._outage > 0 THEN -1 ", linkID, m, next)
}

func sinceSQL(first bun.Safe, linkID string, m, next any) schema.QueryWithArgs {
	return bun.SafeQuery(fmt.Sprintf(`COALESCE((SELECT CASE %sWHEN total._month < ?0 THEN 0
		WHEN total._month = ?0 THEN total.clicks - total._before_month
		WHEN total._month = ?1 THEN total.clicks - total._before_last ELSE total.clicks END
		FROM click_totals AS total WHERE total.subject_id = %s), 0)`, first, linkID), m, next)
}

// Since counts the clicks of links that the context sees since the start of a month, and returns
// the end of the part of a log that they include, as Position does: one statement reads both. Links
// without a click are missing.
func (l *Ledger) Since(
	ctx context.Context, logID string, linkIDs []string, m click.Month,
) (counts map[string]click.MonthCount, position int64, err error) {
	log := l.DB.NewSelect().Table("click_logs").ColumnExpr("id, position, 0").Where("id = ?", logID)
	counts, err = countSince(ctx, l.sinceQuery(linkIDs, m).UnionAll(log))
	position = counts[logID].Clicks
	delete(counts, logID)
	return counts, position, err
}

func (l *Ledger) sinceQuery(linkIDs []string, m click.Month) *bun.SelectQuery {
	return l.DB.NewSelect().TableExpr("click_totals AS link").ColumnExpr("subject_id AS id").
		ColumnExpr("? AS clicks", SinceSQL("link.subject_id", m, m+1)).
		ColumnExpr("CASE WHEN _month = ? THEN _outage ELSE 0 END AS outage", m).
		Where("subject_id IN (?)", bun.In(linkIDs))
}

func countSince(ctx context.Context, q *bun.SelectQuery) (map[string]click.MonthCount, error) {
	var rows []struct {
		ID string
		click.MonthCount
	}
	if err := q.Scan(ctx, &rows); err != nil {
		return nil, fmt.Errorf("counting the clicks of a month: %w", err)
	}
	counts := make(map[string]click.MonthCount, len(rows))
	for _, row := range rows {
		counts[row.ID] = row.MonthCount
	}
	return counts, nil
}

// MonthClicks counts the clicks of links since the start of a month. The context has entered their
// workspace. Links without a click are missing.
func (l *Ledger) MonthClicks(ctx context.Context, linkIDs []string, m click.Month) (map[string]int64, error) {
	all, err := countSince(ctx, l.sinceQuery(linkIDs, m))
	counts := make(map[string]int64, len(all))
	for linkID, n := range all {
		counts[linkID] = n.Clicks
	}
	return counts, err
}

// Busy reports how many links of a workspace have used a share of their monthly hits, and how many
// hits the link with the most hits has used.
type Busy struct {
	WorkspaceID          string
	Links, Hits, Allowed int64
}

// BusyLinks returns the workspaces with links that have used a share of their hits of a month, by
// workspace ID, for the operator. hitQuota is the quota of workspaces without one of their own.
func (l *Ledger) BusyLinks(
	ctx context.Context, m click.Month, share float64, hitQuota int64,
) (map[string]Busy, error) {
	var found []Busy
	links := l.DB.NewSelect().TableExpr("click_totals AS link").Column("subject_id", "workspace_id").
		ColumnExpr("? AS hits", SinceSQL("link.subject_id", m, m+1)).
		Where("last_at >= ?", m.Start()).Where("subject_id <> workspace_id")
	err := l.DB.NewSelect().TableExpr("(?) AS l", links).Join("JOIN workspaces AS w ON w.id = l.workspace_id").
		ColumnExpr(
			"l.workspace_id, COUNT(*) AS links, CAST(MAX(l.hits) AS BIGINT) AS hits, COALESCE(w.hit_quota, ?) AS "+
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
