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
	// nearLife is how long hits that a node has taken and not used are out of the reach of others.
	// While more than half of a link's hits are left it is plentyLife, and abundantLife while more
	// than nine tenths are: nobody lacks them yet. Most links are followed less than once in two
	// seconds: each redirect would ask for a lease.
	nearLife     = 2 * time.Second
	plentyLife   = time.Minute
	abundantLife = 5 * time.Minute
	// reapInterval is how often leases that have ended are given back.
	reapInterval = 500 * time.Millisecond
	// minScanLinks is the largest shard that is scanned at each reap; a larger one is scanned once
	// in scanTurns reaps: 200,000 of them took a sixth of a node's own time. Leases that live
	// shortly, and those that keep far too much of the log, end in time all the same.
	minScanLinks = 128
	scanTurns    = 10
	// idleLife is how long a link that is not followed is remembered at least, after its lease has
	// ended.
	idleLife = 30 * time.Second
	// refusedLife is how long a link without hits is not asked for again: what others give back is
	// found after so long.
	refusedLife = 250 * time.Millisecond
	// maxLeaseHits bounds a lease, and leaseShare the part of what is left that one may take: near
	// the limit, they are taken one by one.
	maxLeaseHits = 128
	leaseShare   = 16
	// maxBatch bounds how many links hits are taken for in one go, returnBatch how many leases are
	// returned in one call.
	maxBatch    = 256
	returnBatch = 1000
	// sourceDeadline bounds taking and giving back.
	sourceDeadline = 5 * time.Second
	// returnDeadline bounds giving everything back at the end.
	returnDeadline = 10 * time.Second
	// maxPinnedPart is the part of the log's room that open leases may keep from being released.
	maxPinnedPart = 8
	// noPosition is the position of leases that no log knows of.
	noPosition = math.MaxInt64
)

// Ask requests hits of a link. A Source grants it.
type Ask struct {
	LinkID string
	// Month is the month that they are of; the zero month for what a link may answer ever.
	Month Month
	// Limit is how many there are in all. A source that knows better may ignore it.
	Limit int64
	// Want is how many are wanted, Number what the lease is called in this process's log.
	Want   int64
	Number int64
	// Known says that this process may have clicks of the link and month that the database does not
	// have.
	Known bool

	// Granted is how many are given: at most Want; Left is how many there are beside them, as far
	// as the source knows.
	Granted int64
	Left    int64
	// Err is why nothing can be said.
	Err error

	done    chan struct{}
	waiters int64
}

// Lease is what was taken and is given back.
type Lease struct {
	LinkID string
	Month  Month
	Number int64
	// Hits is how many were taken, Used how many of them have become clicks.
	Hits, Used int64
}

// Source is where hits are counted for all nodes.
type Source interface {
	// Take grants the asks, each as a lease that is given back once, whatever happens to this
	// process. It sets Err where it cannot, and returns an error when it cannot be reached at all.
	Take(ctx context.Context, asks []*Ask) error
	// Return ends leases and gives back what was not used.
	Return(ctx context.Context, leases []Lease) error
	// Resume is called before the source is used again after it could not be reached.
	Resume(ctx context.Context) error
}

// LeasesConfig is what Leases need.
type LeasesConfig struct {
	// What says what is counted, in the log.
	What string
	// Source is where hits are taken from; Fallback, if any, while the source cannot be reached.
	Source, Fallback Source
	// Own says that the source is this process's own and answers at once: whoever needs a hit asks
	// for it.
	Own bool
	// Note keeps in this process's log that a lease is about to be taken, and returns its position
	// there; nil where nothing has to come back when the process dies.
	Note func(l Lease) (int64, error)
	// LogEnd is the position that the log has reached, LogLag how old the oldest click is that
	// waits in it, and LogRoom how many bytes it has for all that it keeps; zero means any number.
	LogEnd  func() int64
	LogLag  func() time.Duration
	LogRoom int64
	// Numbers numbers leases; all that share a log share it.
	Numbers *atomic.Int64
	// Log is told when the source goes away and comes back.
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
	asks     []*queued
	returns  map[bool][]ended // by whether the lease is the fallback's
	over     bool             // nobody serves asks any more
	wake     chan struct{}
	seeding  sync.WaitGroup
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
	free     int32 // hits that the source had beside them
	month    int32
	life     int32 // how long the lease may be kept, in milliseconds
	open     bool  // it has not been given back
	fallback bool  // the lease is the fallback's
	refused  bool  // there were none at that time
}

