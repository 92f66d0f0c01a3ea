package hitquota

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/linkforge/linkforge/internal/poll"
)

// take takes hits for requests that share a pipeline. Those whose counter cannot be relied on continue with
// their floors, beside others.
func (l *Leases) take(_ context.Context, batch []*queued) (none struct{}, _ error) {
	var ready []*queued
	blind := batch[:0:0]
	for _, q := range batch {
		if l.hasFloor(q) {
			ready = append(ready, q)
		} else {
			blind = append(blind, q)
		}
	}
	for _, q := range append(blind, l.attempt(ready)...) {
		l.taking.Go(func() { _, _ = l.floors.Do(context.Background(), struct{}{}, q, l.takeAboveFloors) })
	}
	return none, nil
}

// hasFloor sets the floor of a request without reading one: a counter that was valid in this epoch needs
// none, and one of a link that this process does not know is at least the clicks that came with the link.
func (l *Leases) hasFloor(q *queued) bool {
	h, known := l.heldOf(&q.key)
	if known && h.month == q.Month.number() {
		q.Floor = noFloor
		return int64(h.epoch) == l.Counters.Epoch()
	}
	carried, ok := l.carried.of(q.LinkID, q.Month)
	q.Floor = q.clicks.Clicks + carried
	return ok && !q.clicks.At.Before(q.Month.Start) && l.Now().Sub(q.clicks.At) < floorLife
}

func (l *Leases) heldOf(key *linkKey) (held, bool) {
	s := l.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	h, ok := s.links[*key]
	return h, ok
}

// attempt requests hits, and returns the requests that need a floor. Requests without an answer are
// repeated for a short time, as new leases: a lost answer and a slow command are no outage. During an outage, none
// is sent, and so none is recorded in the log and returned afterwards.
func (l *Leases) attempt(batch []*queued) (blind []*queued) {
	lastAttempt := time.Now().Add(outageGrace) // not the injected clock: this is about waiting
	if l.away.Load() {
		lastAttempt = time.Time{}
	}
	for len(batch) > 0 {
		isSent := l.send(batch)
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
				blind = append(blind, q)
			case q.Floor == noFloor && q.Epoch != l.Counters.Epoch(): // the server restarted meanwhile
				l.abandon(q)
				blind = append(blind, q)
			default:
				l.finish(q, q.Epoch)
			}
		}
		if err == nil {
			l.report(l.ctx, nil)
			break
		}
		if batch = failed; time.Now().After(lastAttempt) || poll.Wait(l.ctx, retryPause) != nil {
			if l.Counters.IsDown() {
				l.report(l.ctx, err)
			}
			for _, q := range batch {
				l.finish(q, 0)
			}
			break
		}
	}
	return blind
}

// send sends requests, unless the counters are down.
func (l *Leases) send(batch []*queued) (isSent bool) {
	if l.Counters.IsDown() {
		for _, q := range batch {
			q.Err = errAway
		}
		return false
	}
	requests := make([]*Request, len(batch))
	for i, q := range batch {
		l.begin(q)
		requests[i] = &q.Request
	}
	ctx, cancel := context.WithTimeout(l.ctx, takeDeadline)
	defer cancel()
	l.Counters.Take(ctx, requests)
	return true
}

// abandon returns what a request was granted, or may still be.
func (l *Leases) abandon(q *queued) {
	l.queueReturn(ended{
		key: q.key, month: q.Month.number(), number: q.Number, hits: int32(q.Want), position: q.position, isUnsure: true,
	})
}

// begin decides the number of hits, and writes to the log that the lease is about to be taken. If
// the log is full the lease is taken without it: only a crash would lose its hits.
func (l *Leases) begin(q *queued) {
	s := l.shard(&q.key)
	s.mu.Lock()
	h, known := s.links[q.key]
	q.Want, q.Granted, q.Left, q.Err = l.size(h, known, q), 0, 0, nil
	_, end, _ := l.ClickLog.Span()
	q.Number, q.position = l.numbers.Add(1), end
	s.mu.Unlock()
	_, _ = l.ClickLog.Note(Lease{LinkID: q.LinkID, Month: q.Month, Number: q.Number, Hits: q.Want})
}

