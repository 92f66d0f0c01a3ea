package redirect

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/linkforge/linkforge/internal/click"
	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/hitquota"
	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/redisx"
)

// QuotasConfig is what Quotas need.
type QuotasConfig struct {
	// Links, Clicks and Counts are the rooms that know what was granted.
	Links  *link.Store
	Clicks *click.Recorder
	Counts *click.Store
	// KV is Redis, DB the database.
	KV *redisx.Client
	DB *db.DB
	// Fallback says that the database counts monthly hits while Redis is away.
	Fallback bool
	// Log is told when Redis goes away and comes back.
	Log *slog.Logger
	// Now is the clock.
	Now func() time.Time
}

// Quotas are the allowances that a redirect takes from: monthly hits, which are counted in Redis or, while it is away, in
// the database; and what a link with MaxClicks may answer ever, which its row says.
type Quotas struct {
	// Hits are the monthly hits, Grants what links with MaxClicks may answer.
	Hits, Grants *hitquota.Leases

	monthly *hitquota.Hits
	usage   *click.Usage
	granted link.Grants
}

// NewQuotas prepares Quotas, whose leases belong to the log of the recorder: it gives back those of processes that have
// died.
func NewQuotas(c QuotasConfig) *Quotas {
	logID, alone := c.Clicks.LogID(), c.DB.Kind == db.SQLite
	q := &Quotas{usage: &click.Usage{Store: c.Counts, Clicks: c.Clicks}, granted: link.Grants{Store: c.Links, LogID: logID}}
	q.monthly = &hitquota.Hits{
		KV: c.KV, LogID: logID, Seeds: q.usage.Seeds, Granted: q.usage.Granted, Now: c.Now,
	}
	leases := hitquota.LeasesConfig{
		Note: c.Clicks.Note, LogEnd: c.Clicks.End, LogLag: c.Clicks.Lag, LogRoom: c.Clicks.LogBytes, Numbers: &atomic.Int64{}, Log: c.Log, Now: c.Now,
	}
	hits, grants := leases, leases
	hits.What, hits.Source = "monthly hits", q.monthly
	if c.Fallback {
		hits.Fallback = q.usage
	}
	if c.KV.InProcess() { // what it counts, it forgets when this process ends: as well as Redis, and a hundred times as fast
		hits.Source, hits.Fallback, hits.Own, hits.Note = &hitquota.Memory{Seeds: q.usage.Seeds}, nil, true, nil
	}
	grants.What, grants.Source, grants.Own = "redirects of links with a limit of their own", q.granted, alone
	q.Hits, q.Grants = hitquota.NewLeases(hits), hitquota.NewLeases(grants)
	c.Clicks.GiveBack = q.giveBack
	c.Clicks.Pin(func() int64 { return min(q.Hits.Pin(), q.Grants.Pin()) })
	return q
}

// Run takes and gives back until the context ends.
func (q *Quotas) Run(ctx context.Context) error {
	var both errgroup.Group
	both.Go(func() error { return q.Hits.Run(ctx) })
	both.Go(func() error { return q.Grants.Run(ctx) })
	return both.Wait()
}

// giveBack gives back what a process that has died had taken and not used, to wherever it was taken from.
func (q *Quotas) giveBack(ctx context.Context, logID string, leases []hitquota.Lease) error {
	var ever, monthly []hitquota.Lease
	for _, l := range leases {
		if l.Month.IsZero() {
			ever = append(ever, l)
		} else {
			monthly = append(monthly, l)
		}
	}
	err := errors.Join(q.granted.Recover(ctx, logID, ever), q.usage.Recover(ctx, logID, monthly))
	return errors.Join(err, q.monthly.Recover(ctx, logID, monthly))
}
