package hitquota

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/linkforge/linkforge/internal/click"
	"github.com/linkforge/linkforge/internal/platform/batcher"
	"github.com/linkforge/linkforge/internal/platform/poll"
)

const (
	// nearLife is the life of a lease near the limit: the longest time that unused hits are
	// unavailable to other nodes. It is plentyLife while more than half of a link's hits remain,
	// and abundantLife while more than nine tenths do. Most links are followed less than once in
	// two seconds, so each redirect would need a lease otherwise.
	nearLife     = 2 * time.Second
	plentyLife   = time.Minute
	abundantLife = 5 * time.Minute
	// reapInterval is how often leases that have ended are returned.
	reapInterval = 500 * time.Millisecond
	// minScanLinks is the largest shard that is scanned at each reap; a larger one is scanned once
	// in scanTurns reaps, because scanning 200,000 links took a sixth of a node's CPU time. Leases
	// with a short life, or with a pin that is too old, end in time all the same.
	minScanLinks = 128
	scanTurns    = 10
	// idleLife is how long a link that is not followed is remembered at least, after its lease has
	// ended.
	idleLife = 30 * time.Second
	// refusedLife is how long a refusal is remembered. After it, hits that other nodes returned are
	// found.
	refusedLife = 250 * time.Millisecond
	// maxLeaseHits bounds a lease. Of the remaining hits of a known link it has 1/minShareDivisor at most:
	// near the limit, hits are taken one by one. All nodes together lease at most half of the
	// remaining hits. A lease may have the demand of its whole life, because it must last while Redis
	// is unavailable.
	maxLeaseHits    = 1 << 20
	minShareDivisor = 16
	// takeBatch bounds how many links share a pipeline, or a statement that reads floors.
	takeBatch = 256
	// maxTakes bounds concurrent pipelines, and concurrent statements that read floors; maxWaiting
	// the links that wait for one.
	maxTakes   = 4
	maxWaiting = 20_000
	// visitorWait bounds how long a visitor waits for a hit: for the statement that reads its floor,
	// and in an outage for another one once the clicks in the log are stored. statementWait bounds one
	// of them: a slow one is no outage. takeDeadline bounds a pipeline.
	visitorWait   = 2 * statementWait
	statementWait = 2 * time.Second
	takeDeadline  = time.Second
	// A pipeline without an answer is repeated every retryPause. A visitor who has waited for
	// patience gets a hit of an outage lease; one who can have none waits until the counters have
	// not answered for outageGrace, which is an outage.
	retryPause  = 50 * time.Millisecond
	patience    = 250 * time.Millisecond
	outageGrace = 900 * time.Millisecond
	// flushDeadline bounds how long a visitor waits until the database has the clicks in the log.
	flushDeadline = time.Second
	// blindAfter bounds the statement that reads a floor if hits can be taken without it.
	blindAfter = 500 * time.Millisecond
	// floorLife is how long a counter may begin with a number of clicks in the database.
	floorLife = time.Second
	// returnDeadline bounds returning everything at the end.
	returnDeadline = 10 * time.Second
	// pinnedDivisor divides the log: open leases may retain one part of it.
	pinnedDivisor = 8
	// noPosition is after every position.
	noPosition = math.MaxInt64
)

// Leases are hits that this node has taken ahead, so that a redirect finds one in memory: as many
// at a time as a link has lately needed, few when few remain, and for a short time.
type Leases struct {
	Config
	counters Counters
	shards   [64]shard

	calls      batcher.Batcher[struct{}, *queued, struct{}]
	floors     batcher.Batcher[floorKind, *queued, struct{}]
	mu         sync.Mutex // between the start of a request and the shutdown
	requesting sync.WaitGroup
	ctx        context.Context // of pipelines and statements; ends at shutdown
	stop       context.CancelFunc
	ready      chan struct{} // closed when the counters know the clicks of dead processes
	getReady   func()
	reaps      int

	isOutage     atomic.Bool  // Redis was unavailable for a while
	failingSince atomic.Int64 // when a pipeline had no answer, in nanoseconds since 1970; 0 if one has an answer
	barred       *queued      // what links without a part of an outage's hits wait for
	pin          atomic.Int64
	numbers      atomic.Int64

	nodes, othersWithRedis                  atomic.Int64 // as reported last; nodes includes this one, 0 is unknown
	period                                  atomic.Int32 // changes with nodes, and when a log is adopted; from 1
	unsureAt                                time.Time    // when Run began, or a report failed; belongs to reportEvery
	leasesTaken, hitsReturned, hitsInOutage atomic.Int64
}

