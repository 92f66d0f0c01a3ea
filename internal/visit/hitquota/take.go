package hitquota

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/linkforge/linkforge/internal/click"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/poll"
)

// take takes hits for requests that share a pipeline. Requests with an unreliable counter are
// repeated with their floors, concurrently with other batches.
func (l *Leases) take(ctx context.Context, batch []*queued) (none struct{}, _ error) {
	select {
	case <-l.ready:
	case <-l.ctx.Done():
	case <-ctx.Done():
		l.fail(batch, errNoFloor)
		return none, nil
	}
	var ready, needFloors []*queued
	for _, q := range batch {
		if l.hasFloor(q) {
			ready = append(ready, q)
		} else {
			needFloors = append(needFloors, q)
		}
	}
	for _, q := range append(needFloors, l.attempt(ready)...) {
		l.requesting.Go(func() { _, _ = l.floors.Do(context.Background(), q.Month, q, l.takeAboveFloors) })
	}
	return none, nil
}

// hasFloor sets the floor of a request, and reports whether no statement is needed. A link that is
// new to this process has the clicks of its row, or none if the month began after that. A counter
// may begin with them for floorLife. An older number is enough for a counter that exists, if the
// epoch began before it: hits since then are in the counter.
func (l *Leases) hasFloor(q *queued) bool {
	s := l.shard(&q.key)
	s.mu.Lock()
	h, isKnown := s.links[q.key]
	s.mu.Unlock()
	if isKnown {
		q.Floor, q.MustExist, q.epoch = 0, true, int64(h.epoch)
		return !l.isStale(q)
	}
	q.Floor, q.epoch = 0, l.counters.Epoch() // before Since
	countedAt := q.Month.Start()
	if q.ReadAt.After(countedAt) {
		q.Floor, countedAt = q.Clicks, q.ReadAt
	}
	q.MustExist = l.Now().Sub(countedAt) >= floorLife
	return !q.MustExist || countedAt.After(l.counters.Since())
}

// isStale reports whether a request relies on a counter that may have lost data since.
func (l *Leases) isStale(q *queued) bool { return q.MustExist && q.epoch != l.counters.Epoch() }

// attempt requests hits, and returns the requests that need a floor. Requests without an answer are
// repeated for a short time, as new leases: a lost answer and a slow command are no outage. During
// an outage each request has one attempt; while the circuit breaker is open, none is sent, and so
// none is recorded in the log and returned afterwards.
func (l *Leases) attempt(batch []*queued) (needFloors []*queued) {
	lastAttempt := time.Now().Add(outageGrace) // not the injected clock: this is about waiting
	if l.away.Load() {
		lastAttempt = time.Time{}
	}
	for len(batch) > 0 {
		batch = slices.DeleteFunc(batch, func(q *queued) bool {
			isStale := l.isStale(q)
			if isStale { // since the attempt before
				needFloors = append(needFloors, q)
			}
			return isStale
		})
		isSent, epoch := l.send(batch)
		var failed []*queued
		var err error
		for _, q := range batch {
			switch {
			case errors.Is(q.Err, errFault):
				l.finish(q, 0)
			case q.Err != nil:
				failed, err = append(failed, q), q.Err
				if isSent {
					l.abandon(q)
				}
			case q.NeedsFloor:
				needFloors = append(needFloors, q)
			case l.isStale(q): // the server restarted meanwhile
				l.abandon(q)
				needFloors = append(needFloors, q)
			default:
				l.finish(q, epoch)
			}
		}
		if err == nil {
			l.setAway(l.ctx, nil)
			break
		}
		if batch = failed; time.Now().After(lastAttempt) || poll.Wait(l.ctx, retryPause) != nil {
			if l.counters.IsDown() {
				l.setAway(l.ctx, err)
			}
			l.fail(batch, err)
			break
		}
	}
	return needFloors
}

// send sends requests, unless the counters are down.
func (l *Leases) send(batch []*queued) (isSent bool, epoch int64) {
	if l.counters.IsDown() {
		for _, q := range batch {
			q.Err = errRedisDown
		}
		return false, 0
	}
	requests := make([]*Request, len(batch))
	for i, q := range batch {
		l.begin(q)
		requests[i] = &q.Request
	}
	ctx, cancel := context.WithTimeout(l.ctx, takeDeadline)
	defer cancel()
	return true, l.counters.Take(ctx, requests)
}

// abandon returns the hits that a request was granted, or may still be.
func (l *Leases) abandon(q *queued) {
	s := l.shard(&q.key)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended[q.Number] = ended{key: q.key, number: q.Number, position: q.position, hits: int32(q.Want), isUnsure: true}
}

// begin decides the number of hits, and writes to the log that the lease is about to be taken. If
// the log is full the lease is taken without it: only a crash would lose its hits.
func (l *Leases) begin(q *queued) {
	s := l.shard(&q.key)
	s.mu.Lock()
	h, isKnown := s.links[q.key]
	q.Want, q.Granted, q.Remaining, q.Err = l.size(h, isKnown, q.waiters), 0, 0, nil
	_, end, _ := l.ClickLog.Span()
	q.Number, q.position = l.numbers.Add(1), end
	s.mu.Unlock()
	_ = l.ClickLog.Note(Lease{LinkID: q.LinkID, Month: q.Month, Number: q.Number, Hits: q.Want})
}

// size returns the number of hits to request: one for each waiting caller and, if the link is
// known, the number that it lately needed in the life of its lease; then at most a share of the
// remaining hits.
func (l *Leases) size(h known, isKnown bool, waiters int64) int64 {
	if !isKnown {
		return min(waiters, maxLeaseHits)
	}
	age := max(1, l.Now().UnixMilli()-h.takenAt)
	demand := int64(h.size-h.unused) * int64(h.life) / age
	return max(1, min(max(waiters, demand), maxLeaseHits, int64(h.remaining)/leaseShare))
}

