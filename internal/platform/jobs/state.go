package jobs

import (
	"context"
	"fmt"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/lease"
)

// State is the stored state of a job on all nodes.
type State struct {
	bun.BaseModel `bun:"table:leases"`
	lease.Columns

	Name string `bun:",pk"`
	// DueAt is the time of the next run, unless a node runs the job; nil means at once.
	DueAt *time.Time
	// Node is the node of the last or current run, which began at BeganAt; nil before the first
	// run.
	Node    *string
	BeganAt *time.Time
	// EndedAt is the end of the last run; nil during a run, and after the node has died.
	EndedAt *time.Time
	// Error is the error of the last completed run; nil if the run succeeded.
	Error *string
}

// Running reports whether a node that is alive runs the job.
func (s State) Running(now time.Time) bool { return s.LeaseUntil != nil && now.Before(*s.LeaseUntil) }

// isDue reports whether the job is due.
func (s State) isDue(job Job, now time.Time) bool {
	return s.DueAt == nil || !now.Before(*s.DueAt) || s.isDueAhead(job, now)
}

// isDueAhead reports whether a node whose clock was ahead has set DueAt.
func (s State) isDueAhead(job Job, now time.Time) bool { return db.IsAhead(s.DueAt, now, job.Every) }

// States returns the states of the runner's jobs, in the order of Jobs.
func (r *Runner) States(ctx context.Context) ([]State, error) {
	var rows []State
	if err := r.DB.NewSelect().Model(&rows).Scan(db.AsSystem(ctx)); err != nil {
		return nil, fmt.Errorf("reading the jobs: %w", err)
	}
	known := map[string]State{}
	for _, row := range rows {
		known[row.Name] = row
	}
	states := make([]State, 0, len(r.Jobs))
	for _, job := range r.Jobs {
		state := known[job.Name]
		state.Name = job.Name
		states = append(states, state)
	}
	return states, nil
}

// stateOf returns the state of a job.
func (r *Runner) stateOf(ctx context.Context, job Job) (State, error) {
	states, err := (&Runner{DB: r.DB, Jobs: []Job{job}}).States(ctx)
	if err != nil {
		return State{}, err
	}
	return states[0], nil
}
