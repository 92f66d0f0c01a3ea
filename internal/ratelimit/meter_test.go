package ratelimit

import (
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/linkforge/linkforge/internal/dbtest"
	"github.com/linkforge/linkforge/internal/errs"
)

// meters are nodes that share a Redis.
func meters(t *testing.T, n int) (all []*Meter) {
	t.Helper()
	for range n {
		all = append(all, NewMeter(Limiter{KV: dbtest.Redis(t, ""), Log: slog.New(slog.DiscardHandler)}, time.Now))
	}
	return all
}

// TestAMeterGivesWhatThereIs to many who ask at once, and no more: also of a rate of which nothing
// is taken ahead.
func TestAMeterGivesWhatThereIs(t *testing.T) {
	t.Parallel()
	for _, attempts := range []int64{1, 7, 99, 100, 1000, 4321} {
		m := NewMeter(Limiter{KV: dbtest.Redis(t, ""), Log: slog.New(slog.DiscardHandler)}, time.Now)
		rate := Rate{Name: "test", Attempts: attempts, Window: time.Minute}
		var given atomic.Int64
		var asking sync.WaitGroup
		for range 8 {
			asking.Go(func() {
				for range attempts/8 + 5 {
					if _, err := m.Spend(t.Context(), rate, "somebody", 1); err == nil {
						given.Add(1)
					} else if !errs.Is(err, errs.RateLimited) {
						t.Error(err)
					}
				}
			})
		}
		asking.Wait()
		if given.Load() != attempts {
			t.Errorf("%d given, want %d", given.Load(), attempts)
		}
		if _, err := m.Spend(t.Context(), rate, "somebody else", 1); err != nil {
			t.Errorf("somebody else: %v", err)
		}
	}
}

// TestMetersTogetherGiveNoMore than the rate, and nearly all of it.
func TestMetersTogetherGiveNoMore(t *testing.T) {
	t.Parallel()
	kv := dbtest.Redis(t, "")
	rate := Rate{Name: "test", Attempts: 3000, Window: time.Minute}
	var given atomic.Int64
	var asking sync.WaitGroup
	for range 3 {
		m := NewMeter(Limiter{KV: kv, Log: slog.New(slog.DiscardHandler)}, time.Now)
		asking.Go(func() {
			for i := range 2000 {
				if _, err := m.Spend(t.Context(), rate, "somebody", int64(1+i%3)); err == nil {
					given.Add(int64(1 + i%3))
				}
			}
		})
	}
	asking.Wait()
	if n := given.Load(); n > rate.Attempts || n < rate.Attempts-3*rate.Attempts/batchPart {
		t.Errorf("%d given, want %d or a little less", n, rate.Attempts)
	}
}

// TestAMeterTellsWhatIsLeft: one less each time, whether Redis is asked or not.
func TestAMeterTellsWhatIsLeft(t *testing.T) {
	t.Parallel()
	m := meters(t, 1)[0]
	rate := Rate{Name: "test", Attempts: 500, Window: time.Minute}
	for i := range int64(20) {
		a, err := m.Spend(t.Context(), rate, "somebody", 1)
		if err != nil || !a.Known || a.Left != 499-i || a.Reset < 50*time.Second || a.Reset > time.Minute {
			t.Fatalf("attempt %d: %+v: %v", i, a, err)
		}
	}
	if a, err := m.Spend(t.Context(), rate, "somebody", 480); err != nil || a.Left != 0 {
		t.Errorf("all that is left: %+v: %v", a, err)
	}
	if a, err := m.Spend(t.Context(), rate, "somebody", 1); !errs.Is(err, errs.RateLimited) || a.Left != 0 ||
		errs.From(err).RetryAfter == 0 {
		t.Errorf("once more: %+v: %v", a, err)
	}
}

// TestAMeterWithoutRedis hands out what it has in hand, and then lets everything through; nobody
// waits for Redis each time.
func TestAMeterWithoutRedis(t *testing.T) {
	t.Parallel()
	m, now := meters(t, 1)[0], time.Now()
	m.Now = func() time.Time { return now }
	rate := Rate{Name: "test", Attempts: 1000, Window: time.Minute}
	if _, err := m.Spend(t.Context(), rate, "somebody", 1); err != nil {
		t.Fatal(err)
	}
	if err := m.KV.Close(); err != nil {
		t.Fatal(err)
	}
	for i := range 9 {
		if a, err := m.Spend(t.Context(), rate, "somebody", 1); err != nil || !a.Known {
			t.Errorf("attempt %d in hand: %+v: %v", i, a, err)
		}
	}
	if a, err := m.Spend(t.Context(), rate, "somebody", 1); err != nil || a.Known {
		t.Errorf("with nothing in hand: %+v: %v", a, err)
	}
	now = now.Add(2 * time.Minute)
	if a, err := m.Spend(t.Context(), rate, "somebody", 5000); err != nil || a.Known {
		t.Errorf("in the next window: %+v: %v", a, err)
	}
}

// TestAWindowBeginsAnew: what was in hand is of the window before.
func TestAWindowBeginsAnew(t *testing.T) {
	t.Parallel()
	m, start := meters(t, 1)[0], time.Now()
	now := start
	m.Now = func() time.Time { return now }
	rate := Rate{Name: "test", Attempts: 1000, Window: 100 * time.Millisecond}
	if _, err := m.Spend(t.Context(), rate, "somebody", 1); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(30 * time.Second); ; {
		if n, err := m.KV.Exists(t.Context(), rate.key("somebody")).Result(); err != nil || time.Now().After(deadline) {
			t.Fatalf("the counter stays: %v", err)
		} else if n == 0 {
			break
		}
	}
	now = start.Add(time.Second)
	if a, err := m.Spend(t.Context(), rate, "somebody", 1); err != nil || a.Left != 999 {
		t.Errorf("%+v: %v", a, err)
	}
}
