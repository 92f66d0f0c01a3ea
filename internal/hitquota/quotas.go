// Package hitquota limits how often links redirect, across all nodes: by the monthly hit quota and
// by maxClicks. A node takes hits in leases from a source in the database, redirects consume them
// from memory, and the node that adopts the click log of a dead process returns its leases. The
// package owns leases and counters, but neither clicks nor links: it declares the interfaces
// ClickLog and Clicks, which packages ingest and stats implement. Packages redirect and ingest call
// it.
package hitquota

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/id"
)

// Config is what Quotas need.
type Config struct {
	// ClickLog is this process's click log, in which leases are recorded. Clicks counts the clicks in
	// the database.
	ClickLog ClickLog
	Clicks   Clicks
	// DB is the database.
	DB *db.DB
	// Log receives changes of the database's availability.
	Log *slog.Logger
	// Now is the clock.
	Now func() time.Time
}

// Quotas are the two limits of a redirect: monthly hits, and MaxClicks of a link. The database
// counts both: whatever happens to nodes or the network, no more hits are admitted than it has
// granted.
type Quotas struct {
	// Hits are the monthly hits, Grants what links with MaxClicks may answer, and Targets what targets
	// of rules with a maximum may, by the target's ID.
	Hits, Grants, Targets *Leases

	*Store

	ledger          *Ledger
	grants, targets Grants
}

// New returns the Quotas of a process.
func New(c Config) *Quotas {
	logID, store := c.ClickLog.LogID(), &Store{DB: c.DB, Clicks: c.Clicks, Now: c.Now}
	q := &Quotas{
		Store:   store,
		ledger:  &Ledger{Store: store, LogID: logID},
		grants:  NewGrants(store, logID),
		targets: Grants{Store: store, LogID: logID, of: ofTargets},
	}
	leases := LeasesConfig{
		Note: c.ClickLog.Note, LogEnd: c.ClickLog.End, LogRoom: c.ClickLog.Capacity(),
		Numbers: &atomic.Int64{}, Log: c.Log, Now: c.Now,
	}
	hits, grants, targets := leases, leases, leases
	hits.What, hits.Source, hits.MaxBatch = "monthly hits", q.ledger, ledgerBatch
	grants.What, grants.Source, grants.MaxBatch = "clicks of links with maxClicks", q.grants, 1
	targets.What, targets.Source, targets.MaxBatch = "clicks of targets with maxClicks", q.targets, 1
	q.Hits, q.Grants, q.Targets = NewLeases(hits), NewLeases(grants), NewLeases(targets)
	return q
}

// Run takes leases and returns them until the context ends.
func (q *Quotas) Run(ctx context.Context) error {
	var all errgroup.Group
	for _, leases := range q.all() {
		all.Go(func() error { return leases.Run(ctx) })
	}
	return all.Wait()
}

// Pin is the position of the oldest open lease in the click log, which is retained from there on.
func (q *Quotas) Pin() int64 { return min(q.Hits.Pin(), q.Grants.Pin(), q.Targets.Pin()) }

func (q *Quotas) all() []*Leases { return []*Leases{q.Hits, q.Grants, q.Targets} }

// Recover returns the unused hits of a dead process to their sources.
func (q *Quotas) Recover(ctx context.Context, logID string, leases []Lease) error {
	var ofLinks, ofTargets, monthly []Lease
	for _, l := range leases {
		switch {
		case !l.Month.IsZero():
			monthly = append(monthly, l)
		case id.PrefixOf(l.LinkID) == id.Target:
			ofTargets = append(ofTargets, l)
		default:
			ofLinks = append(ofLinks, l)
		}
	}
	return errors.Join(q.grants.Recover(ctx, logID, ofLinks), q.targets.Recover(ctx, logID, ofTargets),
		q.ledger.Recover(ctx, logID, monthly))
}
