package clickstore

import (
	"context"
	"fmt"
	"sync"

	"github.com/linkforge/linkforge/internal/platform/db"
)

// idBlock is the number of click IDs that a process reserves at once. Unused ones are a gap.
const idBlock = 1 << 16

// ClickIDs are the click IDs that this process has reserved.
type ClickIDs struct {
	mu        sync.Mutex
	next, end int64
}

// Take returns the first of n consecutive IDs that no other click has.
func (r *ClickIDs) Take(ctx context.Context, d *db.DB, n int64) (first int64, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.end-r.next < n {
		block := max(idBlock, n)
		err := d.NewRaw(`INSERT INTO counters AS c (name, next) VALUES ('click', ?)
			ON CONFLICT (name) DO UPDATE SET next = c.next + ? RETURNING next`, block+1, block).
			Scan(db.AsSystem(ctx), &r.end)
		if err != nil {
			return 0, fmt.Errorf("reserving click ids: %w", err)
		}
		r.next = r.end - block
	}
	r.next += n
	return r.next - n, nil
}

// skippedIDs are more than the clicks between a backup and its restore.
const skippedIDs = 1 << 40

// AfterRestore advances the ids of a restored database: ClickHouse may have clicks that were
// written after the backup.
func AfterRestore(ctx context.Context, d *db.DB) error {
	_, err := d.NewRaw("UPDATE counters SET next = next + ? WHERE name = 'click'", skippedIDs).Exec(db.AsSystem(ctx))
	if err != nil {
		return fmt.Errorf("advancing click ids: %w", err)
	}
	return nil
}
