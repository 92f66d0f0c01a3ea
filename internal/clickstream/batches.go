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
	// batchesKept is how long the database keeps what was written together; for lateAfter of it, it is
	// certain that all is still there, whatever the clocks of the nodes say.
	batchesKept = 24 * time.Hour
	lateAfter   = batchesKept - time.Hour
	// stepBatches and stepClicks bound what is read at once, but for a single batch.
	stepBatches = 500
	stepClicks  = 10_000
	// wholeBatch is the place after all clicks of a batch.
	wholeBatch = math.MaxInt64
)

// place is how far somebody has got in the one order in which every node tells of clicks: batches
// in the order of the transactions that wrote them, and the clicks of one in the order of their
// ids. The transaction is zero on SQLite, where one commits after the other and batches are in the
// order of their ids.
type place struct {
	xid, batch, click int64
	// at is when there was nothing after the place, or when the batch was written: what came later is
	// still there for a day.
	at time.Time
}

func (p place) compare(q place) int {
	return cmp.Or(cmp.Compare(p.xid, q.xid), cmp.Compare(p.batch, q.batch), cmp.Compare(p.click, q.click))
}

// placed is a click and its place.
type placed struct {
	*click.Click
	place place
}

// batchRow is a row of click_batches.
type batchRow struct {
	ID              int64
	XID             int64 `bun:"xid"`
	FirstID, LastID int64
	FirstAt, LastAt time.Time
	WrittenAt       time.Time
}

func (b *batchRow) at(click int64) place {
	return place{xid: b.XID, batch: b.ID, click: click, at: b.WrittenAt}
}

// batches selects batches. On PostgreSQL a transaction may commit after a later one. Those that are
// visible here are of transactions before the oldest one that goes on, so no other will ever come
// between them.
func (l *Live) batches() *bun.SelectQuery {
	q := l.DB.NewSelect().Table("click_batches").Column("id", "first_id", "last_id", "first_at", "last_at", "written_at")
	if l.DB.Kind == db.Postgres {
		return q.Column("xid").Where("xid < pg_snapshot_xmin(pg_current_snapshot())::TEXT::BIGINT").Order("xid", "id")
	}
	return q.ColumnExpr("0 AS xid").Order("id")
}

// head is the place after all that is visible.
func (l *Live) head(ctx context.Context) (place, error) {
	p := place{click: wholeBatch, at: l.Now()}
	var err error
	if l.DB.Kind == db.Postgres {
		p.batch = math.MaxInt64
		err = l.DB.NewSelect().ColumnExpr("pg_snapshot_xmin(pg_current_snapshot())::TEXT::BIGINT - 1").Scan(ctx, &p.xid)
	} else {
		err = l.DB.NewSelect().Table("click_batches").ColumnExpr("coalesce(max(id), 0)").Scan(ctx, &p.batch)
	}
	return p, err
}

// batchOf is the batch that a click was written with; nil when it is not kept any more.
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

// step is what was read at once: clicks in their order, the place that was reached, and whether
// there may be more.
type step struct {
	clicks  []*placed
	reached place
	more    bool
}

// readOn reads what comes after a place: clicks of the workspaces or, if it is given, of the link
// alone. It returns Expired when some of that may have been forgotten.
func (l *Live) readOn(ctx context.Context, after place, workspaceIDs []string, linkID string) (step, error) {
	ctx, cancel := context.WithTimeout(db.AsSystem(ctx), tellDeadline)
	defer cancel()
	asked := l.Now()
	if asked.Sub(after.at) > lateAfter {
		return step{}, errCursorGone()
	}
	batches, more, err := l.batchesAfter(ctx, after)
	if err != nil {
		return step{}, fmt.Errorf("looking for new clicks: %w", err)
	}
	s := step{reached: after, more: more}
	if len(batches) > 0 {
		s.reached = batches[len(batches)-1].at(wholeBatch)
		if s.clicks, err = l.clicksOf(ctx, batches, workspaceIDs, linkID); err != nil {
			return step{}, fmt.Errorf("reading new clicks: %w", err)
		}
		s.clicks = slices.DeleteFunc(s.clicks, func(c *placed) bool { return c.place.compare(after) <= 0 })
	}
	if !more {
		s.reached.at = asked
	}
	return s, nil
}

// batchesAfter are the next batches, as many as are read at once, and whether there may be more.
func (l *Live) batchesAfter(ctx context.Context, after place) (rows []batchRow, more bool, err error) {
	first := after.batch
	if after.click == wholeBatch && first < math.MaxInt64 {
		first++
	}
	q := l.batches().Where("id >= ?", first)
	if l.DB.Kind == db.Postgres {
		q = l.batches().Where("xid >= ?", after.xid).Where("xid > ? OR id >= ?", after.xid, first)
	}
	if err := q.Limit(stepBatches).Scan(ctx, &rows); err != nil {
		return nil, false, err
	}
	clicks := int64(0)
	for i, b := range rows {
		if clicks += b.LastID - b.FirstID + 1; clicks > stepClicks && i > 0 {
			return rows[:i], true, nil
		}
	}
	return rows, len(rows) == stepBatches, nil
}

// clicksOf reads the clicks of batches, in their order. The time leads to them: it is in the key,
// behind the workspace.
func (l *Live) clicksOf(
	ctx context.Context, batches []batchRow, workspaceIDs []string, linkID string,
) ([]*placed, error) {
	byID := make([]int, len(batches)) // their places in the order of batches, in the order of ids
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
	clicks := make([]*placed, 0, len(rows))
	for _, r := range rows {
		at, _ := slices.BinarySearchFunc(byID, r.ID,
			func(i int, clickID int64) int { return cmp.Compare(batches[i].LastID, clickID) })
		clicks = append(clicks, &placed{r.Click(), batches[byID[at]].at(r.ID)})
	}
	slices.SortFunc(clicks, func(a, b *placed) int { return a.place.compare(b.place) })
	return clicks, nil
}

// ForgetBatches removes what was written together a day ago. The last row stays: SQLite would give
// its number to the next.
func (l *Live) ForgetBatches(ctx context.Context) error {
	last := l.DB.NewSelect().Table("click_batches").ColumnExpr("max(id)")
	_, err := l.DB.NewDelete().Table("click_batches").Where("written_at < ?", db.Instant(l.Now().Add(-batchesKept))).
		Where("id < (?)", last).
		Exec(db.AsSystem(ctx))
	if err != nil {
		return fmt.Errorf("forgetting batches of clicks: %w", err)
	}
	return nil
}

func errCursorGone() error {
	return errs.New(errs.Expired, "The cursor is no click of this workspace that was written in the last day: "+
		"read clicks for what came after it, and subscribe without a cursor.").At("after")
}
