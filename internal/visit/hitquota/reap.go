package hitquota

import (
	"context"
	"maps"
	"slices"
)

// reap ends leases whose life is over (with all, every lease), and returns ended ones.
func (l *Leases) reap(ctx context.Context, all bool) {
	if !l.counters.IsDown() {
		l.failingSince.Store(0)
		l.setOutage(ctx, nil)
	}
	ingested, end, capacity := l.ClickLog.Span()
	oldest := int64(0) // leases from before it retain too much of the log
	if capacity > 0 {
		oldest = end - capacity/pinnedDivisor
	}
	muchOlder := oldest - capacity/pinnedDivisor/pinnedDivisor // or else a busy node would scan all shards each time
	l.reaps++
	now := l.Now().UnixMilli()
	var owing []linkKey
	for i := range l.shards {
		s := &l.shards[i]
		s.mu.Lock()
		if all || len(s.links) < minScanLinks || now >= s.due || s.pin < muchOlder || (l.reaps+i)%scanTurns == 0 {
			owing = append(owing, l.reapShard(s, now, ingested, oldest, all)...)
		}
		s.mu.Unlock()
	}
	l.returnEnded(ctx)
	if !l.counters.IsDown() {
		l.settleOutage(ctx, owing)
	}
	_, pin, _ := l.ClickLog.Span()
	for i := range l.shards {
		s := &l.shards[i]
		s.mu.Lock()
		pin = min(pin, s.pin)
		for _, q := range s.requests { // the log may contain requested leases
			if q.Number > 0 {
				pin = min(pin, q.position)
			}
		}
		for _, e := range s.ended {
			pin = min(pin, e.position)
		}
		s.mu.Unlock()
	}
	l.pin.Store(pin)
}

// reapShard ends the leases of a shard whose life is over, and forgets idle links whose clicks are
// ingested. It returns links whose counters may lack hits of outage leases. The shard is locked.
func (l *Leases) reapShard(s *shard, now, ingested, oldest int64, all bool) (owing []linkKey) {
	isOutage := l.isOutage.Load() // then leases of counters last until these are available again
	s.most = max(s.most, len(s.links))
	s.pin, s.due = noPosition, noPosition
	for key, h := range s.links {
		age := now - h.takenAt // negative after the clock was set back
		isOver := all || (!isOutage || h.number < 0) && (age >= int64(h.life) || age < 0 || h.position < oldest)
		if h.owes {
			owing = append(owing, key)
		}
		switch {
		case h.open && (isOver || h.unused == 0):
			s.end(key, h)
			h.open, h.size, h.unused, h.pending = false, h.size-h.unused, 0, 0
			s.links[key] = h
		case h.open:
			s.noteOpen(h)
		case age > int64(h.life)+idleLife.Milliseconds() && h.end <= ingested && !h.owes:
			delete(s.links, key)
		}
	}
	if s.most >= minScanLinks && len(s.links) <= s.most/4 { // a map does not shrink by itself
		links := make(map[linkKey]linkState, len(s.links))
		maps.Copy(links, s.links)
		s.links, s.most = links, len(links)
	}
	return owing
}

// noteOpen has the next reaps consider an open lease. The shard is locked.
func (s *shard) noteOpen(h linkState) {
	s.pin = min(s.pin, h.position)
	if int64(h.life) <= nearLife.Milliseconds() {
		s.due = min(s.due, h.takenAt+int64(h.life))
	}
}

// end ends a lease, if it is open. The unused hits of an outage lease are nobody's. The shard is
// locked.
func (s *shard) end(key linkKey, h linkState) {
	e := endedLease{
		key: key, number: h.number, position: h.position, hits: h.size, used: h.size - h.unused, pending: h.pending,
	}
	if h.number < 0 {
		e.hits = e.used
	}
	if h.open && (h.number > 0 || h.pending > 0) {
		s.ended[h.number] = e
	}
}

// returnEnded returns ended leases without pending hits to their counters. The next call tries
// those again that they did not accept.
func (l *Leases) returnEnded(ctx context.Context) {
	var batch []endedLease
	for i := range l.shards {
		s := &l.shards[i]
		s.mu.Lock()
		for number, e := range s.ended {
			switch {
			case e.pending > 0:
			case number < 0:
				delete(s.ended, number)
			case !s.isRegistering(&e):
				e.isReturning = true
				s.ended[number] = e
				batch = append(batch, e)
			}
		}
		s.mu.Unlock()
	}
	var err error
	for some := range slices.Chunk(batch, takeBatch) {
		if err == nil {
			err = l.returnBatch(ctx, some)
		}
		for _, e := range some {
			s := l.shard(&e.key)
			s.mu.Lock()
			if e.isReturning = false; err == nil {
				delete(s.ended, e.number)
			} else {
				s.ended[e.number] = e
			}
			s.mu.Unlock()
		}
	}
}

func (l *Leases) returnBatch(ctx context.Context, batch []endedLease) error {
	ctx, cancel := context.WithTimeout(ctx, takeDeadline)
	defer cancel()
	leases, unused := make([]Lease, len(batch)), int64(0)
	for i, e := range batch {
		leases[i] = Lease{
			LinkID: string(e.key.id[:]), Month: e.key.month, Number: e.number, Hits: int64(e.hits), Used: int64(e.used),
			IsUnsure: e.isUnsure,
		}
		if !e.isUnsure { // it was not counted as taken
			unused += int64(e.hits - e.used)
		}
	}
	if err := l.counters.Return(ctx, l.ClickLog.LogID(), leases); err != nil {
		return err
	}
	l.hitsReturned.Add(unused)
	for _, returned := range leases {
		if returned.Used < returned.Hits {
			returned.Hits = 0
			// without it, only a crash and a loss of data in Redis would return them again
			_ = l.ClickLog.Note(returned)
		}
	}
	return nil
}

// Recover returns the unused hits of a dead process, whose clicks the database has. A lease without
// hits was returned by the process, and Redis may have it again, from a snapshot.
func (l *Leases) Recover(ctx context.Context, logID string, leases []Lease) error {
	l.period.Add(1) // the clicks may be of outage leases
	leases = slices.DeleteFunc(slices.Clone(leases), func(l Lease) bool { return l.Hits == 0 || l.Number < 0 })
	for some := range slices.Chunk(leases, takeBatch) {
		if err := l.counters.Return(ctx, logID, some); err != nil {
			return err
		}
	}
	return nil
}

// setOutage notes and logs that the counters are available, or that an error makes them unavailable. The end
// of the context changes nothing.
func (l *Leases) setOutage(ctx context.Context, err error) {
	switch isOutage := err != nil; {
	case ctx.Err() != nil || l.isOutage.Swap(isOutage) == isOutage:
	case isOutage:
		l.Log.ErrorContext(ctx, "monthly hits unavailable: links redirect up to half of their quotas", "error", err)
	default:
		l.Log.InfoContext(ctx, "monthly hits available again")
	}
}
