// Package jobs runs periodic jobs. A lease row in the database ensures that each job runs on at
// most one node, and that another node takes over from one that has died. It does not know the
// jobs: internal/stores lists them. The server runs it, and operator commands run single jobs.
package jobs

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/feed"
	"github.com/linkforge/linkforge/internal/platform/lease"
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

// startDelay returns how long after its start a node begins to run the job: 1 minute for a job that
// runs every 15 minutes or less often, and at most a second for one that runs every 6 seconds.
func (j Job) startDelay() time.Duration {
	return min(max(j.Every/15, min(j.Every/6, time.Second)), time.Minute)
}

// minHold returns how long after its start an interrupted run is due again: 10 of 15 minutes. It
// prevents nodes that restart one after the other from each running the job.
func (j Job) minHold() time.Duration { return j.Every * 2 / 3 }

// maxHold returns the timeout of a run: 14 of 15 minutes. Then the job is due again if its node has
// died.
func (j Job) maxHold() time.Duration { return j.Every * 14 / 15 }

const (
	// lookPause is the shortest time between two looks for due jobs. The news say when there are any.
	// Without news, a node looks every lookEvery, for those that nobody has run for long, or whose
	// instants a clock that was ahead has set.
	lookPause = time.Second
	lookEvery = time.Minute
)

// Runner runs jobs on one node. Any number of nodes, and of runners on a node, may have the same
// jobs.
type Runner struct {
	// DB stores the leases.
	DB *db.DB
	// Log receives failed runs.
	Log *slog.Logger
	// Now is the clock. No job runs on two nodes at once as long as their clocks agree.
	Now func() time.Time
	// Jobs are the jobs that Run runs.
	Jobs []Job
	// Node is the node name that the stored state of a run reports.
	Node string

	// hasNews says that jobs may be due.
	hasNews atomic.Bool

	mu sync.Mutex
	// startedAt is the start of Run. stats are those since then, by job name.
	startedAt time.Time
	stats     map[string]JobStats
	// running are the names of the jobs that Run runs.
	running map[string]bool
}

// JobStats contains the metrics of one job on this node since Run started.
type JobStats struct {
	// Name and Every are those of the job.
	Name  string
	Every time.Duration
	// Failures is the number of failed runs and failed looks for due jobs.
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
		s := r.stats[job.Name]
		if s.Name, s.Every = job.Name, job.Every; s.LastSuccess.IsZero() {
			s.LastSuccess = r.startedAt
		}
		all = append(all, s)
	}
	return all
}

// count counts the outcome of a look for the job: success, failure or no run.
func (r *Runner) count(job Job, succeeded, failed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.stats[job.Name]
	if failed {
		s.Failures++
	} else if succeeded {
		s.LastSuccess = r.Now()
	}
	if r.stats == nil {
		r.stats = map[string]JobStats{}
	}
	r.stats[job.Name] = s
}

// Follow has Run look for due jobs.
func (r *Runner) Follow(_ context.Context, n feed.News) {
	if n.HasJobs {
		r.hasNews.Store(true)
	}
}

// Run runs the jobs that are due until the context ends, then waits for running jobs and returns
// nil. It begins with a job after its startDelay, so as not to slow down the start of the node. A
// failed job is logged, and runs again when it is next due.
func (r *Runner) Run(ctx context.Context) error {
	r.mu.Lock()
	r.startedAt = r.Now()
	r.mu.Unlock()
	r.hasNews.Store(true)
	var jobs sync.WaitGroup
	var looked time.Time
	failures := poll.Failures{Log: r.Log, Message: "looking for due jobs failed"}
	poll.Every(ctx, lookPause, failures, func(ctx context.Context) error {
		if !r.hasNews.Swap(false) && time.Since(looked) < lookEvery {
			return nil
		}
		looked = time.Now()
		return r.look(ctx, &jobs)
	})
	jobs.Wait()
	return nil
}

// look begins to run the jobs that are due: one query finds them.
func (r *Runner) look(ctx context.Context, jobs *sync.WaitGroup) error {
	states, err := r.States(ctx)
	now := r.Now()
	for i, job := range r.Jobs {
		switch {
		case ctx.Err() != nil: // no job begins while the node shuts down
		case err != nil:
			r.count(job, false, true)
		case now.Sub(r.startedAt) < job.startDelay():
			r.hasNews.Store(true)
		case states[i].isDue(job, now) && r.begin(job):
			jobs.Go(func() {
				defer r.end(job)
				ran, err := r.attempt(ctx, job, states[i], false)
				interrupted := r.report(ctx, job, err)
				r.count(job, ran && err == nil, err != nil && !interrupted)
			})
		}
	}
	return err
}

// begin reports whether this node does not run the job yet: a run that goes on after its timeout delays
// the next one here.
func (r *Runner) begin(job Job) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.running[job.Name] {
		return false
	}
	if r.running == nil {
		r.running = map[string]bool{}
	}
	r.running[job.Name] = true
	return true
}

func (r *Runner) end(job Job) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.running, job.Name)
}

// RunNow runs the job if its lease is free, although it need not be due: it acquires the lease, runs
// the job with access to all workspaces, and releases the lease. It reports whether the job ran. It
// returns errors of the job, including panics, and of the database.
func (r *Runner) RunNow(ctx context.Context, job Job) (ran bool, err error) {
	s, err := r.stateOf(ctx, job)
	if err != nil {
		return false, err
	}
	return r.attempt(ctx, job, s, true)
}

// attempt runs the job if its lease is free and its state is still s.
func (r *Runner) attempt(ctx context.Context, job Job, s State, atOnce bool) (ran bool, err error) {
	ctx = db.AsSystem(ctx)
	leaseCtx, cancel := context.WithTimeout(ctx, job.maxHold()) // set before acquiring: must not outlive the lease
	defer cancel()
	h := r.newHold(job)
	took, err := h.acquire(ctx, s)
	if err != nil || !took {
		return false, err
	}
	if s.IsAhead(h.beganAt) || !atOnce && s.isDueAhead(job, h.beganAt) {
		db.WarnOfClock(ctx, r.Log, "the lease of a job", "name", job.Name, "node", s.Node, "began_at", s.BeganAt)
	}
	renew := func(ctx context.Context) error { return h.lease.Renew(ctx, h.row()) }
	err = lease.Run(leaseCtx, lease.RenewEvery, renew, job.Run)
	interrupted := err != nil && ctx.Err() != nil
	return true, errors.Join(err, h.release(ctx, err, interrupted))
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
