package ratelimit

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/poll/polltest"
)

// TestLimiter_WaitersTakeTurns: a caller with twenty requests to a host delays that of another one
// by one or two of them.
func TestLimiter_WaitersTakeTurns(t *testing.T) {
	t.Parallel()
	l, _ := withoutRedis(t)
	l.now = time.Now // the wait is one of the machine
	rate := Rate{Name: "test", Attempts: 1, Window: 20 * time.Millisecond}
	var served atomic.Int64
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			must.NoError(t, l.Wait(t.Context(), rate, "host", "busy"))
			served.Add(1)
		})
	}
	polltest.Until(t, "the requests wait", func() bool {
		l.turns.mu.Lock()
		defer l.turns.mu.Unlock()
		q := l.turns.queues[rate.key("host")]
		return q != nil && q.calls+int(served.Load()) == 20
	})
	before := served.Load()
	must.NoError(t, l.Wait(t.Context(), rate, "host", "other"))
	if n := served.Load() - before; n > 3 {
		t.Errorf("%d of the busy caller's requests were sent before", n)
	}
	all.Wait()
	if len(l.turns.queues) != 0 {
		t.Error("queues are left")
	}
}

// TestLimiter_WaitersKeepTheirTurns: callers of a host that has fewer requests than they can wait for
// leave for a second, as tasks do, and all are served equally often.
func TestLimiter_WaitersKeepTheirTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const callers, rounds = 12, 10
		l, _ := withoutRedis(t)
		l.now = time.Now
		rate := Rate{Name: "test", Attempts: 1, Window: time.Second}
		end := time.Now().Add(callers * rounds * time.Second)
		var served [callers]int
		var refused atomic.Int64
		var all sync.WaitGroup
		for i := range callers {
			all.Go(func() {
				for time.Sleep(time.Duration(i) * 50 * time.Millisecond); time.Now().Before(end); {
					if l.Wait(t.Context(), rate, "host", fmt.Sprint(i)) != nil {
						refused.Add(1)
						time.Sleep(time.Second)
						continue
					}
					served[i]++
					time.Sleep(30 * time.Millisecond)
				}
			})
		}
		all.Wait()
		for _, n := range served {
			if n < rounds-1 || n > rounds+4 { // those that ask at the same instant are served in any order
				t.Errorf("served %v", served)
				break
			}
		}
		if refused.Load() == 0 {
			t.Error("no caller has waited too long")
		}
	})
}
