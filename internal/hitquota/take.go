package hitquota

import (
	"cmp"
	"context"
	"errors"

	"github.com/linkforge/linkforge/internal/poll"
)

// serve answers the requests that wait.
func (l *Leases) serve(ctx context.Context) {
	for {
		l.mu.Lock()
		batch := l.requests[:min(len(l.requests), maxBatch)]
		l.requests = l.requests[len(batch):]
		l.mu.Unlock()
		if len(batch) == 0 {
			return
		}
		l.take(ctx, batch)
	}
}

// take requests a batch from the source. Lost counters are seeded in the background while other
// batches continue.
func (l *Leases) take(ctx context.Context, batch []*queued) {
	requests := make([]*Request, len(batch))
	for i, q := range batch {
		l.begin(q)
		requests[i] = &q.Request
	}
	fallback := l.away.Load() && l.Fallback != nil
	err := l.requestAll(ctx, fallback, batch, requests)
	if err != nil && !fallback && ctx.Err() == nil {
		l.failOver(ctx, err)
		if l.Fallback != nil {
			fallback = true
			for _, q := range batch {
				l.begin(q)
			}
			err = l.requestAll(ctx, fallback, batch, requests)
		}
	}
	if lost := l.finishAll(batch, err, fallback); len(lost) > 0 {
		l.seeding.Go(func() { l.takeLost(ctx, lost) })
	}
}

// finishAll completes the requests that have a result, or all with an error. It returns the others,
// whose counters have to be seeded.
func (l *Leases) finishAll(batch []*queued, err error, fallback bool) (lost []*queued) {
	for _, q := range batch {
		if err != nil {
			q.Err = err
		}
		if errors.Is(q.Err, ErrLost) {
			lost = append(lost, q)
			continue
		}
		l.finish(q, fallback)
	}
	return lost
}

// ErrLost is the error of a source that has lost a counter. It must be seeded before it grants
// anything.
var ErrLost = errors.New("the hit counter has been lost")

// Seeder is a source that may lose counters.
type Seeder interface {
	// Seed re-creates lost counters from the known usage.
	Seed(ctx context.Context, requests []*Request) error
}

// seedRounds is how often a counter may vanish before a request is refused.
const seedRounds = 20

func (l *Leases) takeLost(ctx context.Context, batch []*queued) {
	for range seedRounds {
		requests := make([]*Request, len(batch))
		for i, q := range batch {
			q.Err = nil
			requests[i] = &q.Request
		}
		err := l.seed(ctx, requests)
		if err == nil {
			err = l.requestAll(ctx, false, batch, requests)
		}
		if batch = l.finishAll(batch, err, false); len(batch) == 0 {
			return
		}
		_ = poll.Wait(ctx, guardWait)
	}
	for _, q := range batch {
		l.finish(q, false)
	}
}

func (l *Leases) seed(ctx context.Context, requests []*Request) error {
	ctx, cancel := context.WithTimeout(ctx, sourceDeadline)
	defer cancel()
	return l.Source.(Seeder).Seed(ctx, requests)
}

// requestAll requests the hits of a batch. After an error, hits that were granted all the same are
// returned.
func (l *Leases) requestAll(ctx context.Context, fallback bool, batch []*queued, requests []*Request) error {
	source := l.Source
	if fallback {
		source = l.Fallback
	}
	ctx, cancel := context.WithTimeout(ctx, sourceDeadline)
	defer cancel()
	err := source.Take(ctx, requests)
	if err == nil {
		return nil
	}
	for _, q := range batch {
		if q.Granted == 0 && l.away.Load() {
			continue // it could not be reached before either
		}
		hits := cmp.Or(q.Granted, q.Want) // when it did not come to an answer, the source knows how many
		l.queueReturn(ended{
			key: q.key, month: q.Month.number(), number: q.Number, hits: int32(hits),
			position: q.position, fallback: fallback,
		})
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
	q.Number, q.position = l.Numbers.Add(1), noPosition
	if l.Note != nil {
		q.position = l.LogEnd()
	}
	s.mu.Unlock()
	if l.Note != nil {
		_, _ = l.Note(Lease{LinkID: q.LinkID, Month: q.Month, Number: q.Number, Hits: q.Want})
	}
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
func (l *Leases) finish(q *queued, fallback bool) {
	s := l.shard(&q.key)
	s.mu.Lock()
	if q.Err == nil {
		before := s.links[q.key]
		s.drop(&before)
		l.end(s, &before, &q.key)
		h := held{
			number: q.Number, taken: l.Now().UnixMilli(), left: int32(q.Granted), size: int32(q.Granted),
			free: int32(min(q.Left, 1<<30)), month: q.Month.number(), position: q.position,
			fallback: fallback, refused: q.Granted == 0,
			life: int32(lifeOf(q.Left, q.Limit).Milliseconds()), open: q.Granted > 0,
		}
		s.links[q.key] = h
		if l.taken.Add(q.Granted); h.open {
			l.leases.Add(1)
			s.count(&h)
		}
	}
	if s.requests[q.key] == q {
		delete(s.requests, q.key)
	}
	s.mu.Unlock()
	close(q.done)
}