// floorKind separates statements that read floors: some requests can go on without theirs.
type floorKind struct {
	month      click.Month
	isOptional bool
}

// linkKey is a link in a month. It has no pointers, like linkState and endedLease: a million of them are
// nothing to the garbage collector.
type linkKey struct {
	id    [30]byte
	month click.Month
}

// linkState is what this node knows of a link in a month. A lease that has ended leaves its demand:
// size is the number of its used hits then.
type linkState struct {
	number    int64
	position  int64 // in the log, before the lease's record
	takenAt   int64 // in milliseconds since 1970
	end       int64 // of the link's last click in the log
	size      int32 // hits of the lease
	unused    int32
	pending   int32 // hits taken from the open lease whose redirect has been neither committed nor released
	remaining int32 // hits of the counter
	epoch     int32 // of the counters, when the counter was valid
	life      int32 // how long the lease may be kept, in milliseconds
	barredAt  int64 // when there was no hit of an outage lease, in milliseconds since 1970
	period    int32 // of the floor that the counter was last raised to; 0 after a hit of an outage lease
	open      bool  // the lease has not ended
	refused   bool  // there were no hits at that time
	owes      bool  // the counter may lack hits of outage leases
}

// isUsable reports whether hits of the lease may be used. Those of outage leases, whose numbers are
// negative, are granted above a floor, which becomes old.
func (h *linkState) isUsable(now int64, isOutage bool) bool {
	return h.unused > 0 && (now-h.takenAt < int64(h.life) || isOutage && h.number > 0)
}

// lifeOf returns the life of a lease after which some of limit hits remain.
func lifeOf(remaining, limit int64) time.Duration {
	switch {
	case remaining > limit-limit/10:
		return abundantLife
	case remaining > limit/2:
		return plentyLife
	}
	return nearLife
}

type shard struct {
	mu       sync.Mutex
	links    map[linkKey]linkState
	most     int // links that there have been since the map was made
	requests map[linkKey]*queued
	ended    map[int64]endedLease // leases that are over, by number, until they are returned
	// pin is the oldest position of open leases in the log, due the earliest end of those with a
	// short life. Both may be too early.
	pin, due int64
}

// queued is a request in the queue.
type queued struct {
	Request
	key      linkKey
	began    time.Time // when the first visitor came; not by the injected clock: this is about waiting
	position int64     // in the log, before the lease's record
	epoch    int64     // of the counters; in it, the link needs no floor if its counter exists
	period   int32     // in which the floor was read; 0 without a statement
	waiters  int64
	// isOptional means that the request waits for a floor that only an outage lease, or a hit beyond
	// half of the limit needs.
	isOptional bool
	hasNoFloor bool // the database has not answered
	isFlushed  bool // the next floor has the clicks in the log
	// counted are the clicks of the floor that the database has. held are hits of this node that are
	// neither clicks in the log nor part of the floor.
	counted, held int64
	done          chan struct{}
}

// endedLease is a lease that is over. It returns once its pending hits are settled; they count as used
// until released.
type endedLease struct {
	key                   linkKey
	number, position      int64
	hits, used, pending   int32
	isUnsure, isReturning bool
}

