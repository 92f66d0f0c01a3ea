package jobs

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/id"
)

// deadline bounds each statement. It fails closed: a lease that cannot be taken is left alone, and one that cannot
// be given back ends by itself.
const deadline = 10 * time.Second

// lease is one taking of a job's lease, by one holder.
type lease struct {
	name, holder string
	// takenAt is when it is taken, and dueAt when the job is to be run next.
	takenAt, dueAt time.Time
	// keptUntil and freeAt are when others may take it: if it is given back, and if it is not.
	keptUntil, freeAt time.Time
}

func newLease(job Job, now time.Time) lease {
	return lease{
		name: job.Name, holder: id.New("run_"),
		takenAt: db.Instant(now), dueAt: db.Instant(now.Add(job.Every - job.slack())),
		keptUntil: db.Instant(now.Add(job.atLeast())), freeAt: db.Instant(now.Add(job.atMost())),
	}
}

// take takes the lease, and reports whether it was there to be taken: once it is free, when the job is due or its
// last holder has never given it back. It is one statement, of which the database lets one node at a time through,
// so that of many who ask at once one gets a row back.
func (l lease) take(ctx context.Context, d *db.DB) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	var holder string
	err := d.NewRaw(`INSERT INTO leases AS l (name, holder, free_at, due_at) VALUES (?, ?, ?, ?)
		ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, free_at = excluded.free_at, due_at = excluded.due_at
			WHERE l.free_at <= ? AND (l.due_at <= ? OR l.holder <> '')
		RETURNING holder`, l.name, l.holder, l.freeAt, l.dueAt, l.takenAt, l.takenAt).Scan(ctx, &holder)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("taking the lease: %w", err)
	}
	return true, nil
}

// giveBack ends the lease, unless another holder has it by now. It does so although the context may have ended,
// since others would wait for the whole lease otherwise. An interrupted job is due at once: it goes on as soon as
// the lease was kept long enough. A failed one waits for its time, since it would most likely fail again.
func (l lease) giveBack(ctx context.Context, d *db.DB, now time.Time, interrupted bool) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), deadline)
	defer cancel()
	now = db.Instant(now)
	freeAt, dueAt := l.keptUntil, l.dueAt
	if now.After(freeAt) {
		freeAt = now
	}
	if interrupted {
		dueAt = now
	}
	_, err := d.ExecContext(ctx, `UPDATE leases SET holder = '', free_at = ?, due_at = ? WHERE name = ? AND holder = ?`,
		freeAt, dueAt, l.name, l.holder)
	if err != nil {
		return fmt.Errorf("giving the lease back: %w", err)
	}
	return nil
}
