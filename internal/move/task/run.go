package task

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/feed"
	"github.com/linkforge/linkforge/internal/platform/lease"
	"github.com/linkforge/linkforge/internal/platform/poll"
	"github.com/linkforge/linkforge/internal/platform/secrets"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
)

const (
	// lookEvery is how often nodes look for tasks without news of any.
	lookEvery = time.Minute
	// A task that failed for a reason that may pass waits retryPause for each attempt, up to
	// maxRetryPause. It fails for good after maxAttempts without progress. Of an error that says how
	// long to wait, the first promptAttempts wait just as long, up to longestPause.
	retryPause     = 10 * time.Second
	maxRetryPause  = 10 * time.Minute
	maxAttempts    = 20
	promptAttempts = 5
	longestPause   = 2 * time.Hour
	// turn is how long a task runs, and at least as long as it has prepared, before waiting tasks
	// are served.
	turn = time.Second
	// maxRest bounds the pause after a step.
	maxRest = time.Second
	// outsideFactor is how many tasks that wait for other servers run for each slot.
	outsideFactor = 4
)

// Handler does the tasks of a kind.
type Handler interface {
	// Run continues a task where its Cursor says, and returns when it has ended. Each of its
	// transactions calls Step last, and Rest follows each step. It returns the errors of these, a
	// user error for a task that cannot succeed, and any other error for one that may succeed
	// later.
	Run(ctx context.Context, h *Holding) error
}

// Runner runs tasks on a node.
type Runner struct {
	*Store
	// Slots is how many tasks compute at once; zero means that the node runs none. An account has
	// half of them, and of outsideFactor times as many tasks that wait for other servers a quarter.
	Slots int
	// Handlers are those of the kinds that the node knows.
	Handlers map[Kind]Handler
	// MemberOf returns the membership of the account or API key that started a task, as it is now.
	// It returns NotFound, Forbidden or Unauthenticated.
	MemberOf func(ctx context.Context, t *Task) (workspace.Membership, error)
	Log      *slog.Logger

	turns turns
}

// Holding is a task that this node runs.
type Holding struct {
	*Task
	// Member is the membership of the account or API key that started the task.
	Member workspace.Membership

	store   *Store
	lease   lease.Lease
	account string
	// began is when the node took the task, and prepared how long it has prepared its first step,
	// in nanoseconds. This is time of the machine, not of the injected clock.
	began    time.Time
	prepared atomic.Int64
	// isOver means that other tasks wait since the turn has ended.
	isOver atomic.Bool
}

// later ends a holding, and with it the use of a slot, until a duration has passed.
type later struct{ after time.Duration }

func (l *later) Error() string { return "the task continues after " + l.after.String() }

// Later returns the error that ends a holding for a while: what the task waits for is outside, and
// others have its slot meanwhile. It is no failed attempt. Zero lets those go first that wait.
func Later(after time.Duration) error { return &later{after} }

// Account returns the account that is responsible for the workspace of the task.
func (h *Holding) Account() string { return h.account }

// Prepared begins the turn of a task that has read what it had done before.
func (h *Holding) Prepared() { h.prepared.Store(int64(time.Since(h.began))) }

// IsOver reports whether the turn has ended and other tasks wait. The holding ends at its next
// Rest, or earlier if the handler stores its progress and returns Later(0).
func (h *Holding) IsOver() bool { return h.isOver.Load() }

// Compute says that the next steps wait for no other server. Return its error: it ends a holding
// that was outside, and the task continues with a slot for tasks that compute.
func (h *Holding) Compute(ctx context.Context) error {
	if !h.Outside {
		return nil
	}
	_, err := h.store.DB.NewUpdate().Model((*Task)(nil)).Set("outside = FALSE").Where("id = ?", h.ID).
		Where("lease_holder = ?", h.lease.Holder).Exec(ctx)
	return cmp.Or(err, Later(0))
}

// Step stores the progress of a step. Call it last in the transaction, because it locks the task's
// row until the commit. It returns lease.ErrLost if another node holds the task or its cancellation was
// requested: return it, so that the transaction rolls back.
func (h *Holding) Step(ctx context.Context, tx bun.Tx, cursor string, done int64, total *int64) error {
	n, err := db.Affected(tx.NewUpdate().Model((*Task)(nil)).Set("cursor = ?", cursor).Set("done = ?", done).
		Set("total = ?", total).Set("updated_at = ?", h.store.now()).Set("attempts = 0").
		Where("id = ?", h.ID).Where("lease_holder = ?", h.lease.Holder).Where("cancel_requested_at IS NULL").Exec(ctx))
	if err == nil && n == 0 {
		err = lease.ErrLost
	}
	return err
}

// OpenSecret returns the secret of the arguments.
func (h *Holding) OpenSecret() ([]byte, error) {
	return h.store.sealed.Open(secrets.TaskSecret, h.ID, h.Secret)
}

