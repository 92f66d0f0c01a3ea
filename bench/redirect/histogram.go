package main

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

// histogram counts durations in slots that get wider as these get longer.
type histogram struct {
	counts [slots]uint32
	total  int64
	max    time.Duration
}

// add counts a duration.
func (h *histogram) add(d time.Duration) {
	h.counts[slot(uint64(max(d, 0)))]++
	h.total++
	h.max = max(h.max, d)
}

// merge adds what another has counted.
func (h *histogram) merge(other *histogram) {
	for i, n := range other.counts {
		h.counts[i] += n
	}
	h.total += other.total
	h.max = max(h.max, other.max)
}

// percentile is a duration that as large a part of all did not exceed, from 0 to 1; zero when there are none.
func (h *histogram) percentile(part float64) time.Duration {
	rest := int64(math.Ceil(part * float64(h.total)))
	for i, n := range h.counts {
		if rest -= int64(n); n > 0 && rest <= 0 {
			return min(last(i), h.max)
		}
	}
	return h.max
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
