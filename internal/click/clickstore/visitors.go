package clickstore

import (
	"context"
	"fmt"
	"time"

	"github.com/linkforge/linkforge/internal/click"
	"github.com/linkforge/linkforge/internal/platform/db"
)

// VisitorsKept is how long after its day a visitor may still be counted: clicks may wait for the
// database. The day's key is forgotten when the day is over.
const VisitorsKept = 2 * click.Day

// ForgetVisitors deletes the keys of past days, and the visitors of days that expect no more
// clicks.
func (l *Ledger) ForgetVisitors(ctx context.Context, now time.Time) error {
	ctx = db.AsSystem(ctx)
	_, err := l.DB.NewDelete().Table("visitor_keys").Where("day < ?", click.DayOf(now)).Exec(ctx)
	if err == nil {
		_, err = l.DB.NewDelete().Table("visitors").Where("day < ?", click.DayOf(now.Add(-VisitorsKept))).Exec(ctx)
	}
	if err == nil && l.DB.Kind == db.SQLite { // on SQLite deleted rows remain in its log until a checkpoint
		_, err = l.DB.ExecContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)")
	}
	if err != nil {
		return fmt.Errorf("deleting visitors: %w", err)
	}
	return nil
}

// ForgetWho deletes every key and every visitor, from a copy of the database that is stored:
// today's key would reveal who has followed which link today.
func (l *Ledger) ForgetWho(ctx context.Context) error {
	for _, table := range []string{"visitor_keys", "visitors"} {
		if _, err := l.DB.NewDelete().Table(table).Where("TRUE").Exec(db.AsSystem(ctx)); err != nil {
			return fmt.Errorf("deleting visitors: %w", err)
		}
	}
	return nil
}
