package rig

import (
	"cmp"
	"fmt"
	"math/bits"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"
)

// Median is the mean of the two middle values for an even number, and zero for none.
func Median[T any](all []T, of func(T) float64) float64 {
	if len(all) == 0 {
		return 0
	}
	sorted := slices.SortedFunc(slices.Values(all), func(a, b T) int { return cmp.Compare(of(a), of(b)) })
	return (of(sorted[(len(all)-1)/2]) + of(sorted[len(all)/2])) / 2
}

// Spread formats the median, with the minimum and maximum.
func Spread[T any](all []T, format string, of func(T) float64) string {
	if len(all) == 0 {
		return ""
	}
	values := make([]float64, len(all))
	for i, one := range all {
		values[i] = of(one)
	}
	if len(all) == 1 {
		return fmt.Sprintf(format, values[0])
	}
	return fmt.Sprintf(format+" ("+format+"–"+format+")", Median(all, of), slices.Min(values), slices.Max(values))
}

// Same is the identity, for Median and Spread.
func Same(f float64) float64 { return f }

// Percentile returns the value that the part of all, from 0 to 1, does not exceed. It sorts them.
func Percentile(all []time.Duration, part float64) time.Duration {
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return all[min(int(part*float64(len(all))), len(all)-1)]
}

// Micros is a duration in microseconds.
func Micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// Millis is a duration in milliseconds.
func Millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// Machine names the processor and the number of cores.
func Machine() string {
	name := runtime.GOARCH
	text, _ := os.ReadFile("/proc/cpuinfo")
	if _, rest, ok := strings.Cut(string(text), "model name"); ok {
		line, _, _ := strings.Cut(rest, "\n")
		name = strings.Trim(line, "\t :")
	}
	return fmt.Sprintf("%s, %d cores, %s", name, runtime.NumCPU(), runtime.Version())
}

// Table prints a table in Markdown. The first row is its head.
func Table(rows ...[]string) {
	fmt.Println()
	for i, row := range rows {
		fmt.Printf("| %s |\n", strings.Join(row, " | "))
		if i == 0 {
			fmt.Println("|" + strings.Repeat("---|", len(row)))
		}
	}
	fmt.Println()
}

// Promise prints an assertion of a drill with the measured values. The run fails if it is broken.
func (r *Run) Promise(what string, kept bool, found string, args ...any) {
	found = fmt.Sprintf(found, args...)
	verdict := "kept"
	if !kept {
		verdict = "BROKEN"
		r.Wrongf("broken: %s (%s)", what, found)
	}
	fmt.Printf("- %s: %s (%s)\n", what, verdict, found)
}

// ReportWarnings prints how many warnings servers logged, and the first one.
func ReportWarnings(all ...*Process) {
	for _, p := range all {
		if lines := p.Warnings(); len(lines) > 0 {
			fmt.Printf("- %s logged %d warnings, the first `%.300s`\n", p.Name, len(lines), lines[0])
		}
	}
}

// ReportMachine prints what else used the machine.
func (r *Run) ReportMachine() {
	fmt.Printf("- wrk used %s µs a request, on %d of the machine's %d cores. Other processes used %s cores.\n",
		Spread(r.Generator, "%.1f", Same), generatorThreads(), runtime.NumCPU(), Spread(r.Others, "%.1f", Same))
	if len(r.ServicePIDs) < 2 {
		fmt.Println("- PostgreSQL or Redis is on another machine: its CPU time is not included.")
	}
}

// Skew is the exponent of the Zipf distribution of visits. Among a million links, one visit in
// eight is of the most popular link.
const Skew = 1.1

const (
	alphabet = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
	codes    = 430_804_206_899_405_824 // 58^10
	// codeStride is coprime to codes: its multiples reach each code once.
	codeStride = 266_251_642_360_274_785
)

// Code returns the code of a link by its number: ten digits of Base58, as generated codes have.
func Code(number int) string {
	high, low := bits.Mul64(uint64(number)+1, codeStride)
	_, n := bits.Div64(high, low, codes)
	var c [10]byte
	for i := range c {
		c[i] = alphabet[n%58]
		n /= 58
	}
	return string(c[:])
}

// URLOf returns the destination of a link by its number, in canonical form.
func URLOf(number int) string {
	return fmt.Sprintf("https://www.example.com/articles/%d/a-title-of-some-words?n=%d", number%997, number)
}