// finish stores the granted lease, and wakes the waiting callers.
func (l *Leases) finish(q *queued, epoch int64) {
	s := l.shard(&q.key)
	s.mu.Lock()
	if q.Err == nil {
		before := s.links[q.key]
		s.end(q.key, before)
		h := known{
			number: q.Number, takenAt: l.Now().UnixMilli(), unused: int32(q.Granted), size: int32(q.Granted),
			remaining: int32(min(q.Remaining, 1<<30)), position: q.position, end: before.end, epoch: int32(epoch),
			refused: q.Granted == 0, life: int32(lifeOf(q.Remaining, q.Limit).Milliseconds()), open: q.Granted > 0,
		}
		if s.links[q.key] = h; h.open {
			l.leasesTaken.Add(1)
			s.limit(h)
		}
	}
	delete(s.requests, q.key)
	s.mu.Unlock()
	close(q.done)
}

// fail ends requests with an error.
func (l *Leases) fail(batch []*queued, err error) {
	for _, q := range batch {
		q.Err = err
		l.finish(q, 0)
	}
}

// takeAboveFloors takes hits of links whose counter cannot be relied on: it is raised to the hits
// that are known to be used. Hits that other processes have used and not ingested are missing then.
func (l *Leases) takeAboveFloors(_ context.Context, batch []*queued) (none struct{}, _ error) {
	for len(batch) > 0 { // again if the server has restarted meanwhile
		if !l.isAvailable() {
			l.fail(batch, errRedisDown)
			break
		}
		if err := l.readFloors(l.ctx, batch); err != nil {
			l.fail(batch, err)
			break
		}
		batch = l.attempt(batch)
	}
	return none, nil
}

// isAvailable waits until the counters are available, as attempt does; nothing reads floors during
// an outage.
func (l *Leases) isAvailable() bool {
	for lastAttempt := time.Now().Add(outageGrace); l.counters.IsDown(); {
		if l.away.Load() || time.Now().After(lastAttempt) || poll.Wait(l.ctx, retryPause) != nil {
			l.setAway(l.ctx, errRedisDown)
			return false
		}
	}
	return true
}

// readFloors reads the clicks of links in the database, then those in this process's log that the
// database did not have then, then the unused hits of open leases. A floor that had a click twice
// would take a hit from the link for good.
func (l *Leases) readFloors(ctx context.Context, batch []*queued) error {
	ctx, cancel := context.WithTimeout(ctx, visitorWait)
	defer cancel()
	m, linkIDs := batch[0].Month, make([]string, len(batch))
	for i, q := range batch {
		linkIDs[i] = q.LinkID
	}
	clicks, position, err := l.Clicks.Since(db.AsSystem(ctx), l.ClickLog.LogID(), linkIDs, m)
	if err != nil {
		return fmt.Errorf("%w: counting the clicks of a month: %w", errNoFloor, err)
	}
	waiting, err := l.ClickLog.Waiting(position, m.Start())
	if err != nil {
		return fmt.Errorf("%w: counting the clicks in the log: %w", errNoFloor, err)
	}
	for _, q := range batch {
		unused := l.openOf(q)
		q.Floor, q.MustExist = clicks[q.LinkID]+waiting[q.LinkID]+unused, false
	}
	return nil
}

// openOf has a request register the open leases of its link, and returns their unused hits. A lease
// whose return is on its way stays out: nothing would end it again.
func (l *Leases) openOf(q *queued) (unused int64) {
	s := l.shard(&q.key)
	s.mu.Lock()
	defer s.mu.Unlock()
	q.Open = nil
	if h := s.links[q.key]; h.open {
		unused, q.Open = int64(h.unused), append(q.Open, Lease{Number: h.number, Hits: int64(h.size)})
	}
	for _, e := range s.ended {
		if e.key == q.key && !e.isUnsure && !e.isReturning {
			unused, q.Open = unused+int64(e.hits-e.used), append(q.Open, Lease{Number: e.number, Hits: int64(e.hits)})
		}
	}
	return unused
}

// isRegistering reports whether the request of a link registers a lease again. A return meanwhile
// would come before it. The shard is locked.
func (s *shard) isRegistering(e *ended) bool {
	q := s.requests[e.key]
	return q != nil && slices.ContainsFunc(q.Open, func(open Lease) bool { return open.Number == e.number })
}

// Carry raises the counters of this month by clicks in logs of dead processes, before these are
// ingested: count returns them by link. Counters in memory grant nothing before the first count.
// Those in Redis contain the clicks.
func (l *Leases) Carry(ctx context.Context, count func(since click.Month) (map[string]int64, error)) error {
	counters, inMemory := l.counters.(*memory)
	if !inMemory {
		return nil
	}
	this := click.MonthOf(l.Now())
	counts, err := count(this)
	if err != nil {
		return err
	}
	counters.carry(this, counts)
	l.getReady()
	for linkIDs := range slices.Chunk(slices.Sorted(maps.Keys(counts)), takeBatch) {
		var batch []*queued
		var requests []*Request
		for _, linkID := range linkIDs {
			if key, err := keyOf(linkID, this); err == nil { // logs may have other texts
				q := &queued{key: key, Request: Request{Claim: Claim{LinkID: linkID, Month: this}}}
				batch, requests = append(batch, q), append(requests, &q.Request)
			}
		}
		if len(batch) == 0 {
			continue
		}
		if err := l.readFloors(ctx, batch); err != nil {
			return err
		}
		counters.Take(ctx, requests)
	}
	counters.carry(0, nil)
	return nil
}
