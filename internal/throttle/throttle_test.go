package throttle_test

import (
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/linkforge/linkforge/internal/throttle"
)

var (
	noon   = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	reader = netip.MustParseAddr("192.0.2.1")
)

// count counts n events and returns how many of them were allowed.
func count(t *throttle.Throttle, n int, now time.Time, subject string, address netip.Addr) (allowed int) {
	for range n {
		if t.Count(now, subject, address) == 0 {
			allowed++
		}
	}
	return allowed
}

func TestThrottle_BoundsSubjectAndNetwork(t *testing.T) {
	t.Parallel()
	l := throttle.New(60)
	for name, c := range map[string]struct {
		subject string
		address netip.Addr
	}{
		"one":             {"a", reader},
		"another subject": {"b", reader},
		"another address": {"a", netip.MustParseAddr("192.0.2.2")},
	} {
		if got := count(l, 10_000, noon, c.subject, c.address); got != 60 {
			t.Errorf("%s: %d of 10,000 events were allowed, want 60", name, got)
		}
	}
	if got := count(throttle.New(0), 1000, noon, "a", reader); got != 1000 {
		t.Errorf("without a rate, %d of 1,000 events were allowed", got)
	}
	if got := count(l, 1000, noon, "c", netip.Addr{}); got != 1000 {
		t.Errorf("of an unknown address, %d of 1,000 events were allowed", got)
	}
}

func TestThrottle_AllowsAgainAfterWindow(t *testing.T) {
	t.Parallel()
	l := throttle.New(2)
	count(l, 2, noon, "a", reader)
	for after, want := range map[time.Duration]time.Duration{0: time.Minute, 20 * time.Second: 40 * time.Second} {
		if wait := l.Count(noon.Add(after), "a", reader); wait != want {
			t.Errorf("after %s the wait is %s, want %s", after, wait, want)
		}
		if wait := l.Wait(noon.Add(after), "a", reader); wait != want {
			t.Errorf("after %s Wait returns %s, want %s", after, wait, want)
		}
	}
	if wait := l.Wait(noon.Add(time.Minute), "a", reader); wait != 0 {
		t.Errorf("after the window the wait is %s", wait)
	}
	if got := count(l, 3, noon.Add(time.Minute), "a", reader); got != 2 {
		t.Errorf("in the next window %d events were allowed, want 2", got)
	}
}

// TestThrottle_BoundsIPv6Sites: a site that uses many of its networks gets four times the rate.
func TestThrottle_BoundsIPv6Sites(t *testing.T) {
	t.Parallel()
	l := throttle.New(10)
	allowed := 0
	for i := range 1000 {
		network := netip.MustParseAddr(fmt.Sprintf("2001:db8:1:%x::", i))
		allowed += count(l, 1, noon, "a", network)
	}
	if allowed != 40 {
		t.Errorf("%d events of a site were allowed, want 40", allowed)
	}
	if got := count(l, 100, noon, "a", netip.MustParseAddr("2001:db8:2::")); got != 10 {
		t.Errorf("%d events of another site were allowed, want 10", got)
	}
}

// TestThrottle_KeepsBusyCounts: a flood of quiet networks does not make it forget a busy one.
func TestThrottle_KeepsBusyCounts(t *testing.T) {
	t.Parallel()
	l := throttle.New(60)
	count(l, 60, noon, "a", reader)
	for i := range 1_000_000 {
		l.Count(noon, "a", netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}))
	}
	if l.Count(noon, "a", reader) == 0 {
		t.Error("the busy network was forgotten")
	}
}

func TestThrottle_IsExactUnderConcurrency(t *testing.T) {
	t.Parallel()
	l := throttle.New(500)
	var allowed atomic.Int64
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() { allowed.Add(int64(count(l, 1000, noon, "a", reader))) })
	}
	all.Wait()
	if n := allowed.Load(); n != 500 {
		t.Errorf("%d events were allowed, want 500", n)
	}
}

func BenchmarkCount(b *testing.B) {
	l := throttle.New(1 << 30)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			l.Count(noon, "lnk_01m85m36qmf3yawk15pnpwbp7h", reader)
		}
	})
}
