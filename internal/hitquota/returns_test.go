package hitquota

import (
	"context"
	"testing"
	"time"

	"github.com/linkforge/linkforge/internal/dbtest"
	"github.com/linkforge/linkforge/internal/id"
	"github.com/linkforge/linkforge/internal/redisx"
)

func TestLease_ReturnsUnusedHitsOnce(t *testing.T) {
	t.Parallel()
	dbtest.EachRedis(t, func(t *testing.T, k *redisx.Client) {
		h, linkID := newHits(k, none), id.New(id.Link)
		used, unused := requestFor(linkID, 10, 50), requestFor(linkID, 10, 50)
		grant(t, h, used)
		grant(t, h, unused)
		for range 3 {
			if err := h.Return(t.Context(), []Lease{used.lease(10), unused.lease(3)}); err != nil {
				t.Fatal(err)
			}
			if got := countOf(t, k, linkID); got != 13 {
				t.Errorf("the counter says %d, want the 13 that were used", got)
			}
		}
		if keys := keysOf(t, k, linkID); len(keys) != 1 {
			t.Errorf("%v are left, want the counter alone", keys)
		}
	})
}

// TestLease_ReturnsATrimmedLease: the hits beyond the limit have returned already.
func TestLease_ReturnsATrimmedLease(t *testing.T) {
	t.Parallel()
	dbtest.EachRedis(t, func(t *testing.T, k *redisx.Client) {
		h, linkID := newHits(k, none), id.New(id.Link)
		grant(t, h, requestFor(linkID, 40, 50))
		cut := requestFor(linkID, 30, 50)
		grant(t, h, cut)
		asWanted := cut.lease(4)
		asWanted.Hits = cut.Want // as in the log of a dead process
		if err := h.Return(t.Context(), []Lease{asWanted}); err != nil {
			t.Fatal(err)
		}
		if got := countOf(t, k, linkID); got != 44 {
			t.Errorf("the counter says %d, want 40 and the 4 that were used", got)
		}
	})
}

// TestLease_RefusalLeavesNothing: repeated requests of a link over its limit leave no lease.
func TestLease_RefusalLeavesNothing(t *testing.T) {
	t.Parallel()
	dbtest.EachRedis(t, func(t *testing.T, k *redisx.Client) {
		h, linkID := newHits(k, none), id.New(id.Link)
		all := requestFor(linkID, 50, 50)
		grant(t, h, all)
		for range 5 {
			if got := grant(t, h, requestFor(linkID, 3, 50)); got != 0 {
				t.Errorf("%d hits granted beyond the limit", got)
			}
		}
		if keys := keysOf(t, k, linkID); len(keys) != 2 || countOf(t, k, linkID) != 50 {
			t.Errorf("%v are left, want a counter of 50 and the one lease", keys)
		}
	})
}

// TestLease_RecoversFromADeadProcessOnce, even if several nodes find its log.
func TestLease_RecoversFromADeadProcessOnce(t *testing.T) {
	t.Parallel()
	dbtest.EachRedis(t, func(t *testing.T, k *redisx.Client) {
		dead, linkID := newHits(k, none), id.New(id.Link)
		held, ended := requestFor(linkID, 20, 50), requestFor(linkID, 10, 50)
		grant(t, dead, held)
		grant(t, dead, ended)
		if err := dead.Return(t.Context(), []Lease{ended.lease(5)}); err != nil {
			t.Fatal(err)
		}
		neverTaken := requestFor(linkID, 30, 50) // the process was killed before it asked
		neverTaken.Granted = neverTaken.Want
		for range 3 {
			finder := newHits(k, none)
			if err := finder.Recover(t.Context(), dead.LogID,
				[]Lease{held.lease(8), ended.lease(5), neverTaken.lease(0)}); err != nil {
				t.Fatal(err)
			}
			if got := countOf(t, k, linkID); got != 13 {
				t.Errorf("the counter says %d, want the 13 that were used", got)
			}
		}
	})
}

// TestLease_ReturnDoesNotLowerANewCounter: it was seeded with the used hits only.
func TestLease_ReturnDoesNotLowerANewCounter(t *testing.T) {
	t.Parallel()
	dbtest.EachRedis(t, func(t *testing.T, k *redisx.Client) {
		h, linkID := newHits(k, func(_ context.Context, _ Month, linkIDs []string, _ bool) (map[string]int64, error) {
			return map[string]int64{linkIDs[0]: 7}, nil
		}), id.New(id.Link)
		old := requestFor(linkID, 20, 50)
		grant(t, h, old)
		flush(t, k, linkID)
		if err := h.Return(t.Context(), []Lease{old.lease(0)}); err != nil || countOf(t, k, linkID) != -1 {
			t.Errorf("giving back to a counter that is not there made one of %d: %v", countOf(t, k, linkID), err)
		}
		grant(t, h, requestFor(linkID, 1, 50))
		if err := h.Return(t.Context(), []Lease{old.lease(0)}); err != nil {
			t.Fatal(err)
		}
		if got := countOf(t, k, linkID); got != 8 {
			t.Errorf("the counter says %d, want the 7 of its seed and 1", got)
		}
	})
}

// TestResume_RaisesCounters: existing counters are raised to the hits that were granted while Redis
// was unavailable.
func TestResume_RaisesCounters(t *testing.T) {
	t.Parallel()
	dbtest.EachRedis(t, func(t *testing.T, k *redisx.Client) {
		h, behind, ahead, unknown := newHits(k, none), id.New(id.Link), id.New(id.Link), id.New(id.Link)
		grant(t, h, requestFor(behind, 10, 100))
		grant(t, h, requestFor(ahead, 60, 100))
		h.Granted = func(_ context.Context, since time.Time, f func(string, Month, int64) error) error {
			if want := thisMonth().Start; !since.Equal(want) {
				t.Errorf("asked for what was granted since %s, want %s", since, want)
			}
			for _, linkID := range []string{behind, ahead, unknown} {
				if err := f(linkID, thisMonth(), 50); err != nil {
					return err
				}
			}
			return nil
		}
		for range 2 {
			if err := h.Resume(t.Context()); err != nil {
				t.Fatal(err)
			}
			for linkID, want := range map[string]int64{behind: 50, ahead: 60, unknown: -1} {
				if got := countOf(t, k, linkID); got != want {
					t.Errorf("a counter says %d, want %d", got, want)
				}
			}
		}
		ttl, err := k.PTTL(t.Context(), hitsKey(behind, thisMonth())).Result()
		if err != nil || ttl <= 0 {
			t.Errorf("a raised counter lives for %s: %v", ttl, err)
		}
	})
}

func TestResume_NeedsRedis(t *testing.T) {
	t.Parallel()
	k := dbtest.Redis(t, "")
	h := newHits(k, none)
	if err := k.Close(); err != nil {
		t.Fatal(err)
	}
	if err := h.Resume(t.Context()); err == nil {
		t.Error("a Redis that is away was resumed")
	}
	if err := h.Take(t.Context(), []*Request{requestFor(id.New(id.Link), 1, 1)}); err == nil {
		t.Error("hits were taken from a Redis that is away")
	}
}
