package rig

import (
	"testing"
	"time"
)

func TestFigures(t *testing.T) {
	t.Parallel()
	same := func(f float64) float64 { return f }
	if got := Median([]float64{3, 1, 2, 10}, same); got != 2.5 {
		t.Errorf("median is %v, want 2.5", got)
	}
	if got := Spread([]float64{3, 1, 2}, "%.0f", same); got != "2 (1–3)" {
		t.Errorf("spread is %q", got)
	}
	if got := Percentile([]time.Duration{5, 1, 4, 2, 3}, 0.5); got != 3 {
		t.Errorf("percentile is %v, want 3", got)
	}
}

func TestParseStat(t *testing.T) {
	t.Parallel()
	got, err := parseStat("7 (a (b) c) S 3 7 7 0 -1 4194560 1 0 0 0 100 20 3 4 20 0 1 0")
	want := stat{name: "a (b) c", parent: 3, used: 127 * tick}
	if err != nil || got != want {
		t.Errorf("stat is %+v, %v; want %+v", got, err, want)
	}
	if _, err := parseStat("7 (short) S 3"); err == nil {
		t.Error("a line that is too short has no error")
	}
}

func TestParseMachine(t *testing.T) {
	t.Parallel()
	got, err := parseMachine("cpu  1 2 3 1000 1000 4 5 6 7\ncpu0 1\n")
	if err != nil || got != 21*tick {
		t.Errorf("CPU time is %v, %v; want %v", got, err, 21*tick)
	}
}

func TestParseOutcome(t *testing.T) {
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
