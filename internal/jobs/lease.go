package jobs

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/id"
)

// deadline bounds each statement. It fails closed: a lease that cannot be taken is left alone, and
// one that cannot be given back ends by itself.
const deadline = 10 * time.Second

// lease is one taking of a job's lease, by one holder.
type lease struct {
	name, holder, node string
	// takenAt is the time at which it is taken, dueAt the time of the next run.
	takenAt, dueAt time.Time
	// heldUntil and freeAt are when others may take it: if it is given back, and if it is not.
	heldUntil, freeAt time.Time
}

func newLease(job Job, node string, now time.Time) lease {
	return lease{
		name: job.Name, holder: id.New("run_"), node: node,
		takenAt: db.Instant(now), dueAt: db.Instant(now.Add(job.Every - job.slack())),
		heldUntil: db.Instant(now.Add(job.minHold())), freeAt: db.Instant(now.Add(job.maxHold())),
	}
}

// acquire takes the lease, and reports whether it was available: when it is free and the job is
// due, or when its last holder has not released it in time. It is one statement, which the database
// serializes, so one of several concurrent callers receives a row.
//
// With atOnce the job need not be due.
func (l lease) acquire(ctx context.Context, d *db.DB, atOnce bool) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	var holder string
	err := d.NewRaw(`INSERT INTO leases AS l (name, holder, free_at, due_at, node, began_at) VALUES (?, ?, ?, ?, ?, ?)
		ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, free_at = excluded.free_at, due_at = excluded.due_at,
			node = excluded.node, began_at = excluded.began_at, ended_at = NULL
			WHERE l.free_at <= ? AND (l.due_at <= ? OR l.holder <> '') OR l.holder = '' AND ?
		RETURNING holder`, l.name, l.holder, l.freeAt, l.dueAt, l.node, l.takenAt, l.takenAt,
		l.takenAt, atOnce).Scan(ctx, &holder)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("acquiring the lease: %w", err)
	}
	return true, nil
}

// release ends the lease unless another node holds it by now. It does so even after the context has
// ended, because other nodes would wait for the whole lease otherwise. An interrupted job is due at
// once, after the minimum duration of a lease. A failed job is due at its regular time, because it
// would probably fail again. The outcome is stored for the operator.
func (l lease) release(ctx context.Context, d *db.DB, now time.Time, failed error, interrupted bool) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), deadline)
	defer cancel()
	now = db.Instant(now)
	freeAt, dueAt := l.heldUntil, l.dueAt
	if now.After(freeAt) {
		freeAt = now
	}
	if interrupted {
		dueAt = now
	}
	_, err := d.ExecContext(ctx,
		`UPDATE leases SET holder = '', free_at = ?, due_at = ?, ended_at = ?, error = ? WHERE name = ? AND holder = ?`,
		freeAt, dueAt, now, errorLine(failed), l.name, l.holder)
	if err != nil {
		return fmt.Errorf("returning the lease: %w", err)
	}
	return nil
}

// maxErrorLength bounds the stored text of an error, in characters.
const maxErrorLength = 500

// errorLine is an error in one line, nil when there is none.
func errorLine(err error) *string {
	if err == nil {
		return nil
	}
	line := []rune(strings.ToValidUTF8(strings.Join(strings.Fields(err.Error()), " "), ""))
	said := strings.ReplaceAll(string(line[:min(len(line), maxErrorLength)]), "\x00", "")
	return &said
}
