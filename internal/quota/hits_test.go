package quota

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/linkforge/linkforge/internal/dbtest"
	"github.com/linkforge/linkforge/internal/id"
	"github.com/linkforge/linkforge/internal/kv"
)

// thisMonth is the real one: Redis expires keys by its own clock.
func thisMonth() Month { return MonthOf(time.Now()) }

// none is the seed of a link without clicks.
func none(context.Context) (int64, error) { return 0, nil }

// takeAtOnce takes n hits at once and returns how many were given.
func takeAtOnce(t *testing.T, h Hits, linkID string, n int, limit int64, seed Seed) int64 {
	t.Helper()
	var given atomic.Int64
	var all sync.WaitGroup
	for range n {
		all.Go(func() {
			ok, err := h.Take(t.Context(), linkID, thisMonth(), limit, seed)
			if err != nil {
				t.Error(err)
			}
			if ok {
				given.Add(1)
			}
		})
	}
	all.Wait()
	return given.Load()
}

func TestTheLimitIsExact(t *testing.T) {
	t.Parallel()
	dbtest.EachRedis(t, func(t *testing.T, k *kv.Client) {
		h, linkID := Hits{KV: k}, id.New(id.Link)
		if got := takeAtOnce(t, h, linkID, 200, 50, none); got != 50 {
			t.Errorf("%d hits given, want 50", got)
		}
		used, err := h.Used(t.Context(), []string{linkID}, thisMonth())
		if diff := cmp.Diff(map[string]int64{linkID: 50}, used); diff != "" || err != nil {
			t.Errorf("used (-want +got):\n%s%v", diff, err)
		}
		// The refused ones are not held against a limit that is raised.
		if got := takeAtOnce(t, h, linkID, 100, 60, none); got != 10 {
			t.Errorf("%d hits given after the limit was raised by 10", got)
		}
	})
}

func TestCountersEndADayAfterTheMonth(t *testing.T) {
	t.Parallel()
	dbtest.EachRedis(t, func(t *testing.T, k *kv.Client) {
		h, linkID, month := Hits{KV: k}, id.New(id.Link), thisMonth()
		takeAtOnce(t, h, linkID, 20, 10, none)
		ttl, err := k.PTTL(t.Context(), hitsKey(linkID, month)).Result()
		if left := time.Until(month.End.Add(afterlife)); err != nil || ttl > left+2*time.Second || ttl < left-time.Minute {
			t.Errorf("the counter lives for %s, want %s: %v", ttl, left, err)
		}
	})
}

// TestALateRequestOfAMonth takes a hit of a month that has just ended: it arrived before.
func TestALateRequestOfAMonth(t *testing.T) {
	t.Parallel()
	dbtest.EachRedis(t, func(t *testing.T, k *kv.Client) {
		seeds := 0
		now := time.Now()
		month := Month{Start: now.AddDate(0, -1, 0), End: now.Add(-time.Second)}
		ok, err := Hits{KV: k}.Take(t.Context(), id.New(id.Link), month, 1, func(context.Context) (int64, error) {
			seeds++
			return 0, nil
		})
		if !ok || err != nil || seeds != 1 {
			t.Errorf("given %t after %d seeds: %v", ok, seeds, err)
		}
	})
}

func TestALostCounterIsSeeded(t *testing.T) {
	t.Parallel()
	dbtest.EachRedis(t, func(t *testing.T, k *kv.Client) {
		h, linkID := Hits{KV: k}, id.New(id.Link)
		var known atomic.Int64
		seed := func(context.Context) (int64, error) { return known.Load(), nil }
		known.Add(takeAtOnce(t, h, linkID, 30, 50, seed))
		for range 3 {
			if err := k.Del(t.Context(), hitsKey(linkID, thisMonth())).Err(); err != nil {
				t.Fatal(err)
			}
			known.Add(takeAtOnce(t, h, linkID, 30, 50, seed))
		}
		if known.Load() != 50 {
			t.Errorf("%d hits given, want 50", known.Load())
		}
	})
}

