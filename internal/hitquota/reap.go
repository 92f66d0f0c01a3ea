package hitquota

import (
	"context"
	"errors"
	"maps"
	"math"
	"time"
)

// reap ends leases whose life is over (with all, every lease), and returns ended ones.
func (l *Leases) reap(ctx context.Context, all bool) {
	l.reconnect(ctx)
	pin := l.LogEnd()
	// Leases from before oldest retain too much of the log, those from before tooOld far too much.
	oldest, tooOld := int64(math.MinInt64), int64(math.MinInt64)
	if l.LogRoom > 0 {
		oldest = pin - l.LogRoom/maxPinnedPart
		tooOld = oldest - l.LogRoom/maxPinnedPart/maxPinnedPart
	}
	now := l.Now().UnixMilli()
	l.mu.Lock()
	l.turn++
	turn, back := l.turn, now < l.reapedAt // the clock was set back: leases from the future have ended
	l.reapedAt = now
	l.mu.Unlock()
	var open, hits int64
	for i := range l.shards {
		s := &l.shards[i]
		s.mu.Lock()
		if all || back || len(s.links) < minScanLinks || now >= s.due || s.pin < tooOld || (turn+i)%scanTurns == 0 {
			l.reapShard(s, oldest, all)
		}
		open, hits, pin = open+s.open, hits+s.held, min(pin, s.pin)
		for _, q := range s.requests { // the log may contain requested leases
			if q.Number > 0 {
				pin = min(pin, q.position)
			}
		}
		for _, c := range s.closing {
			pin = min(pin, c.position)
		}
		s.mu.Unlock()
	}
	l.open.Store(open)
	l.held.Store(hits)
	l.pin.Store(min(pin, l.returnAll(ctx)))
}

// reapShard ends the leases of a shard whose life is over, forgets idle links, and counts the open
// leases. The shard is locked.
func (l *Leases) reapShard(s *shard, oldest int64, all bool) {
	now, idle := l.Now().UnixMilli(), idleLife.Milliseconds()
	forget := l.LogLag() < idleLife // else the database may not have the clicks of links that are idle
	s.most = max(s.most, len(s.links))
	s.clear()
	for key, h := range s.links {
		age := now - h.taken
		switch over := all || age >= int64(h.life) || age < 0 || h.position < oldest; {
		case h.open && (over || h.left == 0):
			l.end(s, &h, &key)
			h.open, h.size, h.left, h.pending = false, h.size-h.left, 0, 0
			s.links[key] = h
		case h.open:
			s.count(&h)
		case age > int64(h.life)+idle && forget:
			delete(s.links, key)
		}
	}
	s.shrink()
}

// clear resets the totals of open leases, count adds a lease, and drop subtracts one.
func (s *shard) clear() { s.open, s.held, s.pin, s.due = 0, 0, noPosition, noPosition }

func (s *shard) count(h *held) {
	s.open, s.held, s.pin = s.open+1, s.held+int64(h.left), min(s.pin, h.position)
	if int64(h.life) <= nearLife.Milliseconds() {
		s.due = min(s.due, h.taken+int64(h.life))
	}
}

func (s *shard) drop(h *held) {
	if h.open {
		s.open, s.held = s.open-1, s.held-int64(h.left)
	}
}

// shrink gives memory back after many links have been forgotten, which a map does not do by itself.
// The shard is locked.
func (s *shard) shrink() {
	if s.most < minScanLinks || len(s.links) > s.most/4 {
		return
	}
	links := make(map[linkKey]held, len(s.links))
	maps.Copy(links, s.links)
	s.links, s.most = links, len(links)
}

// returnAll returns ended leases to their sources, and reports the oldest position of those that a
// source did not accept. The next call tries these again.
func (l *Leases) returnAll(ctx context.Context) (pin int64) {
	pin = noPosition
	for _, fallback := range []bool{false, true} {
		l.mu.Lock()
		returns := l.returns[fallback]
		l.returns[fallback] = nil
		l.mu.Unlock()
		left := l.returnTo(ctx, fallback, returns)
		for _, e := range left {
			pin = min(pin, e.position)
		}
		l.mu.Lock()
		l.returns[fallback] = append(left, l.returns[fallback]...)
		l.mu.Unlock()
	}
	return pin
}

// returnTo returns leases to one source in batches. It stops at the first error, and returns the
// remaining leases.
func (l *Leases) returnTo(ctx context.Context, fallback bool, returns []ended) (left []ended) {
	for len(returns) > 0 {
		batch := returns[:min(len(returns), returnBatch)]
		leases, unused := make([]Lease, len(batch)), int64(0)
		for i := range batch {
			leases[i] = batch[i].lease()
			unused += leases[i].Hits - leases[i].Used
		}
		if l.returnLeases(ctx, fallback, leases) != nil {
			return returns
		}
		l.back.Add(unused)
		returns = returns[len(batch):]
	}
	return nil
}

func (l *Leases) returnLeases(ctx context.Context, fallback bool, leases []Lease) error {
	ctx, cancel := context.WithTimeout(ctx, sourceDeadline)
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

// failOver records and logs that the source is unavailable.
func (l *Leases) failOver(ctx context.Context, err error) {
	if l.away.Swap(true) {
		return
	}
	instead := "redirects are refused"
	if l.Fallback != nil {
		instead = "the database counts instead"
	}
	l.Log.ErrorContext(ctx, l.What+" cannot be taken: "+instead, "error", err, "held", l.held.Load())
}

// reconnect checks whether an unavailable source is available again.
func (l *Leases) reconnect(ctx context.Context) {
	if !l.away.Load() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, sourceDeadline)
	defer cancel()
	if err := l.Source.Resume(ctx); err == nil {
		l.away.Store(false)
		l.Log.InfoContext(ctx, l.What+" are taken again")
	}
}

// end returns a lease, once its pending hits are settled. The shard is locked.
func (l *Leases) end(s *shard, h *held, key *linkKey) {
	if !h.open {
		return
	}
	e := ended{
		key: *key, month: h.month, number: h.number, hits: h.size, used: h.size - h.left,
		position: h.position, fallback: h.fallback,
	}
	if h.pending > 0 {
		s.closing[h.number] = &closing{e, h.pending}
		return
	}
	l.queueReturn(e)
}

func monthOf(number int32) Month {
	if number == 0 {
		return Month{}
	}
	number--
	return MonthOf(time.Date(int(number/12), time.Month(number%12+1), 1, 0, 0, 0, 0, time.UTC))
}

func (l *Leases) queueReturn(e ended) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.returns[e.fallback] = append(l.returns[e.fallback], e)
}
