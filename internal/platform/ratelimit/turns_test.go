package ratelimit

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/poll/polltest"
)

// TestLimiter_WaitersTakeTurns: a caller with twenty requests to a host delays that of another one
// by one or two of them.
func TestLimiter_WaitersTakeTurns(t *testing.T) {
	t.Parallel()
	l, _ := withoutRedis(t)
	l.local.now = time.Now // the wait is one of the machine
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
