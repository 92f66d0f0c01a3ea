// Package hitquota limits how often links redirect, across all nodes: by the monthly hit quota and
// by maxClicks. Monthly hits are counted in Redis: a node takes them in leases, redirects consume
// them from memory, and the node that adopts the click log of a dead process returns its leases.
// The database counts the clicks of links and targets with maxClicks, one by one. The package owns
// leases and counters, but neither clicks nor links: it declares the interfaces ClickLog and
// Clicks, which packages ingest and clickstore implement.
package hitquota

import (
	"context"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/linkforge/linkforge/internal/click"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/redisx"
)

// ClickLog is the click log of this process, which lease records are appended to.
type ClickLog interface {
	// LogID names the log, and so the leases of this process.
	LogID() string
	// Note appends the record of a lease that is about to be taken or, with no hits, was returned.
	Note(l Lease) error
	// Span returns the end of the ingested part of the log, the end of the log, and how many bytes
	// it may retain; zero means any number.
	Span() (ingested, end, capacity int64)
	// Waiting counts the clicks behind a position since an instant, by link.
	Waiting(position int64, since time.Time) (map[string]click.MonthCount, error)
	// Flush waits until the database has the clicks recorded so far, which it does at once.
	Flush(ctx context.Context) error
}

// Clicks counts the clicks that the database has. Links without one are missing from the results.
type Clicks interface {
	// Since counts the clicks of links since the start of a month, with those of a log up to a
	// position.
	Since(ctx context.Context, logID string, linkIDs []string, m click.Month) (counts map[string]click.MonthCount,
		position int64, err error)
}

// Nodes are the processes of the instance.
type Nodes interface {
	// Report states that this process is alive now, and whether it has Redis. It returns how many
	// others are, and how many of them have had Redis since an instant.
	Report(ctx context.Context, logID string, hasRedis bool, now, since time.Time) (others, withRedis int64, err error)
	// Leave states that this process ends.
	Leave(ctx context.Context, logID string) error
}

// Config is what Quotas need.
type Config struct {
	// ClickLog is this process's click log, which records leases. Clicks counts the clicks in the
	// database.
	ClickLog ClickLog
	Clicks   Clicks
	// Nodes are those that share Redis; nil if there is one.
	Nodes Nodes
	// DB is the database.
	DB *db.DB
	// Redis counts monthly hits. If it is nil, or that of this process, counters are in memory, and
	// grant nothing until Carry was called.
	Redis *redisx.Client
	// AdmitsInOutage admits visitors without a hit while Redis is unavailable.
	AdmitsInOutage bool
	// Log receives changes of Redis's availability.
	Log *slog.Logger
	// Now is the clock.
	Now func() time.Time
}

// Quotas are the two limits of a redirect: monthly hits, and maxClicks of links and targets.
type Quotas struct {
	Hits *Leases
	*Grants
}

// New returns the Quotas of a process.
func New(c Config) *Quotas {
	if c.Redis == nil || c.Redis.InProcess() {
		c.Nodes = nil
		return &Quotas{Hits: NewLeases(c, NewMemory(c.ClickLog.LogID())), Grants: NewGrants(c.DB, c.Log)}
	}
	counters := NewRedis(c.Redis, c.ClickLog.LogID(), c.Now)
	return &Quotas{Hits: NewLeases(c, counters), Grants: NewGrants(c.DB, c.Log)}
}

// Run ends leases, and returns unused hits and grants, until the context ends.
func (q *Quotas) Run(ctx context.Context) error {
	var all errgroup.Group
	all.Go(func() error { return q.Hits.Run(ctx) })
	all.Go(func() error { return q.Grants.Run(ctx) })
	return all.Wait()
}
