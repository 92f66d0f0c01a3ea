package hitquota

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/linkforge/linkforge/internal/poll"
)

const (
	// nearLife is the life of a lease near the limit: the longest time for which unused hits are
	// unavailable to other nodes. It is plentyLife while more than half of a link's hits remain, and
	// abundantLife while more than nine tenths do. Most links are followed less than once in two
	// seconds, so each redirect would need a lease otherwise.
	nearLife     = 2 * time.Second
	plentyLife   = time.Minute
	abundantLife = 5 * time.Minute
	// reapInterval is how often leases that have ended are given back.
	reapInterval = 500 * time.Millisecond
	// minScanLinks is the largest shard that is scanned at each reap; a larger one is scanned once in
	// scanTurns reaps, because scanning 200,000 links took a sixth of a node's CPU time. Leases with a
	// short life, and those that pin too much of the log, end in time all the same.
	minScanLinks = 128
	scanTurns    = 10
	// idleLife is how long a link that is not followed is remembered at least, after its lease has
	// ended.
	idleLife = 30 * time.Second
	// refusedLife is how long a refusal is remembered. After it, hits that other nodes returned are
	// found.
	refusedLife = 250 * time.Millisecond
	// maxLeaseHits bounds a lease, and leaseShare its share of the remaining hits: near the limit,
	// hits are taken one by one. A lease may have the demand of its whole life, because it must last
	// when the database is unavailable.
	maxLeaseHits = 1 << 20
	leaseShare   = 16
	// returnChunk is how many leases are returned in one call.
	returnChunk = 1000
	// maxTakes bounds concurrent calls of Take. A call starts when the one before it ends, or takePatience
	// after it began, because that one may wait for the row of a link.
	maxTakes     = 4
	takePatience = 10 * time.Millisecond
	// visitorWait bounds how long a visitor waits for a call. sourceDeadline bounds calls: one that takes
	// longer than visitors wait serves those who come later.
	visitorWait    = 2 * time.Second
	sourceDeadline = 5 * time.Second
	// slowTake is the duration after which a call makes the node check whether the source is available.
	// resumeDeadline bounds the check.
	slowTake       = 500 * time.Millisecond
	resumeDeadline = time.Second
	// returnDeadline bounds giving everything back at the end.
	returnDeadline = 10 * time.Second
	// maxPinnedPart is the part of the log's room that open leases may keep from being released.
	maxPinnedPart = 8
	// noPosition is after every position.
	noPosition = math.MaxInt64
)

// Request requests hits of a link. A Source grants it.
type Request struct {
	LinkID string
	// Month is the month of the hits; the zero month for grants of maxClicks, which have none.
	Month Month
	// Limit is how many there are in all. A source that knows better may ignore it.
	Limit int64
	// Want is the number of requested hits, Number identifies the lease in this process's log.
	Want   int64
	Number int64
	// Known reports that this process has taken hits of the link and month before.
	Known bool

	// Granted is the number of granted hits, at most Want. Left is the number of hits that remain, as
	// far as the source knows.
	Granted int64
	Left    int64
	// Err is set if the request failed.
	Err error

	done    chan struct{}
	waiters int64
	alone   bool // requested by a call of its own, after a shared one failed
}

// Lease is a number of hits that was granted to a process, some of which may return.
type Lease struct {
	LinkID string
	Month  Month
	Number int64
	// Hits is how many were taken, Used how many of them have become clicks.
	Hits, Used int64
}

// Source is where hits are counted for all nodes.
type Source interface {
	// Take grants the requests, each as a lease that returns once even if this process dies. After
	// an error some may have been granted.
	Take(ctx context.Context, requests []*Request) error
	// Return ends leases and returns their unused hits.
	Return(ctx context.Context, leases []Lease) error
	// Resume returns nil if the source is available.
	Resume(ctx context.Context) error
}

// LeasesConfig is what Leases need.
type LeasesConfig struct {
	// What names the counted unit in the log.
	What string
	// Source is where hits are taken from.
	Source Source
	// MaxBatch bounds how many requests share a call of Take.
	MaxBatch int
	// Note writes to this process's log that a lease is about to be taken, and returns the position in
	// the log.
	Note func(l Lease) (int64, error)
	// LogEnd is the position that the log has reached, LogRoom how many bytes it may retain; zero
	// means any number.
	LogEnd  func() int64
	LogRoom int64
	// Numbers numbers leases; all that share a log share it.
	Numbers *atomic.Int64
	// Log receives changes of the source's availability.
	Log *slog.Logger
	// Now is the clock.
	Now func() time.Time
}

