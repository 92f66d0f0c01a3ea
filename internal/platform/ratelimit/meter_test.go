package ratelimit

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/errs/errstest"
	"github.com/linkforge/linkforge/internal/platform/id"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/redisx"
)

// meters returns the meters of nodes that share a Redis.
func meters(t *testing.T, n int) (all []*Meter) {
	t.Helper()
	for range n {
		all = append(all, NewMeter(New(dbtest.Redis(t, ""), slog.New(slog.DiscardHandler), time.Now), time.Now))
	}
	return all
}

// TestMeter_AllowsExactlyTheRate spends concurrently, also from rates that are too small for
// reservations.
func TestMeter_AllowsExactlyTheRate(t *testing.T) {
	t.Parallel()
	for _, attempts := range []int64{1, 7, 99, 100, 1000, 4321} {
		m := NewMeter(New(dbtest.Redis(t, ""), slog.New(slog.DiscardHandler), time.Now), time.Now)
		rate := Rate{Name: "test", Attempts: attempts, Window: time.Minute}
		var allowed atomic.Int64
		var spending sync.WaitGroup
		for range 8 {
			spending.Go(func() {
				for range attempts/8 + 5 {
					if _, err := m.Spend(t.Context(), rate, "subject", 1); err == nil {
						allowed.Add(1)
					} else if !errs.Is(err, errs.RateLimited) {
						t.Error(err)
					}
				}
			})
		}
		spending.Wait()
		if allowed.Load() != attempts {
			t.Errorf("%d allowed, want %d", allowed.Load(), attempts)
		}
		must.Value(m.Spend(t.Context(), rate, "another subject", 1))(t) // another subject
	}
}

// TestMeter_NodesTogetherAllowNoMoreThanTheRate also checks that little of the rate is left unused.
func TestMeter_NodesTogetherAllowNoMoreThanTheRate(t *testing.T) {
	t.Parallel()
	kv := dbtest.Redis(t, "")
	rate := Rate{Name: "test", Attempts: 3000, Window: time.Minute}
	var allowed atomic.Int64
	var spending sync.WaitGroup
	for range 3 {
		m := NewMeter(New(kv, slog.New(slog.DiscardHandler), time.Now), time.Now)
		spending.Go(func() {
			for i := range 2000 {
				if _, err := m.Spend(t.Context(), rate, "subject", int64(1+i%3)); err == nil {
					allowed.Add(int64(1 + i%3))
				}
			}
		})
	}
	spending.Wait()
	if n := allowed.Load(); n > rate.Attempts || n < rate.Attempts-3*rate.Attempts/reservationDivisor {
		t.Errorf("%d allowed, want %d or a little less", n, rate.Attempts)
	}
}

func TestMeter_ReturnsTheRemainingAllowance(t *testing.T) {
	t.Parallel()
	m := meters(t, 1)[0]
	rate := Rate{Name: "test", Attempts: 500, Window: time.Minute}
	for i := range int64(20) {
		a, err := m.Spend(t.Context(), rate, "subject", 1)
		if err != nil || !a.Known || a.Left != 499-i || a.Reset < 50*time.Second || a.Reset > time.Minute {
			t.Fatalf("attempt %d: %+v: %v", i, a, err)
		}
	}
	if a, err := m.Spend(t.Context(), rate, "subject", 480); err != nil || a.Left != 0 {
		t.Errorf("the rest: %+v: %v", a, err)
	}
	if a, err := m.Spend(t.Context(), rate, "subject", 1); !errs.Is(err, errs.RateLimited) || a.Left != 0 ||
		errs.From(err).RetryAfter == 0 {
		t.Errorf("once more: %+v: %v", a, err)
	}
}