// TestCountersVanishUnderLoad deletes the counter after every 25 hits while others are being taken. Were a
// vanished counter to start over, all 800 would be given.
func TestCountersVanishUnderLoad(t *testing.T) {
	t.Parallel()
	dbtest.EachRedis(t, func(t *testing.T, k *kv.Client) {
		h, linkID, month := Hits{KV: k}, id.New(id.Link), thisMonth()
		var recorded atomic.Int64
		seed := func(context.Context) (int64, error) { return recorded.Load(), nil }
		const takers, each, limit, loss = 4, 200, 200, 25
		var taking sync.WaitGroup
		for range takers {
			taking.Go(func() {
				for range each {
					ok, err := h.Take(t.Context(), linkID, month, limit, seed)
					if err != nil {
						t.Error(err)
					}
					if ok && recorded.Add(1)%loss == 0 {
						k.Del(t.Context(), hitsKey(linkID, month))
					}
				}
			})
		}
		taking.Wait()
		// At a loss the hits in flight are not known yet, and a slow seed may be older than one more loss.
		if got := recorded.Load(); got < limit || got > limit+loss+takers {
			t.Errorf("%d hits given, want from %d to %d", got, limit, limit+loss+takers)
		}
		ttl, err := k.PTTL(t.Context(), hitsKey(linkID, month)).Result()
		if err != nil || ttl == -1 {
			t.Errorf("a counter without an expiry: %s, %v", ttl, err)
		}
	})
}

func TestAFailingSeedGivesNothing(t *testing.T) {
	t.Parallel()
	dbtest.EachRedis(t, func(t *testing.T, k *kv.Client) {
		h, linkID := Hits{KV: k}, id.New(id.Link)
		broken := errors.New("the database is away")
		ok, err := h.Take(t.Context(), linkID, thisMonth(), 50, func(context.Context) (int64, error) { return 0, broken })
		if ok || !errors.Is(err, broken) {
			t.Errorf("given %t: %v", ok, err)
		}
		if n := k.Exists(t.Context(), hitsKey(linkID, thisMonth())).Val(); n != 0 {
			t.Error("a counter was made without knowing what to start from")
		}
	})
}

func TestReturn(t *testing.T) {
	t.Parallel()
	dbtest.EachRedis(t, func(t *testing.T, k *kv.Client) {
		h, linkID, month := Hits{KV: k}, id.New(id.Link), thisMonth()
		if err := h.Return(t.Context(), linkID, month); err != nil {
			t.Fatal(err)
		}
		if n := k.Exists(t.Context(), hitsKey(linkID, month)).Val(); n != 0 {
			t.Error("returning a hit made a counter")
		}
		takeAtOnce(t, h, linkID, 5, 5, none)
		if err := h.Return(t.Context(), linkID, month); err != nil {
			t.Fatal(err)
		}
		if got := takeAtOnce(t, h, linkID, 5, 5, none); got != 1 {
			t.Errorf("%d hits given after one was returned", got)
		}
	})
}

func TestMonthOf(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ at, month, end string }{
		{"2026-12-31T23:59:59.999999999Z", "2026-12", "2027-01-01T00:00:00Z"},
		{"2027-01-01T00:00:00Z", "2027-01", "2027-02-01T00:00:00Z"},
		{"2027-01-01T00:30:00+01:00", "2026-12", "2027-01-01T00:00:00Z"},
		{"2028-02-29T12:00:00Z", "2028-02", "2028-03-01T00:00:00Z"},
	} {
		at, err := time.Parse(time.RFC3339Nano, c.at)
		if err != nil {
			t.Fatal(err)
		}
		m := MonthOf(at)
		if m.String() != c.month || m.End.Format(time.RFC3339) != c.end {
			t.Errorf("%s lies in %s, which ends %s", c.at, m, m.End)
		}
	}
}
