package hitquota

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/linkforge/linkforge/internal/dbtest"
	"github.com/linkforge/linkforge/internal/id"
	"github.com/linkforge/linkforge/internal/poll"
	"github.com/linkforge/linkforge/internal/redisx"
)

// thisMonth is the real one: Redis expires keys by its own clock.
func thisMonth() Month { return MonthOf(time.Now()) }

// none are the seeds of links without clicks.
func none(context.Context, Month, []string, bool) (map[string]int64, error) { return nil, nil }

// newHits makes the source of a process that begins with these seeds.
func newHits(k *redisx.Client, seeds func(context.Context, Month, []string, bool) (map[string]int64, error)) *Hits {
	return &Hits{KV: k, LogID: id.New(id.Log), Seeds: seeds, Now: time.Now}
}

// leaseNumbers numbers the leases of all tests, which is as good as one for each process.
var leaseNumbers atomic.Int64

// requestFor requests hits of a link in this month.
func requestFor(linkID string, want, limit int64) *Request {
	return &Request{LinkID: linkID, Month: thisMonth(), Want: want, Limit: limit, Number: leaseNumbers.Add(1)}
}

// lease is the granted lease with a number of used hits.
func (a *Request) lease(used int64) Lease {
	return Lease{LinkID: a.LinkID, Month: a.Month, Number: a.Number, Hits: a.Granted, Used: used}
}

// seededSource is a source that begins with the known usage.
type seededSource interface {
	Source
	Seeder
}

// grant takes the requested hits and seeds a missing counter first, as Leases do. It returns the
// number of granted hits.
func grant(t *testing.T, h seededSource, a *Request) int64 {
	t.Helper()
	for range seedRounds {
		a.Err = nil
		if err := h.Take(t.Context(), []*Request{a}); err != nil {
			t.Fatal(err)
		}
		if a.Err == nil {
			return a.Granted
		}
		if !errors.Is(a.Err, ErrLost) {
			t.Fatal(a.Err)
		}
		if err := h.Seed(t.Context(), []*Request{a}); err != nil {
			t.Fatal(err)
		}
		_ = poll.Wait(t.Context(), guardWait)
	}
	t.Fatal(a.Err)
	return 0
}