// TestMeter_CountsOnTheNodeWithoutRedis: the rate holds, and a new window begins.
func TestMeter_CountsOnTheNodeWithoutRedis(t *testing.T) {
	t.Parallel()
	l, now := withoutRedis(t)
	m := NewMeter(l, func() time.Time { return *now })
	rate := Rate{Name: "test", Attempts: 1000, Window: time.Minute}
	for range 2 {
		for i := range int64(1000) {
			if a, err := m.Spend(t.Context(), rate, "subject", 1); err != nil || !a.Known || a.Left != 999-i {
				t.Fatalf("attempt %d: %+v: %v", i, a, err)
			}
		}
		errstest.Want(t, errs.RateLimited, "once more")(m.Spend(t.Context(), rate, "subject", 1))
		*now = now.Add(2 * time.Minute)
	}
}

func TestMeter_ReservationEndsWithItsWindow(t *testing.T) {
	t.Parallel()
	m, start := meters(t, 1)[0], time.Now()
	now := start
	m.Now = func() time.Time { return now }
	rate := Rate{Name: "test", Attempts: 1000, Window: 100 * time.Millisecond}
	must.Value(m.Spend(t.Context(), rate, "subject", 1))(t)
	for deadline := time.Now().Add(30 * time.Second); ; {
		if n, err := m.kv.Exists(t.Context(), rate.key("subject")).Result(); err != nil || time.Now().After(deadline) {
			t.Fatalf("the counter stays: %v", err)
		} else if n == 0 {
			break
		}
	}
	now = start.Add(time.Second)
	if a, err := m.Spend(t.Context(), rate, "subject", 1); err != nil || a.Left != 999 {
		t.Errorf("%+v: %v", a, err)
	}
}

// TestLimiter_CountsAttemptsOfClientsWhoHaveGone: charges and refunds stay in step, so that no
// attempt is to spare.
func TestLimiter_CountsAttemptsOfClientsWhoHaveGone(t *testing.T) {
	t.Parallel()
	dbtest.EachRedis(t, func(t *testing.T, k *redisx.Client) {
		l, once := New(k, slog.New(slog.DiscardHandler), time.Now), Rate{Name: "once", Attempts: 1, Window: time.Minute}
		subject := id.New(id.Account)
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		for range 3 {
			l.Refund(gone, must.Value(l.ChargeAll(gone, Counter{once, subject}))(t)...)
		}
		must.NoError(t, l.Charge(t.Context(), once, subject))
		errstest.Want(t, errs.RateLimited, "the second attempt")(l.Charge(gone, once, subject))
	})
}

// TestLimiter_RefundsWhereItCharged: Redis becomes unavailable or available, or the window ends,
// before a refund.
func TestLimiter_RefundsWhereItCharged(t *testing.T) {
	t.Parallel()
	dbtest.EachRedis(t, func(t *testing.T, k *redisx.Client) {
		down, _ := withoutRedis(t)
		up, once := down, Rate{Name: "once", Attempts: 1, Window: time.Minute}
		up.kv = k
		end := func(l Limiter, subject string) { l.Reset(t.Context(), once, subject) }
		for name, c := range map[string]struct {
			charge, refund, then Limiter
			end                  func(Limiter, string)
			refused              bool // at the next attempt
		}{
			"in Redis":                  {up, up, up, nil, false},
			"without Redis":             {down, down, down, nil, false},
			"in Redis, then without":    {up, down, up, nil, true},
			"without, then with":        {down, up, up, nil, false},
			"without, then with, there": {down, up, down, nil, false},
			"in Redis, window ended":    {up, up, up, end, false},
			"without, window ended":     {down, down, down, end, false},
		} {
			subject := Counter{once, id.New(id.Account)}
			charged := must.Value(c.charge.ChargeAll(t.Context(), subject))(t)
			if c.end != nil {
				c.end(c.charge, subject.Subject)
			}
			c.refund.Refund(t.Context(), charged...)
			for i, refused := range []bool{c.refused, true} {
				if err := c.then.Charge(t.Context(), once, subject.Subject); errs.Is(err,
					errs.RateLimited) != refused {
					t.Errorf("%s: attempt %d: %v", name, i+1, err)
				}
			}
		}
	})
}
