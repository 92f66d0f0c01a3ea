// Package hitquota limits how often links redirect, across all nodes: by the monthly hit quota and
// by maxClicks. A node takes hits in leases from a source (Redis, the database or this process),
// redirects consume them from memory, and the node that adopts the click log of a dead process
// returns its leases. The package owns leases and counters, but neither clicks nor links: it
// declares the interfaces ClickLog and Clicks, which package ingest implements. Packages redirect
// and ingest call it.
package hitquota

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/redisx"
)

// Config is what Quotas need.
type Config struct {
	// ClickLog is this process's click log, in which leases are recorded. Clicks counts the clicks in
	// the database.
	ClickLog ClickLog
	Clicks   Clicks
	// KV is Redis, DB the database.
	KV *redisx.Client
	DB *db.DB
	// Fallback has the database count monthly hits while Redis is unavailable.
	Fallback bool
	// Log receives changes of Redis's availability.
	Log *slog.Logger
	// Now is the clock.
	Now func() time.Time
}

// Quotas are the two limits of a redirect: monthly hits, which Redis counts or, while it is
// unavailable, the database; and MaxClicks of a link, which its row counts.
type Quotas struct {
	// Hits are the monthly hits, Grants what links with MaxClicks may answer.
	Hits, Grants *Leases

	*Store

	monthly *Hits
	usage   *Usage
	granted Grants
}

// New returns the Quotas of a process.
func New(c Config) *Quotas {
	logID, store := c.ClickLog.LogID(), &Store{DB: c.DB, Clicks: c.Clicks, Now: c.Now}
	q := &Quotas{
		Store:   store,
		usage:   &Usage{Store: store, Log: c.ClickLog},
		granted: Grants{Store: store, LogID: logID},
	}
	q.monthly = &Hits{
		KV: c.KV, LogID: logID, Seeds: q.usage.Seeds, Granted: q.usage.Granted, Now: c.Now,
	}
	leases := LeasesConfig{
		Note: c.ClickLog.Note, LogEnd: c.ClickLog.End, LogLag: c.ClickLog.Lag, LogRoom: c.ClickLog.Capacity(),
		Numbers: &atomic.Int64{}, Log: c.Log, Now: c.Now,
	}
	hits, grants := leases, leases
	hits.What, hits.Source = "monthly hits", q.monthly
	if c.Fallback {
		hits.Fallback = q.usage
	}
	if c.KV.InProcess() { // it would forget with this process, as Memory does a hundred times as fast
		hits.Source, hits.Fallback, hits.Own, hits.Note = &Memory{Seeds: q.usage.Seeds}, nil, true, nil
	}
	grants.What, grants.Source = "redirects of links with a limit of their own", q.granted
	grants.Own = c.DB.Kind == db.SQLite
	q.Hits, q.Grants = NewLeases(hits), NewLeases(grants)
	return q
}

// Run takes leases and returns them until the context ends.
func (q *Quotas) Run(ctx context.Context) error {
	var both errgroup.Group
	both.Go(func() error { return q.Hits.Run(ctx) })
	both.Go(func() error { return q.Grants.Run(ctx) })
	return both.Wait()
}

// Pin is the position of the oldest open lease in the click log, which is retained from there on.
func (q *Quotas) Pin() int64 { return min(q.Hits.Pin(), q.Grants.Pin()) }

// Recover returns the unused hits of a dead process to their sources.
func (q *Quotas) Recover(ctx context.Context, logID string, leases []Lease) error {
	var ever, monthly []Lease
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