// Leases are hits that this node has taken ahead, so that a redirect finds one in memory: as many
// at a time as a link has lately needed, few when few are left, and for a short time.
type Leases struct {
	LeasesConfig
	shards [64]shard

	mu       sync.Mutex
	requests []*queued
	returns  []ended
	over     bool // no more requests are served
	wake     chan struct{}
	slots    chan struct{} // one for each running call of Source.Take
	taking   sync.WaitGroup
	turn     int   // of tidying
	reapedAt int64 // when, in milliseconds since 1970

	away        atomic.Bool
	pin         atomic.Int64
	leases      atomic.Int64
	taken, back atomic.Int64
	open, held  atomic.Int64
}

// linkKey is a link's id without a pointer in it.
type linkKey [30]byte

// held is what this node knows of a link. It has no pointers: a million of them are nothing to the
// garbage collector.
type held struct {
	number   int64
	position int64 // in the log, before the lease's record
	taken    int64 // when, in milliseconds since 1970
	left     int32 // hits of the lease that are not used
	pending  int32 // hits taken from the open lease whose redirect has been neither committed nor released
	size     int32 // hits of the lease, or of the one that has ended
	free     int32 // remaining hits of the source
	month    int32
	life     int32 // how long the lease may be kept, in milliseconds
	open     bool  // it has not been given back
	refused  bool  // there were none at that time
}

// lifeOf returns the life of a lease after which left of limit hits remain.
func lifeOf(left, limit int64) time.Duration {
	switch {
	case left > limit-limit/10:
		return abundantLife
	case left > limit/2:
		return plentyLife
	}
	return nearLife
}

// requestKey is a link and a month: each has one request at a time.
type requestKey struct {
	link  linkKey
	month int32
}

type shard struct {
	mu       sync.Mutex
	links    map[linkKey]held
	most     int // links that there have been since the map was made
	requests map[requestKey]*queued
	// closing holds leases that are over and have pending hits, by number. The last of these hits
	// ends the lease.
	closing map[int64]*closing

	// Totals of the open leases: their number, their hits, the oldest position in the log, and the
	// earliest end of those with a short life. The last two may be too early.
	open, held, pin, due int64
}

// queued is a request in the queue, with the entry of its link.
type queued struct {
	Request
	key      linkKey
	position int64 // in the log, before the lease's record
}

// ended is a lease that is to be returned to its source. It has no pointers, because during an
// outage of the source there may be one for each of a million links.
type ended struct {
	key        linkKey
	month      int32
	hits, used int32
	number     int64
	position   int64 // in the log, before the lease's record
}

func (e *ended) lease() Lease {
	return Lease{
		LinkID: string(e.key[:]), Month: monthOf(e.month), Number: e.number, Hits: int64(e.hits), Used: int64(e.used),
	}
}

// closing is a lease that is over, with the number of its hits that are pending. They count as used
// until released.
type closing struct {
	ended
	pending int32
}

// NewLeases returns Leases. Run takes and returns them.
func NewLeases(c LeasesConfig) *Leases {
	l := &Leases{LeasesConfig: c, wake: make(chan struct{}, 1), slots: make(chan struct{}, maxTakes)}
	for i := range l.shards {
		l.shards[i].links, l.shards[i].requests = map[linkKey]held{}, map[requestKey]*queued{}
		l.shards[i].closing = map[int64]*closing{}
		l.shards[i].clear()
	}
	return l
}

// errLinkID is a programmer's mistake: links' ids have one length.
var errLinkID = errors.New("a link's id of an unknown form")

func keyOf(linkID string) (key linkKey, err error) {
	if copy(key[:], linkID) != len(linkID) || len(linkID) != len(key) {
		return key, errLinkID
	}
	return key, nil
}

func (l *Leases) shard(key *linkKey) *shard {
	return &l.shards[(key[len(key)-1]*31+key[len(key)-2])%byte(len(l.shards))]
}

// number is the month as one; the zero month is zero.
func (m Month) number() int32 {
	if m.IsZero() {
		return 0
	}
	return int32(m.Start.Year()*12 + int(m.Start.Month()))
}

