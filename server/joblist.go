package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/linkforge/linkforge/internal/account"
	"github.com/linkforge/linkforge/internal/apikey"
	"github.com/linkforge/linkforge/internal/audit"
	"github.com/linkforge/linkforge/internal/clickstream"
	"github.com/linkforge/linkforge/internal/config"
	"github.com/linkforge/linkforge/internal/domain"
	"github.com/linkforge/linkforge/internal/hitquota"
	"github.com/linkforge/linkforge/internal/jobs"
	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/outbound"
	"github.com/linkforge/linkforge/internal/probe"
	"github.com/linkforge/linkforge/internal/ratelimit"
	"github.com/linkforge/linkforge/internal/stats"
	"github.com/linkforge/linkforge/internal/unmatched"
	"github.com/linkforge/linkforge/internal/workspace"
)

const (
	// jobInterval is how often the jobs are done.
	jobInterval = 15 * time.Minute
	// retainInterval is how often what is no longer kept is looked for.
	retainInterval = 6 * time.Hour
)

// jobRooms are the rooms that something is done in again and again.
type jobRooms struct {
	links     *link.Store
	accounts  *account.Store
	spaces    *workspace.Store
	domains   *domain.Store
	apiKeys   *apikey.Store
	events    *audit.Store
	counts    *stats.Store
	unmatched *unmatched.Recorder
	watching  *clickstream.Live
	quotas    *hitquota.Store
	checker   *probe.Checker
}

// jobs are all there are.
func (r jobRooms) jobs(c config.Config) []jobs.Job {
	all := []jobs.Job{
		{Name: "clean-up", Every: jobInterval, Run: r.links.CleanUp},
		{Name: "sessions", Every: jobInterval, Run: r.accounts.CleanUp},
		{Name: "invitations", Every: jobInterval, Run: r.spaces.CleanUp},
		{Name: "audit log", Every: jobInterval, Run: r.events.CleanUp},
		{Name: "granted hits", Every: jobInterval, Run: r.quotas.ForgetUsage},
		{Name: "visitors", Every: jobInterval, Run: r.counts.ForgetVisitors},
		{Name: "click batches", Every: jobInterval, Run: r.watching.ForgetBatches},
		{Name: "click days", Every: jobInterval, Run: r.counts.Seal},
		{Name: "click details", Every: jobInterval, Run: r.counts.Detail},
		{Name: "click months", Every: retainInterval, Run: func(ctx context.Context) error {
			return errors.Join(r.unmatched.Forget(ctx), r.counts.Retain(ctx))
		}},
		{Name: "domains", Every: jobInterval, Run: r.domains.CheckAll},
		{Name: "workspaces", Every: jobInterval, Run: func(ctx context.Context) error {
			return r.spaces.Purge(ctx, r.links.PurgeWorkspace, r.counts.PurgeWorkspace, r.domains.Rows().Purge, r.apiKeys.Rows().Purge)
		}},
	}
	if c.DestinationChecks {
		all = append(all, jobs.Job{Name: "destination checks", Every: jobInterval, Run: r.checker.Run})
	}
	return all
}

// nodeName is what operators know this process by.
func nodeName() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return fmt.Sprintf("%s/%d", host, os.Getpid())
}

// newChecker asks links' destinations.
func newChecker(c config.Config, links *link.Store, limits ratelimit.Limiter, log *slog.Logger) *probe.Checker {
	return &probe.Checker{
		Links: links, Client: outbound.NewClient(outbound.Config{UserAgent: probe.UserAgent(c.PublicURL)}), Limits: limits, Log: log, Now: time.Now,
	}
}
