package main

import (
	"os"
	"runtime/debug"

	"github.com/linkforge/linkforge/internal/config"
)

const (
	// gcPercent has the garbage collector run a quarter as often as it would by itself: at the default, a third of the time that
	// a small heap under load takes went to it (docs/PERFORMANCE.md).
	gcPercent = 400
	// besideCache is what the process takes beside the cache, leastMemory what it may take however small that is: from there on
	// the collector runs more often again.
	besideCache = 48 << 20
	leastMemory = 192 << 20
)

// tuneMemory trades memory for time, unless the operator has said how by GOGC and GOMEMLIMIT. It returns how much links in
// memory may weigh: half of what is configured, as the other half is garbage that has not been collected yet.
func tuneMemory(c config.Config) (cacheBytes int64) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(max(leastMemory, c.CacheBytes+besideCache))
	}
	return c.CacheBytes / 2
}