// Take takes one hit of the link; false means that none is left. The caller commits the hit once
// its click is recorded, or releases it. It waits at most visitorWait for each call of the source,
// which continues after that. During an outage of the source it returns Unavailable at once for a
// link without a lease.
func (l *Leases) Take(
	ctx context.Context, linkID string, m Month, limit int64, now time.Time,
) (hit Hit, ok bool, err error) {
	key, err := keyOf(linkID)
	if err != nil {
		return Hit{}, false, err
	}
	for ; ; now = l.Now() {
		number, granted, wait, mine := l.try(&key, m, limit, now.UnixMilli())
		if wait == nil && !granted {
			return Hit{}, false, nil
		}
		if wait == nil {
			return Hit{leases: l, key: key, number: number}, true, nil
		}
		switch {
		case mine:
			l.enqueue(wait)
		case l.away.Load():
			return Hit{}, false, errAway
		}
		select {
		case <-wait.done:
		case <-time.After(visitorWait):
			return Hit{}, false, fmt.Errorf("waiting for a hit: %w", context.DeadlineExceeded)
		case <-ctx.Done():
			return Hit{}, false, fmt.Errorf("waiting for a hit: %w", ctx.Err())
		}
		if wait.Err != nil {
			return Hit{}, false, wait.Err
		}
		if wait.Granted == 0 {
			return Hit{}, false, nil
		}
	}
}

// try takes a hit from the existing lease, or joins the request for another one. mine means that
// the caller has to queue the request.
func (l *Leases) try(key *linkKey, m Month, limit, now int64) (number int64, ok bool, wait *queued, mine bool) {
	month, s := m.number(), l.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	h, known := s.links[*key]
	if known && h.month == month {
		if h.left > 0 && (now-h.taken < int64(h.life) || l.away.Load()) {
			h.left--
			h.pending++
			s.held--
			s.links[*key] = h
			return h.number, true, nil, false
		}
		if h.refused && now-h.taken < refusedLife.Milliseconds() {
			return 0, false, nil, false
		}
	}
	if wait = s.requests[requestKey{*key, month}]; wait == nil {
		wait = &queued{key: *key, Request: Request{
			LinkID: string(key[:]), Month: m, Limit: limit, Known: known && h.month == month, done: make(chan struct{}),
		}}
		s.requests[requestKey{*key, month}], mine = wait, true
	}
	wait.waiters++
	return 0, false, wait, mine
}

// errClosed is the error of requests after the shutdown.
var errClosed = errors.New("no more hits are taken")

func (l *Leases) enqueue(q *queued) {
	l.mu.Lock()
	var err error
	switch {
	case l.over:
		err = errClosed
	case l.away.Load():
		err = errAway
	default:
		l.requests = append(l.requests, q)
	}
	l.mu.Unlock()
	if err != nil {
		q.Err = err
		l.finish(q)
		return
	}
	poll.Signal(l.wake)
}

// LeasesStats are the statistics of Leases.
type LeasesStats struct {
	// Open is how many there are, and Held how many hits that are not used. Leases, Taken and
	// Returned count leases, and the hits that were taken and given back, since the process began.
	Open, Held, Leases, Taken, Returned int64
	// Away reports that the source is unavailable.
	Away bool
}

// Stats returns the statistics.
func (l *Leases) Stats() LeasesStats {
	return LeasesStats{
		Open:     l.open.Load(),
		Held:     l.held.Load(),
		Leases:   l.leases.Load(),
		Taken:    l.taken.Load(),
		Returned: l.back.Load(),
		Away:     l.away.Load(),
	}
}

// Pin is the position in the log from which on leases are open.
func (l *Leases) Pin() int64 { return l.pin.Load() }

// Run takes and returns leases until the context ends, and then returns all of them.
func (l *Leases) Run(ctx context.Context) error {
	var tidying sync.WaitGroup
	tidying.Go(func() {
		for poll.Wait(ctx, reapInterval) == nil {
			l.reap(ctx, false)
		}
	})
	for {
		select {
		case <-l.wake:
			l.serve(ctx)
			continue
		case <-ctx.Done():
		}
		break
	}
	tidying.Wait()
	l.taking.Wait() // their context has ended
	l.mu.Lock()
	l.over = true
	l.mu.Unlock()
	l.serve(ctx) // ends at once, since the queue is closed
	l.taking.Wait()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), returnDeadline)
	defer cancel()
	l.reap(ctx, true)
	return nil
}
