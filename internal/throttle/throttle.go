// Package throttle bounds how often the clients of an address network do something, such as follow
// one link, in the memory of a node. It stores no addresses, and its memory does not grow: counts of
// quiet networks are replaced. It does not know what is counted; package redirect calls it.
package throttle

import (
	"hash/maphash"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// Window is the time for which a rate applies. It begins with the first event.
	Window = time.Minute
	// wideNetworks is how many times the rate of an IPv6 network of 64 bits, which one subscriber has,
	// one of 48 bits may use, which a site has.
	wideNetworks = 4
	// sets and ways are the size of the table: the counts of a key are in one set.
	sets, ways = 1 << 14, 8
	// locks guard the sets.
	locks = 256
)

// Throttle counts events by subject and network. A nil Throttle and the zero rate allow everything.
type Throttle struct {
	rate  uint32
	seed  maphash.Seed
	locks [locks]sync.Mutex
	table [][ways]count
	// refusedUntil is the end of the latest window in which a count exceeded its rate, in seconds.
	refusedUntil atomic.Int64
}

// count is the number of events of a key in a window.
type count struct {
	key    uint64
	until  uint32 // seconds since 1970; the window has ended afterwards
	events uint32
}

// New returns a Throttle that allows rate events in a Window, of each subject and network: an IPv4
// address or an IPv6 network of 64 bits. An IPv6 network of 48 bits has four times the rate.
func New(rate int64) *Throttle {
	t := &Throttle{rate: uint32(min(max(rate, 0), 1<<31)), seed: maphash.MakeSeed()}
	if t.rate > 0 {
		t.table = make([][ways]count, sets)
	}
	return t
}

// Count counts an event of a subject and returns zero, or returns the time until the window ends if
// the rate is exceeded.
func (t *Throttle) Count(now time.Time, subject string, address netip.Addr) (wait time.Duration) {
	if t == nil || t.rate == 0 || !address.IsValid() {
		return 0
	}
	wait = t.add(now, t.key(subject, address), t.rate, 1)
	if wide, ok := wideNetwork(address); ok && wait == 0 {
		wait = t.add(now, t.key(subject, wide), wideNetworks*t.rate, 1)
	}
	return wait
}

// Wait returns what Count would return, without counting. It costs next to nothing while no rate is
// exceeded.
func (t *Throttle) Wait(now time.Time, subject string, address netip.Addr) (wait time.Duration) {
	if t == nil || t.rate == 0 || now.Unix() > t.refusedUntil.Load() || !address.IsValid() {
		return 0
	}
	wait = t.add(now, t.key(subject, address), t.rate, 0)
	if wide, ok := wideNetwork(address); ok && wait == 0 {
		wait = t.add(now, t.key(subject, wide), wideNetworks*t.rate, 0)
	}
	return wait
}

// wideNetwork returns the first 48 bits of an IPv6 address.
func wideNetwork(address netip.Addr) (wide netip.Addr, ok bool) {
	if !address.Is6() {
		return netip.Addr{}, false
	}
	prefix, err := address.Prefix(48)
	// The last bit distinguishes it from the network of 64 bits that begins with the same bits.
	return prefix.Addr().Next(), err == nil
}

func (t *Throttle) key(subject string, network netip.Addr) uint64 {
	return maphash.Comparable(t.seed, struct {
		subject string
		network netip.Addr
	}{subject, network})
}

// add adds events to the count of a key. It returns the rest of the window if the rate does not
// allow them; without events, if it does not allow one more.
func (t *Throttle) add(now time.Time, key uint64, rate, events uint32) (wait time.Duration) {
	second := uint32(now.Unix())
	set := key % sets
	lock := &t.locks[set%locks]
	lock.Lock()
	defer lock.Unlock()
	c := t.find(set, key, second)
	if c.events+max(events, 1) > rate {
		t.refusedUntil.Store(max(t.refusedUntil.Load(), int64(c.until)))
		return max(time.Unix(int64(c.until), 0).Sub(now), time.Second)
	}
	c.events += events
	return 0
}

// find returns the count of a key. A new one replaces one whose window has ended or, without any,
// the lowest.
func (t *Throttle) find(set, key uint64, second uint32) *count {
	var lowest *count
	for i := range t.table[set] {
		c := &t.table[set][i]
		if c.until <= second {
			c.events = 0
			c.until = 0
		}
		if c.key == key && c.until > 0 {
			return c
		}
		if lowest == nil || c.events < lowest.events || c.until == 0 && lowest.until > 0 {
			lowest = c
		}
	}
	*lowest = count{key: key, until: second + uint32(Window/time.Second)}
	return lowest
}
