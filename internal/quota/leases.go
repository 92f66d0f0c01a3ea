package quota

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/linkforge/linkforge/internal/pause"
)

const (
	// nearLife is how long hits that a node has taken and not used are out of the reach of others; plentyLife is so while more
	// than half of a link's hits are left, when nobody lacks them yet. Most links are followed less than once in two seconds:
	// each redirect would ask for a lease.
	nearLife   = 2 * time.Second
	plentyLife = time.Minute
	// tidyEvery is how often leases that have ended are given back.
	tidyEvery = 500 * time.Millisecond
	// idleLife is how long a link that is not followed is remembered.
	idleLife = 30 * time.Second
	// refusedLife is how long a link without hits is not asked for again: what others give back is found after so long.
	refusedLife = 250 * time.Millisecond
	// mostHits bounds a lease, and share the part of what is left that one may take: near the limit, they are taken one
	// by one.
	mostHits = 128
	share    = 16
	// mostAsks bounds how many links hits are taken for in one go, mostReturns how many leases wait to be given back.
	mostAsks    = 256
	mostReturns = 100_000
	// askDeadline bounds taking and giving back.
	askDeadline = 5 * time.Second
	// returnDeadline bounds giving everything back at the end.
	returnDeadline = 10 * time.Second
	// nowhere is the position of leases that no log knows of.
	nowhere = math.MaxInt64
)

// Ask is a wish for hits of a link. A Source grants it.
type Ask struct {
	LinkID string
	// Month is the month that they are of; the zero month for what a link may answer ever.
	Month Month
	// Limit is how many there are in all. A source that knows better may ignore it.
	Limit int64
	// Want is how many are wanted, Number what the lease is called in this process's log.
	Want   int64
	Number int64
	// Known says that this process may have clicks of the link and month that the database does not have.
	Known bool

	// Granted is how many are given: at most Want; Left is how many there are beside them, as far as the source knows.
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
	// Take grants the asks, each as a lease that is given back once, whatever happens to this process. It sets Err
	// where it cannot, and returns an error when it cannot be reached at all.
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
	// Own says that the source is this process's own and answers at once: whoever needs a hit asks for it.
	Own bool
	// Note keeps in this process's log that a lease is about to be taken, and returns its position there; nil where nothing
	// has to come back when the process dies.
	Note func(l Lease) (int64, error)
	// LogEnd is the position that the log has reached, LogLag how old the oldest click is that waits in it.
	LogEnd func() int64
	LogLag func() time.Duration
	// Numbers numbers leases; all that share a log share it.
	Numbers *atomic.Int64
	// Log is told when the source goes away and comes back.
	Log *slog.Logger
	// Now is the clock.
	Now func() time.Time
}

// Leases are hits that this node has taken ahead, so that a redirect finds one in memory: as many at a time as a link has
// lately needed, few when few are left, and for a short time.
type Leases struct {
	LeasesConfig
	shards [64]shard

	mu      sync.Mutex
	asks    []*queued
	returns []ended
	over    bool // nobody serves asks any more
	wake    chan struct{}
	seeding sync.WaitGroup

	away        atomic.Bool
	pin         atomic.Int64
	leases      atomic.Int64
	taken, back atomic.Int64
	open, held  atomic.Int64
}

// linkKey is a link's id without a pointer in it.
type linkKey [30]byte

// held is what this node knows of a link. It has no pointers: a million of them are nothing to the garbage collector.
type held struct {
	number   int64
	position int64 // in the log, before the lease's record
	taken    int64 // when, in milliseconds since 1970
	left     int32 // hits of the lease that are not used
	size     int32 // hits of the lease
	free     int32 // hits that the source had beside them
	month    int32
	fallback bool // the lease is the fallback's
	refused  bool // there were none at that time
	plenty   bool // more than half of them were left at that time
}

// life is how long the lease may be kept.
func (h held) life() int64 {
	if h.plenty {
		return plentyLife.Milliseconds()
	}
	return nearLife.Milliseconds()
}

type shard struct {
	mu    sync.Mutex
	links map[linkKey]held
	asks  map[linkKey]*queued
}

// queued is an ask that waits for its turn, with where its link is kept.
type queued struct {
	Ask
	key      linkKey
	position int64 // in the log, before the lease's record
}

// ended is a lease that is to be given back.
type ended struct {
	Lease
	position int64
	fallback bool
}

