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
	// leastMemory is what the process may take however small the cache is: from there on the collector
	// runs more often again.
	leastMemory = 192 << 20
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

// cacheBytes is how much links in memory may weigh: half of what is configured, as the other half
// is garbage that has not been collected yet.
func cacheBytes(c config.Config) int64 { return c.CacheBytes / 2 }

// memoryLimit is what the collector keeps the process to: what is configured or, when more than
// that is alive, half as much again. At a limit that what is alive leaves no room below, it would
// never rest.
func memoryLimit(c config.Config, alive int64) int64 {
	return max(leastMemory, c.CacheBytes, alive+alive/2)
}

// limitEvery is how often the limit follows what is alive.
const limitEvery = time.Second

// followMemory has the limit follow what is alive: beside the cache, that is what is known of every
// link that is followed in a month.
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