// NewLeases returns Leases. Run ends and returns them.
func NewLeases(c Config, counters Counters) *Leases {
	l := &Leases{Config: c, counters: counters}
	l.ctx, l.stop = context.WithCancel(context.Background())
	l.calls.MaxBatch, l.calls.MaxRunning = takeBatch, maxTakes
	l.floors.MaxBatch, l.floors.MaxRunning = takeBatch, maxTakes
	l.period.Store(1)
	if c.Nodes == nil {
		l.nodes.Store(1)
	}
	l.barred = &queued{done: make(chan struct{}), Request: Request{Err: errRedisDown}}
	close(l.barred.done)
	l.ready = make(chan struct{})
	l.getReady = sync.OnceFunc(func() { close(l.ready) })
	if _, inMemory := counters.(*memory); !inMemory {
		l.getReady()
	}
	for i := range l.shards {
		l.shards[i] = shard{
			links: map[linkKey]linkState{}, requests: map[linkKey]*queued{}, ended: map[int64]endedLease{},
			pin: noPosition, due: noPosition,
		}
	}
	return l
}

// errLinkID is a programmer's mistake: links' ids have one length.
var errLinkID = errors.New("a link's id of an unknown form")

func keyOf(linkID string, m click.Month) (linkKey, error) {
	key := linkKey{month: m}
	if copy(key.id[:], linkID) != len(linkID) || len(linkID) != len(key.id) {
		return key, errLinkID
	}
	return key, nil
}

func (l *Leases) shard(key *linkKey) *shard {
	id := &key.id
	return &l.shards[(id[len(id)-1]*31+id[len(id)-2])%byte(len(l.shards))]
}

// Take takes one hit of the link; false means that none is left. The caller commits the hit once
// its click is recorded, or releases it. It waits at most visitorWait. While the counters are
// unavailable, the hits of open leases are used up, and then this node's part of the first half of
// the limit, see grantInOutage; then it returns Unavailable.
func (l *Leases) Take(ctx context.Context, c *Claim, now time.Time) (hit Hit, ok bool, err error) {
	key, err := keyOf(c.LinkID, c.Month)
	if err != nil {
		return Hit{}, false, err
	}
	hit, ok, wait, isFirst := l.try(&key, c, now.UnixMilli())
	if wait == nil {
		return hit, ok, nil
	}
	ctx, cancel := context.WithTimeout(ctx, visitorWait)
	defer cancel()
	for ; wait != nil; hit, ok, wait, isFirst = l.try(&key, c, l.Now().UnixMilli()) {
		if isFirst {
			l.enqueue(wait)
		}
		select {
		case <-wait.done:
		case <-ctx.Done():
		}
		switch {
		case ctx.Err() != nil:
			return l.takeInOutage(&key, fmt.Errorf("waiting for a hit: %w", ctx.Err()))
		case wait.Err != nil:
			return l.takeInOutage(&key, wait.Err)
		case wait.Granted == 0:
			return Hit{}, false, nil
		}
	}
	return hit, ok, nil
}

// try takes a hit from the existing lease, or joins the request for another one. isFirst means that
// the caller has to queue the request.
func (l *Leases) try(key *linkKey, c *Claim, now int64) (hit Hit, ok bool, wait *queued, isFirst bool) {
	s := l.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.links[*key]
	isOutage := l.isOutage.Load()
	if h.isUsable(now, isOutage) {
		return Hit{leases: l, key: *key, number: s.use(key, h)}, true, nil, false
	}
	if age := now - h.barredAt; isOutage && age >= 0 && age < floorLife.Milliseconds() && l.counters.IsDown() {
		return Hit{}, false, l.barred, false
	}
	// negative after the clock was set back
	if age := now - h.takenAt; h.refused && age >= 0 && age < refusedLife.Milliseconds() {
		return Hit{}, false, nil, false
	}
	if wait = s.requests[*key]; wait == nil {
		wait, isFirst = &queued{
			key: *key, began: time.Now(), done: make(chan struct{}), Request: Request{Claim: *c},
		}, true
		wait.LinkID = string(key.id[:]) // that of the claim may be a part of a large text
		s.requests[*key] = wait
	}
	wait.waiters++
	return Hit{}, false, wait, isFirst
}

// use takes a hit of an open lease. The shard is locked.
func (s *shard) use(key *linkKey, h linkState) (number int64) {
	h.unused--
	h.pending++
	s.links[*key] = h
	return h.number
}

