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

// Spread formats the median, with the minimum and maximum.
func Spread[T any](all []T, format string, of func(T) float64) string {
	switch len(all) {
	case 0:
		return ""
	case 1:
		return fmt.Sprintf(format, of(all[0]))
	}
	least, most := slices.MinFunc(all, by(of)), slices.MaxFunc(all, by(of))
	return fmt.Sprintf(format+" ("+format+"–"+format+")", Median(all, of), of(least), of(most))
}

func by[T any](of func(T) float64) func(a, b T) int {
	return func(a, b T) int { return cmp.Compare(of(a), of(b)) }
}

// Median is the mean of the two in the middle for an even number, and zero for none.
func Median[T any](all []T, of func(T) float64) float64 {
	if len(all) == 0 {
		return 0
	}
	sorted := slices.SortedFunc(slices.Values(all), by(of))
	return (of(sorted[(len(all)-1)/2]) + of(sorted[len(all)/2])) / 2
}

// Percentile returns the value that the part of all, from 0 to 1, does not exceed. It sorts them.
func Percentile(all []time.Duration, part float64) time.Duration {
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return all[min(int(part*float64(len(all))), len(all)-1)]
}

// Machine names the processor and the number of cores.
func Machine() string {
	name := runtime.GOARCH
	text, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "model name"); ok {
			name = strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(rest), ":"))
			break
		}
	}
	return fmt.Sprintf("%s, %d cores, %s", name, runtime.NumCPU(), runtime.Version())
}

// Micros is a duration in microseconds.
func Micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// Millis is a duration in milliseconds.
func Millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// Table prints a table in Markdown, the first row of which is its head.
func Table(w io.Writer, rows ...[]string) {
	fmt.Fprintln(w)
	for i, row := range rows {
		fmt.Fprintf(w, "| %s |\n", strings.Join(row, " | "))
		if i == 0 {
			fmt.Fprintln(w, "|"+strings.Repeat("---|", len(row)))
		}
	}
}

// Promise is something that must hold, and what was found.
type Promise struct {
	What, Found string
	Kept        bool
}

// Promises are those of a drill.
type Promises []Promise

// Add adds a promise.
func (all *Promises) Add(what string, kept bool, found string, args ...any) {
	*all = append(*all, Promise{what, fmt.Sprintf(found, args...), kept})
}

// Report prints the promises, a line each.
func (all Promises) Report(w io.Writer) {
	for _, p := range all {
		verdict := "kept"
		if !p.Kept {
			verdict = "BROKEN"
		}
		fmt.Fprintf(w, "- %s: %s (%s)\n", p.What, verdict, p.Found)
	}
}

// Broken is an error when a promise was broken.
func (all Promises) Broken() error {
	broken := 0
	for _, p := range all {
		if !p.Kept {
			broken++
		}
	}
	if broken > 0 {
		return fmt.Errorf("%d promises were broken", broken)
	}
	return nil
}
