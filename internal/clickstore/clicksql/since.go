package clicksql

import (
	"context"
	"fmt"
	"time"

	"github.com/uptrace/bun"
	"github.com/uptrace/bun/schema"
)

// This file counts the clicks of links since the start of a month, for quotas.

// SinceSQL returns the SQL of the number of clicks of a link, an SQL expression, since the start of a month: those of
// its days, and the later ones. The totals tell whether there are any: it is the cheaper lookup.
func SinceSQL(linkID string, month any) schema.QueryWithArgs {
	return bun.SafeQuery(fmt.Sprintf(`COALESCE((SELECT CASE WHEN sealed.last_at < ?0 THEN 0 ELSE
			(SELECT CAST(COALESCE(SUM(clicks), 0) AS BIGINT) FROM click_days
				WHERE subject_id = %[1]s AND starts_at >= ?0 AND starts_at < sealed.sealed_at)
			+ (SELECT COUNT(*) FROM clicks WHERE link_id = %[1]s AND clicked_at >= ?0 AND clicked_at >= sealed.sealed_at)
		END FROM click_totals AS sealed WHERE sealed.subject_id = %[1]s), 0)`, linkID), month)
}

// Since implements clickstore.Store.
func (s *Store) Since(ctx context.Context, linkIDs []string, month time.Time) (map[string]int64, error) {
	var rows []struct {
		SubjectID string
		Clicks    int64
	}
	err := s.DB.NewSelect().TableExpr("click_totals AS total").Column("subject_id").
		ColumnExpr("? AS clicks", SinceSQL("total.subject_id", month)).Where("subject_id IN (?)", bun.In(linkIDs)).
		Scan(ctx, &rows)
	if err != nil {
		return nil, fmt.Errorf("counting clicks: %w", err)
	}
	counts := make(map[string]int64, len(rows))
	for _, row := range rows {
		counts[row.SubjectID] = row.Clicks
	}
	return counts, nil
}
