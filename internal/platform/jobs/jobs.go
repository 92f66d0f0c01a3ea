// Package jobs runs periodic jobs. A lease row in the database ensures that each job runs on at
// most one node, and that another node takes over from one that has died. It does not know the
// jobs: internal/stores lists them. The server runs it, and operator commands run single jobs.
package jobs

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/poll"
)

// Job is a periodic task.
type Job struct {
	// Name is the name of the job and of its lease. It is unique.
	Name string
	// Every is the interval between runs. The other durations of a job are fractions of it.
	Every time.Duration
	// Run runs the job once. Its context ends with the lease, and when the node shuts down. It must
	// tolerate being killed at any point; the next run continues unfinished work.
	Run func(ctx context.Context) error
}

// pollInterval returns the time between two polls of the lease: 1 minute for a job that runs every
// 15 minutes, and at most a second for one that runs every 6 seconds, whose
// lease all nodes poll.
func (j Job) pollInterval() time.Duration { return max(j.Every/15, min(j.Every/6, time.Second)) }

// minHold returns the minimum duration of a lease, even if the job ends earlier: 10 of 15 minutes.
// It prevents nodes that restart one after the other from each running the job.
func (j Job) minHold() time.Duration { return j.Every * 2 / 3 }

// maxHold returns the maximum duration of a lease and the timeout of a run: 14 of 15 minutes. If
// the holder dies, another node can acquire the lease at its last poll before the next regular run.
func (j Job) maxHold() time.Duration { return j.Every * 14 / 15 }

// dueTolerance returns how much earlier than Every a job is due: 1 second of 15 minutes. The times
// of polls vary slightly. Without a tolerance, an early poll would delay the job by a poll
// interval.
func (j Job) dueTolerance() time.Duration { return j.Every / 900 }

// Runner runs jobs on one node. Any number of nodes, and of runners on a node, may have the same
// jobs.
type Runner struct {
	// DB stores the leases.
	DB *db.DB
	// Log receives failed runs.
	Log *slog.Logger
	// Now is the clock. No job runs on two nodes at once as long as their clocks agree.
	Now func() time.Time
	// Jobs are the jobs that Run polls.
	Jobs []Job
	// Node is the node name that the stored state of a run reports.
	Node string

	mu sync.Mutex
	// startedAt is the start of Run. outcomes holds the outcomes since then, by job name.
	startedAt time.Time
	outcomes  map[string]outcome
	// doubtedAt is when the lease of a job that was not available was last doubted, by job name.
	doubtedAt map[string]time.Time
}

// outcome aggregates the runs of one job on this node.
type outcome struct {
	failures int64
	// lastSuccess is the end of the last successful run; zero before the first.
	lastSuccess time.Time
}

// JobStats contains the metrics of one job on this node since Run started.
type JobStats struct {
	// Name and Every are those of the job.
	Name  string
	Every time.Duration
	// Failures is the number of failed runs and failed polls of the lease.
	Failures int64
	// LastSuccess is the end of the last successful run on this node. Before the first success it
	// is the start of Run, and before that the zero time.
	LastSuccess time.Time
}

// Stats returns the metrics of the jobs on this node, in the order of Jobs. Runs of a job can take
// place on different nodes, so a monitoring system must aggregate over all nodes.
func (r *Runner) Stats() []JobStats {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []JobStats
	for _, job := range r.Jobs {
		o := r.outcomes[job.Name]
		if o.lastSuccess.IsZero() {
			o.lastSuccess = r.startedAt
		}
		all = append(all, JobStats{Name: job.Name, Every: job.Every, Failures: o.failures, LastSuccess: o.lastSuccess})
	}
	return all
}

// recordOutcome records the outcome of a poll of the job: success, failure or no run.
func (r *Runner) recordOutcome(job Job, succeeded, failed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.outcomes == nil {
		r.outcomes = map[string]outcome{}
	}
	o := r.outcomes[job.Name]
	switch {
	case failed:
		o.failures++
	case succeeded:
		o.lastSuccess = r.Now()
	}
	r.outcomes[job.Name] = o
}

// Run polls each job's lease until the context ends, then waits for running jobs and returns nil.
// The first poll follows after one poll interval, so as not to slow down the start of the node. A
// failed job is logged, and runs again when it is next due.
func (r *Runner) Run(ctx context.Context) error {
	r.mu.Lock()
	r.startedAt = r.Now()
	r.mu.Unlock()
	var all sync.WaitGroup
	for _, job := range r.Jobs {
		all.Go(func() { r.pollLease(ctx, job) })
	}
	all.Wait()
	return nil
}

