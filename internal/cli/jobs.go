package cli

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/linkforge/linkforge/internal/platform/config"
	"github.com/linkforge/linkforge/internal/platform/jobs"
	"github.com/linkforge/linkforge/internal/platform/lease"
	"github.com/linkforge/linkforge/internal/platform/optional"
	"github.com/linkforge/linkforge/internal/stores"
)

// jobsCommand is `linkforge jobs list|run`. It works while servers run.
type jobsCommand struct {
	List jobsList `cmd:"" help:"List the jobs with the node, time and outcome of their last run."`
	Run  jobsRun  `cmd:"" help:"Run a job now, unless a node is running it."`
}

type (
	jobsList struct{ listing }
	jobsRun  struct {
		listing
		Name []string `arg:"" help:"The job's name, from linkforge jobs list."`
	}
)

// jobRow is a job in a list.
type jobRow struct {
	Name    string     `json:"name"`
	Running bool       `json:"running"`
	Node    *string    `json:"node"`
	BeganAt *time.Time `json:"beganAt"`
	EndedAt *time.Time `json:"endedAt"`
	DueAt   *time.Time `json:"dueAt"`
	Error   *string    `json:"error"`
}

// outcome describes the last run of the job.
func (r jobRow) outcome() string {
	switch {
	case r.BeganAt == nil:
		return "never run"
	case r.Running:
		return "running"
	case r.EndedAt == nil:
		return "interrupted"
	case r.Error != nil:
		return quoted(*r.Error)
	}
	return "succeeded"
}

// Run lists the jobs.
func (l jobsList) Run(ctx context.Context, f *config.Flags, io IO) error {
	return withJobs(f, io, func(runner *jobs.Runner) error {
		states, err := runner.States(ctx)
		if err != nil {
			return err
		}
		now, rows := time.Now(), make([]jobRow, 0, len(states))
		for _, s := range states {
			rows = append(rows,
				jobRow{s.Name, s.Running(now), s.Node, utc(s.BeganAt), utc(s.EndedAt), utc(s.DueAt), s.Error})
		}
		return show(io, l.listing, "JOB\tSTARTED\tENDED\tNODE\tDUE\tOUTCOME", rows, func(r jobRow) []string {
			node := cmp.Or(optional.Value(r.Node), "-")
			return []string{r.Name, instant(r.BeganAt), instant(r.EndedAt), node, instant(r.DueAt), r.outcome()}
		})
	})
}

// Run runs a job.
func (j jobsRun) Run(ctx context.Context, f *config.Flags, io IO) error {
	name := strings.Join(j.Name, " ")
	return withJobs(f, io, func(runner *jobs.Runner) error {
		job, err := jobOf(runner.Jobs, name)
		if err != nil {
			return err
		}
		began := time.Now()
		ran, err := runner.RunNow(ctx, job)
		if err != nil {
			return fmt.Errorf("the job %q failed: %w", name, err)
		}
		if !ran {
			return fmt.Errorf("a node is running the job %q, or died while running it less than %s ago: see "+
				"linkforge jobs list",
				name, lease.Life)
		}
		return showOne(io, j.listing, struct {
			Name    string  `json:"name"`
			Seconds float64 `json:"seconds"`
		}{name, time.Since(began).Seconds()}, "done: %s, in %s", name, time.Since(began).Round(time.Millisecond))
	})
}

func jobOf(all []jobs.Job, name string) (jobs.Job, error) {
	var names []string
	for _, job := range all {
		if job.Name == name {
			return job, nil
		}
		names = append(names, job.Name)
	}
	return jobs.Job{}, fmt.Errorf("unknown job %s; the jobs are: %s", quoted(name), strings.Join(names, ", "))
}

// withJobs opens the jobs for a command, and writes their warnings to standard error.
func withJobs(f *config.Flags, io IO, work func(*jobs.Runner) error) error {
	log := slog.New(slog.NewTextHandler(io.Err, &slog.HandlerOptions{Level: slog.LevelWarn}))
	return withLog(f, log, func(_ config.Config, s *stores.Stores) error {
		return work(&jobs.Runner{DB: s.DB, Log: log, Now: time.Now, Node: stores.NodeName(), Jobs: s.Jobs()})
	})
}
