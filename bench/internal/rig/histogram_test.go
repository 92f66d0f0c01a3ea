package rig

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

func TestSlotsFollowEachOther(t *testing.T) {
	t.Parallel()
	for i := range slots - 1 {
		if end := last(i); slot(uint64(end)) != i || slot(uint64(end)+1) != i+1 {
			t.Fatalf("slot %d ends with %d, which is in %d, and the next is in %d", i, end, slot(uint64(end)), slot(uint64(end)+1))
		}
		if last(i+1) > 1<<62 {
			break // longer than a duration
		}
	}
}

func TestPercentiles(t *testing.T) {
	t.Parallel()
	var one, other Histogram
	var all []time.Duration
	random := rand.New(rand.NewPCG(1, 1))
	for i := range 10_001 {
		d := time.Duration(random.ExpFloat64() * float64(time.Millisecond))
		all = append(all, d)
		if i%3 == 0 {
			one.Add(d)
		} else {
			other.Add(d)
		}
	}
	one.Merge(&other)
	slices.Sort(all)
	for _, part := range []float64{0.001, 0.5, 0.9, 0.99, 1} {
		want := all[int(part*10_001+0.999999)-1]
		if got := one.Percentile(part); got < want || float64(got) > float64(want)*1.04+1 {
			t.Errorf("percentile %g is %s, want %s or at most 3 %% more", part, got, want)
		}
	}
	if one.Max != all[len(all)-1] || one.Total != 10_001 {
		t.Errorf("the longest of %d is %s, want %s", one.Total, one.Max, all[len(all)-1])
	}
}

func TestPercentilesOfFew(t *testing.T) {
	t.Parallel()
	var h Histogram
	if got := h.Percentile(0.99); got != 0 {
		t.Errorf("a percentile of nothing is %s", got)
	}
	h.Add(-time.Second) // a clock may be set back
	h.Add(time.Hour)
	if h.Percentile(0.5) != 0 || h.Percentile(0.99) != time.Hour {
		t.Errorf("percentiles are %s and %s, want 0 and 1h", h.Percentile(0.5), h.Percentile(0.99))
	}
}
