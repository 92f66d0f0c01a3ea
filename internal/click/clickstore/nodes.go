package clickstore

import (
	"context"
	"fmt"
	"time"

	"github.com/linkforge/linkforge/internal/platform/db"
)

// reportLife is how long a report of a process lasts: three of them may be missing.
const reportLife = 20 * time.Second

// Report states that the process of a log was alive at an instant, and whether it had Redis. It
// returns how many other processes are alive, and how many of them have had Redis since another
// instant. Reports of clocks that are ahead are not believed.
func (l *Ledger) Report(
	ctx context.Context, logID string, hasRedis bool, now, since time.Time,
) (others, withRedis int64, err error) {
	ctx, reportID := db.AsSystem(ctx), reportOf(logID)
	_, err = l.DB.NewRaw(`INSERT INTO click_logs (id, position, _alive_at, _has_redis) VALUES (?, 0, ?, ?)
		ON CONFLICT (id) DO UPDATE SET _alive_at = excluded._alive_at, _has_redis = excluded._has_redis`,
		reportID, db.Instant(now), hasRedis).Exec(ctx)
	if err != nil {
		return 0, 0, fmt.Errorf("reporting a node: %w", err)
	}
	err = l.DB.NewSelect().Table("click_logs").ColumnExpr("count(*)").
		ColumnExpr("coalesce(sum(CASE WHEN _has_redis AND _alive_at > ? THEN 1 ELSE 0 END), 0)", db.Instant(since)).
		Where("id <> ?", reportID).
		Where("_alive_at > ?", db.Instant(now.Add(-reportLife))).
		Where("_alive_at < ?", db.Instant(now.Add(reportLife))).Scan(ctx, &others, &withRedis)
	if err != nil {
		return 0, 0, fmt.Errorf("counting nodes: %w", err)
	}
	return others, withRedis, nil
}

// Leave states that the process of a log ends.
func (l *Ledger) Leave(ctx context.Context, logID string) error {
	_, err := l.DB.NewDelete().Table("click_logs").Where("id = ?", reportOf(logID)).Exec(db.AsSystem(ctx))
	return err
}

// ForgetNodes deletes the reports of processes that were killed.
func (l *Ledger) ForgetNodes(ctx context.Context, now time.Time) error {
	_, err := l.DB.NewDelete().Table("click_logs").Where("_alive_at < ?", db.Instant(now.Add(-reportLife))).
		Where("id LIKE ?", reportOf("%")).Exec(db.AsSystem(ctx))
	if err != nil {
		return fmt.Errorf("deleting reports of nodes: %w", err)
	}
	return nil
}

// reportOf is the id of the row with the reports of a log's process. The row of the log itself is
// locked while a batch is written, which may take longer than a report lasts.
func reportOf(logID string) string { return "report/" + logID }
