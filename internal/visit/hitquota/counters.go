package hitquota

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/linkforge/linkforge/internal/click"
	"github.com/linkforge/linkforge/internal/platform/errs"
)

// Claim is a visitor's claim to a hit of a link.
type Claim struct {
	LinkID string
	Month  click.Month
	// Limit is the quota of the month.
	Limit int64
	// Clicks is how many clicks of the link in the month the database had at the instant ReadAt.
	// A negative number is unknown.
	Clicks int64
	ReadAt time.Time
}

// Request requests hits of a link. Counters grant it.
type Request struct {
	Claim
	// Want is the number of requested hits. Number identifies the lease in this process's log.
	Want, Number int64
	// Take raises the counter to Floor first. Outage is how many clicks of the floor have hits of
	// outage leases: the counter adds those that it lacks.
	Floor, Outage int64
	// MustExist means that the floor is an old one. The request needs another one if no counter
	// exists, and to grant a hit beyond half of the limit: outage leases may have granted the other
	// half. IsBlind means that hits beyond half are granted all the same.
	MustExist, IsBlind bool
	// Open are the leases of this process to register again with the counter.
	Open []Lease

	// Granted is the number of granted hits, at most Want. Remaining is the number of hits that
	// remain.
	Granted, Remaining int64
	// NeedsFloor means that nothing was granted, because no reliable counter exists or, if Exists is
	// set, because the request exceeds half of the limit.
	NeedsFloor, Exists bool
	// Err is errFault if nothing was granted. Other errors mean that the counters did not answer,
	// and that they may have granted hits.
	Err error

	mustLoad bool // the server does not have the script
}

// Errors of requests. All of them are temporary.
var (
	errRedisDown = errs.New(errs.Unavailable, "Quotas cannot be checked at the moment. Try again in a moment.")
	errNoFloor   = errs.New(errs.Unavailable, "The clicks of the month cannot be counted. Try again in a moment.")
	errBusy      = errs.New(errs.Unavailable, "Too many links need their first hit. Try again in a moment.")
	errFault     = errs.New(errs.Unavailable, "The quota of the link cannot be checked. Contact the operator.")
)

// Lease is a number of hits that was granted to a process, which may return some.
type Lease struct {
	LinkID string
	Month  click.Month
	Number int64
	// Hits is how many were taken, Used how many of them have become clicks.
	Hits, Used int64
	// IsUnsure means that its request had no answer, and may still be granted.
	IsUnsure bool
}

// Counters count the hits of links that have been granted, for all nodes. A counter is the only
// authority for its link and month. While it does not answer, outage leases grant hits, within half
// of the limit; it adds them with the clicks that they became.
type Counters interface {
	// Take grants requests, each as a lease and as one atomic step, and sets their results. No two
	// of them have the same link and month. It returns the epoch of the counters.
	Take(ctx context.Context, requests []*Request) (epoch int64)
	// Return ends leases of a process, and returns their unused hits. In Redis it has an effect
	// once for each lease. Counters in memory ignore the leases of other processes.
	Return(ctx context.Context, logID string, leases []Lease) error
	// Used returns the granted hits of links in a month, without those of open leases.
	Used(ctx context.Context, m click.Month, linkIDs []string) (map[string]int64, error)
	// Epoch changes whenever counters may have lost data. Since is not before the instant at which
	// it began.
	Epoch() int64
	Since() time.Time
	// IsDown reports that Take would fail without being sent.
	IsDown() bool
}

// memory are the Counters of a single process. They end with it, so leases need no names: each
// returns once.
type memory struct {
	logID string

	mu     sync.Mutex
	months map[click.Month]map[string]counter // by link
	// carried are clicks in a month, by link, which floors lack because the database does not have
	// them yet.
	carried      map[string]click.MonthCount
	carriedMonth click.Month
}

// counter has the number of granted hits, and how many of them are in open leases.
type counter struct{ used, open int64 }

// NewMemory returns counters in the memory of the process with the click log.
func NewMemory(logID string) Counters {
	return &memory{logID: logID, months: map[click.Month]map[string]counter{}}
}

func (c *memory) Epoch() int64 { return 1 }

func (c *memory) Since() time.Time { return time.Time{} }

func (c *memory) IsDown() bool { return false }

func (c *memory) Take(_ context.Context, requests []*Request) (epoch int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, q := range requests {
		links := c.links(q.Month)
		n, ok := links[q.LinkID]
		if q.NeedsFloor = !ok && q.MustExist; q.NeedsFloor {
			continue
		}
		floor := q.Floor
		if !q.MustExist && q.Month == c.carriedMonth {
			floor += c.carried[q.LinkID].Clicks
		}
		n.used = max(n.used, floor)
		q.Granted = max(0, min(q.Want, q.Limit-n.used))
		q.Remaining = max(0, q.Limit-n.used-q.Granted)
		links[q.LinkID] = counter{n.used + q.Granted, n.open + q.Granted}
	}
	return 1
}

// carry replaces the carried clicks. The counters have the earlier ones.
func (c *memory) carry(m click.Month, clicks map[string]click.MonthCount) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.carried, c.carriedMonth = clicks, m
}

// links returns the counters of a month. It removes those of months that are over, except the last
// one, which late requests still need.
func (c *memory) links(m click.Month) map[string]counter {
	links := c.months[m]
	if links == nil {
		links = map[string]counter{}
		c.months[m] = links
		maps.DeleteFunc(c.months, func(old click.Month, _ map[string]counter) bool { return old < m-1 })
	}
	return links
}

func (c *memory) Return(_ context.Context, logID string, leases []Lease) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if logID != c.logID {
		return nil
	}
	for _, l := range leases {
		if n, ok := c.months[l.Month][l.LinkID]; ok {
			c.months[l.Month][l.LinkID] = counter{n.used - l.Hits + l.Used, n.open - l.Hits}
		}
	}
	return nil
}

func (c *memory) Used(_ context.Context, m click.Month, linkIDs []string) (map[string]int64, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	used := make(map[string]int64, len(linkIDs))
	for _, linkID := range linkIDs {
		if n, ok := c.months[m][linkID]; ok {
			used[linkID] = n.used - n.open
		}
	}
	return used, nil
}