// Try polls the job's lease once. If the lease is free and the job is due, Try acquires the lease,
// runs the job with access to all workspaces, and releases the lease. It reports whether the job
// ran. It returns errors of the job, including panics, and of the database.
func (r *Runner) Try(ctx context.Context, job Job) (ran bool, err error) {
	return r.attempt(ctx, job, false)
}

// RunNow is like Try, but the job need not be due. It does nothing while another node runs the job.
func (r *Runner) RunNow(ctx context.Context, job Job) (ran bool, err error) {
	return r.attempt(ctx, job, true)
}

func (r *Runner) attempt(ctx context.Context, job Job, atOnce bool) (ran bool, err error) {
	ctx = db.AsSystem(ctx)
	leaseCtx, cancel := context.WithTimeout(ctx, job.maxHold()) // set before acquiring: must not outlive the lease
	defer cancel()
	l := newLease(job, r.Node, r.Now())
	took, err := l.acquire(ctx, r.DB, atOnce)
	if err == nil && !took && r.doubt(ctx, l, job, atOnce) {
		took, err = l.acquire(ctx, r.DB, atOnce)
	}
	if err != nil || !took {
		return false, err
	}
	var beating sync.WaitGroup
	beating.Go(func() { r.keep(leaseCtx, l, cancel) })
	err = run(leaseCtx, job)
	cancel()
	beating.Wait()
	interrupted := err != nil && ctx.Err() != nil
	return true, errors.Join(err, l.release(ctx, r.DB, r.Now(), err, interrupted))
}

// doubtEvery is how often a node doubts the instants of a lease that is not available.
const doubtEvery = time.Minute

// doubt reports whether a lease that was not available has instants that no clock of today sets,
// and is available now. It does not look more often than doubtEvery, unless the operator waits.
func (r *Runner) doubt(ctx context.Context, l lease, job Job, atOnce bool) bool {
	r.mu.Lock()
	last, looked := r.doubtedAt[job.Name]
	age := l.acquiredAt.Sub(last) // negative after the clock of this node was ahead
	isSoon := looked && age >= 0 && age < doubtEvery && !atOnce
	if r.doubtedAt == nil {
		r.doubtedAt = map[string]time.Time{}
	}
	if !isSoon {
		r.doubtedAt[job.Name] = l.acquiredAt
	}
	r.mu.Unlock()
	if isSoon {
		return false
	}
	doubted, err := l.doubt(ctx, r.DB, job)
	if err != nil && ctx.Err() == nil { // the end of the server is no failure
		r.Log.Log(ctx, errs.LogLevel(err), "doubting the lease of a job failed", "name", job.Name, "error", err)
	}
	if doubted != nil {
		db.WarnOfClock(ctx, r.Log, "the lease of a job", "name", job.Name, "node", doubted.Node, "began_at",
			doubted.BeganAt)
	}
	return doubted != nil
}

// keep renews the lease until the context ends, and ends the run if another node has the lease.
func (r *Runner) keep(ctx context.Context, l lease, stop context.CancelFunc) {
	for poll.Wait(ctx, heartbeat) == nil {
		if kept, err := l.renew(ctx, r.DB, r.Now()); err == nil && !kept {
			stop()
			return
		}
	}
}

// pollLease tries one job's lease until the context ends.
func (r *Runner) pollLease(ctx context.Context, job Job) {
	ticker := time.NewTicker(job.pollInterval()) // a run must not delay the next try
	defer ticker.Stop()
	for await(ctx, ticker.C) {
		ran, err := r.Try(ctx, job)
		interrupted := r.report(ctx, job, err)
		r.recordOutcome(job, ran && err == nil, err != nil && !interrupted)
	}
}

// report logs the error of a run, and reports whether the run was interrupted. An interruption is
// not a failure: another run follows.
func (r *Runner) report(ctx context.Context, job Job, err error) (interrupted bool) {
	if err == nil {
		return false
	}
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		r.Log.InfoContext(ctx, "job interrupted", "name", job.Name, "error", err)
		return true
	}
	attributes := []any{"name", job.Name, "error", err}
	if p, ok := errors.AsType[*errs.PanicError](err); ok {
		attributes = append(attributes, "stack", string(p.Stack))
	}
	r.Log.Log(ctx, errs.LogLevel(err), "job failed", attributes...)
	return false
}

// run returns a panic as an error, so that the lease is released and other jobs continue.
func run(ctx context.Context, job Job) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = errs.Panic(value)
		}
	}()
	return job.Run(ctx)
}

// await waits for the next tick. It reports false if the context has ended.
func await(ctx context.Context, ticks <-chan time.Time) bool {
	select {
	case <-ticks:
	case <-ctx.Done():
	}
	return ctx.Err() == nil // both channels may be ready
}
