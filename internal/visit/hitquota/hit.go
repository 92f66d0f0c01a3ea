package hitquota

// Hit is one hit of a link, taken from a lease. The first call of Commit or Release settles it and
// the others do nothing, so that a caller may defer Release. A lease that is over returns when all
// its hits are settled, so the counter has exactly the hits that became clicks. The zero Hit needs
// no settling.
type Hit struct {
	leases *Leases
	key    linkKey
	number int64
}

// LeaseNumber is the number of the lease that the hit was taken from. It is negative if this node
// has granted the hit without Redis.
func (h *Hit) LeaseNumber() int64 { return h.number }

// Commit states that the click of the hit has been recorded, and where its record ends in the click
// log.
func (h *Hit) Commit(end int64) { h.settle(true, end) }

// Release returns the hit unused: to its lease or, once that has ended, to the counter.
func (h *Hit) Release() { h.settle(false, 0) }

func (h *Hit) settle(used bool, end int64) {
	if h.leases == nil {
		return
	}
	s := h.leases.shard(&h.key)
	s.mu.Lock()
	defer s.mu.Unlock()
	h.leases = nil
	of, isKnown := s.links[h.key]
	of.end = max(of.end, end)
	if used && h.number < 0 {
		of.owes, of.period = true, 0
	}
	e, hasEnded := s.ended[h.number]
	switch {
	case of.open && of.number == h.number:
		of.pending--
		if !used {
			of.unused++
		}
	case hasEnded: // others have no lease
		e.pending--
		if !used {
			e.used--
		}
		s.ended[h.number] = e
	}
	if isKnown {
		s.links[h.key] = of
	}
}
