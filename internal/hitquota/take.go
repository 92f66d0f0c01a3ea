package hitquota

import (
	"cmp"
	"context"
	"errors"

	"github.com/linkforge/linkforge/internal/poll"
)

// serve answers the asks that wait.
func (l *Leases) serve(ctx context.Context) {
	for {
		l.mu.Lock()
		batch := l.asks[:min(len(l.asks), maxBatch)]
		l.asks = l.asks[len(batch):]
		l.mu.Unlock()
		if len(batch) == 0 {
			return
		}
		l.take(ctx, batch)
	}
}

// take asks the source for a batch. What the source has to look up elsewhere first, it does while
// others are asked for.
func (l *Leases) take(ctx context.Context, batch []*queued) {
	asks := make([]*Ask, len(batch))
	for i, q := range batch {
		l.begin(q)
		asks[i] = &q.Ask
	}
	fallback := l.away.Load() && l.Fallback != nil
	err := l.requestAll(ctx, fallback, batch, asks)
	if err != nil && !fallback && ctx.Err() == nil {
		l.failOver(ctx, err)
		if l.Fallback != nil {
			fallback = true
			for _, q := range batch {
				l.begin(q)
			}
			err = l.requestAll(ctx, fallback, batch, asks)
		}
	}
	if lost := l.finishAll(batch, err, fallback); len(lost) > 0 {
		l.seeding.Go(func() { l.takeLost(ctx, lost) })
	}
}

// finishAll lets those go on who have an answer, or an error in the place of all answers, and
// returns the others: their counters are to be counted anew.
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

// ErrLost is what a source says of a counter that it has lost, and must count anew before it can
// grant anything.
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
			err = l.requestAll(ctx, false, batch, asks)
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

func (l *Leases) seed(ctx context.Context, asks []*Ask) error {
	ctx, cancel := context.WithTimeout(ctx, sourceDeadline)
	defer cancel()
	return l.Source.(Seeder).Seed(ctx, asks)
}

// requestAll asks for what the batch wants. After an error, whatever was taken all the same is
// given back.
func (l *Leases) requestAll(ctx context.Context, fallback bool, batch []*queued, asks []*Ask) error {
	source := l.Source
	if fallback {
		source = l.Fallback
	}
	ctx, cancel := context.WithTimeout(ctx, sourceDeadline)
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
		l.queueReturn(ended{
			key: q.key, month: q.Month.number(), number: q.Number, hits: int32(hits),
			position: q.position, fallback: fallback,
		})
	}
	return err
}

// begin says how many hits are wanted, and keeps in the log that they are about to be taken. A log
// that takes nothing does not keep anybody from being redirected: only a crash at this moment would
// cost hits.
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

// size is how many hits are wanted: as many as wait or, if the link was followed lately, as many as
// it will need while it may keep them; and no more than a share of what is left.
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

// finish keeps what was granted, and lets those go on who wait for it.
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
	if s.asks[q.key] == q {
		delete(s.asks, q.key)
	}
	s.mu.Unlock()
	close(q.done)
}
