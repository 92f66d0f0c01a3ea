package dispatch

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/feed"
)

// The logs that webhooks follow.
const (
	eventLog = "EVENTS"
	clickLog = "CLICKS"
)

// readTimeout bounds the reading of one part of a log. Another node may read after it.
const readTimeout = 30 * time.Second

// reader is the claim of a node that reads a log for all webhooks, from a position that all nodes
// share.
type reader struct {
	bun.BaseModel `bun:"table:webhook_readers,alias:reader"`

	Log string `bun:",pk"`
	feed.Position
	// ReadAt is when clicks were read up to the position.
	ReadAt       time.Time
	ClaimedUntil time.Time
}

// position is the position of a claim. Those of clicks are after a whole batch.
func (r reader) position() feed.Position {
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

// readPart claims a log and reads the next part of it. The effects of the part are stored in the
// transaction that moves the position.
func (d *Dispatcher) readPart(
	ctx context.Context, log string, next func(ctx context.Context, after feed.Position) (part, error),
) (p part, err error) {
	reading, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	claim, err := d.claimLog(reading, log)
	if err != nil || claim == nil {
		return p, err
	}
	if p, err = next(reading, claim.position()); err == nil {
		err = d.end(reading, *claim, p)
	}
	if err != nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), statementTimeout)
		defer cancel()
		err = errors.Join(err, d.end(ctx, *claim, part{reached: claim.position()}))
	}
	return p, err
}

// claimLog claims a log, or returns nil if another node reads it.
func (d *Dispatcher) claimLog(ctx context.Context, log string) (*reader, error) {
	now := d.now()
	claim := func() (claims []reader, err error) {
		_, err = d.DB.NewUpdate().Model((*reader)(nil)).Set("claimed_until = ?", now.Add(readTimeout)).
			Where("log = ?", log).
			Where("claimed_until IS NULL OR claimed_until <= ?", now).Returning("*").Exec(ctx, &claims)
		return claims, err
	}
	claims, err := claim()
	if err == nil && len(claims) == 0 {
		var doubted int64
		doubted, err = db.Affected(d.DB.NewUpdate().Model((*reader)(nil)).Set("claimed_until = NULL").
			Where("log = ?", log).Where("claimed_until > ?", db.Latest(now, readTimeout)).Exec(ctx))
		if doubted > 0 {
			db.WarnOfClock(ctx, d.Log, "the claim of a log for webhooks", "log", log)
			claims, err = claim()
		}
	}
	if err != nil || len(claims) == 0 {
		return nil, err
	}
	return &claims[0], nil
}

// end ends a claim at the end of a part, and stores the effects of the part. If the claim was lost
// to another node, it does nothing.
func (d *Dispatcher) end(ctx context.Context, claim reader, p part) error {
	return d.DB.Tx(ctx, func(ctx context.Context, tx bun.Tx) error {
		n, err := db.Affected(tx.NewUpdate().Model((*reader)(nil)).Set("xid = ?", p.reached.XID).
			Set("seq = ?", p.reached.Seq).
			Set("read_at = ?", db.Instant(p.reached.At)).Set("claimed_until = NULL").
			Where("log = ?", claim.Log).Where("claimed_until = ?", claim.ClaimedUntil).Exec(ctx))
		if err != nil || n == 0 || p.store == nil {
			return err
		}
		return p.store(ctx, tx)
	})
}
