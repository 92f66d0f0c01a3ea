package main

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"time"

	"github.com/linkforge/linkforge/internal/account"
	"github.com/linkforge/linkforge/internal/apikey"
	"github.com/linkforge/linkforge/internal/audit"
	"github.com/linkforge/linkforge/internal/clickstream"
	"github.com/linkforge/linkforge/internal/config"
	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/domain"
	"github.com/linkforge/linkforge/internal/hitquota"
	"github.com/linkforge/linkforge/internal/jobs"
	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/optional"
	"github.com/linkforge/linkforge/internal/ratelimit"
	"github.com/linkforge/linkforge/internal/stats"
	"github.com/linkforge/linkforge/internal/unmatched"
	"github.com/linkforge/linkforge/internal/workspace"
)

// jobsCommand is `linkforge jobs list|run`. It works beside running servers.
type jobsCommand struct {
	List jobsList `cmd:"" help:"List the jobs: which node has done them last, and what came of it."`
	Run  jobsRun  `cmd:"" help:"Do a job now, unless a node is doing it."`
}

type (
	jobsList struct{ listing }
	jobsRun  struct {
		listing
		Name []string `arg:"" help:"The job's name, as jobs list tells it."`
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

// came is what came of the job, in a word.
func (r jobRow) came() string {
	switch {
	case r.BeganAt == nil:
		return "never done"
	case r.Running:
		return "running"
	case r.EndedAt == nil:
		return "cut off"
	case r.Error != nil:
		return quoted(*r.Error)
	}
	return "well"
}

// Run lists the jobs.
func (l jobsList) Run(ctx context.Context, f *config.Flags, io stdio) error {
	return withJobs(f, io, func(runner *jobs.Runner) error {
		states, err := runner.States(ctx)
		if err != nil {
			return err
		}
		now, rows := time.Now(), make([]jobRow, 0, len(states))
		for _, s := range states {
			rows = append(rows, jobRow{s.Name, s.Running(now), s.Node, utc(s.BeganAt), utc(s.EndedAt), utc(s.DueAt), s.Error})
		}
		return show(io, l.listing, "JOB\tBEGAN\tENDED\tBY\tDUE\tIT WENT", rows, func(r jobRow) []string {
			by := cmp.Or(optional.Value(r.Node), "-")
			return []string{r.Name, instant(r.BeganAt), instant(r.EndedAt), by, instant(r.DueAt), r.came()}
		})
	})
}

// Run does a job.
func (j jobsRun) Run(ctx context.Context, f *config.Flags, io stdio) error {
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
			return fmt.Errorf("a node is doing the job %q, or has died doing it less than %s ago: see linkforge jobs list", name, job.Every*14/15)
		}
		return tellOf(io, j.listing, struct {
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
	return jobs.Job{}, fmt.Errorf("there is no job %s; there are: %s", quoted(name), strings.Join(names, ", "))
}

// withJobs prepares the jobs beside servers, and says on standard error what they say.
func withJobs(f *config.Flags, io stdio, work func(*jobs.Runner) error) error {
	return besideServers(f, func(c config.Config, d *db.DB) error {
		log := slog.New(slog.NewTextHandler(io.err, &slog.HandlerOptions{Level: slog.LevelWarn}))
		domains := &domain.Store{DB: d, Resolver: net.DefaultResolver, Log: log, Now: time.Now}
		links, err := link.NewStore(link.Config{DB: d, PublicURL: c.PublicURL, Tombstones: c.Tombstones, Domains: domains, Log: log, Now: time.Now})
		if err != nil {
			return err
		}
		rooms := jobRooms{
			links:     links,
			accounts:  &account.Store{DB: d, Tokens: account.Tokens{TTL: c.TokenTTL}, Now: time.Now},
			spaces:    &workspace.Store{DB: d, PublicURL: c.PublicURL, Log: log, Now: time.Now},
			domains:   domains,
			apiKeys:   &apikey.Store{DB: d, Now: time.Now},
			events:    &audit.Store{DB: d, Now: time.Now},
			unmatched: &unmatched.Recorder{DB: d, Log: log, Now: time.Now},
			watching:  &clickstream.Live{DB: d, Log: log, Now: time.Now},
			counts:    &stats.Store{DB: d, ClickMonths: c.ClickMonths, QuarterMonths: c.SumMonths, Now: time.Now},
			quotas:    &hitquota.Store{DB: d, Now: time.Now},
			checker:   newChecker(c, links, ratelimit.Limiter{Off: true}, log),
		}
		return work(&jobs.Runner{DB: d, Log: log, Now: time.Now, Node: nodeName(), Jobs: rooms.jobs(c)})
	})
}
