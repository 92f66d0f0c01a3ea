package ratelimit

import (
	"hash/maphash"
	"net/netip"
	"sync/atomic"
	"time"
)

// throttleBuckets is the number of buckets in each shard of a Throttle. Its counters have 256 KiB,
// which a processor's cache holds. In a larger table, most requests would wait for the memory.
const throttleBuckets = 64

// Throttle limits the requests of each address network to a rate per minute, in the memory of the
// node: of an IPv4 address or an IPv6 /64, and of each IPv6 /48 to siteFactor times the rate. Its
// memory is fixed. Its methods can be called concurrently. A nil Throttle refuses nothing.
type Throttle struct {
	narrow, wide Rate
	counters     *counters
	refused      atomic.Int64
}

// NewThrottle returns a Throttle of requests per minute; nil for zero.
func NewThrottle(rate int64) *Throttle {
	if rate <= 0 {
		return nil
	}
	return &Throttle{
		narrow:   Rate{Attempts: rate, Window: time.Minute},
		wide:     Rate{Attempts: siteFactor * rate, Window: time.Minute},
		counters: newCounters(throttleBuckets),
	}
}

// Take counts a request of an address for a subject, such as a link. If its network has reached the
// rate, Take counts nothing and returns the rest of the window in seconds, otherwise zero.
func (t *Throttle) Take(subject string, from netip.Addr, now time.Time) (wait time.Duration) {
	if t == nil {
		return 0
	}
	wait = t.add(&t.narrow, 1, subject, from, now)
	if wait == 0 && from.Is6() {
		if wait = t.add(&t.wide, 1, subject, from, now); wait > 0 {
			t.add(&t.narrow, -1, subject, from, now)
		}
	}
	if wait > 0 {
		t.refused.Add(1)
	}
	return wait
}

// Release reverts a Take that was not refused.
func (t *Throttle) Release(subject string, from netip.Addr, now time.Time) {
	if t == nil {
		return
	}
	t.add(&t.narrow, -1, subject, from, now)
	if from.Is6() {
		t.add(&t.wide, -1, subject, from, now)
	}
}

// Refused returns the number of refused requests since the start.
func (t *Throttle) Refused() int64 {
	if t == nil {
		return 0
	}
	return t.refused.Load()
}

// The networks of an IPv6 address, in bits. An IPv4 address is a network of its own.
const (
	narrowBits = 64
	wideBits   = 48
)

// add adds delta to the requests of the network of an address, unless the rate is reached: then it
// returns the rest of the window.
func (t *Throttle) add(
	r *Rate, delta int64, subject string, from netip.Addr, now time.Time,
) (wait time.Duration) {
	network, bits := from.As16(), narrowBits
	if r == &t.wide {
		bits = wideBits
	}
	if from.Is6() {
		clear(network[bits/8:])
	}
	key := maphash.Comparable(t.counters.seed, struct {
		subject string
		network [16]byte
		bits    int
	}{subject, network, bits})
	sum, left := t.counters.add(key, r, delta, r.Attempts, now)
	if sum <= r.Attempts {
		return 0
	}
	return (left + time.Second - 1).Truncate(time.Second)
}

// Admission counts a request for its address network at most once. The caller admits the request
// before the limited work, so that concurrent requests cannot exceed the rate, and releases it if
// it proves not to be limited. It is for one goroutine.
type Admission struct {
	// RetryAfter is positive once the request was refused: the time after which the network may try
	// again.
	RetryAfter time.Duration

	throttle *Throttle
	from     netip.Addr
	at       time.Time
	isTaken  bool
}

// Admission returns the admission of a request that arrived at an instant.
func (t *Throttle) Admission(from netip.Addr, at time.Time) Admission {
	return Admission{throttle: t, from: from, at: at}
}

// Admit reports whether the request is within the rate. It counts the request if that has not been
// done.
func (a *Admission) Admit() bool {
	if !a.isTaken {
		a.RetryAfter = a.throttle.Take("", a.from, a.at)
		a.isTaken = a.RetryAfter == 0
	}
	return a.isTaken
}

// Release reverts the count of a request that proved not to be limited.
func (a *Admission) Release() {
	if a.isTaken {
		a.throttle.Release("", a.from, a.at)
		a.isTaken = false
	}
}
