package main

import (
	"fmt"
	"io"
	"maps"
	"math"
	"runtime"
	"slices"
	"strings"

	"github.com/linkforge/linkforge/bench/internal/rig"
)

// introduce says how everything was measured, in Markdown.
func (b *bench) introduce(w io.Writer) {
	fmt.Fprintf(w, "%d connections, %s of bursts of %s after %s, %s, %d cores, %s. Medians.\n",
		b.connections, plural(b.rounds, "round"), b.burst, b.warmUp, rig.Processor(), runtime.NumCPU(), runtime.Version())
	if len(b.services.PIDs()) < 2 {
		fmt.Fprintln(w, "PostgreSQL or Redis is on another machine: their CPU time is not told.")
	}
}

// tables prints what a part has shown, a column for each size.
type tables struct {
	io.Writer
	names    []string
	columns  []*column
	constant []figures
}

func (t tables) heading(title string) {
	fmt.Fprintf(t, "\n### %s\n\nA handler that only redirects took %.0f µs meanwhile (p50 %.2f ms, p99 %.2f ms).\n", title,
		rig.Median(t.constant, figures.cpu), rig.Median(t.constant, p50), rig.Median(t.constant, p99))
}

func p50(f figures) float64 { return f.p50 }
func p99(f figures) float64 { return f.p99 }

// all are the tables that every part has.
func (t tables) all() {
	last := t.columns[len(t.columns)-1]
	t.table("CPU µs an operation: node + PostgreSQL and Redis", last.title+" ÷ "+t.columns[0].title, func(name string, c *column) string {
		return fmt.Sprintf("%.0f + %.0f", rig.Median(c.seen[name], own), rig.Median(c.seen[name], beside))
	}, func(name string) string { return growth(t.columns[0].seen[name], last.seen[name], figures.cpu) })
	t.table("p50 / p99, ms", "p50 ÷", func(name string, c *column) string {
		return fmt.Sprintf("%.2f / %.1f", rig.Median(c.seen[name], p50), rig.Median(c.seen[name], p99))
	}, func(name string) string { return growth(t.columns[0].seen[name], last.seen[name], p50) })
	t.table("PostgreSQL transactions / Redis commands an operation", "operations/s, "+last.title, func(name string, c *column) string {
		return fmt.Sprintf("%.2f / %.2f", rig.Median(c.seen[name], transactions), rig.Median(c.seen[name], commands))
	}, func(name string) string { return fmt.Sprintf("%.0f", rig.Median(last.seen[name], rate)) })
	t.table("PostgreSQL's blocks, of which not in its memory / KiB logged", "blocks ÷", func(name string, c *column) string {
		return fmt.Sprintf("%.0f, %.1f / %.1f", rig.Median(c.seen[name], blocks), rig.Median(c.seen[name], reads), rig.Median(c.seen[name], logged))
	}, func(name string) string { return growth(t.columns[0].seen[name], last.seen[name], blocks) })
}

func own(f figures) float64          { return f.own }
func beside(f figures) float64       { return f.beside }
func rate(f figures) float64         { return f.rate }
func transactions(f figures) float64 { return f.transactions }
func commands(f figures) float64     { return f.commands }
func blocks(f figures) float64       { return f.blocks }
func reads(f figures) float64        { return f.reads }
func logged(f figures) float64       { return f.log }

// growth is how many times as much the last size took as the first, round by round.
func growth(first, last []figures, of func(figures) float64) string {
	var times []float64
	for i := range min(len(first), len(last)) {
		if base := of(first[i]); base > 0 {
			times = append(times, of(last[i])/base)
		}
	}
	return rig.Spread(times, "%.2f", func(f float64) float64 { return f })
}

// table has a line for each operation, with a cell for each size and one at the end.
func (t tables) table(title, end string, cell func(name string, c *column) string, last func(name string) string) {
	fmt.Fprintf(t, "\n| %s |", title)
	for _, c := range t.columns {
		fmt.Fprintf(t, " %s |", c.title)
	}
	fmt.Fprintf(t, " %s |\n|---|%s\n", end, strings.Repeat("---|", len(t.columns)+1))
	for _, name := range t.names {
		op, err := operationNamed(name)
		if err != nil {
			continue // takeTurns has complained
		}
		fmt.Fprintf(t, "| %s |", op.title)
		for _, c := range t.columns {
			fmt.Fprintf(t, " %s |", cell(name, c))
		}
		fmt.Fprintf(t, " %s |\n", last(name))
	}
}

// disk is what the links took on disk when nothing had been measured yet, and in memory.
func (t tables) disk() {
	fmt.Fprint(t, "\n| Bytes a link |")
	for _, c := range t.columns {
		fmt.Fprintf(t, " %s |", c.title)
	}
	fmt.Fprintf(t, "\n|---|%s\n", strings.Repeat("---|", len(t.columns)))
	line := func(title string, of func(c *column) float64) {
		fmt.Fprintf(t, "| %s |", title)
		for _, c := range t.columns {
			fmt.Fprintf(t, " %.0f |", math.Round(of(c)))
		}
		fmt.Fprintln(t)
	}
	line("on disk", func(c *column) float64 { return c.disk.total() })
	line("of which the table", func(c *column) float64 { return c.disk.table })
	for _, name := range slices.Sorted(maps.Keys(t.columns[0].disk.indexes)) {
		if t.columns[0].disk.indexes[name] >= 1 {
			line("of which `"+name+"`", func(c *column) float64 { return c.disk.indexes[name] })
		}
	}
	line("in a node's memory, once it was looked at", func(c *column) float64 { return c.perLink })
}

// quiet is what the nodes cost that nobody asked.
func (t tables) quiet(nodes []int, all []quiet) {
	fmt.Fprint(t, "\n| Without requests, CPU ms a second | each node | PostgreSQL + Redis, in all |\n|---|---|---|\n")
	for i, q := range all {
		fmt.Fprintf(t, "| %s | %.1f | %.1f |\n", plural(nodes[i], "node"), q.node, q.beside)
	}
}
