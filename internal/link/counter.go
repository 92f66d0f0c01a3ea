package link

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"

	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/errs"
	"github.com/linkforge/linkforge/internal/shortcode"
)

// counterBlock is how many counters a node takes from the database at once. What a node has taken and not used
// when it ends is a gap, and never handed out again.
const counterBlock = 1000

// counters hands out codes of the strategy Counter: from a block that is this node's alone, so that a link costs
// no statement of its own.
type counters struct {
	db          *db.DB
	permutation *shortcode.Permutation

	mu        sync.Mutex
	next, end uint64 // the counters of the block that are left
}

// take returns n codes that no node has had. Codes that a reserved word has are passed over. It must not be
// called in a transaction: it writes to the database.
func (c *counters) take(ctx context.Context, n int) ([]string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	codes := make([]string, 0, n)
	for len(codes) < n {
		if c.next == c.end {
			if err := c.refill(ctx); err != nil {
				return nil, err
			}
		}
		code := c.permutation.Code(c.next)
		c.next++
		if !shortcode.Reserved(code) {
			codes = append(codes, code)
		}
	}
	return codes, nil
}

func (c *counters) refill(ctx context.Context) error {
	var end uint64
	err := c.db.NewRaw(`INSERT INTO counters AS c (name, next) VALUES ('code', ?)
		ON CONFLICT (name) DO UPDATE SET next = c.next + excluded.next RETURNING next`, counterBlock).Scan(ctx, &end)
	if err != nil {
		return fmt.Errorf("taking a block of counters: %w", err)
	}
	if end > shortcode.Counters {
		return errs.New(errs.CodeExhausted, "Every code of this strategy has been given out. Use another one.").At("strategy")
	}
	c.next, c.end = end-counterBlock, end
	return nil
}

// restoredAhead is how far the counter moves when a database has been restored: more codes than any instance gives out after a
// backup, and few of the 62^7 that there are.
const restoredAhead = 1_000_000_000

// AfterRestore moves the counter of a database that was restored so far ahead that no code is given out again which somebody got
// after the backup was made. It returns the counter, of how many there are, and CodeExhausted when none would be left.
func AfterRestore(ctx context.Context, d *db.DB) (next uint64, err error) {
	err = d.NewRaw(`INSERT INTO counters AS c (name, next) VALUES ('code', ?)
		ON CONFLICT (name) DO UPDATE SET next = c.next + excluded.next WHERE c.next + excluded.next <= ? RETURNING next`,
		restoredAhead, int64(shortcode.Counters)).Scan(ctx, &next)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, errs.New(errs.CodeExhausted, "So few codes of the strategy COUNTER are left that the counter cannot be moved ahead. Use another strategy.")
	}
	if err != nil {
		return 0, fmt.Errorf("moving the counter of codes: %w", err)
	}
	return next, nil
}
