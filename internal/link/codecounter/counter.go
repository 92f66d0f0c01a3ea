// Package codecounter issues the codes of the strategy COUNTER: each node allocates blocks of
// counters of its cell, and a code secret turns counters into codes. It owns the counters and the
// checks that no code secret in use is missing and that the cell stays the same, but no links.
// Package creation requests codes; the server and the commands check secrets.
package codecounter

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/linkforge/linkforge/internal/link/shortcode"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/errs"
)

// BlockSize is the number of counters that a node allocates at once. Unused ones are a gap and are
// never issued.
const BlockSize = 1000

// Counter issues codes from this node's block, so that most links cost no statement.
type Counter struct {
	db   *db.DB
	cell int
	// epochs are those of the configured secrets. The first one generates codes; codes that another
	// one has issued are skipped.
	epochs []epoch

	mu        sync.Mutex
	next, end uint64 // the unused counters of the block
}

// epoch is the series of codes of one secret.
type epoch struct {
	permutation *shortcode.Permutation
	fingerprint string
	// name is the name of its counter in the database; empty until it is known.
	name string
	// issued is the epoch's counter when the last block was allocated: lower ones of the cell may
	// be in use.
	issued uint64
}

// New returns the counter of a node of a cell, 0 to Cells-1. The first secret generates codes; the
// others were replaced.
func New(d *db.DB, secrets [][]byte, cell int) *Counter {
	c := &Counter{db: d, cell: cell}
	for _, secret := range secrets {
		fingerprint := fingerprintOf(secret)
		if !slices.ContainsFunc(c.epochs, func(e epoch) bool { return e.fingerprint == fingerprint }) {
			c.epochs = append(c.epochs, epoch{permutation: shortcode.NewPermutation(secret), fingerprint: fingerprint})
		}
	}
	return c
}

// Take returns n codes that no node has issued, without reserved words. It must not be called in a
// transaction, because it writes to the database.
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

// issuedByOther reports whether another epoch has issued the code. Its link may have been purged,
// so the unique index does not prevent its reuse.
func (c *Counter) issuedByOther(code string) bool {
	return slices.ContainsFunc(c.epochs[1:], func(e epoch) bool {
		counter, ok := e.permutation.Counter(code)
		return ok && firstOf(c.cell) <= counter && counter < e.issued
	})
}

func (c *Counter) refill(ctx context.Context) error {
	if err := c.nameEpochs(ctx); err != nil {
		return err
	}
	var end uint64
	err := c.db.NewRaw(`INSERT INTO counters AS c (name, next) VALUES (?, ?)
		ON CONFLICT (name) DO UPDATE SET next = c.next + ? RETURNING next`,
		c.epochs[0].name, firstOf(c.cell)+BlockSize, BlockSize).Scan(ctx, &end)
	if err != nil {
		return fmt.Errorf("allocating a block of counters: %w", err)
	}
	if end > firstOf(c.cell+1) {
		return errs.New(errs.CodeExhausted, "Every code of this strategy has been given out. Use another one.").
			At("strategy")
	}
	if err := c.readIssued(ctx); err != nil {
		return err
	}
	c.next, c.end = end-BlockSize, end
	return nil
}

// nameEpochs sets the names of the epochs, which depend on the database's first secret.
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

// readIssued reads the counters of the other epochs. A missing counter may have been lost with a
// restore, so the highest counter of all epochs is used instead. A node that still runs with a
// previous secret may allocate further counters; then the unique index of codes decides.
func (c *Counter) readIssued(ctx context.Context) error {
	for i := range c.epochs[1:] {
		e := &c.epochs[i+1]
		err := c.db.NewRaw(`SELECT COALESCE((SELECT next FROM counters WHERE name = ?),
			(SELECT MAX(next) FROM counters WHERE `+allEpochs+`))`, e.name).Scan(ctx, &e.issued)
		if err != nil {
			return fmt.Errorf("reading the counter of another code secret: %w", err)
		}
	}
	return nil
}

// restoreGap is how far a restore advances the counters: more than any instance issues after a
// backup, and a small part of those of a cell.
const restoreGap = 1_000_000_000

// AfterRestore advances the counters of a restored database, so that codes issued after the backup
// are not issued again. It returns the highest counter, or CodeExhausted when none would be left.
func AfterRestore(ctx context.Context, d *db.DB) (next uint64, err error) {
	cell, err := CellOf(ctx, d)
	if err != nil {
		return 0, err
	}
	_, err = d.NewRaw("INSERT INTO counters (name, next) VALUES (?, ?) ON CONFLICT DO NOTHING", firstEpoch,
		firstOf(cell)).
		Exec(ctx)
	if err != nil {
		return 0, fmt.Errorf("creating the counter of codes: %w", err)
	}
	var moved []uint64
	err = d.NewRaw(`UPDATE counters SET next = next + ?0 WHERE (`+allEpochs+`)
		AND NOT EXISTS (SELECT 1 FROM counters WHERE (`+allEpochs+`) AND next + ?0 > ?1) RETURNING next`,
		restoreGap, firstOf(cell+1)).Scan(ctx, &moved)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return 0, fmt.Errorf("moving the counter of codes: %w", err)
	}
	if len(moved) == 0 {
		return 0, errs.New(errs.CodeExhausted,
			"So few codes of the strategy COUNTER are left that the counter cannot be "+
				"moved ahead. Use another strategy.")
	}
	return slices.Max(moved), nil
}
