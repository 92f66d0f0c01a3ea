package hitquota

// Hit is one hit of a link, taken from a lease. The first call of Commit or Release settles it and
// the others do nothing, so that a caller may defer Release. The lease stays open until all its
// hits are settled, so the counter has exactly the hits that became clicks. The zero Hit needs no
// settling.
type Hit struct {
	leases *Leases
	key    linkKey
	number int64
}

// LeaseNumber is the number of the lease that the hit was taken from; zero if it was admitted without one.
func (h *Hit) LeaseNumber() int64 { return h.number }

// Commit states that the click of the hit has been recorded, and where its record ends in the click log.
func (h *Hit) Commit(end int64) { h.settle(true, end) }

// Release returns the hit unused: to its lease or, once that has ended, to the counter.
func (h *Hit) Release() { h.settle(false, 0) }

func (h *Hit) settle(used bool, end int64) {
	if h.leases == nil {
		return
	}
	h.leases.settle(&h.key, h.number, used, end)
	h.leases = nil
}

// settle ends the pending state of a hit. If its lease is over, the last such hit returns the lease
// to its counter.
func (l *Leases) settle(key *linkKey, number int64, used bool, end int64) {
	s := l.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	h, known := s.links[*key]
	h.end = max(h.end, end)
	if known {
		defer func() { s.links[*key] = h }()
	}
	if number == 0 { // admitted during an outage
		return
	}
	s.pending--
	if h.open && h.number == number {
		h.pending--
		if !used {
			h.left++
			s.held++
		}
		return
	}
	c := s.closing[number]
	c.pending--
	if !used {
		c.used--
	}
	if c.pending == 0 {
		delete(s.closing, number)
		l.queueReturn(c.ended)
	}
}
