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

	"github.com/linkforge/linkforge/internal/batcher"
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
	// takeBatch bounds how many links one pipeline takes hits for, returnChunk how many leases it returns.
	takeBatch   = 256
	returnChunk = 1000
	// maxTakes bounds concurrent pipelines, and concurrent statements that read floors; maxWaiting the links
	// that wait for one.
	maxTakes   = 4
	maxWaiting = 20_000
	// visitorWait bounds how long a visitor waits for a hit. takeDeadline bounds a pipeline, floorDeadline the
	// wait for floors.
	visitorWait   = 2 * time.Second
	takeDeadline  = time.Second
	floorDeadline = 2 * time.Second
	// A pipeline without an answer is repeated every retryPause, until outageGrace after its first attempt:
	// then the counters are unavailable.
	retryPause  = 50 * time.Millisecond
	outageGrace = 500 * time.Millisecond
	// floorLife is how long the number of clicks in the database may be used as a floor.
	floorLife = time.Second
	// returnDeadline bounds giving everything back at the end.
	returnDeadline = 10 * time.Second
	// maxPinnedPart is the part of the log's room that open leases may keep from being released.
	maxPinnedPart = 8
	// noPosition is after every position.
	noPosition = math.MaxInt64
)

// Floor is how many clicks of a link in a month the database had at an instant. The zero Floor is unknown.
type Floor struct {
	Clicks int64
	At     time.Time
}

// Claim is a visitor's claim to a hit of a link. Limit is the quota of the month.
type Claim struct {
	LinkID string
	Month  Month
	Limit  int64
	Floor  Floor
}

// LeasesConfig is what Leases need.
type LeasesConfig struct {
	// Counters grant the hits.
	Counters Counters
	// ClickLog is this process's click log.
	ClickLog ClickLog
	// Clicks counts the clicks of links since the start of a month that the database has.
	Clicks func(ctx context.Context, linkIDs []string, since time.Time) (map[string]int64, error)
	// AdmitsInOutage admits visitors without a hit while the counters are unavailable.
	AdmitsInOutage bool
	// AwaitsLogs means that the clicks of dead processes' logs count from Carry on, which must be called.
	AwaitsLogs bool
	// Log receives changes of the counters' availability.
	Log *slog.Logger
	// Now is the clock.
	Now func() time.Time
}

// Leases are hits that this node has taken ahead, so that a redirect finds one in memory: as many
// at a time as a link has lately needed, few when few are left, and for a short time.
type Leases struct {
	LeasesConfig
	shards [64]shard

	calls, floors batcher.Batcher[struct{}, *queued, struct{}]
	taking        sync.WaitGroup
	ctx           context.Context // of pipelines and statements; ends at shutdown
	stop          context.CancelFunc

	mu       sync.Mutex
	waiting  int // requests that have no answer yet
	returns  []ended
	over     bool  // no more requests are served
	turn     int   // of tidying
	reapedAt int64 // when, in milliseconds since 1970
	carried  carried

	away        atomic.Bool
	pin         atomic.Int64
	leases      atomic.Int64
	taken, back atomic.Int64
	numbers     atomic.Int64
}

// linkKey is a link's id without a pointer in it.
type linkKey [30]byte

// held is what this node knows of a link. It has no pointers: a million of them are nothing to the
// garbage collector.
type held struct {
	number   int64
	position int64 // in the log, before the lease's record
	taken    int64 // when, in milliseconds since 1970
	end      int64 // of the link's last click in the log
	left     int32 // hits of the lease that are not used
	pending  int32 // hits taken from the open lease whose redirect has been neither committed nor released
	size     int32 // hits of the lease, or of the one that has ended
	free     int32 // remaining hits of the counter
	epoch    int32 // of the counters, when the counter was valid
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
	// pending is the number of hits whose redirect has been neither committed nor released.
	pending int64
}

// queued is a request in the queue, with the entry of its link.
type queued struct {
	Request
	key      linkKey
	clicks   Floor
	position int64 // in the log, before the lease's record
	waiters  int64
	done     chan struct{}
}

// ended is a lease that is to be returned to its source. It has no pointers, because during an
// outage of the source there may be one for each of a million links.
type ended struct {
	key        linkKey
	month      int32
	hits, used int32
	number     int64
	position   int64 // in the log, before the lease's record
	isUnsure   bool
}

func (e *ended) lease() Lease {
	return Lease{
		LinkID: string(e.key[:]), Month: monthOf(e.month), Number: e.number, Hits: int64(e.hits), Used: int64(e.used),
		IsUnsure: e.isUnsure,
	}
}

// closing is a lease that is over, with the number of its hits that are pending. They count as used
// until released.
type closing struct {
	ended
	pending int32
}

