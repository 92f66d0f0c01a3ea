// Package codecounter hands out the codes of the strategy COUNTER: each node takes blocks of
// counters, and a code secret turns counters into codes. It owns the counters and the check that no
// code secret in use is missing, but no links. Package link takes codes, the server and the
// commands check secrets.
package codecounter

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/errs"
	"github.com/linkforge/linkforge/internal/shortcode"
)

// BlockSize is how many counters a node takes from the database at once. What a node has taken and
// not used when it ends is a gap, and never handed out again.
const BlockSize = 1000

// Counter hands out codes of the strategy Counter: from a block that is this node's alone, so that
// a link costs no statement of its own.
type Counter struct {
	db *db.DB
	// epochs are those of the configured secrets. The first one makes new codes; codes that another
	// one has made are skipped.
	epochs []epoch

	mu        sync.Mutex
	next, end uint64 // the counters of the block that are left
}

// epoch is the series of codes that one secret makes.
type epoch struct {
	permutation *shortcode.Permutation
	fingerprint string
	// name is that of its counter in the database; empty until it is known.
	name string
	// issued is the counter that it had reached when the last block was taken: the codes of those
	// below may be in use.
	issued uint64
}

// New returns the counter of a node. The first secret makes new codes; the others were replaced.
func New(d *db.DB, secrets [][]byte) *Counter {
	c := &Counter{db: d}
	for _, secret := range secrets {
		fingerprint := fingerprintOf(secret)
		if !slices.ContainsFunc(c.epochs, func(e epoch) bool { return e.fingerprint == fingerprint }) {
			c.epochs = append(c.epochs, epoch{permutation: shortcode.NewPermutation(secret), fingerprint: fingerprint})
		}
	}
	return c
}

// Take returns n codes that no node has had. Codes that a reserved word has are passed over. It
// must not be called in a transaction: it writes to the database.
func (c *Counter) Take(ctx context.Context, n int) ([]string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	codes := make([]string, 0, n)
	for len(codes) < n {
		if c.next == c.end {
			if err := c.refill(ctx); err != nil {
				return nil, err
			}
		}
		code := c.epochs[0].permutation.Code(c.next)
		c.next++
		if !shortcode.Reserved(code) && !c.issuedByOther(code) {
			codes = append(codes, code)
		}
	}
	return codes, nil
}

// issuedByOther reports whether another secret has made the code. The link may be purged, so that
// no constraint refuses it.
func (c *Counter) issuedByOther(code string) bool {
	return slices.ContainsFunc(c.epochs[1:], func(e epoch) bool {
		counter, ok := e.permutation.Counter(code)
		return ok && counter < e.issued
	})
}

func (c *Counter) refill(ctx context.Context) error {
	if err := c.nameEpochs(ctx); err != nil {
		return err
	}
	var end uint64
	err := c.db.NewRaw(`INSERT INTO counters AS c (name, next) VALUES (?, ?)
		ON CONFLICT (name) DO UPDATE SET next = c.next + excluded.next RETURNING next`, c.epochs[0].name, BlockSize).Scan(ctx, &end)
	if err != nil {
		return fmt.Errorf("taking a block of counters: %w", err)
	}
	if end > shortcode.Counters {
		return errs.New(errs.CodeExhausted, "Every code of this strategy has been given out. Use another one.").At("strategy")
	}
	if err := c.readIssued(ctx); err != nil {
		return err
	}
	c.next, c.end = end-BlockSize, end
	return nil
}

// nameEpochs finds out which of the secrets is the database's first.
func (c *Counter) nameEpochs(ctx context.Context) error {
	if len(c.epochs) > 0 && c.epochs[0].name != "" {
		return nil
	}
	first, err := c.pin(ctx)
	if err != nil {
		return err
	}
	for i := range c.epochs {
		c.epochs[i].name = epochPrefix + c.epochs[i].fingerprint
		if c.epochs[i].fingerprint == first {
			c.epochs[i].name = firstEpoch
		}
	}
	return nil
}

// readIssued reads the counters of the other epochs. One that the database does not know may have
// been lost with a restore, so the highest counter of all epochs counts for it. A node that still
// runs with a previous secret may take counters beyond; the unique index of codes decides between
// the two.
func (c *Counter) readIssued(ctx context.Context) error {
	for i := range c.epochs[1:] {
		e := &c.epochs[i+1]
		err := c.db.NewRaw(`SELECT COALESCE((SELECT next FROM counters WHERE name = ?), (SELECT MAX(next) FROM counters WHERE `+allEpochs+`))`,
			e.name).Scan(ctx, &e.issued)
		if err != nil {
			return fmt.Errorf("reading the counter of another code secret: %w", err)
		}
	}
	return nil
}

// restoreGap is how far the counter moves when a database has been restored: more codes than any
// instance gives out after a backup, and few of the 62^7 that there are.
const restoreGap = 1_000_000_000

// AfterRestore moves the counters of a database that was restored so far ahead that no code is
// given out again which a client received after the backup was made. It returns the highest
// counter, and CodeExhausted when none would be left.
func AfterRestore(ctx context.Context, d *db.DB) (next uint64, err error) {
	_, err = d.NewRaw("INSERT INTO counters (name, next) VALUES (?, 0) ON CONFLICT DO NOTHING", firstEpoch).Exec(ctx)
	if err != nil {
		return 0, fmt.Errorf("creating the counter of codes: %w", err)
	}
	var moved []uint64
	err = d.NewRaw(`UPDATE counters SET next = next + ?0 WHERE (`+allEpochs+`)
		AND NOT EXISTS (SELECT 1 FROM counters WHERE (`+allEpochs+`) AND next + ?0 > ?1) RETURNING next`,
		restoreGap, int64(shortcode.Counters)).Scan(ctx, &moved)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return 0, fmt.Errorf("moving the counter of codes: %w", err)
	}
	if len(moved) == 0 {
		return 0, errs.New(errs.CodeExhausted, "So few codes of the strategy COUNTER are left that the counter cannot be "+
			"moved ahead. Use another strategy.")
	}
	return slices.Max(moved), nil
}
