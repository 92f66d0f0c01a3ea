package link

import (
	"context"
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
