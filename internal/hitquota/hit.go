package hitquota

// Hit is one hit of a link, taken from a lease. The first call of Commit or Release settles it and
// the others do nothing, so that a caller may defer Release. The lease stays open until all its
// hits are settled, so the source counts exactly the hits that became clicks. The zero Hit needs no
// settling.
type Hit struct {
	leases *Leases
	key    linkKey
	number int64
}

// LeaseNumber is the number of the lease that the hit was taken from.
func (h *Hit) LeaseNumber() int64 { return h.number }

// Commit states that the click of the hit has been recorded.
func (h *Hit) Commit() { h.settle(true) }

// Release returns the hit unused: to its lease or, once that has ended, to the source.
func (h *Hit) Release() { h.settle(false) }

func (h *Hit) settle(used bool) {
	if h.leases == nil {
		return
	}
	h.leases.settle(&h.key, h.number, used)
	h.leases = nil
}

// settle ends the pending state of a hit. If its lease is over, the last such hit returns the lease
// to its source.
func (l *Leases) settle(key *linkKey, number int64, used bool) {
	s := l.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if h := s.links[*key]; h.open && h.number == number {
		h.pending--
		if !used {
			h.left++
			s.held++
		}
		s.links[*key] = h
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
