package redisx_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/id"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/poll/polltest"
	"github.com/linkforge/linkforge/internal/platform/redisx"
)

// TestClose_LeavesNothingBehind counts goroutines, and so runs before every test that is parallel.
func TestClose_LeavesNothingBehind(t *testing.T) {
	before := runtime.NumGoroutine()
	for range 3 {
		k := must.Value(redisx.Open("", 5))(t)
		must.NoError(t, k.Ready(t.Context()))
		must.NoError(t, k.Close())
	}
	polltest.Until(t, fmt.Sprintf("there are %d goroutines, as before", before), func() bool {
		return runtime.NumGoroutine() <= before
	})
}

func TestClose_TwiceIsHarmless(t *testing.T) {
	t.Parallel()
	dbtest.EachRedis(t, func(t *testing.T, k *redisx.Client) {
		must.NoError(t, k.Close())
		_ = k.Close() // go-redis says that it has been closed, which is true
		if err := k.Ready(t.Context()); err == nil {
			t.Error("ready after it was closed")
		}
	})
}

func TestReady_ReportsOutage(t *testing.T) {
	t.Parallel()
	dbtest.EachRedis(t, func(t *testing.T, k *redisx.Client) {
		must.NoError(t, k.Ready(t.Context()))
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		if err := k.Ready(gone); err == nil {
			t.Error("ready for a caller who has gone")
		}
	})
	away := dbtest.Redis(t, "redis://127.0.0.1:1")
	if err := away.Ready(t.Context()); err == nil {
		t.Error("ready without a server")
	}
}

// TestReady_NeedsTheWholeCluster: a cluster is not ready while a master without a replica is down,
// nor while no node serves one of the slots.
func TestReady_NeedsTheWholeCluster(t *testing.T) {
	t.Parallel()
	t.Run("every slot", func(t *testing.T) {
		t.Parallel()
		c := dbtest.NewCluster(t, 3, 0, 500*time.Millisecond)
		k := dbtest.Redis(t, c.URL)
		must.NoError(t, k.Ready(t.Context()))
		must.NoError(t, k.UniversalClient.(*redis.ClusterClient).ForEachMaster(t.Context(),
			func(ctx context.Context, master *redis.Client) error { return master.ClusterDelSlots(ctx, 1).Err() }))
		polltest.Until(t, "a slot without a node is reported", func() bool {
			return strings.Contains(fmt.Sprint(k.Ready(t.Context())), "slots that no node serves")
		})
	})
	t.Run("every master", func(t *testing.T) {
		t.Parallel()
		c := dbtest.NewCluster(t, 3, 0, 500*time.Millisecond)
		k := dbtest.Redis(t, c.URL)
		must.NoError(t, k.Ready(t.Context()))
		c.KillMaster(t, "key")
		if err := k.Ready(t.Context()); err == nil {
			t.Error("ready without a master")
		}
	})
}

func TestInProcess_KeysExpire(t *testing.T) {
	t.Parallel()
	dbtest.EachRedis(t, func(t *testing.T, k *redisx.Client) {
		brief, lasting, made := id.New(id.Log), id.New(id.Log), time.Now()
		for key, ttl := range map[string]time.Duration{brief: time.Second, lasting: time.Minute} {
			must.NoError(t, k.Set(t.Context(), key, 1, ttl).Err())
		}
		t.Cleanup(func() { k.Del(context.Background(), brief, lasting) })
		polltest.Until(t, "the key of one second has gone",
			func() bool { return k.Exists(t.Context(), brief).Val() == 0 })
		ttl, err := k.PTTL(t.Context(), lasting).Result()
		if left := time.Minute - time.Since(made); err != nil || ttl < left-3*time.Second || ttl > time.Minute {
			t.Errorf("a key of one minute has %s left, want about %s: %v", ttl, left, err)
		}
	})
}

func TestClient_RespectsDeadlines(t *testing.T) {
	t.Parallel()
	dbtest.EachRedis(t, func(t *testing.T, k *redisx.Client) {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		began := time.Now()
		err := k.BLPop(ctx, 30*time.Second, id.New(id.Log)).Err() // the list stays empty
		if err == nil || time.Since(began) > 10*time.Second {
			t.Errorf("returned after %s: %v", time.Since(began), err)
		}
		must.NoError(t, k.Ready(t.Context())) // the client afterwards
	})
}

func TestInProcess_HasAPassword(t *testing.T) {
	t.Parallel()
	k := dbtest.Redis(t, "")
	address := k.UniversalClient.(*redis.Client).Options().Addr
	if !strings.HasPrefix(address, "127.0.0.1:") {
		t.Errorf("it listens on %s", address)
	}
	for _, user := range []string{"", ":guess@"} {
		stranger := dbtest.Redis(t, "redis://"+user+address)
		if err := stranger.Set(t.Context(), "key", 1, 0).Err(); err == nil {
			t.Errorf("redis://%s%s may write", user, address)
		}
	}
}
