package main

import (
	"context"
	"math"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"github.com/KimMachineGun/automemlimit/memlimit"

	"github.com/linkforge/linkforge/internal/platform/config"
	"github.com/linkforge/linkforge/internal/platform/poll"
)

const (
	// gcPercent has the garbage collector run a quarter as often as it would by itself: at the
	// default, a third of the time that a small heap under load takes went to it
	// (docs/decisions/0011-garbage-collector.md).
	gcPercent = 400
	// minMemory is the lower bound of the memory limit for small caches. Below it, garbage collection
	// would run too often.
	minMemory = 192 << 20
	// maxSQLite is more than SQLite's default caches.
	maxSQLite = 128 << 20
)

// memory has the limits of the process, in bytes.
type memory struct {
	cache   int64 // for cached links and their garbage
	sqlite  int64 // for SQLite's page caches, which the collector does not manage; 0 means the default
	ceiling int64 // of the collector's limit
}

// memoryOf divides the memory of the container; 0 means no limit. A quarter of it is
// for the program file and the kernel's buffers; of an embedded instance, another quarter for SQLite,
// up to maxSQLite. The rest is the collector's ceiling. The configured cache gets half of that at
// most.
func memoryOf(c config.Config, container int64) memory {
	if container == 0 {
		return memory{cache: c.CacheBytes, ceiling: math.MaxInt64}
	}
	m := memory{ceiling: container - container/4}
	if c.Embedded() {
		m.sqlite = min(container/4, maxSQLite)
		m.ceiling -= m.sqlite
	}
	m.cache = min(c.CacheBytes, m.ceiling/2)
	return m
}

// containerMemory returns the memory limit of the process's control group, or 0 if there is none.
func containerMemory() int64 {
	limit, err := memlimit.FromCgroup()
	if err != nil || limit > math.MaxInt64 { // not on Linux, or without a limit
		return 0
	}
	return int64(limit)
}

// tune trades memory for time, unless the operator has said how by GOGC and GOMEMLIMIT.
func (m memory) tune() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(m.limit(0))
	}
}

// cachedLinks bounds cached links: half of the cache, because the other half is garbage that has not
// been collected yet.
func (m memory) cachedLinks() int64 { return m.cache / 2 }

// limit returns the limit of the garbage collector: the size of the cache or, if the live heap is
// larger, one and a half times the live heap, but never more than the ceiling. A limit without space
// above the live heap would keep the collector running permanently.
func (m memory) limit(alive int64) int64 {
	return min(m.ceiling, max(minMemory, m.cache, alive+alive/2))
}

// limitEvery is the interval at which the limit follows the live heap.
const limitEvery = time.Second

// follow adapts the limit to the live heap. Beside the cache, the heap has the state of every link that
// visitors have followed this month.
func (m memory) follow(ctx context.Context) error {
	if os.Getenv("GOMEMLIMIT") != "" {
		return nil
	}
	for poll.Wait(ctx, limitEvery) == nil {
		m.adjust()
	}
	return nil
}

func (m memory) adjust() {
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)
	limit, now := m.limit(int64(sample[0].Value.Uint64())), debug.SetMemoryLimit(-1)
	if difference := limit - now; max(difference, -difference) > now/16 { // to move it stops the world
		debug.SetMemoryLimit(limit)
	}
}
