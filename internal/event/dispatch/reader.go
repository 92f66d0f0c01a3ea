package dispatch

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/feed"
	"github.com/linkforge/linkforge/internal/platform/lease"
)

// The logs that webhooks follow.
const (
	eventLog = "EVENTS"
	clickLog = "CLICKS"
)

// reader is the row of a log that one node at a time reads for all webhooks, from a position that
// all nodes share.
type reader struct {
	bun.BaseModel `bun:"table:webhook_readers,alias:reader"`
	lease.Columns

	Log string `bun:",pk"`
	feed.Position
	// ReadAt is when clicks were read up to the position.
	ReadAt time.Time
}

// position is the position of a reader. Those of clicks are after a whole batch.
func (r *reader) position() feed.Position {
	return feed.Position{XID: r.XID, Seq: r.Seq, Item: math.MaxInt64, At: r.ReadAt}
}

// part is a part of a log after a position.
type part struct {
	reached feed.Position
	// more means that another part may follow.
	more bool
	// store stores the effects of the part on webhooks; nil: nothing.
	store func(ctx context.Context, tx bun.Tx) error
}

// readLog reads a log to its end, unless another node does.
func (d *Dispatcher) readLog(
	ctx context.Context, log string, next func(ctx context.Context, after feed.Position) (part, error),
) error {
	ctx = db.AsSystem(ctx)
	for {
		p, err := d.readPart(ctx, log, next)
		if err != nil {
			return fmt.Errorf("reading %s for webhooks: %w", log, err)
		}
		if p.store != nil {
			d.Wake()
		}
		if !p.more {
			return nil
		}
	}
}

// readPart takes a log and reads the next part of it, before its lease ends. The effects of the part
// are stored in the transaction that moves the position.
func (d *Dispatcher) readPart(
	ctx context.Context, log string, next func(ctx context.Context, after feed.Position) (part, error),
) (p part, err error) {
	reading, cancel := context.WithTimeout(ctx, lease.Life)
	defer cancel()
	l := lease.New(d.Now, time.Time{})
	r, err := d.takeLog(reading, l, log)
	if err != nil || r == nil {
		return p, err
	}
	if p, err = next(reading, r.position()); err == nil {
		err = d.end(reading, l, log, p)
	}
	if err != nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), statementTimeout)
		defer cancel()
		err = errors.Join(err, d.end(ctx, l, log, part{reached: r.position()}))
	}
	return p, err
}

// takeLog takes a log, or returns nil if another node reads it.
func (d *Dispatcher) takeLog(ctx context.Context, l lease.Lease, log string) (*reader, error) {
	before, r := &reader{Log: log}, &reader{Log: log}
	now := d.now()
	err := d.DB.NewSelect().Model(before).WherePK().Where("?", lease.Free(now)).Scan(ctx)
	if err == nil {
		err = l.Take(d.DB.NewUpdate().Model(r)).WherePK().Returning("*").Scan(ctx)
	}
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if before.IsAhead(now) {
		db.WarnOfClock(ctx, d.Log, "the lease of a log for webhooks", "log", log)
	}
	return r, err
}

// end frees a log at the end of a part, and stores the effects of the part. If the log was lost to
// another node, it does nothing.
func (d *Dispatcher) end(ctx context.Context, l lease.Lease, log string, p part) error {
	return d.DB.Tx(ctx, func(ctx context.Context, tx bun.Tx) error {
		n, err := db.Affected(l.Release(tx.NewUpdate().Model((*reader)(nil))).Set("xid = ?", p.reached.XID).
			Set("seq = ?", p.reached.Seq).Set("read_at = ?", db.Instant(p.reached.At)).Where("log = ?", log).Exec(ctx))
		if err != nil || n == 0 || p.store == nil {
			return err
		}
		return p.store(ctx, tx)
	})
}
