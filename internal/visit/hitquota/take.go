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
		kind := floorKind{q.Month, q.isOptional}
		l.requesting.Go(func() { _, _ = l.floors.Do(context.Background(), kind, q, l.takeAboveFloors) })
	}
	return none, nil
}

// hasFloor sets the floor of a request, and reports whether no statement is needed. A link that is
// new to this process has the clicks of its row, or none if the month began after that. A counter
// may begin with them for floorLife. An older number is enough for a counter that exists, if the
// epoch began before it: hits since then are in the counter, but for those of outage leases. For
// such a counter, the number may be unknown.
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
		q.Floor, countedAt = max(0, q.Clicks), q.ReadAt
	}
	q.counted = q.Floor
	q.MustExist = q.Clicks < 0 || l.Now().Sub(countedAt) >= floorLife
	if !countedAt.After(l.counters.Since()) {
		q.epoch = 0
	}
	return !l.isStale(q)
}

// isStale reports whether a request relies on a counter that may have lost data since.
func (l *Leases) isStale(q *queued) bool { return q.MustExist && q.epoch != l.counters.Epoch() }

// attempt requests hits, and returns the requests that need a floor. Requests without an answer are
// repeated for a short time, as new leases: a lost answer and a slow command are no outage. While
// the circuit breaker is open, none is sent, and so none is recorded in the log and returned
// afterwards.
func (l *Leases) attempt(batch []*queued) (needFloors []*queued) {
	needFloor := func(q *queued, isOptional bool) {
		q.isOptional = isOptional
		needFloors = append(needFloors, q)
	}
	for {
		batch = slices.DeleteFunc(batch, func(q *queued) bool {
			isStale := l.isStale(q)
			if isStale { // since the attempt before
				needFloor(q, false)
			}
			return isStale
		})
		if len(batch) == 0 {
			return needFloors
		}
		sentAt := time.Now()
		isSent, epoch := l.send(batch)
		var failed []*queued
		for _, q := range batch {
			switch {
			case errors.Is(q.Err, errFault):
				l.finish(q, 0)
			case q.Err != nil:
				failed = append(failed, q)
				if isSent {
					l.abandon(q)
				}
			case q.NeedsFloor && q.Exists && q.hasNoFloor:
				l.fail([]*queued{q}, errNoFloor)
			case q.NeedsFloor:
				needFloor(q, q.Exists)
			case l.isStale(q): // the server restarted meanwhile
				l.abandon(q)
				needFloor(q, false)
			default:
				l.finish(q, epoch)
			}
		}
		if len(failed) == 0 {
			l.failingSince.Store(0)
			l.setOutage(l.ctx, nil)
		}
		batch = l.retryOrFail(failed, sentAt, needFloor)
	}
}

// retryOrFail decides about requests without an answer, and returns those to send again. After patience,
// this node grants hits itself, above a new floor. During an outage it does so at once.
func (l *Leases) retryOrFail(failed []*queued, sentAt time.Time, needFloor func(*queued, bool)) (again []*queued) {
	if len(failed) == 0 {
		return nil
	}
	err := failed[0].Err
	isOutage := l.noteFailure(sentAt, err)
	for _, q := range failed {
		waited := time.Since(q.began)
		switch {
		case l.ctx.Err() != nil:
			l.fail([]*queued{q}, err)
		case !isOutage && waited < patience:
			again = append(again, q)
		case q.MustExist && !q.hasNoFloor:
			needFloor(q, true)
		case !q.MustExist && l.grantInOutage(q):
		case l.awaitsClicks(q):
			needFloor(q, true)
		case !isOutage && waited < outageGrace:
			again = append(again, q)
		default:
			l.bar(q)
			l.fail([]*queued{q}, err)
		}
	}
	if len(again) > 0 && poll.Wait(l.ctx, retryPause) != nil {
		l.fail(again, err)
		return nil
	}
	return again
}

