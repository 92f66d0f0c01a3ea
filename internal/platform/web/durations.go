package web

import (
	"sync"
	"time"
)

// steps are the upper bounds of the histogram's buckets: from a response out of memory to the
// deadline of an operation.
var steps = [...]time.Duration{
	time.Millisecond, 2500 * time.Microsecond, 5 * time.Millisecond, 10 * time.Millisecond, 25 * time.Millisecond,
	50 * time.Millisecond,
	100 * time.Millisecond, 250 * time.Millisecond, 500 * time.Millisecond, time.Second, 2500 * time.Millisecond,
	5 * time.Second, 15 * time.Second,
}

// Durations counts how long things took. The zero value has counted nothing.
type Durations struct {
	mu     sync.Mutex
	spread Spread
}

// Spread is what Durations have counted at one moment.
type Spread struct {
	// Count is how many there were, Sum how long they took together.
	Count uint64
	Sum   time.Duration
	// within counts durations per bucket: at most its bound, and above the bound before.
	within [len(steps)]uint64
}

// Add counts one.
func (d *Durations) Add(took time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.spread.Count++
	d.spread.Sum += took
	for i, step := range steps {
		if took <= step {
			d.spread.within[i]++
			return
		}
	}
}

// Spread returns the counts so far.
func (d *Durations) Spread() Spread {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.spread
}

// UpTo returns the cumulative counts by the upper bound in seconds.
func (s *Spread) UpTo() map[float64]uint64 {
	all, sum := make(map[float64]uint64, len(steps)), uint64(0)
	for i, step := range steps {
		sum += s.within[i]
		all[step.Seconds()] = sum
	}
	return all
}
