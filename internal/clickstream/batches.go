package clickstream

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/click"
	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/errs"
)

const (
	// batchRetention is how long batches are stored. Cursors expire after cursorLife, an hour earlier,
	// to allow for different clocks of the nodes.
	batchRetention = 24 * time.Hour
	cursorLife     = batchRetention - time.Hour
	// maxBatchesPerRead and maxClicksPerRead bound one read; a single batch is always read as a whole.
	maxBatchesPerRead = 500
	maxClicksPerRead  = 10_000
	// wholeBatch is the click of the position after a batch.
	wholeBatch = math.MaxInt64
)

// position is a position in the order of clicks, which is the same on every node: batches in the
// order of the transactions that wrote them, and the clicks of a batch in the order of their ids.
// The transaction is zero on SQLite, which commits in the order of batch ids.
type position struct {
	xid, batch, click int64
	// at is when the batch was written, or when no click followed the position. Later clicks are
	// stored for batchRetention from then on.
	at time.Time
}

func (p position) compare(q position) int {
	return cmp.Or(cmp.Compare(p.xid, q.xid), cmp.Compare(p.batch, q.batch), cmp.Compare(p.click, q.click))
}

// positioned is a click with its position.
type positioned struct {
	*click.Click
	position position
}

// batchRow is a row of click_batches.
type batchRow struct {
	ID              int64
	XID             int64 `bun:"xid"`
	FirstID, LastID int64
	FirstAt, LastAt time.Time
	WrittenAt       time.Time
}

// clickPosition returns the position of a click of the batch.
func (b *batchRow) clickPosition(click int64) position {
	return position{xid: b.XID, batch: b.ID, click: click, at: b.WrittenAt}
}

// batches selects batches in order. On PostgreSQL, transactions commit out of order: only batches
// of transactions before the oldest open one are selected, so no batch can be added between them.
func (l *Live) batches() *bun.SelectQuery {
	q := l.DB.NewSelect().Table("click_batches").Column("id", "first_id", "last_id", "first_at", "last_at", "written_at")
	if l.DB.Kind == db.Postgres {
		return q.Column("xid").Where("xid < pg_snapshot_xmin(pg_current_snapshot())::TEXT::BIGINT").Order("xid", "id")
	}
	return q.ColumnExpr("0 AS xid").Order("id")
}

// head returns the position after all visible clicks.
func (l *Live) head(ctx context.Context) (position, error) {
	p := position{click: wholeBatch, at: l.Now()}
	var err error
	if l.DB.Kind == db.Postgres {
		p.batch = math.MaxInt64
		err = l.DB.NewSelect().ColumnExpr("pg_snapshot_xmin(pg_current_snapshot())::TEXT::BIGINT - 1").Scan(ctx, &p.xid)
	} else {
		err = l.DB.NewSelect().Table("click_batches").ColumnExpr("coalesce(max(id), 0)").Scan(ctx, &p.batch)
	}
	return p, err
}

// batchOf returns the batch of a click; nil if it was deleted.
func (l *Live) batchOf(ctx context.Context, clickID int64) (*batchRow, error) {
	columns := []string{"id", "first_id", "last_id", "written_at"}
	q := l.DB.NewSelect().Table("click_batches").Column(columns...).Where("last_id >= ?", clickID).Order("last_id").
		Limit(1)
	if l.DB.Kind == db.Postgres {
		q = q.Column("xid")
	}
	var rows []batchRow
	if err := q.Scan(ctx, &rows); err != nil || len(rows) == 0 || rows[0].FirstID > clickID {
		return nil, err
	}
	return &rows[0], nil
}

// step is the result of one read: clicks in order, the position after them, and whether more may
// follow.
type step struct {
	clicks  []*positioned
	reached position
	more    bool
}

