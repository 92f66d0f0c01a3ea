package main

import (
	"fmt"
	"io"

	"github.com/linkforge/linkforge/bench/internal/rig"
)

// The goals: how many times what the bare handler and its SQL cost together a query may cost, and
// how much of the bare mutation's rate a creation is to reach.
const (
	costGoal = 1.3
	rateGoal = 0.6
)

// report prints everything, in Markdown.
func (b *bench) report(w io.Writer) {
	fmt.Fprintf(w, "%d connections, %d rounds of %s, %s. Medians, with the least and the most.\n", b.connections, b.rounds,
		b.burst, rig.Machine())
	for _, o := range b.operations {
		rows := [][]string{{o.title, "requests/s", "CPU µs", "of which PostgreSQL + Redis", "p50 ms", "p99 ms", "bytes"}}
		targets := append(append([]*target{b.bare}, b.boundsOf(o)...), b.ours)
		if _, ok := b.scripts[o.name]; ok {
			targets = append(targets, b.sql)
		}
		for _, t := range targets {
			row := []string{t.Name}
			for _, c := range []struct {
				format string
				of     func(rig.Figures) float64
			}{
				{"%.0f", func(f rig.Figures) float64 { return f.Rate }}, {"%.0f", rig.Figures.CPU},
				{"%.0f", func(f rig.Figures) float64 { return f.Beside }}, {"%.2f", p50},
				{"%.2f", func(f rig.Figures) float64 { return f.P99 }}, {"%.0f", func(f rig.Figures) float64 { return f.Bytes }},
			} {
				row = append(row, rig.Spread(t.figures[o.name], c.format, c.of))
			}
			rows = append(rows, row)
		}
		rig.Table(w, rows...)
	}
	fmt.Fprintln(w)
	b.ReportMachine(w)
	if b.pgbenchBinary == "" {
		fmt.Fprintln(w, "- pgbench is not installed: the same SQL was not measured.")
	}
	fmt.Fprintf(w, "- Links created: %d in the database, %d acknowledged.\n", b.found, b.created)
	for _, o := range b.operations {
		b.reportGoals(w, o)
	}
}

func p50(f rig.Figures) float64  { return f.P50 }
func rate(f rig.Figures) float64 { return f.Rate }

// ratios divides a figure of one target by the sum of others', round by round.
func ratios(o operation, of func(rig.Figures) float64, one *target, others ...*target) (all []float64) {
	for i, f := range one.figures[o.name] {
		sum := 0.0
		for _, t := range others {
			sum += of(t.figures[o.name][i])
		}
		all = append(all, of(f)/sum)
	}
	return all
}

// reportGoals compares the medians with the goals.
func (b *bench) reportGoals(w io.Writer, o operation) {
	same := func(f float64) float64 { return f }
	verdict := map[bool]string{true: "met", false: "missed"}
	if o.creates {
		parts := ratios(o, rate, b.ours, b.bare)
		fmt.Fprintf(w, "- %s: %s. %s of the bare handler's requests a second, at least %.2f wanted.\n",
			o.title, verdict[rig.Median(parts, same) >= rateGoal], rig.Spread(parts, "%.2f", same), rateGoal)
		for _, t := range b.bounds {
			fmt.Fprintf(w, "- %s, %s: %s of them.\n", o.title, t.Name, rig.Spread(ratios(o, rate, t, b.bare), "%.2f", same))
		}
		return
	}
	if _, ok := b.scripts[o.name]; !ok {
		return
	}
	for name, of := range map[string]func(rig.Figures) float64{"CPU time": rig.Figures.CPU, "p50": p50} {
		times := ratios(o, of, b.ours, b.bare, b.sql)
		fmt.Fprintf(w, "- %s, %s: %s. %s × that of the bare handler and the same SQL together, at most %.1f wanted.\n",
			o.title, name, verdict[rig.Median(times, same) <= costGoal], rig.Spread(times, "%.2f", same), costGoal)
	}
}
