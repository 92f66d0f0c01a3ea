package jobs

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/id"
)

// statementTimeout bounds each statement. A timeout is safe: a lease that cannot be acquired stays
// unchanged, and a lease that cannot be released expires.
const statementTimeout = 10 * time.Second

// lease is one acquisition of a job's lease by one holder.
type lease struct {
	name, holder, node string
	// acquiredAt is the time of the acquisition, dueAt the time of the next run.
	acquiredAt, dueAt time.Time
	// heldUntil is the earliest time at which others may acquire a released lease. freeAt is the
	// time at which a lease expires that is not released. deadAt is the time from which on the
	// operator may replace the holder, unless it is renewed.
	heldUntil, freeAt, deadAt time.Time
}

func newLease(job Job, node string, now time.Time) lease {
	return lease{
		name: job.Name, holder: id.New("run_"), node: node,
		acquiredAt: db.Instant(now), dueAt: db.Instant(now.Add(job.Every - job.dueTolerance())),
		heldUntil: db.Instant(now.Add(job.minHold())), freeAt: db.Instant(now.Add(job.maxHold())),
		deadAt: db.Instant(now.Add(lifetime)),
	}
}

const (
	// heartbeat is how often a holder reports that it is alive, and lifetime how long a report
	// lasts.
	heartbeat = 10 * time.Second
	lifetime  = 45 * time.Second
)

// renew reports to others that the holder is alive. It returns whether this holder still has the
// lease.
func (l lease) renew(ctx context.Context, d *db.DB, now time.Time) (kept bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, statementTimeout)
	defer cancel()
	n, err := db.Affected(d.ExecContext(ctx, "UPDATE leases SET dead_at = ? WHERE name = ? AND holder = ?",
		db.Instant(now.Add(lifetime)), l.name, l.holder))
	if err != nil {
		return false, fmt.Errorf("renewing the lease: %w", err)
	}
	return n == 1, nil
}

// acquire takes the lease, and reports whether it was available: when it is free and the job is
// due, or when its last holder has not released it in time. It is one statement, which the database
// serializes, so one of several concurrent callers receives a row.
//
// With atOnce the job need not be due, and the lease of a holder that has missed its heartbeats
// (dead_at) is available before it expires.
func (l lease) acquire(ctx context.Context, d *db.DB, atOnce bool) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, statementTimeout)
	defer cancel()
	var holder string
	err := d.NewRaw(`INSERT INTO leases AS l (name, holder, free_at, due_at, node, began_at, dead_at)
			VALUES (?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, free_at = excluded.free_at, due_at = excluded.due_at,
			node = excluded.node, began_at = excluded.began_at, dead_at = excluded.dead_at, ended_at = NULL
			WHERE l.free_at <= ? AND (l.due_at <= ? OR l.holder <> '') OR (l.holder = '' OR l.dead_at <= ?) AND ?
		RETURNING holder`, l.name, l.holder, l.freeAt, l.dueAt, l.node, l.acquiredAt, l.deadAt, l.acquiredAt,
		l.acquiredAt, l.acquiredAt, atOnce).Scan(ctx, &holder)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("acquiring the lease: %w", err)
	}
	return true, nil
}

// EndLeases ends the leases of all nodes, none of which runs: the jobs that their end has
// interrupted are due at once.
func EndLeases(ctx context.Context, d *db.DB, now time.Time) error {
	now = db.Instant(now)
	_, err := d.ExecContext(db.AsSystem(ctx),
		"UPDATE leases SET holder = '', free_at = ?, due_at = ?, dead_at = ? WHERE holder <> ''", now, now, now)
	if err != nil {
		return fmt.Errorf("ending the leases of jobs: %w", err)
	}
	return nil
}

// doubt frees the lease, and makes the job due, where a node whose clock was ahead has set instants
// that lie further ahead than a lease of the job lasts. It returns that run, or nil.
func (l lease) doubt(ctx context.Context, d *db.DB, job Job) (*State, error) {
	ctx, cancel := context.WithTimeout(ctx, statementTimeout)
	defer cancel()
	now := l.acquiredAt
	free, due := db.Latest(now, job.maxHold()), db.Latest(now, job.Every)
	dead := db.Latest(now, lifetime)
	var doubted []State
	err := d.NewRaw(`UPDATE leases SET free_at = CASE WHEN free_at > ?1 THEN ?0 ELSE free_at END,
			due_at = CASE WHEN due_at > ?2 THEN ?0 ELSE due_at END,
			dead_at = CASE WHEN dead_at > ?3 THEN ?0 ELSE dead_at END
		WHERE name = ?4 AND (free_at > ?1 OR due_at > ?2 OR dead_at > ?3) RETURNING node, began_at`,
		now, free, due, dead, l.name).Scan(ctx, &doubted)
	if err != nil || len(doubted) == 0 {
		return nil, err
	}
	return &doubted[0], nil
}

// release ends the lease unless another node holds it by now. It does so even after the context has
// ended, because other nodes would otherwise wait until the lease expires. An interrupted job is
// due again after the minimum duration of a lease. A failed job is due at its regular time, because
// it would probably fail again. The outcome is stored for the operator.
func (l lease) release(ctx context.Context, d *db.DB, now time.Time, failed error, interrupted bool) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), statementTimeout)
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

// errorLine returns the error as a single line, or nil if there is none.
func errorLine(err error) *string {
	if err == nil {
		return nil
	}
	line := []rune(strings.ToValidUTF8(strings.Join(strings.Fields(err.Error()), " "), ""))
	text := strings.ReplaceAll(string(line[:min(len(line), maxErrorLength)]), "\x00", "")
	return &text
}
