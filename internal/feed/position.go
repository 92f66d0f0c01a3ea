package feed

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/db"
)

// Position is a position in the order of the commits of events or clicks, which is the same on every node.
type Position struct {
	// XID is the transaction that wrote an event or a batch of clicks; zero on SQLite, which commits in the order of Seq.
	XID int64 `bun:"xid"`
	// Seq orders the rows of a transaction.
	Seq int64
	// Item orders the clicks of a batch; zero of events.
	Item int64 `bun:"-"`
	// At is when the clicks were written, or when none followed the position; zero of events.
	At time.Time `bun:"-"`
}

// Compare orders positions, without regard to At.
func (p Position) Compare(q Position) int {
	return cmp.Or(cmp.Compare(p.XID, q.XID), cmp.Compare(p.Seq, q.Seq), cmp.Compare(p.Item, q.Item))
}

// Horizon returns the position up to which a log is final: no row can be added before it. On PostgreSQL, transactions commit out of order:
// those before the oldest open one have ended. SQLite commits in the order of a column.
func Horizon(ctx context.Context, d *db.DB, table, column string) (at Position, err error) {
	if d.Kind == db.Postgres {
		at.Seq = math.MaxInt64
		err = d.NewSelect().ColumnExpr(db.OldestTransaction+" - 1").Scan(ctx, &at.XID)
	} else {
		err = d.NewSelect().Table(table).ColumnExpr("coalesce(max(?), 0)", bun.Ident(column)).
			Where("? IS NOT NULL", bun.Ident(column)). // or SQLite would not use a partial index
			Scan(ctx, &at.Seq)
	}
	if err != nil {
		return at, fmt.Errorf("reading the end of %s: %w", table, err)
	}
	return at, nil
}
