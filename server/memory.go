package main

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"github.com/linkforge/linkforge/internal/config"
	"github.com/linkforge/linkforge/internal/poll"
)

const (
	// gcPercent has the garbage collector run a quarter as often as it would by itself: at the
	// default, a third of the time that a small heap under load takes went to it
	// (docs/decisions/0011-garbage-collector.md).
	gcPercent = 400
	// minMemory is the lower bound of the memory limit for small caches. Below it, garbage collection
	// would run too often.
	minMemory = 192 << 20
)

// tuneMemory trades memory for time, unless the operator has said how by GOGC and GOMEMLIMIT.
func tuneMemory(c config.Config) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(memoryLimit(c, 0))
	}
}

// cacheBytes bounds cached links: half of the setting, because the other half is garbage that has
// not been collected yet.
func cacheBytes(c config.Config) int64 { return c.CacheBytes / 2 }

// memoryLimit returns the limit of the garbage collector: the configured one or, if the live heap
// is larger, one and a half times the live heap. A limit without space above the live heap would
// keep the collector running permanently.
func memoryLimit(c config.Config, alive int64) int64 {
	return max(minMemory, c.CacheBytes, alive+alive/2)
}

// limitEvery is the interval at which the limit follows the live heap.
const limitEvery = time.Second

// followMemory adapts the limit to the live heap, which beside the cache contains the state of
// every link that was followed this month.
func followMemory(ctx context.Context, c config.Config) error {
	if os.Getenv("GOMEMLIMIT") != "" {
		return nil
	}
	for poll.Wait(ctx, limitEvery) == nil {
		adjustMemoryLimit(c)
	}
	return nil
}

func adjustMemoryLimit(c config.Config) {
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)
	limit, now := memoryLimit(c, int64(sample[0].Value.Uint64())), debug.SetMemoryLimit(-1)
	if difference := limit - now; max(difference, -difference) > now/16 { // to move it stops the world
		debug.SetMemoryLimit(limit)
	}
}
