package ratelimit

import (
	"math/rand/v2"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// take sends requests, and returns how many were accepted.
func take(l *Throttle, subject, from string, now time.Time, requests int) (accepted int) {
	for range requests {
		if l.Take(subject, netip.MustParseAddr(from), now) == 0 {
			accepted++
		}
	}
	return accepted
}

func TestThrottle_LimitsEachSubjectAndAddress(t *testing.T) {
	t.Parallel()
	l := NewThrottle(60)
	for _, c := range []struct {
		name, subject, from string
		want                int
	}{
		{"a client", "one", "192.0.2.1", 60},
		{"again", "one", "192.0.2.1", 0},
		{"the next address", "one", "192.0.2.2", 60},
		{"another link", "two", "192.0.2.1", 60},
		{"an IPv6 address", "one", "2001:db8::1", 60},
		{"the same /64", "one", "2001:db8::2", 0},
		{"another /48", "one", "2001:db8:1::1", 60},
	} {
		if got := take(l, c.subject, c.from, noon, 1000); got != c.want {
			t.Errorf("%s: %d of 1,000 requests accepted, want %d", c.name, got, c.want)
		}
	}
	if want := int64(7*1000 - 5*60); l.Refused() != want {
		t.Errorf("%d requests refused, want %d", l.Refused(), want)
	}
}

// TestThrottle_LimitsAWholeSite: a client that changes its IPv6 /64 with each request has four times
// the rate of a /64 for its /48. A refused request counts for neither network.
func TestThrottle_LimitsAWholeSite(t *testing.T) {
	t.Parallel()
	l, accepted := NewThrottle(60), 0
	for i := range 10_000 {
		from := netip.AddrFrom16([16]byte{0x20, 0x01, 0x0d, 0xb8, 0, 1, byte(i >> 8), byte(i), 15: 1})
		if l.Take("one", from, noon) == 0 {
			accepted++
		}
	}
	if accepted != 240 {
		t.Errorf("%d requests from a /48 accepted, want 240", accepted)
	}
	if got := take(l, "one", "2001:db8:2::1", noon, 1000); got != 60 {
		t.Errorf("%d requests from another /48 accepted, want 60", got)
	}
	late, last := NewThrottle(2), noon.Add(59*time.Second)
	for _, from := range []string{"2001:db8::1", "2001:db8:0:1::1", "2001:db8:0:2::1", "2001:db8:0:3::1"} {
		take(late, "one", from, noon, 2)
	}
	take(late, "one", "2001:db8:0:4::1", last, 100) // refused for the /48
	if got := take(late, "one", "2001:db8:0:4::1", noon.Add(time.Minute), 100); got != 2 {
		t.Errorf("%d requests accepted after the window of the /48, want 2", got)
	}
}

func TestThrottle_StartsANewWindow(t *testing.T) {
	t.Parallel()
	l, from := NewThrottle(2), netip.MustParseAddr("192.0.2.1")
	for _, c := range []struct {
		after, want time.Duration
	}{
		{0, 0},
		{20 * time.Second, 0},
		{20 * time.Second, 40 * time.Second},
		{59*time.Second + 999*time.Millisecond, time.Second},
		{time.Minute, 0},
		{time.Minute, 0},
		{time.Minute, time.Minute},
		{1<<16*time.Second + 2*time.Minute, 0}, // the clock of the counters has wrapped around
		{0, 0},                                 // a step backwards
		{time.Second, 0},
		{time.Second, 59 * time.Second},
	} {
		if got := l.Take("one", from, noon.Add(c.after)); got != c.want {
			t.Errorf("after %s: wait %s, want %s", c.after, got, c.want)
		}
	}
}

func TestThrottle_ReleasesRequests(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"192.0.2.1", "2001:db8::1"} {
		l, from := NewThrottle(1), netip.MustParseAddr(text)
		for i := range 10 {
			if wait := l.Take("", from, noon); wait != 0 {
				t.Errorf("%s: request %d after a release waits %s", from, i, wait)
			}
			l.Release("", from, noon)
		}
		l.Release("", from, noon) // more than there are
		if l.Take("", from, noon) != 0 || l.Take("", from, noon) == 0 {
			t.Errorf("%s: releases without requests raise the limit", from)
		}
		l.Release("", from, noon.Add(time.Hour)) // the window has ended
		if l.Take("", from, noon) == 0 {
			t.Errorf("%s: a late release counts", from)
		}
	}
}

// TestThrottle_HasBoundedMemory: a flood of networks uses no more memory, a network that has reached
// its rate stays limited, and a new one is accepted.
func TestThrottle_HasBoundedMemory(t *testing.T) { // not parallel: it counts allocations
	if size := shards * throttleBuckets * unsafe.Sizeof(bucket{}); size != 256<<10 {
		t.Errorf("a throttle has %d bytes of counters, want 256 KiB", size)
	}
	l := NewThrottle(60)
	take(l, "one", "192.0.2.1", noon, 60)
	flood := func() {
		for i := range uint32(8 * shards * throttleBuckets * slots) {
			l.Take("one", netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}), noon)
		}
	}
	if n := testing.AllocsPerRun(1, flood); n != 0 {
		t.Errorf("a flood of networks allocates %.0f times", n)
	}
	if got := take(l, "one", "192.0.2.1", noon, 100); got != 0 {
		t.Errorf("%d requests accepted of the limited network after the flood", got)
	}
	if got := take(l, "one", "192.0.2.2", noon, 100); got != 60 {
		t.Errorf("%d requests accepted of a new network in a full table, want 60", got)
	}
}

func TestThrottle_OffRefusesNothing(t *testing.T) {
	t.Parallel()
	l := NewThrottle(0)
	if got := take(l, "one", "192.0.2.1", noon, 1000); got != 1000 || l.Refused() != 0 {
		t.Errorf("%d of 1,000 requests accepted without a limit, %d refused", got, l.Refused())
	}
	l.Release("one", netip.MustParseAddr("192.0.2.1"), noon)
}

// TestThrottle_IsExactUnderConcurrency: concurrent requests of a few networks are accepted up to the
// rate exactly, while other networks use the table too.
func TestThrottle_IsExactUnderConcurrency(t *testing.T) {
	t.Parallel()
	const clients, networks = 8, 4
	l := NewThrottle(100)
	var accepted [networks]atomic.Int64
	var all sync.WaitGroup
	for client := range clients {
		all.Go(func() {
			random := rand.New(rand.NewPCG(1, uint64(client)))
			for range 2000 {
				i := random.IntN(networks)
				if l.Take("one", netip.AddrFrom4([4]byte{192, 0, 2, byte(i)}), noon) == 0 {
					accepted[i].Add(1)
				}
				l.Take("two", netip.AddrFrom16([16]byte{0x20, 0x01, byte(random.IntN(256)), 7: byte(i)}), noon)
			}
		})
	}
	all.Wait()
	for i := range accepted {
		if got := accepted[i].Load(); got != 100 {
			t.Errorf("network %d: %d requests accepted, want 100", i, got)
		}
	}
}
