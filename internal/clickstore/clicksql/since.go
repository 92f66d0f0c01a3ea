package clicksql

import (
	"context"
	"fmt"
	"time"

	"github.com/uptrace/bun"
	"github.com/uptrace/bun/schema"
)

// This file counts the clicks of links since the start of a month, for quotas.

// SinceSQL returns the SQL of the number of clicks of a link, an SQL expression, since an instant, which must be the
// start of a bucket. The totals tell whether there are any: it is the cheaper lookup.
func SinceSQL(linkID string, from any) schema.QueryWithArgs {
	return bun.SafeQuery(fmt.Sprintf(`CASE
		WHEN EXISTS (SELECT 1 FROM click_totals WHERE subject_id = %[1]s AND last_at >= ?0)
		THEN (SELECT CAST(coalesce(sum(clicks), 0) AS BIGINT) FROM click_buckets
			WHERE subject_id = %[1]s AND starts_at >= ?0)
		ELSE 0 END`, linkID), from)
}

// Since implements clickstore.Store.
func (s *Store) Since(ctx context.Context, linkIDs []string, from time.Time) (map[string]int64, error) {
	var rows []struct {
		SubjectID string
		Clicks    int64
	}
	err := s.DB.NewSelect().Model((*bucket)(nil)).
		Column("subject_id").ColumnExpr("CAST(SUM(clicks) AS BIGINT) AS clicks").
		Where("subject_id IN (?)", bun.In(linkIDs)).Where("starts_at >= ?", from).Group("subject_id").
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
