package hitquota

import (
	"context"
	"strconv"
	"sync"
)

// Request requests hits of a link. Counters grant it.
type Request struct {
	LinkID string
	Month  Month
	// Limit is the number of hits of the month, Want that of the requested ones. Number identifies the
	// lease in this process's log.
	Limit, Want, Number int64
	// Floor is how many hits are used at least; noFloor relies on the counter. Open are the leases of this
	// process to register again with it.
	Floor int64
	Open  []Lease

	// Granted is the number of granted hits, at most Want. Left is the number of hits that remain.
	Granted, Left int64
	// NeedsFloor means that there is no counter to rely on. Nothing was granted then.
	NeedsFloor bool
	// Epoch is that of the counters at which the counter was valid.
	Epoch int64
	// Err is errFault if nothing was granted. Other errors mean that the counters did not answer, and that they may
	// have granted hits.
	Err error

	mustLoad bool // the server does not have the script
}

// noFloor is the Floor of a request that relies on the counter.
const noFloor = -1

// Lease is a number of hits that was granted to a process, some of which may return.
type Lease struct {
	LinkID string
	Month  Month
	Number int64
	// Hits is how many were taken, Used how many of them have become clicks.
	Hits, Used int64
	// IsUnsure means that its request had no answer, and may still be granted.
	IsUnsure bool
}

// Counters count the hits of links that have been granted, for all nodes. A counter is the only
// authority for its link and month: nothing grants hits without it.
type Counters interface {
	// Take grants requests, each as a lease and as one atomic step, and sets their results. No two of
	// them have the same link and month.
	Take(ctx context.Context, requests []*Request)
	// Return ends leases of a process, and returns their unused hits. It has an effect once for each lease.
	Return(ctx context.Context, logID string, leases []Lease) error
	// Used returns the granted hits of links in a month, without those of open leases.
	Used(ctx context.Context, m Month, linkIDs []string) (map[string]int64, error)
	// Epoch is another number after the counters may have lost data.
	Epoch() int64
	// IsDown reports that Take would fail without being sent.
	IsDown() bool
}

// memory are the Counters of a single process. They end with it.
type memory struct {
	logID string

	mu     sync.Mutex
	months map[string]map[string]*counter // by month and link
}

type counter struct {
	used   int64
	leases map[string]int64 // hits of the open ones
}

// NewMemory returns counters in the memory of the process with the click log.
func NewMemory(logID string) Counters {
	return &memory{logID: logID, months: map[string]map[string]*counter{}}
}

func (c *memory) Epoch() int64 { return 1 }

func (c *memory) IsDown() bool { return false }

func (c *memory) Take(_ context.Context, requests []*Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, q := range requests {
		q.Granted, q.Left, q.NeedsFloor, q.Epoch, q.Err = 0, 0, false, 1, nil
		c.take(q)
	}
}

func (c *memory) take(q *Request) {
	links := c.links(q.Month)
	n := links[q.LinkID]
	if n == nil && q.Floor == noFloor {
		q.NeedsFloor = true
		return
	}
	if n == nil {
		n = &counter{}
		links[q.LinkID] = n
	}
	n.used = max(n.used, q.Floor)
	q.Granted = max(0, min(q.Want, q.Limit-n.used))
	n.used += q.Granted
	q.Left = max(0, q.Limit-n.used)
	for _, l := range q.Open {
		n.open(leaseField(c.logID, l.Number), l.Hits)
	}
	if q.Granted > 0 {
		n.open(leaseField(c.logID, q.Number), q.Granted)
	}
}

func (n *counter) open(field string, hits int64) {
	if n.leases == nil {
		n.leases = map[string]int64{}
	}
	n.leases[field] = hits
}

// links returns the counters of a month. It removes those of months that are over, except the last one,
// which late requests still need.
func (c *memory) links(m Month) map[string]*counter {
	links := c.months[m.String()]
	if links == nil {
		links = map[string]*counter{}
		c.months[m.String()] = links
		before := MonthOf(m.Start.AddDate(0, 0, -1)).String()
		for month := range c.months {
			if month < before {
				delete(c.months, month)
			}
		}
	}
	return links
}

func (c *memory) Return(_ context.Context, logID string, leases []Lease) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, l := range leases {
		n, field := c.months[l.Month.String()][l.LinkID], leaseField(logID, l.Number)
		if n == nil {
			continue
		}
		if hits, ok := n.leases[field]; ok {
			delete(n.leases, field)
			n.used -= max(0, hits-l.Used)
		}
	}
	return nil
}

func (c *memory) Used(_ context.Context, m Month, linkIDs []string) (map[string]int64, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	used := make(map[string]int64, len(linkIDs))
	for _, linkID := range linkIDs {
		if n := c.months[m.String()][linkID]; n != nil {
			used[linkID] = n.used
			for _, hits := range n.leases {
				used[linkID] -= hits
			}
		}
	}
	return used, nil
}

// leaseField names a lease for all nodes.
func leaseField(logID string, number int64) string {
	return logID + "/" + strconv.FormatInt(number, 10)
}
