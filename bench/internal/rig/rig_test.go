package rig

import (
	"errors"
	"testing"
	"time"
)

func TestSpread_OfMeasurements(t *testing.T) {
	t.Parallel()
	if got := Median([]float64{3, 1, 2, 10}, Same); got != 2.5 {
		t.Errorf("median is %v, want 2.5", got)
	}
	if got := Spread([]float64{3, 1, 2}, "%.0f", Same); got != "2 (1–3)" {
		t.Errorf("spread is %q", got)
	}
	if got := Percentile([]time.Duration{5, 1, 4, 2, 3}, 0.5); got != 3 {
		t.Errorf("percentile is %v, want 3", got)
	}
}

func TestParallel_ReturnsEachFailure(t *testing.T) {
	t.Parallel()
	one, other := errors.New("one"), errors.New("other")
	err := Try(func() { Parallel(func() { Check(one) }, func() { Must(0, other) }, func() {}) })
	if !errors.Is(err, one) || !errors.Is(err, other) {
		t.Errorf("failure is %v", err)
	}
}

func TestParseOutcome_ReadsWrk(t *testing.T) {
	t.Parallel()
	got, err := parseOutcome("Running 1s test\noutcome 12 10 2 300 77 1.500000 250 900 0\n404 not found")
	want := Outcome{
		Sent: 12, Right: 10, Wrong: 2, Bytes: 300, Next: 77, Took: 1500 * time.Millisecond,
		P50: 250 * time.Microsecond, P99: 900 * time.Microsecond, Sample: "404 not found",
	}
	if err != nil || got != want {
		t.Errorf("outcome is %+v, %v; want %+v", got, err, want)
	}
	if _, err := parseOutcome("outcome 1 1 0 0 0 1.0 1 1 3\n"); err == nil {
		t.Error("broken connections are no error")
	}
}
