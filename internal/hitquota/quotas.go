// Package hitquota limits how often links redirect, across all nodes: by the monthly hit quota and by
// maxClicks. Monthly hits are counted in Redis: a node takes them in leases, redirects consume them from
// memory, and the node that adopts the click log of a dead process returns its leases. The database counts
// the clicks of links and targets with maxClicks, one by one. The package owns leases and counters, but
// neither clicks nor links: it declares the interfaces ClickLog and Clicks, which packages ingest and stats
// implement. Packages redirect and ingest call it.
package hitquota

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/uptrace/bun"
	"golang.org/x/sync/errgroup"

	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/redisx"
)

// ClickLog is the click log of this process, which lease records are appended to.
type ClickLog interface {
	// LogID names the log, and so the leases of this process.
	LogID() string
	// Note appends the record of a lease that is about to be taken, and returns its position.
	Note(l Lease) (int64, error)
	// Span returns the position up to which the database has the log, that which the log has reached, and
	// how many bytes it may retain; zero means any number.
	Span() (ingested, end, capacity int64)
	// Waiting counts the clicks since an instant, by link, that the database does not have.
	Waiting(since time.Time) (map[string]int64, error)
}

// Clicks counts the clicks that the database has.
type Clicks interface {
	// ByLink selects subject_id and clicks of links since the start of a bucket.
	ByLink(linkIDs []string, since time.Time) *bun.SelectQuery
	// Counts are the clicks that links have had, ever. Links without one are missing.
	Counts(ctx context.Context, conn bun.IDB, linkIDs ...string) (map[string]int64, error)
}

// Config is what Quotas need.
type Config struct {
	// ClickLog is this process's click log, in which leases are recorded. Clicks counts the clicks in
	// the database.
	ClickLog ClickLog
	Clicks   Clicks
	// DB is the database.
	DB *db.DB
	// Redis counts monthly hits. If it is nil, or that of this process, counters are in memory.
	Redis *redisx.Client
	// AdmitsInOutage admits visitors without a hit while Redis is unavailable.
	AdmitsInOutage bool
	// AwaitsLogs means that a recorder calls Carry before hits are granted above the clicks in the database.
	// Only counters in memory need it.
	AwaitsLogs bool
	// Log receives changes of Redis's availability.
	Log *slog.Logger
	// Now is the clock.
	Now func() time.Time
}

// Quotas are the two limits of a redirect: monthly hits, and maxClicks of links and targets.
type Quotas struct {
	Hits *Leases
	*Grants

	counters Counters
}

// New returns the Quotas of a process.
func New(c Config) *Quotas {
	isShared := c.Redis != nil && !c.Redis.InProcess()
	q := &Quotas{Grants: NewGrants(c.DB, c.Clicks, c.Log)}
	if q.counters = NewMemory(c.ClickLog.LogID()); isShared {
		q.counters = NewRedis(c.Redis, c.ClickLog.LogID())
	}
	q.Hits = NewLeases(LeasesConfig{
		Counters: q.counters, ClickLog: c.ClickLog, Clicks: q.clicksSince, AdmitsInOutage: c.AdmitsInOutage,
		AwaitsLogs: c.AwaitsLogs && !isShared, Log: c.Log, Now: c.Now,
	})
	return q
}

// clicksSince returns the clicks of links that the database has.
func (q *Quotas) clicksSince(ctx context.Context, linkIDs []string, since time.Time) (map[string]int64, error) {
	var rows []struct {
		SubjectID string
		Clicks    int64
	}
	if err := q.Clicks.ByLink(linkIDs, since).Scan(db.AsSystem(ctx), &rows); err != nil {
		return nil, err
	}
	clicks := make(map[string]int64, len(rows))
	for _, row := range rows {
		clicks[row.SubjectID] = row.Clicks
	}
	return clicks, nil
}

// Run ends leases, and returns unused hits and grants, until the context ends.
func (q *Quotas) Run(ctx context.Context) error {
	var all errgroup.Group
	all.Go(func() error { return q.Hits.Run(ctx) })
	all.Go(func() error { return q.Grants.Run(ctx) })
	return all.Wait()
}

// Pin is the position of the oldest open lease in the click log, which is retained from there on.
func (q *Quotas) Pin() int64 { return q.Hits.Pin() }

// Recover returns the unused hits of a dead process, whose clicks the database has. Leases without a month are of
// earlier versions.
func (q *Quotas) Recover(ctx context.Context, logID string, leases []Lease) error {
	leases = slices.DeleteFunc(slices.Clone(leases), func(l Lease) bool { return l.Month.IsZero() })
	for len(leases) > 0 {
		n := min(len(leases), returnChunk)
		if err := q.counters.Return(ctx, logID, leases[:n]); err != nil {
			return err
		}
		leases = leases[n:]
	}
	return nil
}

// Carry is that of the monthly hits.
func (q *Quotas) Carry(ctx context.Context, count func(since Month) (map[string]int64, error)) error {
	return q.Hits.Carry(ctx, count)
}

// Used returns the hits of links in a month, without those of open leases.
func (q *Quotas) Used(ctx context.Context, m Month, linkIDs ...string) (map[string]int64, error) {
	return q.counters.Used(ctx, m, linkIDs)
}
