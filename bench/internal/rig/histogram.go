package rig

import (
	"math"
	"math/bits"
	"time"
)

const (
	// precision is how many bits of a duration a histogram keeps: its figures are at most 3 % too high.
	precision = 6
	half      = 1 << (precision - 1)
	slots     = (64-precision)*half + 1<<precision
)

// Histogram counts durations in slots that get wider as these get longer.
type Histogram struct {
	// Total is how many there are, Max the longest.
	Total int64
	Max   time.Duration

	counts [slots]uint32
}

// Add counts a duration.
func (h *Histogram) Add(d time.Duration) {
	h.counts[slot(uint64(max(d, 0)))]++
	h.Total++
	h.Max = max(h.Max, d)
}

// Merge adds what another has counted.
func (h *Histogram) Merge(other *Histogram) {
	for i, n := range other.counts {
		h.counts[i] += n
	}
	h.Total += other.Total
	h.Max = max(h.Max, other.Max)
}

// Percentile is a duration that as large a part of all did not exceed, from 0 to 1; zero when there are none.
func (h *Histogram) Percentile(part float64) time.Duration {
	rest := int64(math.Ceil(part * float64(h.Total)))
	for i, n := range h.counts {
		if rest -= int64(n); n > 0 && rest <= 0 {
			return min(last(i), h.Max)
		}
	}
	return h.Max
}

// slot is where a number of nanoseconds is counted.
func slot(n uint64) int {
	shift := max(bits.Len64(n)-precision, 0)
	return shift*half + int(n>>shift)
}

// last is the longest duration of a slot.
func last(slot int) time.Duration {
	shift := max(slot/half-1, 0)
	return time.Duration((uint64(slot-shift*half)+1)<<shift - 1)
}
