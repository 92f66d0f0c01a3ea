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
	"github.com/linkforge/linkforge/internal/click/clickstore"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/feed"
)

const (
	// batchRetention is how long batches are stored. Positions expire after Life, an hour earlier,
	// to allow for different clocks of the nodes.
	batchRetention = 24 * time.Hour
	// Life is how long clicks can be read after a position.
	Life = batchRetention - time.Hour
	// maxBatchesPerRead and maxClicksPerRead bound one read; a single batch is always read as a
	// whole.
	maxBatchesPerRead = 500
	maxClicksPerRead  = 10_000
	// wholeBatch is the click of the position after a batch.
	wholeBatch = math.MaxInt64
)

type item = feed.Item[*click.Click]

// batchRow is a row of click_batches.
type batchRow struct {
	ID              int64
	XID             int64 `bun:"xid"`
	FirstID, LastID int64
	FirstAt, LastAt time.Time
	WrittenAt       time.Time
}

// clickPosition returns the position of a click of the batch. Positions are in the order of the
// transactions that wrote batches, and the clicks of a batch in the order of their ids. SQLite
// commits in the order of batch ids.
func (b *batchRow) clickPosition(click int64) feed.Position {
	return feed.Position{XID: b.XID, Seq: b.ID, Item: click, At: b.WrittenAt}
}

// clickLog has the clicks of all links, or of one.
type clickLog struct {
	db     *db.DB
	clicks clickstore.Store
	now    func() time.Time
	linkID string
}

// batches selects batches in order. On PostgreSQL, transactions commit out of order: only batches
// of transactions before the oldest open one are selected, so no batch can be added between them.
func (l *clickLog) batches() *bun.SelectQuery {
	q := l.db.NewSelect().Table("click_batches").Column("id", "first_id", "last_id", "first_at", "last_at",
		"written_at")
	if l.db.Kind == db.Postgres {
		return q.Column("xid").Where("xid < "+db.OldestTransaction).Order("xid", "id")
	}
	return q.ColumnExpr("0 AS xid").Order("id")
}

// head returns the position after all visible clicks.
func (l *clickLog) head(ctx context.Context) (feed.Position, error) {
	p, err := feed.Horizon(ctx, l.db, "click_batches", "id")
	p.Item, p.At = wholeBatch, l.now()
	return p, err
}

// batchOf returns the batch of a click; nil if it was deleted.
func (l *clickLog) batchOf(ctx context.Context, clickID int64) (*batchRow, error) {
	columns := []string{"id", "first_id", "last_id", "written_at"}
	q := l.db.NewSelect().Table("click_batches").Column(columns...).Where("last_id >= ?", clickID).Order("last_id").
		Limit(1)
	if l.db.Kind == db.Postgres {
		q = q.Column("xid")
	}
	var rows []batchRow
	if err := q.Scan(ctx, &rows); err != nil || len(rows) == 0 || rows[0].FirstID > clickID {
		return nil, err
	}
	return &rows[0], nil
}

// After implements feed.Log: clicks that were written more than Life ago may have been deleted.
func (l *clickLog) After(
	ctx context.Context, after feed.Position, workspaceIDs []string,
) (s feed.Step[*click.Click], err error) {
	ctx, cancel := context.WithTimeout(db.AsSystem(ctx), readDeadline)
	defer cancel()
	began := l.now()
	if began.Sub(after.At) > Life {
		return s, errCursorGone()
	}
	batches, more, err := l.batchesAfter(ctx, after)
	if err != nil {
		return s, fmt.Errorf("selecting new clicks: %w", err)
	}
	s.Reached, s.More = after, more
	if len(batches) > 0 {
		s.Reached = batches[len(batches)-1].clickPosition(wholeBatch)
		if s.Items, err = l.clicksOf(ctx, batches, workspaceIDs); err != nil {
			return s, fmt.Errorf("reading new clicks: %w", err)
		}
		s.Items = slices.DeleteFunc(s.Items, func(c item) bool { return c.Position.Compare(after) <= 0 })
	}
	if !more {
		s.Reached.At = began
	}
	return s, nil
}

// selectAfter selects the batches with clicks after a position, in order. The first one may also
// have earlier clicks.
func (l *clickLog) selectAfter(after feed.Position) *bun.SelectQuery {
	first := after.Seq
	if after.Item == wholeBatch && first < math.MaxInt64 {
		first++
	}
	if l.db.Kind == db.Postgres {
		return l.batches().Where("xid >= ?", after.XID).Where("xid > ? OR id >= ?", after.XID, first)
	}
	return l.batches().Where("id >= ?", first)
}

// batchesAfter returns the batches of one read, and whether more may follow.
func (l *clickLog) batchesAfter(ctx context.Context, after feed.Position) (rows []batchRow, more bool, err error) {
	q := l.selectAfter(after)
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

// clicksOf reads the clicks of batches in order.
func (l *clickLog) clicksOf(
	ctx context.Context, batches []batchRow, workspaceIDs []string,
) ([]item, error) {
	byID := make([]int, len(batches)) // the indexes of batches, in the order of ids
	spans := make([]clickstore.Span, len(batches))
	for i, b := range batches {
		byID[i], spans[i] = i, clickstore.Span{FirstID: b.FirstID, LastID: b.LastID, FirstAt: b.FirstAt,
			LastAt: b.LastAt}
	}
	slices.SortFunc(byID, func(i, j int) int { return cmp.Compare(batches[i].FirstID, batches[j].FirstID) })
	found, err := l.clicks.Span(ctx, spans, workspaceIDs, l.linkID)
	if err != nil {
		return nil, err
	}
	clicks := make([]item, 0, len(found))
	for _, c := range found {
		at, _ := slices.BinarySearchFunc(byID, c.ID,
			func(i int, clickID int64) int { return cmp.Compare(batches[i].LastID, clickID) })
		position := batches[byID[at]].clickPosition(c.ID)
		clicks = append(clicks, item{Value: c, WorkspaceID: c.WorkspaceID, Position: position})
	}
	slices.SortFunc(clicks, func(a, b item) int { return a.Position.Compare(b.Position) })
	return clicks, nil
}

// DeleteExpiredBatches deletes batches that are older than batchRetention. The last row stays,
// because SQLite would reuse its number.
func (l *Live) DeleteExpiredBatches(ctx context.Context) error {
	d, before := l.clicks.db, db.Instant(l.clicks.now().Add(-batchRetention))
	last := d.NewSelect().Table("click_batches").ColumnExpr("max(id)")
	_, err := d.NewDelete().Table("click_batches").Where("written_at < ?", before).Where("id < (?)", last).
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
