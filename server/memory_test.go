package main

import (
	"runtime"
	"runtime/debug"
	"testing"

	"github.com/linkforge/linkforge/internal/config"
)

// TestMemoryLimit_LeavesRoom: with a million links followed in a month, a limit that did not
// follow had the collector run all the time.
func TestMemoryLimit_LeavesRoom(t *testing.T) {
	before := debug.SetMemoryLimit(-1)
	defer debug.SetMemoryLimit(before)
	c := config.Config{CacheBytes: 1 << 20}
	held := make([]*[1 << 10]byte, 256<<10)
	for i := range held {
		held[i] = new([1 << 10]byte)
	}
	runtime.GC()
	adjustMemoryLimit(c)
	if limit := debug.SetMemoryLimit(-1); limit < 384<<20 || limit > 600<<20 {
		t.Errorf("%d MiB are the limit for 256 MiB that are alive", limit>>20)
	}
	runtime.KeepAlive(held)
	held = nil
	runtime.GC()
	adjustMemoryLimit(c)
	if limit := debug.SetMemoryLimit(-1); limit != minMemory {
		t.Errorf("%d MiB are the limit when nothing is alive", limit>>20)
	}
}
