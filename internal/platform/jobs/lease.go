package jobs

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/lease"
)

// hold is one acquisition of a job's lease. It ends with the run at the latest, even if a short job
// runs more often than leases last.
type hold struct {
	runner  *Runner
	lease   lease.Lease
	job     Job
	beganAt time.Time
}

func (r *Runner) newHold(job Job) hold {
	now := r.Now()
	return hold{r, lease.New(r.Now, now.Add(job.maxHold())), job, db.Instant(now)}
}

// row returns an update of the lease.
func (h hold) row() *bun.UpdateQuery {
	return h.runner.DB.NewUpdate().Model((*State)(nil)).Where("name = ?", h.job.Name)
}

// acquire takes the lease, and reports whether it was free and no run has begun or ended since the
// state was read.
func (h hold) acquire(ctx context.Context, s State) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, lease.Timeout)
	defer cancel()
	if s.DueAt == nil {
		s.DueAt = &h.beganAt
		_, err := h.runner.DB.NewInsert().Model(&s).On("CONFLICT DO NOTHING").Exec(ctx)
		if err != nil {
			return false, fmt.Errorf("creating the lease: %w", err)
		}
	}
	n, err := db.Affected(h.lease.Take(h.row()).Set("due_at = ?", db.Instant(h.beganAt.Add(h.job.maxHold()))).
		Set("node = ?", h.runner.Node).Set("began_at = ?", h.beganAt).Set("ended_at = NULL").
		Where("due_at = ?", s.DueAt).Exec(ctx))
	if err != nil {
		return false, fmt.Errorf("acquiring the lease: %w", err)
	}
	return n == 1, nil
}

// release ends the lease unless another node holds it by now. It does so even after the context has
// ended, because other nodes would otherwise wait until the lease expires. An interrupted job is
// due again after the minimum duration of a lease. A failed job is due at its regular time, because
// it would probably fail again. The outcome is stored for the operator.
func (h hold) release(ctx context.Context, failed error, interrupted bool) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lease.Timeout)
	defer cancel()
	now, dueAt := h.runner.Now(), h.beganAt.Add(h.job.Every)
	if interrupted {
		dueAt = h.beganAt.Add(h.job.minHold())
	}
	_, err := h.lease.Release(h.row()).Set("due_at = ?", db.Instant(dueAt)).Set("ended_at = ?", db.Instant(now)).
		Set("error = ?", errorLine(failed)).Exec(ctx)
	if err != nil {
		return fmt.Errorf("returning the lease: %w", err)
	}
	return nil
}

// EndLeases ends the leases of all nodes, none of which runs: the jobs that their end has
// interrupted are due at once.
func EndLeases(ctx context.Context, d *db.DB, now time.Time) error {
	return lease.End(ctx, d.NewUpdate().Model((*State)(nil)).Set("due_at = ?", db.Instant(now)), now)
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