// noteFailure notes that the counters have not answered, and reports whether that is an outage. It
// does not use the injected clock: this is about waiting.
func (l *Leases) noteFailure(sentAt time.Time, err error) (isOutage bool) {
	l.failingSince.CompareAndSwap(0, sentAt.UnixNano())
	since := l.failingSince.Load()
	if since > 0 && time.Now().UnixNano()-since >= int64(outageGrace) && l.counters.IsDown() {
		l.setOutage(l.ctx, err)
	}
	return l.isOutage.Load()
}

// send sends requests, unless the counters are down.
func (l *Leases) send(batch []*queued) (isSent bool, epoch int64) {
	if l.counters.IsDown() {
		for _, q := range batch {
			q.Err, q.NeedsFloor, q.Exists = errRedisDown, false, false
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
	s.ended[q.Number] = endedLease{
		key: q.key, number: q.Number, position: q.position, hits: int32(q.Want), isUnsure: true,
	}
}

// begin decides the number of hits, and writes to the log that the lease is about to be taken. If
// the log is full the lease is taken without it: only a crash would lose its hits.
func (l *Leases) begin(q *queued) {
	s := l.shard(&q.key)
	s.mu.Lock()
	h, isKnown := s.links[q.key]
	q.Want, q.Granted, q.Remaining, q.Err = l.size(h, isKnown, q.waiters, h.life, l.shareDivisor()), 0, 0, nil
	_, end, _ := l.ClickLog.Span()
	q.Number, q.position = l.numbers.Add(1), end
	q.IsBlind = q.IsBlind || l.isAlone(h)
	s.mu.Unlock()
	_ = l.ClickLog.Note(Lease{LinkID: q.LinkID, Month: q.Month, Number: q.Number, Hits: q.Want})
}

// shareDivisor divides the remaining hits: a lease has at most one part of them.
func (l *Leases) shareDivisor() int64 { return max(minShareDivisor, 2*l.nodes.Load()) }

// size returns the number of hits to request: one for each waiting caller and, if the link is
// known, the number that it lately needed in the life of a lease; then at most one part of
// the remaining hits.
func (l *Leases) size(h linkState, isKnown bool, waiters int64, life int32, divisor int64) int64 {
	if !isKnown {
		return min(waiters, maxLeaseHits)
	}
	age := max(1, l.Now().UnixMilli()-h.takenAt)
	demand := int64(h.size-h.unused) * int64(life) / age
	return max(1, min(max(waiters, demand), maxLeaseHits, int64(h.remaining)/divisor))
}

// finish stores the granted lease, and wakes the waiting callers.
func (l *Leases) finish(q *queued, epoch int64) {
	s := l.shard(&q.key)
	s.mu.Lock()
	if q.Err == nil {
		before := s.links[q.key]
		s.end(q.key, before)
		h := linkState{
			number: q.Number, takenAt: l.Now().UnixMilli(), unused: int32(q.Granted), size: int32(q.Granted),
			remaining: int32(min(q.Remaining, 1<<30)), position: q.position, end: before.end, epoch: int32(epoch),
			refused: q.Granted == 0, life: int32(lifeOf(q.Remaining, q.Limit).Milliseconds()), open: q.Granted > 0,
			owes: before.owes, period: max(q.period, before.period),
		}
		if s.links[q.key] = h; h.open {
			l.leasesTaken.Add(1)
			s.noteOpen(h)
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
		if err := l.readFloors(l.ctx, batch); err != nil {
			batch = l.withoutFloors(batch, err)
		}
		batch = l.attempt(batch)
	}
	return none, nil
}

// withoutFloors fails the requests that cannot do without a floor, and returns the others. Those
// beyond half of the limit can if no other node has outage leases, or quotas are open.
func (l *Leases) withoutFloors(batch []*queued, err error) (others []*queued) {
	isBlind := l.AdmitsInOutage || l.nodes.Load() == 1
	for _, q := range batch {
		if q.isOptional && (isBlind || !q.Exists) {
			q.hasNoFloor, q.IsBlind = true, isBlind
			others = append(others, q)
		} else {
			l.fail([]*queued{q}, err)
		}
	}
	return others
}

// readFloors reads the clicks of links in the database, then those in this process's log that the
// database did not have then, then the unused hits of open leases. A floor that had a click twice
// would take a hit from the link for good.
func (l *Leases) readFloors(ctx context.Context, batch []*queued) error {
	wait, isDown := blindAfter, l.counters.IsDown()
	if slices.ContainsFunc(batch, func(q *queued) bool {
		return !q.isOptional || q.isFlushed || isDown && !q.Exists
	}) {
		wait = statementWait
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	if slices.ContainsFunc(batch, func(q *queued) bool { return q.isFlushed }) {
		l.flush(ctx)
	}
	m, linkIDs, period := batch[0].Month, make([]string, len(batch)), l.period.Load()
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
		has, waits := clicks[q.LinkID], waiting[q.LinkID]
		q.counted, q.Floor, q.Outage = has.Clicks, has.Clicks+waits.Clicks+unused, has.Outage+waits.Outage
		q.MustExist, q.period = false, period
	}
	return nil
}

// openOf has a request register the open leases of its link, and returns their unused hits. A lease
// whose return is on its way stays out: nothing would end it again. Outage leases are not registered.
func (l *Leases) openOf(q *queued) (unused int64) {
	s := l.shard(&q.key)
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.links[q.key]
	q.Open, q.held = nil, int64(h.pending)
	switch {
	case h.open && h.number > 0:
		unused, q.Open = int64(h.unused), append(q.Open, Lease{Number: h.number, Hits: int64(h.size)})
	case h.open:
		q.held += int64(h.unused)
	}
	for number, e := range s.ended {
		if e.key != q.key {
			continue
		}
		q.held += int64(e.pending)
		if number > 0 && !e.isUnsure && !e.isReturning {
			unused, q.Open = unused+int64(e.hits-e.used), append(q.Open, Lease{Number: e.number, Hits: int64(e.hits)})
		}
	}
	return unused
}

// isRegistering reports whether the request of a link registers a lease again. A return meanwhile
// would come before it. The shard is locked.
func (s *shard) isRegistering(e *endedLease) bool {
	q := s.requests[e.key]
	return q != nil && slices.ContainsFunc(q.Open, func(open Lease) bool { return open.Number == e.number })
}

// Carry raises the counters of this month by clicks in logs of dead processes, before these are
// ingested: count returns them by link. Counters in memory grant nothing before the first count.
// Those in Redis contain the clicks.
func (l *Leases) Carry(
	ctx context.Context, count func(since click.Month) (map[string]click.MonthCount, error),
) error {
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
	var keys []linkKey
	for _, linkID := range slices.Sorted(maps.Keys(counts)) {
		if key, err := keyOf(linkID, this); err == nil { // logs may have other texts
			keys = append(keys, key)
		}
	}
	for some := range slices.Chunk(keys, takeBatch) {
		if err := l.raise(ctx, some); err != nil {
			return err
		}
	}
	counters.carry(0, nil)
	return nil
}

// raise raises the counters of links in a month to their floors.
func (l *Leases) raise(ctx context.Context, keys []linkKey) error {
	batch, requests := make([]*queued, len(keys)), make([]*Request, len(keys))
	for i, key := range keys {
		q := &queued{key: key, Request: Request{Claim: Claim{LinkID: string(key.id[:]), Month: key.month}}}
		batch[i], requests[i] = q, &q.Request
	}
	if err := l.readFloors(ctx, batch); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, takeDeadline)
	defer cancel()
	for range 2 { // the server may not know the script
		l.counters.Take(ctx, requests)
		if !slices.ContainsFunc(requests, func(q *Request) bool { return q.mustLoad }) {
			break
		}
	}
	for _, q := range requests {
		if q.Err != nil && !errors.Is(q.Err, errFault) {
			return q.Err
		}
	}
	return nil
}
