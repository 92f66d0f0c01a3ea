package jobs

import (
	"context"
	"fmt"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/db"
)

// State is what the database knows of a job, whichever node has done it.
type State struct {
	bun.BaseModel `bun:"table:leases"`

	Name   string `bun:",pk"`
	Holder string
	FreeAt time.Time
	// DueAt is when it is to be done next; nil means as soon as a node looks.
	DueAt *time.Time
	// Node has done it last, or does it, since BeganAt; nil means that nobody has.
	Node    *string
	BeganAt *time.Time
	// EndedAt is when it was done; nil while it goes on, and when the node has died.
	EndedAt *time.Time
	// Error is why it failed when it ended last.
	Error *string
}

// Running says that a node does the job at the instant, as far as others go by.
func (s State) Running(now time.Time) bool { return s.Holder != "" && now.Before(s.FreeAt) }

// States are those of the runner's jobs, in their order.
func (r *Runner) States(ctx context.Context) ([]State, error) {
	var rows []State
	if err := r.DB.NewSelect().Model(&rows).Scan(db.AsSystem(ctx)); err != nil {
		return nil, fmt.Errorf("looking at the jobs: %w", err)
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
