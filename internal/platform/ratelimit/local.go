package ratelimit

import (
	"time"

	"github.com/maypok86/otter/v2"

	"github.com/linkforge/linkforge/internal/platform/memo"
)

// maxLocal bounds the memory of counters; frequent subjects stay.
const maxLocal = 100_000

// local counts attempts in the memory of the node.
type local struct {
	now     func() time.Time
	windows memo.Cache[string, window]
}

// window counts the attempts of a subject until it ends.
type window struct {
	count int64
	until time.Time
}

func newLocal(now func() time.Time) *local {
	return &local{now, memo.New(&otter.Options[string, window]{MaximumSize: maxLocal})}
}

// add adds delta to the counter of a key, and returns its value and its remaining lifetime. An
// attempt of a window that has ended may be refunded: no counter is negative.
func (l *local) add(key string, delta int64, lifetime time.Duration) (count int64, left time.Duration) {
	now := l.now()
	w, _ := l.windows.Compute(key, func(w window, found bool) (window, otter.ComputeOp) {
		if !found || !now.Before(w.until) {
			w = window{until: now.Add(lifetime)}
		}
		w.count = max(0, w.count+delta)
		return w, otter.WriteOp
	})
	return w.count, w.until.Sub(now)
}

// extend sets a later end of a window.
func (l *local) extend(key string, left time.Duration) {
	until := l.now().Add(left)
	l.windows.Compute(key, func(w window, found bool) (window, otter.ComputeOp) {
		w.until = until
		return w, otter.WriteOp
	})
}