// NewLeases returns Leases. Run ends and returns them.
func NewLeases(c LeasesConfig) *Leases {
	l := &Leases{LeasesConfig: c}
	l.ctx, l.stop = context.WithCancel(context.Background())
	l.calls.MaxBatch, l.calls.MaxRunning = takeBatch, maxTakes
	l.floors.MaxBatch, l.floors.MaxRunning = takeBatch, maxTakes
	l.carried.counted = make(chan struct{})
	if !c.AwaitsLogs {
		close(l.carried.counted)
	}
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
// its click is recorded, or releases it. It waits at most visitorWait. While the counters are unavailable,
// the hits of open leases are used up; then it returns Unavailable.
func (l *Leases) Take(ctx context.Context, c *Claim, now time.Time) (hit Hit, ok bool, err error) {
	key, err := keyOf(c.LinkID)
	if err != nil {
		return Hit{}, false, err
	}
	ctx, cancel := context.WithTimeout(ctx, visitorWait)
	defer cancel()
	for ; ; now = l.Now() {
		number, granted, wait, isFirst := l.try(&key, c, now.UnixMilli())
		if wait == nil && !granted {
			return Hit{}, false, nil
		}
		if wait == nil {
			return Hit{leases: l, key: key, number: number}, true, nil
		}
		if isFirst {
			l.enqueue(wait)
		}
		select {
		case <-wait.done:
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			return Hit{}, false, fmt.Errorf("waiting for a hit: %w", ctx.Err())
		}
		switch {
		case wait.Err != nil:
			return l.takeInOutage(&key, c, wait.Err)
		case wait.Granted == 0:
			return Hit{}, false, nil
		}
	}
}

// try takes a hit from the existing lease, or joins the request for another one. isFirst means that
// the caller has to queue the request.
func (l *Leases) try(key *linkKey, c *Claim, now int64) (number int64, ok bool, wait *queued, isFirst bool) {
	month, s := c.Month.number(), l.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if h := s.links[*key]; h.month == month {
		if h.left > 0 && (now-h.taken < int64(h.life) || l.away.Load()) {
			return s.use(key, h), true, nil, false
		}
		if h.refused && now-h.taken < refusedLife.Milliseconds() {
			return 0, false, nil, false
		}
	}
	if wait = s.requests[requestKey{*key, month}]; wait == nil {
		wait = &queued{key: *key, clicks: c.Floor, done: make(chan struct{}), Request: Request{
			LinkID: string(key[:]), Month: c.Month, Limit: c.Limit,
		}}
		s.requests[requestKey{*key, month}], isFirst = wait, true
	}
	wait.waiters++
	return 0, false, wait, isFirst
}

// use takes a hit of an open lease. The shard is locked.
func (s *shard) use(key *linkKey, h held) (number int64) {
	h.left--
	h.pending++
	s.held--
	s.pending++
	s.links[*key] = h
	return h.number
}

// takeInOutage takes a hit of a lease whose life is over, or else admits the visitor without a hit, if so
// configured. The click is part of the floor, above which the counter continues.
func (l *Leases) takeInOutage(key *linkKey, c *Claim, err error) (Hit, bool, error) {
	s := l.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	h, month := s.links[*key], c.Month.number()
	if h.open && h.month == month && h.left > 0 {
		return Hit{leases: l, key: *key, number: s.use(key, h)}, true, nil
	}
	if !l.AdmitsInOutage || !l.away.Load() {
		return Hit{}, false, err
	}
	if h.month != month { // a lease of another month is returned when its life is over
		s.drop(&h)
		l.endLease(s, &h, key)
		h = held{month: month, end: h.end}
	}
	if h.epoch, h.refused = 0, false; !h.open {
		h.taken = l.Now().UnixMilli()
	}
	s.links[*key] = h
	return Hit{leases: l, key: *key}, true, nil
}

// errClosed is the error of requests after the shutdown.
var errClosed = errors.New("no more hits are taken")

// enqueue has a request share the next pipeline.
func (l *Leases) enqueue(q *queued) {
	l.mu.Lock()
	l.waiting++
	var refused error // from here on, Err belongs to the goroutine that takes the hits
	switch {
	case l.over:
		refused = errClosed
	case l.waiting > maxWaiting:
		refused = errAway
	default:
		l.taking.Go(func() { _, _ = l.calls.Do(context.Background(), struct{}{}, q, l.take) })
	}
	l.mu.Unlock()
	if refused != nil {
		q.Err = refused
		l.finish(q, 0)
	}
}

// LeasesStats are the statistics of Leases.
type LeasesStats struct {
	// Open is how many there are, Held how many of their hits are not used, and Pending how many are used by
	// requests in flight. Leases, Taken and Returned count leases, and the hits that were taken and returned,
	// since the process began.
	Open, Held, Pending, Leases, Taken, Returned int64
	// Away reports that the counters are unavailable.
	Away bool
}

// Stats returns the statistics.
func (l *Leases) Stats() LeasesStats {
	all := LeasesStats{Leases: l.leases.Load(), Taken: l.taken.Load(), Returned: l.back.Load(), Away: l.away.Load()}
	for i := range l.shards {
		s := &l.shards[i]
		s.mu.Lock()
		all.Open, all.Held, all.Pending = all.Open+s.open, all.Held+s.held, all.Pending+s.pending
		s.mu.Unlock()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.returns {
		all.Held += int64(e.hits - e.used)
	}
	return all
}

// Pin is the position in the log from which on leases are open.
func (l *Leases) Pin() int64 { return l.pin.Load() }

// Run ends leases and returns them until the context ends, and then returns all of them.
func (l *Leases) Run(ctx context.Context) error {
	for poll.Wait(ctx, reapInterval) == nil {
		l.reap(ctx, false)
	}
	l.mu.Lock()
	l.over = true
	l.mu.Unlock()
	l.stop()
	l.taking.Wait()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), returnDeadline)
	defer cancel()
	l.reap(ctx, true)
	return nil
}