// lifeOf is how long a lease may be kept that leaves so many of a number of hits.
func lifeOf(left, limit int64) time.Duration {
	switch {
	case left > limit-limit/10:
		return abundantLife
	case left > limit/2:
		return plentyLife
	}
	return nearLife
}

type shard struct {
	mu    sync.Mutex
	links map[linkKey]held
	most  int // links that there have been since the map was made
	asks  map[linkKey]*queued
	// closing holds leases that are over and have pending hits, by number. The last of these hits
	// ends the lease.
	closing map[int64]*closing

	// What is known of the open leases: how many there are, with how many hits; and from which
	// position of the log on, and when the first of those is over that live shortly, both at the
	// earliest.
	open, held, pin, due int64
}

// queued is an ask that waits for its turn, with where its link is kept.
type queued struct {
	Ask
	key      linkKey
	position int64 // in the log, before the lease's record
}

// ended is a lease that is to be returned to its source. It has no pointers: during an outage of
// the source there may be one for each of a million links.
type ended struct {
	key        linkKey
	month      int32
	hits, used int32
	number     int64
	position   int64 // in the log, before the lease's record
	fallback   bool
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

// NewLeases prepares Leases: Run takes and gives back.
func NewLeases(c LeasesConfig) *Leases {
	l := &Leases{LeasesConfig: c, wake: make(chan struct{}, 1), returns: map[bool][]ended{}}
	for i := range l.shards {
		l.shards[i].links, l.shards[i].asks = map[linkKey]held{}, map[linkKey]*queued{}
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

// Take takes one hit of the link's; false means that there is none left. The caller commits the hit
// once its click is recorded, or releases it. An error means that nobody could say.
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
		if mine && l.Own {
			l.take(context.WithoutCancel(ctx), []*queued{wait})
		} else if mine {
			l.enqueue(wait)
		}
		select {
		case <-wait.done:
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

// try takes a hit from the lease that there is, or joins the wish for another, which is to be made
// known if it is mine.
func (l *Leases) try(key *linkKey, m Month, limit, now int64) (number int64, ok bool, wait *queued, mine bool) {
	month, s := m.number(), l.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	h, known := s.links[*key]
	if known && h.month == month {
		if h.left > 0 && now-h.taken < int64(h.life) {
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
	if wait = s.asks[*key]; wait == nil || wait.Month != m {
		wait = &queued{key: *key, Ask: Ask{
			LinkID: string(key[:]), Month: m, Limit: limit, Known: known && h.month == month, done: make(chan struct{}),
		}}
		s.asks[*key], mine = wait, true
	}
	wait.waiters++
	return 0, false, wait, mine
}

// errOver is what those are told who ask when everything has been given back.
var errOver = errors.New("no more hits are taken")

func (l *Leases) enqueue(q *queued) {
	l.mu.Lock()
	over := l.over
	if !over {
		l.asks = append(l.asks, q)
	}
	l.mu.Unlock()
	if over {
		q.Err = errOver
		l.finish(q, false)
		return
	}
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// LeasesStats tell how the leases do.
type LeasesStats struct {
	// Open is how many there are, and Held how many hits that are not used. Leases, Taken and
	// Returned count leases, and the hits that were taken and given back, since the process began.
	Open, Held, Leases, Taken, Returned int64
	// Away says that the source cannot be reached.
	Away bool
}

// Stats tell how the leases do.
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

// Run takes hits and gives them back until the context ends; then it gives back all that is left.
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
	l.mu.Lock()
	l.over = true
	l.mu.Unlock()
	l.serve(ctx) // nobody waits for long
	l.seeding.Wait()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), returnDeadline)
	defer cancel()
	l.reap(ctx, true)
	return nil
}