// countOf returns the value of a link's counter, and -1 if it does not exist.
func countOf(t *testing.T, k *redisx.Client, linkID string) int64 {
	t.Helper()
	if k.Exists(t.Context(), hitsKey(linkID, thisMonth())).Val() == 0 {
		return -1
	}
	n, err := k.Get(t.Context(), hitsKey(linkID, thisMonth())).Int64()
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// keysOf are all the keys of a link's.
func keysOf(t *testing.T, k *redisx.Client, linkID string) []string {
	t.Helper()
	server := k.Keys
	if cluster, ok := k.UniversalClient.(*redis.ClusterClient); ok { // else any node's are listed
		master, err := cluster.MasterForKey(t.Context(), hitsKey(linkID, thisMonth()))
		if err != nil {
			t.Fatal(err)
		}
		server = master.Keys
	}
	keys, err := server(t.Context(), "links:{"+linkID+"}:*").Result()
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

// flush takes a link's keys away, as a Redis that has lost everything would; the server is shared.
func flush(t *testing.T, k *redisx.Client, linkID string) {
	t.Helper()
	if keys := keysOf(t, k, linkID); len(keys) > 0 {
		if err := k.Del(t.Context(), keys...).Err(); err != nil {
			t.Error(err)
		}
	}
}

func TestRedis_GrantsUpToTheLimit(t *testing.T) {
	t.Parallel()
	dbtest.EachRedis(t, func(t *testing.T, k *redisx.Client) {
		for name, h := range map[string]seededSource{"Redis": newHits(k, none), "memory": &Memory{Seeds: none}} {
			linkID := id.New(id.Link)
			for i, c := range []struct{ want, limit, granted, left int64 }{
				{40, 100, 40, 60},
				{50, 100, 50, 10},
				{50, 100, 10, 0},  // what there is
				{1, 100, 0, 0},    // nothing
				{10, 50, 0, 0},    // the limit was lowered
				{30, 120, 20, 0},  // and raised: the refused ones are not held against it
				{30, 200, 30, 50}, // and raised again
			} {
				a := requestFor(linkID, c.want, c.limit)
				grant(t, h, a)
				if a.Granted != c.granted || a.Left != c.left {
					t.Errorf("%s, ask %d: %d granted and %d left, want %d and %d", name, i, a.Granted, a.Left,
						c.granted, c.left)
				}
			}
			if got := countOf(t, k, linkID); name == "Redis" && got != 150 {
				t.Errorf("the counter says %d, want the 150 that were granted", got)
			}
		}
	})
}

func TestRedis_CountersExpireADayAfterTheMonth(t *testing.T) {
	t.Parallel()
	dbtest.EachRedis(t, func(t *testing.T, k *redisx.Client) {
		h, linkID, month := newHits(k, none), id.New(id.Link), thisMonth()
		for range 3 {
			a := requestFor(linkID, 8, 20)
			grant(t, h, a)
			if err := h.Return(t.Context(), []Lease{a.lease(4)}); err != nil {
				t.Fatal(err)
			}
		}
		ttl, err := k.PTTL(t.Context(), hitsKey(linkID, month)).Result()
		if left := time.Until(month.End.Add(afterlife)); err != nil || ttl > left+2*time.Second ||
			ttl < left-time.Minute {
			t.Errorf("the counter lives for %s, want %s: %v", ttl, left, err)
		}
	})
}

// TestRedis_AcceptsALateRequestOfAMonth takes a hit of a month that has just ended: it arrived before.
func TestRedis_AcceptsALateRequestOfAMonth(t *testing.T) {
	t.Parallel()
	dbtest.EachRedis(t, func(t *testing.T, k *redisx.Client) {
		now := time.Now()
		a := requestFor(id.New(id.Link), 1, 1)
		a.Month = Month{Start: now.AddDate(0, -1, 0), End: now.Add(-time.Second)}
		if got := grant(t, newHits(k, none), a); got != 1 {
			t.Errorf("%d hits given, want 1", got)
		}
	})
}

func TestRedis_SeedsALostCounter(t *testing.T) {
	t.Parallel()
	dbtest.EachRedis(t, func(t *testing.T, k *redisx.Client) {
		var known int64
		var asked []string
		h := newHits(k, func(_ context.Context, m Month, linkIDs []string, known_ bool) (map[string]int64, error) {
			asked = append(asked, fmt.Sprint(m, linkIDs, known_))
			return map[string]int64{linkIDs[0]: known}, nil
		})
		linkID := id.New(id.Link)
		for round, want := range []int64{20, 20, 10, 0} {
			a := requestFor(linkID, 20, 50)
			a.Known = round > 0
			if got := grant(t, h, a); got != want {
				t.Errorf("round %d: %d hits given, want %d", round, got, want)
			}
			known += a.Granted
			flush(t, k, linkID)
		}
		question := fmt.Sprint(thisMonth(), []string{linkID})
		if diff := cmp.Diff([]string{question + " false", question + " true", question + " true", question + " true"},
			asked); diff != "" {
			t.Errorf("seeds (-want +got):\n%s", diff)
		}
	})
}

// TestRedis_SeedingLeavesNothingBehind: no guard, and no lease of hits that were not granted.
func TestRedis_SeedingLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	dbtest.EachRedis(t, func(t *testing.T, k *redisx.Client) {
		h, there, lost := newHits(k, none), id.New(id.Link), id.New(id.Link)
		grant(t, h, requestFor(there, 1, 10))
		requests := []*Request{requestFor(there, 1, 10), requestFor(lost, 1, 10)}
		if err := h.Take(t.Context(), requests); err != nil || requests[0].Err != nil ||
			!errors.Is(requests[1].Err, ErrLost) {
			t.Errorf("%v; got %v for the counter that is there and %v for the other", err, requests[0].Err, requests[1].Err)
		}
		if keys := keysOf(t, k, lost); len(keys) > 0 || requests[1].Granted != 0 {
			t.Errorf("%d hits granted, and %v left", requests[1].Granted, keys)
		}
	})
}

// TestRedis_IgnoresAStaleGuard, by a process that died or got no answer, does not keep the link from
// being followed.
func TestRedis_IgnoresAStaleGuard(t *testing.T) {
	t.Parallel()
	dbtest.EachRedis(t, func(t *testing.T, k *redisx.Client) {
		h, linkID := newHits(k, none), id.New(id.Link)
		if err := k.Set(t.Context(), hitsKey(linkID, thisMonth()), guard+1, guardTTL).Err(); err != nil {
			t.Fatal(err)
		}
		if got := grant(t, h, requestFor(linkID, 3, 10)); got != 3 || countOf(t, k, linkID) != 3 {
			t.Errorf("%d hits given and %d counted, want 3", got, countOf(t, k, linkID))
		}
	})
}

// TestRedis_FirstSeedWins: a seed that is older than an existing counter changes nothing.
func TestRedis_FirstSeedWins(t *testing.T) {
	t.Parallel()
	dbtest.EachRedis(t, func(t *testing.T, k *redisx.Client) {
		h, linkID := newHits(k, none), id.New(id.Link)
		grant(t, h, requestFor(linkID, 30, 50))
		if err := h.Seed(t.Context(), []*Request{requestFor(linkID, 1, 50)}); err != nil {
			t.Fatal(err)
		}
		if got := countOf(t, k, linkID); got != 30 {
			t.Errorf("the counter says %d, want 30", got)
		}
	})
}

// TestRedis_SurvivesLossUnderLoad takes everything away after every 25 hits while others are being
// taken. Were a vanished counter to start over, all 800 would be given.
func TestRedis_SurvivesLossUnderLoad(t *testing.T) {
	t.Parallel()
	dbtest.EachRedis(t, func(t *testing.T, k *redisx.Client) {
		var recorded atomic.Int64
		h, linkID := newHits(k, func(_ context.Context, _ Month, linkIDs []string, _ bool) (map[string]int64, error) {
			return map[string]int64{linkIDs[0]: recorded.Load()}, nil
		}), id.New(id.Link)
		const takers, each, limit, loss = 4, 200, 200, 25
		var taking sync.WaitGroup
		for range takers {
			taking.Go(func() {
				for range each {
					if grant(t, h, requestFor(linkID, 1, limit)) == 1 && recorded.Add(1)%loss == 0 {
						flush(t, k, linkID)
					}
				}
			})
		}
		taking.Wait()
		// At a loss the hits in flight are not known yet, and a slow seed may be older than one
		// more loss.
		if got := recorded.Load(); got < limit || got > limit+loss+takers {
			t.Errorf("%d hits given, want from %d to %d", got, limit, limit+loss+takers)
		}
		ttl, err := k.PTTL(t.Context(), hitsKey(linkID, thisMonth())).Result()
		if err != nil || ttl == -1 {
			t.Errorf("a counter without an expiry: %s, %v", ttl, err)
		}
	})
}

func TestRedis_FailingSeedGrantsNothing(t *testing.T) {
	t.Parallel()
	dbtest.EachRedis(t, func(t *testing.T, k *redisx.Client) {
		broken := errors.New("the database is away")
		h := newHits(k, func(context.Context, Month, []string, bool) (map[string]int64, error) { return nil, broken })
		linkID := id.New(id.Link)
		if err := h.Seed(t.Context(), []*Request{requestFor(linkID, 1, 50)}); !errors.Is(err, broken) {
			t.Errorf("seeding: %v, want %v", err, broken)
		}
		if got := countOf(t, k, linkID); got != -1 {
			t.Errorf("a counter of %d was made without knowing what to start from", got)
		}
	})
}
