package main

import (
	"runtime"
	"runtime/debug"
	"testing"

	"github.com/linkforge/linkforge/internal/platform/config"
)

// TestMemoryLimit_LeavesRoom: with a million links followed in a month, a limit that did not
// follow had the collector run all the time.
func TestMemoryLimit_LeavesRoom(t *testing.T) {
	before := debug.SetMemoryLimit(-1)
	defer debug.SetMemoryLimit(before)
	m := memoryOf(config.Config{CacheBytes: 1 << 20}, 0)
	held := make([]*[1 << 10]byte, 256<<10)
	for i := range held {
		held[i] = new([1 << 10]byte)
	}
	runtime.GC()
	m.adjust()
	if limit := debug.SetMemoryLimit(-1); limit < 384<<20 || limit > 600<<20 {
		t.Errorf("%d MiB are the limit for 256 MiB that are alive", limit>>20)
	}
	runtime.KeepAlive(held)
	held = nil
	runtime.GC()
	m.adjust()
	same(t, "the limit when nothing is alive", debug.SetMemoryLimit(-1), minMemory)
}

// TestMemoryLimit_RespectsContainer: the collector's limit stays below the container's, however much
// is alive, and the cache shrinks with it.
func TestMemoryLimit_RespectsContainer(t *testing.T) {
	t.Parallel()
	c := config.Config{CacheBytes: 256 << 20}
	for name, tc := range map[string]struct{ container, alive, cached, limit int64 }{
		"no container":             {0, 0, 128 << 20, 256 << 20},
		"no container, large heap": {0, 1 << 30, 128 << 20, 3 << 29},
		"small container":          {160 << 20, 0, 20 << 20, 80 << 20},
		"small, large heap":        {160 << 20, 1 << 30, 20 << 20, 80 << 20},
		"large container":          {8 << 30, 0, 128 << 20, 256 << 20},
		"large, large heap":        {8 << 30, 7 << 30, 128 << 20, 6<<30 - 128<<20},
	} {
		m := memoryOf(c, tc.container)
		same(t, name+": links", m.cachedLinks(), tc.cached)
		same(t, name+": the limit", m.limit(tc.alive), tc.limit)
	}
}
