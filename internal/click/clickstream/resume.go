package clickstream

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/feed"
)

// Resume returns the first position whose clicks can still be read, for readers whose position has
// expired.
func (l *Live) Resume(ctx context.Context) (at feed.Position, err error) {
	ctx, cancel := context.WithTimeout(db.AsSystem(ctx), readDeadline)
	defer cancel()
	if at, err = l.clicks.head(ctx); err != nil {
		return at, fmt.Errorf("selecting the latest clicks: %w", err)
	}
	var first []batchRow
	if err = l.clicks.batches().Where("written_at > ?", l.readableSince()).Limit(1).Scan(ctx, &first); err != nil {
		return at, fmt.Errorf("selecting the first batch of clicks: %w", err)
	}
	if len(first) > 0 {
		at = first[0].clickPosition(wholeBatch)
		at.Seq-- // before the batch
	}
	return at, nil
}

// Missed returns the number of clicks of a workspace since an instant that are too old to be read.
// The clicks of batches that are not final yet can be read later.
func (l *Live) Missed(ctx context.Context, workspaceID string, since time.Time) (int64, error) {
	ctx, cancel := context.WithTimeout(db.AsSystem(ctx), readDeadline)
	defer cancel()
	var readable int64
	err := l.clicks.db.NewSelect().Table("click_batches").Where("written_at > ?", l.readableSince()).
		ColumnExpr("coalesce(min(first_id), ?)", int64(math.MaxInt64)).Scan(ctx, &readable)
	if err != nil {
		return 0, fmt.Errorf("selecting the first click of the batches: %w", err)
	}
	n, err := l.clicks.clicks.Count(ctx, workspaceID, since, readable)
	if err != nil {
		return 0, fmt.Errorf("counting clicks: %w", err)
	}
	return n, nil
}

// readableSince is the instant after which batches can be read.
func (l *Live) readableSince() time.Time { return db.Instant(l.clicks.now().Add(-Life)) }
