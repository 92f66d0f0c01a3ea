// Package jobs runs periodic jobs. A lease row in the database ensures that each job runs on at
// most one node, and that another node takes over from one that has died. It does not know the
// jobs: internal/stores lists them. The server runs it, and operator commands run single jobs.
package jobs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/poll"
)

// Job is something to be done again and again.
type Job struct {
	// Name is the lease's: no two jobs have the same one.
	Name string
	// Every is the time from one run to the next. Every other time of a job is a part of it.
	Every time.Duration
	// Run runs the job once. Its context ends with the lease, and when the node shuts down. It must
	// tolerate being killed at any point; the next run continues unfinished work.
	Run func(ctx context.Context) error
}

// pollInterval is the time between two tries to take the lease: one minute of fifteen.
func (j Job) pollInterval() time.Duration { return j.Every / 15 }

// minHold is how long a lease keeps others away, however soon the job ends: 10 minutes of 15. So
// nodes that are restarted one after the other do not all begin the same job.
func (j Job) minHold() time.Duration { return j.Every * 2 / 3 }

// maxHold is how long a lease keeps others away, and how long the job may run: 14 minutes of 15.
// Should the holder die, one look is left for another node to step in before the next run would
// have been due.
func (j Job) maxHold() time.Duration { return j.Every * 14 / 15 }

// slack is how much earlier than Every a job is due: one second of fifteen minutes. Looks are never
// quite on time, and one that came a moment too early would put the job off until the next.
func (j Job) slack() time.Duration { return j.Every / 900 }

// Runner runs jobs on one node. Any number of nodes, and of runners on a node, may have the same
// jobs.
type Runner struct {
	// DB has the leases.
	DB *db.DB
	// Log receives failed runs.
	Log *slog.Logger
	// Now is the clock. No job runs on two nodes at once as long as their clocks agree.
	Now func() time.Time
	// Jobs are what Run looks after.
	Jobs []Job
	// Node names this node to the operator.
	Node string

	mu sync.Mutex
	// begun is when Run began, done what came of the jobs since then, by their names.
	begun time.Time
	done  map[string]outcome
}

// outcome is what came of one job on this node.
type outcome struct {
	failures int64
	// well is when it last ended without an error; the zero time says not yet.
	well time.Time
}

// JobStats are the numbers of one job on this node, since Run began.
type JobStats struct {
	// Name and Every are the job's.
	Name  string
	Every time.Duration
	// Failures counts the runs that failed, and the looks at the lease that did.
	Failures int64
	// LastSuccess is when this node last did the job well; while it has not, when Run began, and
	// before that the zero time.
	LastSuccess time.Time
}

// Stats returns the statistics of the jobs, in their order, as far as this node ran them. Jobs move
// between nodes, so a monitor adds up all nodes.
func (r *Runner) Stats() []JobStats {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []JobStats
	for _, job := range r.Jobs {
		o := r.done[job.Name]
		if o.well.IsZero() {
			o.well = r.begun
		}
		all = append(all, JobStats{Name: job.Name, Every: job.Every, Failures: o.failures, LastSuccess: o.well})
	}
	return all
}

// began notes that the jobs are looked after from now on.
func (r *Runner) began() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.begun = r.Now()
}

// count notes what came of a look at the job.
func (r *Runner) count(job Job, well, failed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.done == nil {
		r.done = map[string]outcome{}
	}
	o := r.done[job.Name]
	switch {
	case failed:
		o.failures++
	case well:
		o.well = r.Now()
	}
	r.done[job.Name] = o
}

// Run looks at each job's lease again and again, for the first time after one look's time: a node
// that has just started has better things to do. It ends when the context does, after the jobs that
// are running, and returns nil: a job that fails is logged, and tried again when it is due.
func (r *Runner) Run(ctx context.Context) error {
	r.began()
	var all sync.WaitGroup
	for _, job := range r.Jobs {
		all.Go(func() { r.pollLease(ctx, job) })
	}
	all.Wait()
	return nil
}

// Try checks the job's lease once. If the lease is free and the job due, Try acquires it, runs the
// job and gives the lease back. A job sees all workspaces. It reports whether the job ran, and
// returns the job's error, a panic as one, as well as the database's.
func (r *Runner) Try(ctx context.Context, job Job) (ran bool, err error) {
	return r.attempt(ctx, job, false)
}

// RunNow is like Try, but the job need not be due. It does nothing while another node runs the job.
func (r *Runner) RunNow(ctx context.Context, job Job) (ran bool, err error) {
	return r.attempt(ctx, job, true)
}

func (r *Runner) attempt(ctx context.Context, job Job, atOnce bool) (ran bool, err error) {
	ctx = db.AsSystem(ctx)
	lasting, cancel := context.WithTimeout(ctx, job.maxHold()) // begun before the lease, so as not to outlast it
	defer cancel()
	l := newLease(job, r.Node, r.Now())
	took, err := l.acquire(ctx, r.DB, atOnce)
	if err != nil || !took {
		return false, err
	}
	var beating sync.WaitGroup
	beating.Go(func() { r.keep(lasting, l, cancel) })
	err = run(lasting, job)
	cancel()
	beating.Wait()
	interrupted := err != nil && ctx.Err() != nil
	return true, errors.Join(err, l.release(ctx, r.DB, r.Now(), err, interrupted))
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
		r.count(job, ran && err == nil, err != nil && !interrupted)
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
	if p, ok := errors.AsType[*panicError](err); ok {
		attributes = append(attributes, "stack", string(p.stack))
	}
	r.Log.ErrorContext(ctx, "job failed", attributes...)
	return false
}

// panicError is the value of a job's panic.
type panicError struct {
	value any
	stack []byte
}

func (p *panicError) Error() string { return fmt.Sprintf("panic: %v", p.value) }

// run returns a panic as an error, so that the lease is released and other jobs continue.
func run(ctx context.Context, job Job) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = &panicError{value: value, stack: debug.Stack()}
		}
	}()
	return job.Run(ctx)
}

// await waits for the next tick, and reports false when the context has ended.
func await(ctx context.Context, ticks <-chan time.Time) bool {
	select {
	case <-ticks:
	case <-ctx.Done():
	}
	return ctx.Err() == nil // both may have come
}
