package stores

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/linkforge/linkforge/internal/click/clickhouse"
	"github.com/linkforge/linkforge/internal/platform/jobs"
)

const (
	// jobInterval is how often most jobs run.
	jobInterval = 15 * time.Minute
	// transitionInterval is how often transitions of links are recorded, and their grants compared
	// with their clicks.
	transitionInterval = time.Minute
	// retainInterval is how often expired clicks are removed.
	retainInterval = 6 * time.Hour
	// moveInterval is how often clicks of claimed links are moved, where they do not move at once.
	moveInterval = time.Minute
	// scheduleInterval is how often scheduled changes that have taken effect are written: within
	// ten seconds, also if a node dies in a run.
	scheduleInterval = 6 * time.Second
)

// Jobs lists the periodic jobs.
func (s *Stores) Jobs() []jobs.Job {
	all := []jobs.Job{
		{Name: "transitions", Every: transitionInterval, Run: s.Upkeep.RecordTransitions},
		{Name: "grants", Every: transitionInterval, Run: s.Grants.RaiseGrants},
		{Name: "apply-scheduled-changes", Every: scheduleInterval, Run: s.Schedule.ApplyDue},
		{Name: "clean-up", Every: jobInterval, Run: func(ctx context.Context) error {
			return errors.Join(s.Upkeep.CleanUp(ctx), s.Creation.CleanUp(ctx))
		}},
		{Name: "sessions", Every: jobInterval, Run: s.Accounts.CleanUp},
		{Name: "invitations", Every: jobInterval, Run: s.Workspaces.CleanUp},
		{Name: "slugs", Every: jobInterval, Run: s.Workspaces.ReleaseSlugs},
		{Name: "audit log", Every: jobInterval, Run: s.Audit.CleanUp},
		{Name: "visitors", Every: jobInterval, Run: func(ctx context.Context) error {
			return s.Ledger.ForgetVisitors(ctx, s.Stats.Now())
		}},
		{Name: "node reports", Every: jobInterval, Run: func(ctx context.Context) error {
			return s.Ledger.ForgetNodes(ctx, s.Stats.Now())
		}},
		{Name: "click batches", Every: jobInterval, Run: s.ClickStream.DeleteExpiredBatches},
		{Name: "click days", Every: jobInterval, Run: s.Clicks.Seal},
		{Name: "click months", Every: retainInterval, Run: func(ctx context.Context) error {
			return errors.Join(s.Unmatched.DeleteExpired(ctx), s.Clicks.Retain(ctx))
		}},
		{Name: "tasks", Every: jobInterval, Run: s.Tasks.CleanUp},
		{Name: "webhook deliveries", Every: jobInterval, Run: s.Webhooks.CleanUp},
		{Name: "domains", Every: jobInterval, Run: s.Domains.CheckAll},
		{Name: "workspaces", Every: jobInterval, Run: func(ctx context.Context) error {
			return s.Workspaces.Purge(ctx, s.Tasks.Purge, s.Upkeep.PurgeWorkspace, s.Creation.PurgeWorkspace,
				s.Clicks.PurgeWorkspace, s.Unmatched.Purge, s.Domains.Purge,
				s.Folders.Rows().Purge, s.UTMTemplates.Rows().Purge, s.Webhooks.Purge,
				s.APIKeys.Rows().Purge)
		}},
	}
	if later, ok := s.Clicks.(*clickhouse.Store); ok {
		all = append(all, jobs.Job{Name: "click moves", Every: moveInterval, Run: later.MoveClicks})
	}
	if s.config.TLSAuto {
		all = append(all, jobs.Job{Name: "certificates", Every: jobInterval, Run: s.cleanUpCertificates})
	}
	if s.config.DestinationChecks {
		all = append(all, jobs.Job{Name: "destination checks", Every: jobInterval, Run: s.Checker.Run})
	}
	return all
}

// cleanUpCertificates deletes those of hosts that are neither of the instance nor verified domains.
func (s *Stores) cleanUpCertificates(ctx context.Context) error {
	return s.Certificates.CleanUp(ctx, s.MayHaveCertificate)
}

// MayHaveCertificate returns which of the canonical hosts may have a TLS certificate of
// LINKFORGE_TLS=auto: those of the instance, and verified domains.
func (s *Stores) MayHaveCertificate(ctx context.Context, hosts []string) (map[string]bool, error) {
	may, err := s.Domains.Verified(ctx, hosts)
	if err != nil {
		return nil, err
	}
	for _, host := range s.config.CertifiedHosts() {
		may[host] = true
	}
	return may, nil
}

// EndLeases ends what nodes that have died have leased: tasks, jobs, and the logs and deliveries of
// webhooks. Only a process that is alone calls it, as that of an embedded instance is, which holds
// the data folder.
func (s *Stores) EndLeases(ctx context.Context) error {
	return errors.Join(s.Tasks.EndLeases(ctx), jobs.EndLeases(ctx, s.Webhooks.DB, s.Stats.Now()),
		s.Webhooks.EndClaims(ctx))
}

// NodeName returns the name of this process in the list of jobs: host and process id.
func NodeName() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return fmt.Sprintf("%s/%d", host, os.Getpid())
}