// size returns the number of hits to request: as many as callers wait for or, if the link was
// followed lately, as many as it needs during the life of the lease; at most a share of the
// remaining hits.
func (l *Leases) size(h held, known bool, q *queued) int64 {
	want := q.waiters
	if !known || h.month != q.Month.number() {
		return min(want, maxLeaseHits)
	}
	age := max(1, l.Now().UnixMilli()-h.taken)
	if used := int64(h.size - h.left); h.life > int32(nearLife.Milliseconds()) {
		want = max(want, used*int64(h.life)/age)
	} else if age < nearLife.Milliseconds() {
		want = max(want, 2*int64(h.size))
	}
	return max(1, min(want, maxLeaseHits, int64(h.free)/leaseShare))
}

// finish stores the granted lease, and wakes the waiting callers.
func (l *Leases) finish(q *queued, epoch int64) {
	s := l.shard(&q.key)
	s.mu.Lock()
	if q.Err == nil {
		before := s.links[q.key]
		s.drop(&before)
		l.endLease(s, &before, &q.key)
		h := held{
			number: q.Number, taken: l.Now().UnixMilli(), left: int32(q.Granted), size: int32(q.Granted),
			free: int32(min(q.Left, 1<<30)), month: q.Month.number(), position: q.position, end: before.end,
			epoch: int32(epoch), refused: q.Granted == 0, life: int32(lifeOf(q.Left, q.Limit).Milliseconds()),
			open: q.Granted > 0,
		}
		s.links[q.key] = h
		if l.taken.Add(q.Granted); h.open {
			l.leases.Add(1)
			s.count(&h)
		}
	}
	delete(s.requests, requestKey{q.key, q.Month.number()})
	s.mu.Unlock()
	l.mu.Lock()
	l.waiting--
	l.mu.Unlock()
	close(q.done)
}

// takeAboveFloors takes hits of links whose counter cannot be relied on: it is raised to the hits that
// are known to be used. Hits that other processes have used and not ingested are missing then.
func (l *Leases) takeAboveFloors(_ context.Context, batch []*queued) (none struct{}, _ error) {
	const attempts = 3 // the server may restart meanwhile
	for range attempts {
		if err := l.readFloors(batch); err != nil {
			for _, q := range batch {
				q.Err = err
				l.finish(q, 0)
			}
			return none, nil
		}
		if batch = l.attempt(batch); len(batch) == 0 {
			return none, nil
		}
	}
	for _, q := range batch {
		q.Err = errAway
		l.finish(q, 0)
	}
	return none, nil
}

// readFloors reads the clicks of links in the database, then those in this process's log and in logs that
// will be ingested, then the unused hits of open leases. What moves on meanwhile is counted once, or not.
func (l *Leases) readFloors(batch []*queued) error {
	ctx, cancel := context.WithTimeout(l.ctx, floorDeadline)
	defer cancel()
	if err := l.carried.await(ctx); err != nil {
		return fmt.Errorf("%w: %w", errAway, err)
	}
	byMonth := map[int32][]*queued{}
	for _, q := range batch {
		byMonth[q.Month.number()] = append(byMonth[q.Month.number()], q)
	}
	for _, some := range byMonth {
		month, linkIDs := some[0].Month, make([]string, len(some))
		for i, q := range some {
			linkIDs[i] = q.LinkID
		}
		clicks, err := l.Clicks(ctx, linkIDs, month.Start)
		if err != nil {
			return fmt.Errorf("%w: counting the clicks of a month: %w", errAway, err)
		}
		waiting, err := l.ClickLog.Waiting(month.Start)
		if err != nil {
			return fmt.Errorf("%w: counting the clicks in the log: %w", errAway, err)
		}
		for _, q := range some {
			carried, _ := l.carried.of(q.LinkID, month)
			unused, open := l.openOf(q)
			q.Floor, q.Open = clicks[q.LinkID]+waiting[q.LinkID]+carried+unused, open
		}
	}
	return nil
}

// openOf returns the open leases of a link in the month of a request, and their unused hits.
func (l *Leases) openOf(q *queued) (unused int64, open []Lease) {
	month, s := q.Month.number(), l.shard(&q.key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if h := s.links[q.key]; h.open && h.month == month {
		unused, open = int64(h.left), append(open, Lease{Number: h.number, Hits: int64(h.size)})
	}
	for _, c := range s.closing {
		if c.key == q.key && c.month == month {
			open = append(open, Lease{Number: c.number, Hits: int64(c.hits)})
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.returns {
		if e.key == q.key && e.month == month && !e.isUnsure {
			unused += int64(e.hits - e.used)
			open = append(open, Lease{Number: e.number, Hits: int64(e.hits)})
		}
	}
	return unused, open
}
