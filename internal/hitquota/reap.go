package hitquota

import (
	"context"
	"maps"
	"math"
	"time"

	"github.com/linkforge/linkforge/internal/errs"
)

// reap ends leases whose life is over (with all, every lease), and returns ended ones.
func (l *Leases) reap(ctx context.Context, all bool) {
	if l.away.Load() && !l.Counters.IsDown() {
		l.report(ctx, nil)
	}
	ingested, pin, capacity := l.ClickLog.Span()
	// Leases from before oldest retain too much of the log, those from before tooOld far too much.
	oldest, tooOld := int64(math.MinInt64), int64(math.MinInt64)
	if capacity > 0 {
		oldest = pin - capacity/maxPinnedPart
		tooOld = oldest - capacity/maxPinnedPart/maxPinnedPart
	}
	now := l.Now().UnixMilli()
	l.mu.Lock()
	l.turn++
	turn, back := l.turn, now < l.reapedAt // the clock was set back: leases from the future have ended
	l.reapedAt = now
	l.mu.Unlock()
	for i := range l.shards {
		s := &l.shards[i]
		s.mu.Lock()
		if all || back || len(s.links) < minScanLinks || now >= s.due || s.pin < tooOld || (turn+i)%scanTurns == 0 {
			l.reapShard(s, ingested, oldest, all)
		}
		pin = min(pin, s.pin)
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
	l.pin.Store(min(pin, l.returnAll(ctx)))
}

// reapShard ends the leases of a shard whose life is over, forgets idle links whose clicks are ingested, and
// counts the open leases. The shard is locked.
func (l *Leases) reapShard(s *shard, ingested, oldest int64, all bool) {
	now, idle := l.Now().UnixMilli(), idleLife.Milliseconds()
	away := l.away.Load() // then leases last until the counters are available again
	s.most = max(s.most, len(s.links))
	s.clear()
	for key, h := range s.links {
		age := now - h.taken
		switch over := all || !away && (age >= int64(h.life) || age < 0 || h.position < oldest); {
		case h.open && (over || h.left == 0):
			l.endLease(s, &h, &key)
			h.open, h.size, h.left, h.pending = false, h.size-h.left, 0, 0
			s.links[key] = h
		case h.open:
			s.count(&h)
		case age > int64(h.life)+idle && h.end <= ingested:
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

// returnAll returns ended leases to their counters in batches, and reports the oldest position of those
// that they did not accept. The next call tries these again.
func (l *Leases) returnAll(ctx context.Context) (pin int64) {
	l.mu.Lock()
	left := l.returns
	l.returns = nil
	l.mu.Unlock()
	for len(left) > 0 {
		batch := left[:min(len(left), returnChunk)]
		if l.returnBatch(ctx, batch) != nil {
			break
		}
		left = left[len(batch):]
	}
	pin = noPosition
	for _, e := range left {
		pin = min(pin, e.position)
	}
	l.mu.Lock()
	l.returns = append(left, l.returns...)
	l.mu.Unlock()
	return pin
}

func (l *Leases) returnBatch(ctx context.Context, batch []ended) error {
	ctx, cancel := context.WithTimeout(ctx, takeDeadline)
	defer cancel()
	leases, unused := make([]Lease, len(batch)), int64(0)
	for i := range batch {
		leases[i] = batch[i].lease()
		if !leases[i].IsUnsure { // it was not counted as taken
			unused += leases[i].Hits - leases[i].Used
		}
	}
	err := l.Counters.Return(ctx, l.ClickLog.LogID(), leases)
	if err == nil {
		l.back.Add(unused)
	}
	return err
}

// errAway is the error of requests while the counters are unavailable, errFault that of a link whose counter alone
// cannot be used.
var (
	errAway  = errs.New(errs.Unavailable, "Quotas cannot be checked at the moment. Try again in a moment.")
	errFault = errs.New(errs.Unavailable, "The quota of the link cannot be checked. Contact the operator.")
)

// report notes and logs that the counters are available, or are not because of an error. The end of the
// context changes nothing.
func (l *Leases) report(ctx context.Context, err error) {
	switch away := err != nil; {
	case ctx.Err() != nil || l.away.Swap(away) == away:
	case away:
		l.Log.ErrorContext(ctx, "monthly hits unavailable: only leased hits are admitted", "error", err)
	default:
		l.Log.InfoContext(ctx, "monthly hits available again")
	}
}

// endLease returns a lease, once its pending hits are settled. The shard is locked.
func (l *Leases) endLease(s *shard, h *held, key *linkKey) {
	if !h.open {
		return
	}
	e := ended{
		key: *key, month: h.month, number: h.number, hits: h.size, used: h.size - h.left, position: h.position,
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
	l.returns = append(l.returns, e)
}
