package main

import (
	"fmt"
	"io"

	"github.com/linkforge/linkforge/bench/internal/rig"
)

// report prints everything, in Markdown.
func (d *drill) report(w io.Writer) {
	fmt.Fprintf(w, "From %s (%s), schema %s, with %d links, made in %.0f s. Somebody dumped the database for %s "+
		"meanwhile. %s.\n", d.revision.hash, d.revision.subject,
		d.revision.steps[len(d.revision.steps)-1], d.links, d.filled.Seconds(), d.dump, rig.Machine())
	rows := [][]string{{"step", "took, ms", "longest wait of a request for a lock, ms"}}
	for _, s := range d.steps {
		rows = append(rows, []string{s.name, fmt.Sprintf("%.0f", rig.Millis(s.took)),
			fmt.Sprintf("%.0f", rig.Millis(s.waited))})
	}
	rig.Table(w, rows...)
	for p := range phases {
		fmt.Fprintf(w, "\n| %s | answers | failures | median | 99 %% | slowest |\n|---|--:|--:|--:|--:|--:|\n", p)
		for i, k := range kinds {
			n := &d.load.noted[i][p]
			fmt.Fprintf(w, "| %s | %d | %d | %.1f ms | %.1f ms | %.0f ms |\n", k.name, n.answers, n.failures,
				rig.Millis(rig.Percentile(n.times, 0.5)), rig.Millis(rig.Percentile(n.times, 0.99)),
				rig.Millis(rig.Percentile(n.times, 1)))
		}
	}
	fmt.Fprintln(w)
	for _, one := range d.load.told() {
		fmt.Fprintf(w, "- failed: %s\n", one)
	}
	for name, p := range map[string]*rig.Process{"early": d.early, "late": d.late} {
		if lines := p.Warnings(); len(lines) > 0 {
			fmt.Fprintf(w, "- the %s server: %d warnings, the first `%.300s`\n", name, len(lines), lines[0])
		}
	}
	d.promises.Report(w)
}
