package ratelimit

import (
	"hash/maphash"
	"math"
	"sync"
	"time"
)

// Counters are divided into shards of buckets of slots, of 16 bytes each.
const (
	shards = 32
	slots  = 8
)

// counters count attempts in the memory of the node, which is fixed. They store no subject, only
// hashes under a random key of the process.
type counters struct {
	seed   maphash.Seed
	shards [shards]shard
}

// shard is a part of the counters with its own lock.
type shard struct {
	mu      sync.Mutex
	buckets []bucket
	_       [32]byte // a cache line for each lock
}

// bucket has the only places of the counters whose keys have its number.
type bucket [slots]counter

// counter counts the attempts of a key until the end of its window.
type counter struct {
	tag, count uint32 // the tag is a part of the key; another part selects the bucket
	end        int64  // Unix time in milliseconds
}

// newCounters returns counters with as many buckets in each shard.
func newCounters(buckets int) *counters {
	c := &counters{seed: maphash.MakeSeed()}
	for i := range c.shards {
		c.shards[i].buckets = make([]bucket, buckets)
	}
	return c
}

func (c *counters) key(subject string) uint64 { return maphash.String(c.seed, subject) }

// add adds delta to the count of a key, which is not negative, and returns the sum and the rest of
// the window. It leaves the count if the sum would be above the limit. When a bucket is full, the
// key with the fewest attempts is forgotten. So a client cannot clear its counter by attempts of
// other subjects.
func (c *counters) add(key uint64, r *Rate, delta, limit int64, now time.Time) (sum int64, left time.Duration) {
	s, b, tag := c.bucketOf(key)
	at := now.UnixMilli()
	s.mu.Lock()
	defer s.mu.Unlock()
	n := b.find(tag)
	if n == nil {
		n = b.leastUsed(at)
	}
	// After a step of the clock backwards the rest would be too long.
	rest := n.end - at
	if n.tag != tag || rest <= 0 || rest > max(r.Window, r.MaxWait).Milliseconds() {
		if delta < 0 { // nothing to revert
			return 0, r.Window
		}
		*n = counter{tag: tag, end: at + r.Window.Milliseconds()}
	}
	if sum = max(0, int64(n.count)+delta); sum <= limit {
		n.count = uint32(min(sum, math.MaxUint32))
	}
	return sum, time.Duration(n.end-at) * time.Millisecond
}

// extend sets the rest of a window. A window without a rest has ended.
func (c *counters) extend(key uint64, left time.Duration, now time.Time) {
	s, b, tag := c.bucketOf(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := b.find(tag); n != nil {
		n.end = now.Add(left).UnixMilli()
	}
}

func (c *counters) bucketOf(key uint64) (s *shard, b *bucket, tag uint32) {
	s = &c.shards[key%shards]
	return s, &s.buckets[key/shards%uint64(len(s.buckets))], uint32(key >> 32)
}

// find returns the counter of a key; nil if there is none.
func (b *bucket) find(tag uint32) *counter {
	for i := range b {
		if n := &b[i]; n.tag == tag {
			return n
		}
	}
	return nil
}

// leastUsed returns the counter that a new key replaces: a free one, or the one with the fewest
// attempts.
func (b *bucket) leastUsed(at int64) *counter {
	least := &b[0]
	for i := range b {
		if n := &b[i]; n.used(at) < least.used(at) {
			least = n
		}
	}
	return least
}

// used returns the number of attempts in the present window.
func (n *counter) used(at int64) uint32 {
	if n.end <= at {
		return 0
	}
	return n.count
}
