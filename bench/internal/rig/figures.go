package rig

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"
)

// Spread is the median of something, and between what it was.
func Spread[T any](all []T, format string, of func(T) float64) string {
	if len(all) == 0 {
		return ""
	}
	if len(all) == 1 {
		return fmt.Sprintf(format, of(all[0]))
	}
	least, most := slices.MinFunc(all, by(of)), slices.MaxFunc(all, by(of))
	return fmt.Sprintf(format+" ("+format+"–"+format+")", Median(all, of), of(least), of(most))
}

func by[T any](of func(T) float64) func(a, b T) int {
	return func(a, b T) int { return cmp.Compare(of(a), of(b)) }
}

// Median is the one in the middle, or between the two in the middle; zero of nothing.
func Median[T any](all []T, of func(T) float64) float64 {
	if len(all) == 0 {
		return 0
	}
	sorted := slices.SortedFunc(slices.Values(all), by(of))
	return (of(sorted[(len(all)-1)/2]) + of(sorted[len(all)/2])) / 2
}

// Processor is the name of the machine's.
func Processor() string {
	text, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(text)) {
		if name, ok := strings.CutPrefix(line, "model name"); ok {
			return strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(name), ":"))
		}
	}
	return runtime.GOARCH
}

// Micros is a duration in microseconds.
func Micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// Millis is a duration in milliseconds.
func Millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// Teller says where the run is, and when.
func Teller(w io.Writer) func(format string, args ...any) {
	began := time.Now()
	return func(format string, args ...any) {
		fmt.Fprintf(w, "%6.1f s  %s\n", time.Since(began).Seconds(), fmt.Sprintf(format, args...))
	}
}