// takeInOutage takes a hit of a lease whose life is over, or else admits the visitor without a
// lease, if so configured.
func (l *Leases) takeInOutage(key *linkKey, err error) (Hit, bool, error) {
	s, now := l.shard(key), l.Now().UnixMilli()
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.links[*key]
	if h.isUsable(now, true) {
		return Hit{leases: l, key: *key, number: s.use(key, h)}, true, nil
	}
	if !l.AdmitsInOutage || !l.isOutage.Load() {
		return Hit{}, false, err
	}
	if h.epoch, h.refused = 0, false; !h.open {
		h.takenAt = now
	}
	s.links[*key] = h
	return Hit{leases: l, key: *key, number: -l.numbers.Add(1)}, true, nil
}

// errClosed is the error of requests after the shutdown.
var errClosed = errors.New("no more hits are taken")

// enqueue has a request share the next pipeline.
func (l *Leases) enqueue(q *queued) {
	l.mu.Lock()
	var refused error // after the unlock, Err belongs to the goroutine that takes the hits
	switch {
	case l.ctx.Err() != nil:
		refused = errClosed
	case l.calls.Waiting(struct{}{})+l.floors.Waiting(floorKind{q.Month, false})+
		l.floors.Waiting(floorKind{q.Month, true}) >= maxWaiting:
		refused = errBusy
	default:
		l.requesting.Go(func() { _, _ = l.calls.Do(context.Background(), struct{}{}, q, l.take) })
	}
	l.mu.Unlock()
	if refused != nil {
		q.Err = refused
		l.finish(q, 0)
	}
}

// LeasesStats are the statistics of Leases.
type LeasesStats struct {
	// Open is how many there are, and Pending how many of their hits are used by requests in
	// flight. Unused is how many hits are not used, of open leases, of leases that wait to be
	// returned and of requested ones.
	Open, Unused, Pending int64
	// Leases and Returned count leases that were taken, and hits that were returned, since the
	// process began, InOutage the hits that this node has granted without the counters.
	Leases, Returned, InOutage int64
	// IsOutage reports that the counters are unavailable, OthersHaveRedis that another node has had Redis
	// since this one has none.
	IsOutage, OthersHaveRedis bool
}

// Stats returns the statistics.
func (l *Leases) Stats() LeasesStats {
	all := LeasesStats{
		Leases: l.leasesTaken.Load(), Returned: l.hitsReturned.Load(), InOutage: l.hitsInOutage.Load(),
		IsOutage: l.isOutage.Load(), OthersHaveRedis: l.othersWithRedis.Load() > 0,
	}
	for i := range l.shards {
		s := &l.shards[i]
		s.mu.Lock()
		for _, h := range s.links {
			if h.open {
				all.Open, all.Unused, all.Pending = all.Open+1, all.Unused+int64(h.unused), all.Pending+int64(h.pending)
			}
		}
		for _, e := range s.ended {
			all.Unused, all.Pending = all.Unused+int64(e.hits-e.used), all.Pending+int64(e.pending)
		}
		for _, q := range s.requests {
			if q.Number > 0 {
				all.Unused += q.Want
			}
		}
		s.mu.Unlock()
	}
	return all
}

// Used returns the hits of links in a month, without those of open leases.
func (l *Leases) Used(ctx context.Context, m click.Month, linkIDs ...string) (map[string]int64, error) {
	return l.counters.Used(ctx, m, linkIDs)
}

// Pin is the position of the first open lease in the log. The log is retained from that position.
func (l *Leases) Pin() int64 { return l.pin.Load() }

// Run ends leases and returns them until the context ends, and then returns all of them. It also
// reports this node to the others.
func (l *Leases) Run(ctx context.Context) error {
	var reporting sync.WaitGroup
	if l.Nodes != nil {
		reporting.Go(func() { l.reportEvery(ctx) })
	}
	defer reporting.Wait()
	for poll.Wait(ctx, reapInterval) == nil {
		l.reap(ctx, false)
	}
	l.mu.Lock()
	l.stop()
	l.mu.Unlock()
	l.requesting.Wait()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), returnDeadline)
	defer cancel()
	l.reap(ctx, true)
	return nil
}