// Run runs tasks until the context ends, and then returns the leases of unfinished tasks.
func (r *Runner) Run(ctx context.Context) error {
	if r.Slots == 0 {
		return nil
	}
	var holdings sync.WaitGroup
	failures := poll.Failures{Log: r.Log, Message: "running tasks failed"}
	poll.OnSignal(ctx, r.wake, lookEvery, failures, func(ctx context.Context) error {
		for took := true; took && ctx.Err() == nil; {
			var err error
			if took, err = r.takeSome(ctx, &holdings); err != nil {
				return err
			}
		}
		return nil
	})
	holdings.Wait()
	return nil
}

// EndLeases ends the leases of all nodes, none of which runs: their tasks go on at once.
func (s *Store) EndLeases(ctx context.Context) error {
	return lease.End(ctx, s.DB.NewUpdate().Model((*Task)(nil)), s.now())
}

// Follow has the node look for tasks that are due.
func (r *Runner) Follow(_ context.Context, n feed.News) {
	if n.HasTasks {
		poll.Signal(r.wake)
	}
}

// takeSome takes tasks as far as there are slots for them, and runs them in the background. It
// reports whether others may follow.
func (r *Runner) takeSome(ctx context.Context, holdings *sync.WaitGroup) (took bool, err error) {
	next, err := r.next(ctx)
	if err != nil {
		return false, err
	}
	r.turns.sort(next)
	for _, c := range next {
		bounds := r.bounds(c)
		if r.turns.Take(1, bounds...) == 0 {
			continue
		}
		h, err := r.take(ctx, c)
		if h == nil {
			r.turns.Give(1, bounds...)
			if err != nil {
				return false, err
			}
			took = true // another node was faster, and the account may have another task
			continue
		}
		took = true
		if now := r.now(); c.IsAhead(now) || db.IsAhead(&c.DueAt, now, longestPause) {
			db.WarnOfClock(ctx, r.Log, "the lease or the pause of a task", "task", c.ID)
		}
		r.turns.serve(c)
		holdings.Go(func() {
			defer poll.Signal(r.wake)
			defer r.turns.Give(1, bounds...)
			r.run(ctx, h)
		})
	}
	return took, nil
}

// run runs a task that the node has taken.
func (r *Runner) run(ctx context.Context, h *Holding) {
	outcome := r.hold(ctx, h)
	isStopping := ctx.Err() != nil
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lease.Timeout)
	defer cancel()
	hasEnded, err := r.release(ctx, h, outcome, isStopping)
	if err == nil && hasEnded {
		err = r.trim(context.WithoutCancel(ctx), h)
	}
	if err != nil {
		r.Log.Log(ctx, errs.LogLevel(err), "releasing a task failed", "task", h.ID, "error", err)
	}
}

// take takes a task, or returns nil if it cannot be taken any more. Of a workspace, one of each
// kind runs at a time.
func (r *Runner) take(ctx context.Context, c *candidate) (*Holding, error) {
	// The end of the context must not cut the statement off: the lease would stay until it ends.
	ctx, cancel := context.WithTimeout(db.AsSystem(context.WithoutCancel(ctx)), lease.Timeout)
	defer cancel()
	t, now, l := &Task{}, r.now(), lease.New(r.Now, time.Time{})
	err := l.Take(r.DB.NewUpdate().Model(t)).Set("status = ?", Running).Set("attempts = attempts + 1").
		Set("started_at = COALESCE(started_at, ?)", now).Set("updated_at = ?", now).
		Where("id = ?", c.ID).Where("outside = ?", c.Outside).Where("?", db.Passed("due_at", now, longestPause)).
		Where("status IN (?)", bun.In([]Status{Queued, Running})).Returning("*").Scan(ctx)
	switch {
	case errors.Is(err, sql.ErrNoRows) || db.IsUniqueViolation(err): // or another node has taken one of the workspace
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("taking a task: %w", err)
	}
	return &Holding{Task: t, store: r.Store, lease: l, account: c.Account, began: time.Now()}, nil
}

// hold runs a task, and renews its lease meanwhile.
func (r *Runner) hold(ctx context.Context, h *Holding) (err error) {
	if h.CancelRequestedAt != nil {
		return lease.ErrLost
	}
	if h.Member, err = r.memberOf(ctx, h.Task); err != nil {
		return err
	}
	h.In = h.Member
	if err := r.admit(ctx, h); err != nil {
		return err
	}
	renewed := time.Now()
	return lease.Run(ctx, min(r.renewEvery, r.turn), func(ctx context.Context) error {
		return r.watch(ctx, h, &renewed)
	}, func(ctx context.Context) error { return r.Handlers[h.Kind].Run(ctx, h) })
}

