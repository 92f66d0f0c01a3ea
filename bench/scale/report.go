package main

import (
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/linkforge/linkforge/bench/internal/rig"
)

// tables prints what a part has shown, a column for each size.
type tables struct {
	io.Writer
	names    []string
	columns  []*column
	constant []figures
}

func (t tables) heading(title string) {
	fmt.Fprintf(t, "\n### %s\n\nA handler that only redirects took %.0f µs meanwhile (p50 %.2f ms, p99 %.2f ms).\n", title,
		rig.Median(t.constant, cpu), rig.Median(t.constant, p50), rig.Median(t.constant, p99))
}

func cpu(f figures) float64 { return f.CPU() }
func p50(f figures) float64 { return f.P50 }
func p99(f figures) float64 { return f.P99 }

// all are the tables that every part has.
func (t tables) all() {
	last := t.columns[len(t.columns)-1]
	t.table("CPU µs an operation: node + PostgreSQL and Redis", last.title+" ÷ "+t.columns[0].title,
		func(name string, c *column) string {
			return fmt.Sprintf("%.0f + %.0f", rig.Median(c.measured[name], own), rig.Median(c.measured[name], beside))
		}, func(name string) string { return growth(t.columns[0].measured[name], last.measured[name], cpu) })
	t.table("p50 / p99, ms", "p50 ÷", func(name string, c *column) string {
		return fmt.Sprintf("%.2f / %.1f", rig.Median(c.measured[name], p50), rig.Median(c.measured[name], p99))
	}, func(name string) string { return growth(t.columns[0].measured[name], last.measured[name], p50) })
	t.table("PostgreSQL transactions / Redis commands an operation", "operations/s, "+last.title,
		func(name string, c *column) string {
			return fmt.Sprintf("%.2f / %.2f", rig.Median(c.measured[name], transactions), rig.Median(c.measured[name], commands))
		}, func(name string) string { return fmt.Sprintf("%.0f", rig.Median(last.measured[name], rate)) })
	t.table("PostgreSQL's blocks, of which not in its memory / KiB logged", "blocks ÷",
		func(name string, c *column) string {
			return fmt.Sprintf("%.0f, %.1f / %.1f", rig.Median(c.measured[name], blocks), rig.Median(c.measured[name], reads),
				rig.Median(c.measured[name], logged))
		}, func(name string) string { return growth(t.columns[0].measured[name], last.measured[name], blocks) })
}

func own(f figures) float64          { return f.Own }
func beside(f figures) float64       { return f.Beside }
func rate(f figures) float64         { return f.Rate }
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

// table has a row for each operation, with a cell for each size and one at the end.
func (t tables) table(title, end string, cell func(name string, c *column) string, last func(name string) string) {
	rows := [][]string{{title}}
	for _, c := range t.columns {
		rows[0] = append(rows[0], c.title)
	}
	rows[0] = append(rows[0], end)
	for _, name := range t.names {
		op, _ := operationNamed(name) // takeTurns has returned the error
		row := []string{op.title}
		for _, c := range t.columns {
			row = append(row, cell(name, c))
		}
		rows = append(rows, append(row, last(name)))
	}
	rig.Table(t, rows...)
}

// disk is the size of the links on disk before anything was measured, and in memory.
func (t tables) disk() {
	rows := [][]string{{"Bytes a link"}}
	for _, c := range t.columns {
		rows[0] = append(rows[0], c.title)
	}
	row := func(title string, of func(c *column) float64) {
		one := []string{title}
		for _, c := range t.columns {
			one = append(one, fmt.Sprintf("%.0f", of(c)))
		}
		rows = append(rows, one)
	}
	row("on disk", func(c *column) float64 { return c.disk.total() })
	row("of which the table", func(c *column) float64 { return c.disk.table })
	for _, name := range slices.Sorted(maps.Keys(t.columns[0].disk.indexes)) {
		row("of which `"+name+"`", func(c *column) float64 { return c.disk.indexes[name] })
	}
	row("in a node's memory", func(c *column) float64 { return c.perLink })
	rig.Table(t, rows...)
}

// idle is the cost of nodes that have no requests.
func (t tables) idle(nodes []int, all []rig.Usage) {
	rows := [][]string{{"Without requests, CPU ms a second", "each node", "PostgreSQL + Redis, in all"}}
	for i, u := range all {
		rows = append(rows, []string{
			plural(nodes[i], "node"), fmt.Sprintf("%.1f", rig.Millis(u.Own)/u.At.Seconds()/float64(nodes[i])),
			fmt.Sprintf("%.1f", rig.Millis(u.Beside)/u.At.Seconds()),
		})
	}
	rig.Table(t, rows...)
}
