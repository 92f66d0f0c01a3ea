package redisx_test

import (
	"context"
	"testing"

	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/must"
)

// TestEvicts_ReadsPolicy: without maxmemory, the policy has no effect on other tests.
func TestEvicts_ReadsPolicy(t *testing.T) {
	t.Parallel()
	if evicts, err := dbtest.Redis(t, "").Evicts(t.Context()); evicts || err != nil {
		t.Errorf("in-process: %v, %v", evicts, err)
	}
	t.Run("redis", func(t *testing.T) {
		k := dbtest.Redis(t, dbtest.ServerURL(t, dbtest.RedisURL))
		t.Cleanup(func() {
			must.NoError(t, k.ConfigSet(context.WithoutCancel(t.Context()), "maxmemory-policy", "noeviction").Err())
		})
		for policy, want := range map[string]bool{"noeviction": false, "allkeys-lru": true, "volatile-ttl": true} {
			must.NoError(t, k.ConfigSet(t.Context(), "maxmemory-policy", policy).Err())
			if evicts, err := k.Evicts(t.Context()); evicts != want || err != nil {
				t.Errorf("%s: %v, %v", policy, evicts, err)
			}
		}
	})
	t.Run("cluster", func(t *testing.T) {
		if evicts, err := dbtest.Redis(t, dbtest.ClusterURL(t)).Evicts(t.Context()); evicts || err != nil {
			t.Errorf("%v, %v", evicts, err)
		}
	})
}
