package admission

import (
	"hash/maphash"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// window begins with the first request of a network: requests are counted per window, to the
	// second.
	window = time.Minute
	// wideFactor is how many times the rate of an IPv6 /64 a whole /48 has. A customer of a
	// provider often has a /48, and so 65,536 networks of 64 bits.
	wideFactor = 4
	// MaxRate is the largest rate, so that no counter overflows.
	MaxRate = 16_000
)

// A limiter has shards*buckets*slots counters of 8 bytes: 256 KiB, which a processor's cache holds.
// A bucket is one cache line. In a larger table, most requests would wait for the memory.
const (
	shards  = 32
	buckets = 128
	slots   = 8
)

// Limiter limits the requests of each address network to a rate per minute, in the memory of the
// node: of an IPv4 address or an IPv6 /64, and of each IPv6 /48 to wideFactor times the rate. It
// stores no address, only hashes under a random key of the process, and its memory is fixed.
// Package ratelimit limits what nodes count together. Its methods can be called concurrently. A nil
// Limiter refuses nothing.
type Limiter struct {
	rate    uint16
	seed    maphash.Seed
	refused atomic.Int64
	shards  [shards]shard
}

// shard is a part of the counters with its own lock.
type shard struct {
	mu      sync.Mutex
	buckets []bucket
	_       [32]byte // a cache line for each lock
}

// bucket has the only places of the counters whose keys have its number.
type bucket [slots]counter

// counter counts the requests of a key since the start of its window.
type counter struct {
	tag   uint32 // of the key; another part of the key selects the bucket
	start uint16 // in seconds, modulo 2^16
	count uint16 // zero means that the slot is free
}

// NewLimiter returns a Limiter of requests per minute, at most MaxRate; nil for zero.
func NewLimiter(rate int64) *Limiter {
	if rate <= 0 {
		return nil
	}
	l := &Limiter{rate: uint16(min(rate, MaxRate)), seed: maphash.MakeSeed()}
	for i := range l.shards {
		l.shards[i].buckets = make([]bucket, buckets)
	}
	return l
}

// Take counts a request of an address for a subject, such as a link. If its network has reached the
// rate, Take counts nothing and returns the rest of the window, otherwise zero. When the table is
// full, the network with the fewest requests is forgotten.
func (l *Limiter) Take(subject string, from netip.Addr, now time.Time) (wait time.Duration) {
	if l == nil {
		return 0
	}
	at, narrow := seconds(now), l.key(subject, from, narrowBits)
	wait = l.add(narrow, l.rate, at)
	if wait == 0 && from.Is6() {
		if wait = l.add(l.key(subject, from, wideBits), wideFactor*l.rate, at); wait > 0 {
			l.subtract(narrow, at)
		}
	}
	if wait > 0 {
		l.refused.Add(1)
	}
	return wait
}

// Release reverts a Take that was not refused.
func (l *Limiter) Release(subject string, from netip.Addr, now time.Time) {
	if l == nil {
		return
	}
	at := seconds(now)
	l.subtract(l.key(subject, from, narrowBits), at)
	if from.Is6() {
		l.subtract(l.key(subject, from, wideBits), at)
	}
}

// Refused returns the number of refused requests since the start.
func (l *Limiter) Refused() int64 {
	if l == nil {
		return 0
	}
	return l.refused.Load()
}

// The networks of an IPv6 address, in bits. An IPv4 address is a network of its own.
const (
	narrowBits = 64
	wideBits   = 48
)

// key hashes a subject and the network of an address.
func (l *Limiter) key(subject string, from netip.Addr, bits int) uint64 {
	network := from.As16()
	if from.Is6() {
		clear(network[bits/8:])
	}
	return maphash.Comparable(l.seed, struct {
		subject string
		network [16]byte
		bits    int
	}{subject, network, bits})
}

func seconds(now time.Time) uint16 { return uint16(now.Unix()) }

// add counts a request of a key, unless the limit is reached: then it returns the rest of the
// window.
func (l *Limiter) add(key uint64, limit, at uint16) (wait time.Duration) {
	s, b, tag := l.bucketOf(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	c := b.find(tag)
	if c == nil {
		c = b.leastUsed(at)
	}
	if c.tag != tag || c.used(at) == 0 {
		*c = counter{tag: tag, start: at}
	}
	if c.count >= limit {
		return window - c.age(at)
	}
	c.count++
	return 0
}

// subtract reverts an add, if the window has not ended.
func (l *Limiter) subtract(key uint64, at uint16) {
	s, b, tag := l.bucketOf(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := b.find(tag); c != nil && c.used(at) > 0 {
		c.count--
	}
}

func (l *Limiter) bucketOf(key uint64) (s *shard, b *bucket, tag uint32) {
	s = &l.shards[key%shards]
	return s, &s.buckets[key/shards%buckets], uint32(key >> 32)
}

// find returns the counter of a key; nil if there is none.
func (b *bucket) find(tag uint32) *counter {
	for i := range b {
		if c := &b[i]; c.tag == tag {
			return c
		}
	}
	return nil
}

// leastUsed returns the counter that a new key replaces: a free one, or the one with the fewest
// requests. So a client cannot clear its counter by requests from other networks.
func (b *bucket) leastUsed(at uint16) *counter {
	least := &b[0]
	for i := range b {
		if c := &b[i]; c.used(at) < least.used(at) {
			least = c
		}
	}
	return least
}

// used returns the number of requests in the present window.
func (c *counter) used(at uint16) uint16 {
	if c.age(at) >= window {
		return 0
	}
	return c.count
}

// age is the time since the start of the window. After a step of the clock backwards it is very
// long, so that the window ends.
func (c *counter) age(at uint16) time.Duration { return time.Duration(at-c.start) * time.Second }

// Admission counts a request for its address network at most once. The caller admits the request
// before the limited work, so that concurrent requests cannot exceed the rate, and releases it if
// it proves not to be limited. It is for one goroutine.
type Admission struct {
	// RetryAfter is positive once the request was refused: the time after which the network may try
	// again.
	RetryAfter time.Duration

	limiter *Limiter
	from    netip.Addr
	at      time.Time
	isTaken bool
}

// Admission returns the admission of a request that arrived at an instant.
func (l *Limiter) Admission(from netip.Addr, at time.Time) Admission {
	return Admission{limiter: l, from: from, at: at}
}

// Admit reports whether the request is within the rate. It counts the request if that has not been
// done.
func (a *Admission) Admit() bool {
	if !a.isTaken {
		a.RetryAfter = a.limiter.Take("", a.from, a.at)
		a.isTaken = a.RetryAfter == 0
	}
	return a.isTaken
}

// Release reverts the count of a request that proved not to be limited.
func (a *Admission) Release() {
	if a.isTaken {
		a.limiter.Release("", a.from, a.at)
		a.isTaken = false
	}
}