// watch renews the lease of a task, ends the holding of one that is canceled or whose member has
// left, and notes when its turn is over.
func (r *Runner) watch(ctx context.Context, h *Holding, renewed *time.Time) error {
	if time.Since(*renewed) >= r.renewEvery {
		*renewed = time.Now()
		q := r.DB.NewUpdate().Model((*Task)(nil)).Where("id = ?", h.ID).Where("cancel_requested_at IS NULL")
		if err := h.lease.Renew(ctx, q); err != nil {
			return err
		}
		if _, err := r.memberOf(ctx, h.Task); errors.Is(err, lease.ErrLost) || errs.Is(err, errs.Forbidden) {
			return err
		}
	}
	prepared := time.Duration(h.prepared.Load())
	h.isOver.Store(time.Since(h.began)-prepared >= max(r.turn, prepared) && r.othersWait(ctx, h))
	return nil
}

// memberOf returns the membership of a task, which still has the permission of its kind. It returns
// lease.ErrLost and Forbidden.
func (r *Runner) memberOf(ctx context.Context, t *Task) (workspace.Membership, error) {
	m, err := r.MemberOf(ctx, t)
	switch {
	case errs.Is(err, errs.NotFound): // the account or the workspace has left
		return m, lease.ErrLost
	case errs.Is(err, errs.Unauthenticated):
		return m, errs.New(errs.Forbidden, "The API key that started the task has ended.")
	case err == nil:
		_, err = m.Enter(ctx, t.Kind.permission())
	}
	return m, err
}

// Rest waits as long as a step took: half of the time is for requests; zero for a step that waits
// for others. It is time of the machine, not of the injected clock. It returns the error of the
// context, and one that ends the holding for a while if other tasks wait.
func (h *Holding) Rest(ctx context.Context, took time.Duration) error {
	if h.IsOver() {
		return Later(0)
	}
	return poll.Wait(ctx, min(took, maxRest))
}

// release ends the holding of a task, and the task if it is over, which it reports.
func (r *Runner) release(
	ctx context.Context, h *Holding, outcome error, isStopping bool,
) (hasEnded bool, err error) {
	err = r.DB.Tx(db.AsSystem(ctx), func(ctx context.Context, tx bun.Tx) error {
		t := &Task{}
		defer func() { hasEnded = t.FinishedAt != nil }()
		q := tx.NewSelect().Model(t).Where("id = ?", h.ID).Where("lease_holder = ?", h.lease.Holder)
		if err := r.DB.ForChange(q).Scan(ctx); err != nil {
			return err
		}
		failure := errs.From(outcome)
		pause, isPaused := errors.AsType[*later](outcome)
		switch {
		case outcome == nil:
			return r.finish(ctx, tx, t, Succeeded, nil)
		case t.CancelRequestedAt != nil || errors.Is(outcome, lease.ErrLost): // or the workspace has left
			return r.finish(ctx, tx, t, Canceled, nil)
		case isPaused:
			t.DueAt, t.Attempts = r.now().Add(min(pause.after, longestPause)), max(0, t.Attempts-1)
		case isStopping:
			t.DueAt = r.now()
		case failure.Kind.IsUserError(), failure.Kind == errs.Forbidden:
			return r.finish(ctx, tx, t, Failed, failure)
		case t.Attempts >= maxAttempts:
			return r.finish(ctx, tx, t, Failed, errs.New(failure.Kind, "%s", failure.Public()))
		default:
			t.DueAt = r.now().Add(pauseAfter(failure, t.Attempts))
		}
		t.Status, t.LeaseHolder, t.LeaseUntil = Queued, nil, nil
		_, err := tx.NewUpdate().Model(t).WherePK().Column("status", "lease_holder", "lease_until", "attempts",
			"due_at").Exec(ctx)
		return err
	})
	switch {
	case errors.Is(err, sql.ErrNoRows): // another node has it
		return false, nil
	case err != nil:
		return false, fmt.Errorf("releasing a task: %w", err)
	case outcome != nil && !errors.Is(outcome, lease.ErrLost) && !isLater(outcome) && !isStopping:
		level := slog.LevelInfo // the caller can see why
		switch errs.From(outcome).Kind {
		case errs.Internal:
			level = slog.LevelError
		case errs.Unavailable:
			level = slog.LevelWarn
		}
		r.Log.Log(ctx, level, "a task was interrupted", "task", h.ID, "kind", h.Kind, "attempt", h.Attempts, "error",
			outcome)
	}
	return hasEnded, nil
}

func isLater(err error) bool {
	_, ok := errors.AsType[*later](err)
	return ok
}

// pauseAfter returns how long a task waits after a failed attempt, the last one of a number.
func pauseAfter(failure *errs.Error, attempts int) time.Duration {
	if failure.RetryAfter > 0 && attempts <= promptAttempts {
		return min(failure.RetryAfter, longestPause)
	}
	pause := min(time.Duration(max(attempts, 1))*retryPause, maxRetryPause)
	return min(max(pause, failure.RetryAfter), longestPause)
}
