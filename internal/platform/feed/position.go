package feed

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/platform/db"
)

// Position is a position in the order of the commits of events or clicks, which is the same on
// every node.
type Position struct {
	// XID is the transaction that wrote an event or a batch of clicks; zero on SQLite, which
	// commits in the order of Seq.
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

// Horizon returns the position of the last final row of a log: none can be added before it. On
// PostgreSQL, transactions commit out of order: those before the oldest open one have ended. SQLite
// commits in the order of a column. The position is always that of a row, which a failover keeps:
// numbers of transactions that have left none may be those of new transactions then.
func Horizon(ctx context.Context, d *db.DB, table, column string) (at Position, err error) {
	q := d.NewSelect().Table(table).ColumnExpr("? AS seq", bun.Ident(column)).
		Where("? IS NOT NULL", bun.Ident(column)) // or the database would not use a partial index
	if d.Kind == db.Postgres {
		q = q.Column("xid").Where("xid < " + db.OldestTransaction).Order("xid DESC")
	}
	err = q.OrderExpr("? DESC", bun.Ident(column)).Limit(1).Scan(db.AsSystem(ctx), &at)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return at, fmt.Errorf("reading the end of %s: %w", table, err)
	}
	return at, nil
}
