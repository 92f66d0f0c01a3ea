package rig

import "testing"

func same(f float64) float64 { return f }

func TestMedianAndSpread(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		all    []float64
		median float64
		spread string
	}{
		{nil, 0, ""},
		{[]float64{3}, 3, "3.0"},
		{[]float64{9, 1}, 5, "5.0 (1.0–9.0)"},
		{[]float64{9, 1, 2}, 2, "2.0 (1.0–9.0)"},
	} {
		if got := Median(c.all, same); got != c.median {
			t.Errorf("the median of %v is %g, want %g", c.all, got, c.median)
		}
		if got := Spread(c.all, "%.1f", same); got != c.spread {
			t.Errorf("the spread of %v is %q, want %q", c.all, got, c.spread)
		}
	}
}
