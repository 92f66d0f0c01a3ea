package jobs

import (
	"context"
	"fmt"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/platform/db"
)

// State is the stored state of a job on all nodes.
type State struct {
	bun.BaseModel `bun:"table:leases"`

	Name   string `bun:",pk"`
	Holder string
	FreeAt time.Time
	// DeadAt is when the holder of a running job counts as dead, unless it reports before; nil
	// before the first run.
	DeadAt *time.Time
	// DueAt is the time of the next run; nil means at once.
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
func (s State) Running(now time.Time) bool {
	return s.Holder != "" && now.Before(s.FreeAt) && (s.DeadAt == nil || now.Before(*s.DeadAt))
}

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
