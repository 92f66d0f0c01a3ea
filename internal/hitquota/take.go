package hitquota

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/poll"
)

// serve takes hits for the requests that wait. A slow call does not delay the next one, unless
// maxTakes are running.
func (l *Leases) serve(ctx context.Context) {
	for {
		l.slots <- struct{}{}
		batch := l.next()
		if len(batch) == 0 {
			<-l.slots
			return
		}
		done := make(chan struct{})
		l.taking.Go(func() {
			defer close(done)
			defer func() { <-l.slots }()
			l.take(ctx, batch)
		})
		select {
		case <-done:
		case <-time.After(takePatience):
		}
	}
}

// next removes the requests of the next call from the queue.
func (l *Leases) next() []*queued {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for n < min(len(l.requests), l.MaxBatch) && (n == 0 || !l.requests[n].alone && !l.requests[0].alone) {
		n++
	}
	batch := l.requests[:n:n]
	l.requests = l.requests[n:]
	return batch
}

// take requests a batch from the source. While the source is unavailable, requests fail at once. If
// the batch failed because of one of its links, each request is repeated alone.
func (l *Leases) take(ctx context.Context, batch []*queued) {
	requests := make([]*Request, len(batch))
	for i, q := range batch {
		l.begin(q)
		requests[i] = &q.Request
	}
	var err error = errAway
	if !l.away.Load() {
		err = l.requestAll(ctx, batch, requests)
	}
	if len(batch) > 1 && ctx.Err() == nil && (db.IsLockTimeout(err) || db.IsRefused(err)) {
		for _, q := range batch {
			q.alone = true
		}
		l.mu.Lock()
		l.requests = append(batch, l.requests...)
		l.mu.Unlock()
		poll.Signal(l.wake)
		return
	}
	for _, q := range batch {
		q.Err = err
		l.finish(q)
	}
}

// requestAll requests the hits of a batch. After an error, hits that were granted all the same are
// returned. An error, or a slow call, is no evidence of an outage: then the source is checked. The
// call is abandoned if the source is unavailable.
func (l *Leases) requestAll(ctx context.Context, batch []*queued, requests []*Request) error {
	attempt, cancel := context.WithTimeout(ctx, sourceDeadline)
	defer cancel()
	checked := make(chan struct{})
	slow := time.AfterFunc(slowTake, func() {
		defer close(checked)
		if l.checkSource(attempt); l.away.Load() {
			cancel()
		}
	})
	err := l.Source.Take(attempt, requests)
	if !slow.Stop() {
		cancel()
		<-checked
	}
	if err == nil {
		return nil
	}
	for _, q := range batch {
		hits := cmp.Or(q.Granted, q.Want) // when it did not come to an answer, the source knows how many
		l.queueReturn(ended{
			key: q.key, month: q.Month.number(), number: q.Number, hits: int32(hits), position: q.position,
		})
	}
	if !l.away.Load() {
		l.checkSource(ctx)
	}
	if l.away.Load() {
		return fmt.Errorf("%w: %w", errAway, err)
	}
	return err
}

// begin decides the number of hits, and writes to the log that the lease is about to be taken. If
// the log is full the lease is taken without it: only a crash would lose its hits.
func (l *Leases) begin(q *queued) {
	s := l.shard(&q.key)
	s.mu.Lock()
	h, known := s.links[q.key]
	q.Want, q.Granted, q.Left, q.Err = l.size(h, known, q), 0, 0, nil
	q.Number, q.position = l.Numbers.Add(1), l.LogEnd()
	s.mu.Unlock()
	_, _ = l.Note(Lease{LinkID: q.LinkID, Month: q.Month, Number: q.Number, Hits: q.Want})
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
func (l *Leases) finish(q *queued) {
	s := l.shard(&q.key)
	s.mu.Lock()
	if q.Err == nil {
		before := s.links[q.key]
		s.drop(&before)
		l.end(s, &before, &q.key)
		h := held{
			number: q.Number, taken: l.Now().UnixMilli(), left: int32(q.Granted), size: int32(q.Granted),
			free: int32(min(q.Left, 1<<30)), month: q.Month.number(), position: q.position,
			refused: q.Granted == 0, life: int32(lifeOf(q.Left, q.Limit).Milliseconds()), open: q.Granted > 0,
		}
		s.links[q.key] = h
		if l.taken.Add(q.Granted); h.open {
			l.leases.Add(1)
			s.count(&h)
		}
	}
	delete(s.requests, requestKey{q.key, q.Month.number()})
	s.mu.Unlock()
	close(q.done)
}
