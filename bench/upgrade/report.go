package main

import (
	"fmt"
	"io"
	"runtime"

	"github.com/linkforge/linkforge/bench/internal/rig"
)

// report prints everything, in Markdown.
func (d *drill) report(w io.Writer) {
	fmt.Fprintf(w, "From %s (%s), schema %s, with %d links, made in %.0f s. Somebody dumped the database for %s meanwhile. %s, %d cores.\n\n", d.revision.hash, d.revision.subject,
		d.revision.steps[len(d.revision.steps)-1], d.links, d.filled.Seconds(), d.dump, rig.Processor(), runtime.NumCPU())
	fmt.Fprintln(w, "| step | took | longest wait of a request for a lock |\n|---|--:|--:|")
	for _, s := range d.steps {
		fmt.Fprintf(w, "| %s | %.0f ms | %.0f ms |\n", s.name, rig.Millis(s.took), rig.Millis(s.waited))
	}
	for p := range phases {
		fmt.Fprintf(w, "\n| %s | answers | failures | median | 99 %% | slowest |\n|---|--:|--:|--:|--:|--:|\n", p)
		for i, k := range kinds {
			n := &d.load.noted[i][p]
			fmt.Fprintf(w, "| %s | %d | %d | %.1f ms | %.1f ms | %.0f ms |\n", k.name, n.answers, n.failures,
				rig.Millis(n.times.Percentile(0.5)), rig.Millis(n.times.Percentile(0.99)), rig.Millis(n.times.Max))
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
	rig.TellPromises(w, d.promises)
}
