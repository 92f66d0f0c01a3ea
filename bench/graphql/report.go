package main

import (
	"fmt"
	"io"
	"runtime"
	"strings"

	"github.com/linkforge/linkforge/bench/internal/rig"
)

// The goals: a query may cost so many times what the bare handler and its SQL cost together, and a creation is to reach so much of the
// bare mutation's rate.
const (
	costGoal = 1.3
	rateGoal = 0.6
)

// report prints everything, in Markdown.
func (b *bench) report(w io.Writer) {
	fmt.Fprintf(w, "%d connections, %d rounds of %s, %s, %d cores, %s. Medians, with the least and the most.\n",
		b.connections, b.rounds, b.burst, rig.Processor(), runtime.NumCPU(), runtime.Version())
	for _, o := range b.operations {
		b.table(w, o)
	}
	fmt.Fprintf(w, "\n- The load generator used %s µs a request, on %d of the machine's cores. Others used %s cores.\n",
		rig.Spread(b.measured, "%.1f", func(m measured) float64 { return m.ours.generator }), rig.GeneratorCores(), rig.Spread(b.others, "%.1f", same))
	if b.pgbenchBinary == "" {
		fmt.Fprintln(w, "- pgbench is not installed: the same SQL was not measured.")
	}
	if !b.seesServices() {
		fmt.Fprintln(w, "- PostgreSQL or Redis is on another machine: CPU time is not compared.")
	}
	fmt.Fprintf(w, "- Links created: %d in the database, %d answered.\n", b.found, b.created)
	if lines := b.ours.process.Warnings(); len(lines) > 0 {
		fmt.Fprintf(w, "- Linkforge: %d warnings, the first `%s`.\n", len(lines), lines[0])
	}
	fmt.Fprintln(w)
	for _, g := range b.goals() {
		fmt.Fprintln(w, g)
	}
}

// seesServices says that the CPU time of PostgreSQL and Redis can be read.
func (b *bench) seesServices() bool { return len(b.services.PIDs()) == 2 }

func same(f float64) float64 { return f }

// of are an operation's rounds.
func (b *bench) of(o operation) (rounds []measured) {
	for _, m := range b.measured {
		if m.operation == o.name {
			rounds = append(rounds, m)
		}
	}
	return rounds
}

// table has a line for each target.
func (b *bench) table(w io.Writer, o operation) {
	columns := []struct {
		title, format string
		of            func(figures) float64
	}{
		{"requests/s", "%.0f", func(f figures) float64 { return f.rate }},
		{"CPU µs", "%.0f", figures.cpu},
		{"of which PostgreSQL + Redis", "%.0f", func(f figures) float64 { return f.beside }},
		{"p50 ms", "%.2f", func(f figures) float64 { return f.p50 }},
		{"p99 ms", "%.2f", func(f figures) float64 { return f.p99 }},
		{"bytes", "%.0f", func(f figures) float64 { return f.bytes }},
	}
	fmt.Fprintf(w, "\n| %s |", o.title)
	for _, c := range columns {
		fmt.Fprintf(w, " %s |", c.title)
	}
	fmt.Fprintf(w, "\n|---|%s\n", strings.Repeat("---|", len(columns)))
	for _, line := range b.lines(o) {
		fmt.Fprintf(w, "| %s |", line.title)
		for _, c := range columns {
			cell := rig.Spread(line.all, c.format, c.of)
			if rig.Median(line.all, c.of) == 0 {
				cell = "" // what this one has not
			}
			fmt.Fprintf(w, " %s |", cell)
		}
		fmt.Fprintln(w)
	}
}

// line is what one target has shown.
type line struct {
	title string
	all   []figures
}

func (b *bench) lines(o operation) []line {
	bare, ours, sql := line{title: b.bare.name}, line{title: b.ours.name}, line{title: "the same SQL by pgbench"}
	for _, m := range b.of(o) {
		bare.all, ours.all = append(bare.all, m.bare), append(ours.all, m.ours)
		if m.sql != nil {
			sql.all = append(sql.all, *m.sql)
		}
	}
	lines := []line{bare}
	for i, t := range b.leastOf(o) {
		least := line{title: t.name}
		for _, m := range b.of(o) {
			least.all = append(least.all, m.least[i])
		}
		lines = append(lines, least)
	}
	lines = append(lines, ours)
	if len(sql.all) > 0 {
		lines = append(lines, sql)
	}
	return lines
}

// goals hold the medians of what was seen in each round against what is wanted.
func (b *bench) goals() (lines []string) {
	for _, o := range b.operations {
		rounds := b.of(o)
		if o.creates {
			part := func(m measured) float64 { return m.ours.rate / m.bare.rate }
			lines = append(lines, fmt.Sprintf("- %s: %s. %s of the bare handler's requests a second, at least %.2f wanted.",
				o.title, verdict(rig.Median(rounds, part) >= rateGoal), rig.Spread(rounds, "%.2f", part), rateGoal))
			for i, t := range b.leastOf(o) {
				part := func(m measured) float64 { return m.least[i].rate / m.bare.rate }
				lines = append(lines, fmt.Sprintf("- %s, %s: %s of them.", o.title, t.name, rig.Spread(rounds, "%.2f", part)))
			}
			continue
		}
		if len(rounds) == 0 || rounds[0].sql == nil {
			lines = append(lines, fmt.Sprintf("- %s: not judged, since its SQL was not measured.", o.title))
			continue
		}
		lines = append(lines, b.costs(o, rounds)...)
	}
	return lines
}

// costs are the lines of an operation that is held against the bare handler and its SQL.
func (b *bench) costs(o operation, rounds []measured) (lines []string) {
	for _, c := range []struct {
		what string
		of   func(figures) float64
	}{{"CPU time", figures.cpu}, {"p50", func(f figures) float64 { return f.p50 }}} {
		if c.what == "CPU time" && !b.seesServices() {
			continue
		}
		times := func(m measured) float64 { return c.of(m.ours) / (c.of(m.bare) + c.of(*m.sql)) }
		lines = append(lines, fmt.Sprintf("- %s, %s: %s. %s × that of the bare handler and the same SQL together, at most %.1f wanted.",
			o.title, c.what, verdict(rig.Median(rounds, times) <= costGoal), rig.Spread(rounds, "%.2f", times), costGoal))
	}
	return lines
}

func verdict(met bool) string {
	if met {
		return "met"
	}
	return "missed"
}
