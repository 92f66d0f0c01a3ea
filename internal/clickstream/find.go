package clickstream

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/clickledger"
	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/feed"
)

// Found describes the clicks of all workspaces after a position, which are not read.
type Found struct {
	// Reached is the position after them.
	Reached feed.Position

	// span is nil if there are none.
	span *span
}

// span has the bounds of the ids and times of clicks. Other clicks may be within them.
type span struct {
	FirstID, LastID int64
	FirstAt, LastAt time.Time
}

// IsEmpty reports whether there are no clicks.
func (f Found) IsEmpty() bool { return f.span == nil }

// FindAfter returns what follows a position.
func (l *Live) FindAfter(ctx context.Context, after feed.Position) (f Found, err error) {
	ctx, cancel := context.WithTimeout(db.AsSystem(ctx), readDeadline)
	defer cancel()
	// The end is read first: all batches before it are selected.
	if f.Reached, err = l.clicks.head(ctx); err != nil {
		return f, fmt.Errorf("selecting the latest clicks: %w", err)
	}
	var rows []span
	err = l.clicks.db.NewSelect().TableExpr("(?) AS batch", l.clicks.selectAfter(after)).
		ColumnExpr("min(first_id) AS first_id, max(last_id) AS last_id, min(first_at) AS first_at, max(last_at) AS last_at").
		Having("count(*) > 0").Scan(ctx, &rows)
	if err != nil {
		return f, fmt.Errorf("selecting new clicks: %w", err)
	}
	if len(rows) > 0 {
		f.span = &rows[0]
	}
	return f, nil
}

// MayHave selects a row if a workspace, which is the column of an outer query, may have some of the found clicks: its
// latest click is not before them.
func (l *Live) MayHave(f Found, workspaceColumn string) *bun.SelectQuery {
	return l.clicks.db.NewSelect().Model((*clickledger.Total)(nil)).ColumnExpr("1").
		Where("subject_id = ?", bun.Ident(workspaceColumn)).Where("last_at >= ?", f.span.FirstAt.UTC())
}

// Resume returns the first position after an expired one whose clicks can still be read, and the number of clicks of
// a workspace between them: those that happened since, and were written before.
func (l *Live) Resume(
	ctx context.Context, expired feed.Position, workspaceID string,
) (at feed.Position, skipped int64, err error) {
	ctx, cancel := context.WithTimeout(db.AsSystem(ctx), readDeadline)
	defer cancel()
	if at, err = l.clicks.head(ctx); err != nil {
		return at, 0, fmt.Errorf("selecting the latest clicks: %w", err)
	}
	since := db.Instant(l.clicks.now().Add(-Life))
	var first []batchRow
	err = l.clicks.batches().Where("written_at > ?", since).Limit(1).Scan(ctx, &first)
	if err != nil {
		return at, 0, fmt.Errorf("selecting the first batch of clicks: %w", err)
	}
	if len(first) > 0 {
		at = first[0].clickPosition(0)
	}
	// Batches that are not final yet follow the position: their clicks are not skipped.
	var readable int64
	err = l.clicks.db.NewSelect().Table("click_batches").Where("written_at > ?", since).
		ColumnExpr("coalesce(min(first_id), ?)", int64(math.MaxInt64)).Scan(ctx, &readable)
	if err != nil {
		return at, 0, fmt.Errorf("selecting the first click of the batches: %w", err)
	}
	if skipped, err = l.clicks.clicks.Count(ctx, workspaceID, expired.At, readable); err != nil {
		return at, 0, fmt.Errorf("counting clicks: %w", err)
	}
	return at, skipped, nil
}