// NewLeases prepares Leases: Run takes and gives back.
func NewLeases(c LeasesConfig) *Leases {
	l := &Leases{LeasesConfig: c, wake: make(chan struct{}, 1)}
	for i := range l.shards {
		l.shards[i].links, l.shards[i].asks = map[linkKey]held{}, map[linkKey]*queued{}
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

// Take takes one hit of the link's, and returns the number of the lease that it is from; false means that there is none
// left. An error means that nobody could say.
func (l *Leases) Take(ctx context.Context, linkID string, m Month, limit int64, now time.Time) (number int64, ok bool, err error) {
	key, err := keyOf(linkID)
	if err != nil {
		return 0, false, err
	}
	for ; ; now = l.Now() {
		number, answer, wait, mine := l.try(&key, m, limit, now.UnixMilli())
		if wait == nil {
			return number, answer, nil
		}
		if mine && l.Own {
			l.take(context.WithoutCancel(ctx), []*queued{wait})
		} else if mine {
			l.enqueue(wait)
		}
		select {
		case <-wait.done:
		case <-ctx.Done():
			return 0, false, fmt.Errorf("waiting for a hit: %w", ctx.Err())
		}
		if wait.Err != nil {
			return 0, false, wait.Err
		}
		if wait.Granted == 0 {
			return 0, false, nil
		}
	}
}

// try takes a hit from the lease that there is, or joins the wish for another, which is to be made known if it is mine.
func (l *Leases) try(key *linkKey, m Month, limit, now int64) (number int64, ok bool, wait *queued, mine bool) {
	month, s := m.number(), l.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	h, known := s.links[*key]
	if known && h.month == month {
		if h.left > 0 && now-h.taken < h.life() {
			h.left--
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

// Put gives one hit back that was taken and will not become a click.
func (l *Leases) Put(linkID string, m Month, number int64) {
	key, err := keyOf(linkID)
	if err != nil {
		return
	}
	s := l.shard(&key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if h := s.links[key]; h.number == number && h.size > h.left && h.month == m.number() {
		h.left++
		s.links[key] = h
	}
}

// LeasesStats tell how the leases do.
type LeasesStats struct {
	// Open is how many there are, and Held how many hits that are not used. Leases, Taken and Returned count leases, and the
	// hits that were taken and given back, since the process began.
	Open, Held, Leases, Taken, Returned int64
	// Away says that the source cannot be reached.
	Away bool
}

// Stats tell how the leases do.
func (l *Leases) Stats() LeasesStats {
	return LeasesStats{Open: l.open.Load(), Held: l.held.Load(), Leases: l.leases.Load(), Taken: l.taken.Load(), Returned: l.back.Load(), Away: l.away.Load()}
}

// Pin is the position in the log from which on leases are open.
func (l *Leases) Pin() int64 { return l.pin.Load() }

// Run takes hits and gives them back until the context ends; then it gives back all that is left.
func (l *Leases) Run(ctx context.Context) error {
	var tidying sync.WaitGroup
	tidying.Go(func() {
		for pause.For(ctx, tidyEvery) == nil {
			l.tidy(ctx, false)
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
	l.tidy(ctx, true)
	return nil
}

// serve answers the asks that wait.
func (l *Leases) serve(ctx context.Context) {
	for {
		l.mu.Lock()
		batch := l.asks[:min(len(l.asks), mostAsks)]
		l.asks = l.asks[len(batch):]
		l.mu.Unlock()
		if len(batch) == 0 {
			return
		}
		l.take(ctx, batch)
	}
}

// take asks the source for a batch. What the source has to look up elsewhere first, it does while others are asked for.
func (l *Leases) take(ctx context.Context, batch []*queued) {
	asks := make([]*Ask, len(batch))
	for i, q := range batch {
		l.begin(q)
		asks[i] = &q.Ask
	}
	fallback := l.away.Load() && l.Fallback != nil
	err := l.askAll(ctx, fallback, batch, asks)
	if err != nil && !fallback && ctx.Err() == nil {
		l.leave(ctx, err)
		if l.Fallback != nil {
			fallback = true
			for _, q := range batch {
				l.begin(q)
			}
			err = l.askAll(ctx, fallback, batch, asks)
		}
	}
	var later []*queued
	for _, q := range batch {
		if err != nil {
			q.Err = err
		}
		if errors.Is(q.Err, ErrLost) {
			later = append(later, q)
			continue
		}
		l.finish(q, fallback)
	}
	if len(later) > 0 {
		l.seeding.Go(func() { l.takeLost(ctx, later) })
	}
}

// ErrLost is what a source says of a counter that it has lost, and must count anew before it can grant anything.
var ErrLost = errors.New("the hit counter has been lost")

// Seeder is a source that may lose counters.
type Seeder interface {
	// Seed counts anew what was lost.
	Seed(ctx context.Context, asks []*Ask) error
}

// seedRounds is how often a counter may vanish before a request is refused.
const seedRounds = 20

func (l *Leases) takeLost(ctx context.Context, batch []*queued) {
	for range seedRounds {
		asks := make([]*Ask, len(batch))
		for i, q := range batch {
			q.Err = nil
			asks[i] = &q.Ask
		}
		err := l.seed(ctx, asks)
		if err == nil {
			err = l.askAll(ctx, false, batch, asks)
		}
		var later []*queued
		for _, q := range batch {
			if err != nil {
				q.Err = err
			}
			if errors.Is(q.Err, ErrLost) {
				later = append(later, q)
				continue
			}
			l.finish(q, false)
		}
		if batch = later; len(batch) == 0 {
			return
		}
		_ = pause.For(ctx, guardWait)
	}
	for _, q := range batch {
		l.finish(q, false)
	}
}

func (l *Leases) seed(ctx context.Context, asks []*Ask) error {
	ctx, cancel := context.WithTimeout(ctx, askDeadline)
	defer cancel()
	return l.Source.(Seeder).Seed(ctx, asks)
}

// askAll asks for what the batch wants. After an error, whatever was taken all the same is given back.
func (l *Leases) askAll(ctx context.Context, fallback bool, batch []*queued, asks []*Ask) error {
	source := l.Source
	if fallback {
		source = l.Fallback
	}
	ctx, cancel := context.WithTimeout(ctx, askDeadline)
	defer cancel()
	err := source.Take(ctx, asks)
	if err == nil {
		return nil
	}
	for _, q := range batch {
		if q.Granted == 0 && l.away.Load() {
			continue // it could not be reached before either
		}
		hits := cmp.Or(q.Granted, q.Want) // when it did not come to an answer, the source knows how many
		l.giveBack(ended{
			Lease:    Lease{LinkID: q.LinkID, Month: q.Month, Number: q.Number, Hits: hits},
			position: q.position, fallback: fallback,
		})
	}
	return err
}

// begin says how many hits are wanted, and keeps in the log that they are about to be taken. A log that takes nothing does
// not keep anybody from being redirected: only a crash at this moment would cost hits.
func (l *Leases) begin(q *queued) {
	s := l.shard(&q.key)
	s.mu.Lock()
	h, known := s.links[q.key]
	q.Want, q.Granted, q.Left, q.Err = l.size(h, known, q), 0, 0, nil
	q.Number, q.position = l.Numbers.Add(1), nowhere
	if l.Note != nil {
		q.position = l.LogEnd()
	}
	s.mu.Unlock()
	if l.Note != nil {
		_, _ = l.Note(Lease{LinkID: q.LinkID, Month: q.Month, Number: q.Number, Hits: q.Want})
	}
}

// size is how many hits are wanted: as many as wait, twice as many as last time if those did not last, and no more than a
// share of what is left.
func (l *Leases) size(h held, known bool, q *queued) int64 {
	want := q.waiters
	if !known || h.month != q.Month.number() {
		return min(want, mostHits)
	}
	if l.Now().UnixMilli()-h.taken < nearLife.Milliseconds() {
		want = max(want, 2*int64(h.size))
	}
	return max(1, min(want, mostHits, int64(h.free)/share))
}

// finish keeps what was granted, and lets those go on who wait for it.
func (l *Leases) finish(q *queued, fallback bool) {
	s := l.shard(&q.key)
	s.mu.Lock()
	if q.Err == nil {
		l.end(s.links[q.key], q.key)
		s.links[q.key] = held{
			number: q.Number, taken: l.Now().UnixMilli(), left: int32(q.Granted), size: int32(q.Granted),
			free: int32(min(q.Left, 1<<30)), month: q.Month.number(), position: q.position, fallback: fallback, refused: q.Granted == 0,
			plenty: q.Left > q.Limit/2,
		}
		if l.taken.Add(q.Granted); q.Granted > 0 {
			l.leases.Add(1)
		}
	}
	if s.asks[q.key] == q {
		delete(s.asks, q.key)
	}
	s.mu.Unlock()
	close(q.done)
}

// end gives a lease back. The shard is locked.
func (l *Leases) end(h held, key linkKey) {
	if h.size == 0 {
		return
	}
	l.giveBack(ended{
		Lease:    Lease{LinkID: string(key[:]), Month: monthOf(h.month), Number: h.number, Hits: int64(h.size), Used: int64(h.size - h.left)},
		position: h.position, fallback: h.fallback,
	})
}

func monthOf(number int32) Month {
	if number == 0 {
		return Month{}
	}
	number--
	return MonthOf(time.Date(int(number/12), time.Month(number%12+1), 1, 0, 0, 0, 0, time.UTC))
}

func (l *Leases) giveBack(e ended) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.returns) < mostReturns { // else they come back when the counter is counted anew
		l.returns = append(l.returns, e)
	}
}

// tidy ends leases that are over, all of them at the end, and gives back what has ended.
func (l *Leases) tidy(ctx context.Context, all bool) {
	l.comeBack(ctx)
	pin := l.LogEnd()
	now, idle := l.Now().UnixMilli(), idleLife.Milliseconds()
	forget := l.LogLag() < idleLife // else the database may not have the clicks of links that are idle
	var open, hits int64
	for i := range l.shards {
		s := &l.shards[i]
		s.mu.Lock()
		for key, h := range s.links {
			age := now - h.taken
			switch over := all || age >= h.life() || age < 0; {
			case h.size > 0 && (over || h.left == 0):
				l.end(h, key)
				h.size, h.left = 0, 0
				s.links[key] = h
			case h.size > 0:
				open, hits, pin = open+1, hits+int64(h.left), min(pin, h.position)
			case age > idle && forget:
				delete(s.links, key)
			}
		}
		for _, q := range s.asks { // the log may have what is being taken
			if q.Number > 0 {
				pin = min(pin, q.position)
			}
		}
		s.mu.Unlock()
	}
	l.open.Store(open)
	l.held.Store(hits)
	l.pin.Store(min(pin, l.returnAll(ctx)))
}

// returnAll gives back what has ended, and returns the oldest position of what could not be.
func (l *Leases) returnAll(ctx context.Context) (pin int64) {
	l.mu.Lock()
	returns := l.returns
	l.returns = nil
	l.mu.Unlock()
	pin = nowhere
	for _, fallback := range []bool{false, true} {
		var leases []Lease
		var these []ended
		for _, e := range returns {
			if e.fallback == fallback {
				leases, these = append(leases, e.Lease), append(these, e)
			}
		}
		if len(leases) == 0 {
			continue
		}
		if err := l.returnTo(ctx, fallback, leases); err != nil {
			l.mu.Lock()
			l.returns = append(l.returns, these[:min(len(these), max(0, mostReturns-len(l.returns)))]...)
			l.mu.Unlock()
			for _, e := range these {
				pin = min(pin, e.position)
			}
			continue
		}
		for _, lease := range leases {
			l.back.Add(lease.Hits - lease.Used)
		}
	}
	return pin
}

func (l *Leases) returnTo(ctx context.Context, fallback bool, leases []Lease) error {
	ctx, cancel := context.WithTimeout(ctx, askDeadline)
	defer cancel()
	if fallback {
		return l.Fallback.Return(ctx, leases)
	}
	if l.away.Load() {
		return errAway
	}
	return l.Source.Return(ctx, leases)
}

var errAway = errors.New("the source of hits is away")

// leave says that the source cannot be reached.
func (l *Leases) leave(ctx context.Context, err error) {
	if l.away.Swap(true) {
		return
	}
	instead := "redirects are refused"
	if l.Fallback != nil {
		instead = "the database counts instead"
	}
	l.Log.ErrorContext(ctx, l.What+" cannot be taken: "+instead, "error", err, "held", l.held.Load())
}

// comeBack finds out whether the source can be reached again.
func (l *Leases) comeBack(ctx context.Context) {
	if !l.away.Load() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, askDeadline)
	defer cancel()
	if err := l.Source.Resume(ctx); err == nil {
		l.away.Store(false)
		l.Log.InfoContext(ctx, l.What+" are taken again")
	}
}