// readAfter reads clicks after a position, of the workspaces or of one link. It returns Expired if
// some of them may have been deleted.
func (l *Live) readAfter(ctx context.Context, after position, workspaceIDs []string, linkID string) (step, error) {
	ctx, cancel := context.WithTimeout(db.AsSystem(ctx), readDeadline)
	defer cancel()
	asked := l.Now()
	if asked.Sub(after.at) > cursorLife {
		return step{}, errCursorGone()
	}
	batches, more, err := l.batchesAfter(ctx, after)
	if err != nil {
		return step{}, fmt.Errorf("selecting new clicks: %w", err)
	}
	s := step{reached: after, more: more}
	if len(batches) > 0 {
		s.reached = batches[len(batches)-1].clickPosition(wholeBatch)
		if s.clicks, err = l.clicksOf(ctx, batches, workspaceIDs, linkID); err != nil {
			return step{}, fmt.Errorf("reading new clicks: %w", err)
		}
		s.clicks = slices.DeleteFunc(s.clicks, func(c *positioned) bool { return c.position.compare(after) <= 0 })
	}
	if !more {
		s.reached.at = asked
	}
	return s, nil
}

// batchesAfter returns the batches of one read, and whether more may follow.
func (l *Live) batchesAfter(ctx context.Context, after position) (rows []batchRow, more bool, err error) {
	first := after.batch
	if after.click == wholeBatch && first < math.MaxInt64 {
		first++
	}
	q := l.batches().Where("id >= ?", first)
	if l.DB.Kind == db.Postgres {
		q = l.batches().Where("xid >= ?", after.xid).Where("xid > ? OR id >= ?", after.xid, first)
	}
	if err := q.Limit(maxBatchesPerRead).Scan(ctx, &rows); err != nil {
		return nil, false, err
	}
	clicks := int64(0)
	for i, b := range rows {
		if clicks += b.LastID - b.FirstID + 1; clicks > maxClicksPerRead && i > 0 {
			return rows[:i], true, nil
		}
	}
	return rows, len(rows) == maxBatchesPerRead, nil
}

// clicksOf reads the clicks of batches in order. The condition on the time selects by the primary
// key, where the time follows the workspace.
func (l *Live) clicksOf(
	ctx context.Context, batches []batchRow, workspaceIDs []string, linkID string,
) ([]*positioned, error) {
	byID := make([]int, len(batches)) // the indexes of batches, in the order of ids
	first, last := batches[0].FirstAt, batches[0].LastAt
	for i, b := range batches {
		byID[i] = i
		if b.FirstAt.Before(first) {
			first = b.FirstAt
		}
		if b.LastAt.After(last) {
			last = b.LastAt
		}
	}
	slices.SortFunc(byID, func(i, j int) int { return cmp.Compare(batches[i].FirstID, batches[j].FirstID) })
	var rows []*click.Row
	q := l.DB.NewSelect().Model(&rows).Where("workspace_id IN (?)", bun.In(workspaceIDs)).
		Where("clicked_at BETWEEN ? AND ?", first.UTC(), last.UTC()).
		WhereGroup(" AND ", func(q *bun.SelectQuery) *bun.SelectQuery {
			for _, b := range batches {
				q = q.WhereOr("id BETWEEN ? AND ?", b.FirstID, b.LastID)
			}
			return q
		})
	if linkID != "" {
		q = q.Where("link_id = ?", linkID)
	}
	if err := q.Scan(ctx); err != nil {
		return nil, err
	}
	clicks := make([]*positioned, 0, len(rows))
	for _, r := range rows {
		at, _ := slices.BinarySearchFunc(byID, r.ID,
			func(i int, clickID int64) int { return cmp.Compare(batches[i].LastID, clickID) })
		clicks = append(clicks, &positioned{r.Click(), batches[byID[at]].clickPosition(r.ID)})
	}
	slices.SortFunc(clicks, func(a, b *positioned) int { return a.position.compare(b.position) })
	return clicks, nil
}

// DeleteExpiredBatches deletes batches that are older than batchRetention. The last row stays,
// because SQLite would reuse its number.
func (l *Live) DeleteExpiredBatches(ctx context.Context) error {
	last := l.DB.NewSelect().Table("click_batches").ColumnExpr("max(id)")
	_, err := l.DB.NewDelete().Table("click_batches").Where("written_at < ?", db.Instant(l.Now().Add(-batchRetention))).
		Where("id < (?)", last).
		Exec(db.AsSystem(ctx))
	if err != nil {
		return fmt.Errorf("deleting expired batches of clicks: %w", err)
	}
	return nil
}

func errCursorGone() error {
	return errs.New(errs.Expired, "The cursor is no click of this workspace that was written in the last day: "+
		"read clicks for what came after it, and subscribe without a cursor.").At("after")
}
