package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"

	"github.com/linkforge/linkforge/bench/internal/rig"
	"github.com/linkforge/linkforge/internal/db"
)

// The goals: at least so much of the constant handler's rate, at most so much of its p99, and at least so many times the
// textbook's rate.
const (
	rateGoal    = 0.85
	p99Goal     = 2
	outpaceGoal = 8
)

// count stops Linkforge, and sees how many clicks its databases have.
func (b *bench) count(ctx context.Context) error {
	for _, t := range b.targets {
		if err := t.process.Stop(); err != nil {
			return err
		}
		if t.kind != ours {
			continue
		}
		if err := b.countClicks(ctx, t); err != nil {
			return err
		}
		if t.clicks < t.seen { // what the database did not take in time waits in the log for the next start
			if err := b.again(ctx, t); err != nil {
				return err
			}
			if err := b.countClicks(ctx, t); err != nil {
				return err
			}
		}
		if t.clicks != t.seen {
			b.wrong = append(b.wrong, fmt.Sprintf("%s: clicks counted %d, redirects seen %d", t.name, t.clicks, t.seen))
		}
	}
	return nil
}

// again starts a server once more, which takes in what the last one has left in its log before it is ready, and stops it.
func (b *bench) again(ctx context.Context, t *target) (err error) {
	address, err := rig.FreeAddress()
	if err != nil {
		return err
	}
	p, err := b.startLinkforge(ctx, t, address)
	if err != nil {
		return err
	}
	return p.Stop()
}

func (b *bench) countClicks(ctx context.Context, t *target) error {
	err := t.on.within(t.on.links, func(d *db.DB) error {
		return d.NewRaw("SELECT coalesce(sum(clicks), 0) FROM click_totals WHERE subject_id <> workspace_id").Scan(db.AsSystem(ctx), &t.clicks)
	})
	if err != nil {
		return fmt.Errorf("counting the clicks on %s: %w", t.on.name, err)
	}
	return nil
}

// problems are what the run must not have met.
func (b *bench) problems() error {
	if len(b.wrong) == 0 {
		return nil
	}
	return errors.New(strings.Join(b.wrong, "\n"))
}

// report prints everything, in Markdown.
func (b *bench) report(w io.Writer) {
	fmt.Fprintf(w, "%d links, %d rounds of %s, %s, %d cores, %s. Medians, with the least and the most.\n",
		b.links, b.rounds, b.burst, rig.Processor(), runtime.NumCPU(), runtime.Version())
	for _, connections := range loads() {
		b.table(w, connections)
	}
	fmt.Fprintln(w)
	for _, t := range b.targets {
		if t.kind == ours {
			fmt.Fprintf(w, "- %s: %.0f MiB before every link was looked at, %.0f MiB after: %d bytes a link.\n",
				t.name, mebibytes(t.before), mebibytes(t.after), (t.after-t.before)/int64(b.links))
		}
	}
	fmt.Fprintf(w, "- The load generator used %s µs a request, and %s of its %d of the machine's cores. Others used %s cores.\n",
		rig.Spread(b.bursts, "%.1f", func(u burst) float64 { return u.generator }), rig.Spread(b.bursts, "%.2f", func(u burst) float64 { return u.busy }),
		rig.GeneratorCores(), rig.Spread(b.bursts, "%.1f", func(u burst) float64 { return u.others }))
	if len(b.services.PIDs()) < 2 {
		fmt.Fprintln(w, "- PostgreSQL or Redis is on another machine: its CPU time is not included.")
	}
	if !b.counts {
		fmt.Fprintln(w, "- perf does not count instructions here.")
	}
	for _, t := range b.targets {
		if t.kind == ours {
			fmt.Fprintf(w, "- %s: clicks counted %d, redirects seen %d.\n", t.name, t.clicks, t.seen)
			if lines := t.process.Warnings(); len(lines) > 0 {
				fmt.Fprintf(w, "- %s: %d warnings, the first `%s`.\n", t.name, len(lines), lines[0])
			}
		}
	}
	fmt.Fprintf(w, "\n%s\n", b.verdict())
}

// column is a figure of the table.
type column struct {
	title string
	cell  func(t *target, connections int) string
}

func (b *bench) columns() []column {
	figure := func(format string, of func(figures) float64) func(*target, int) string {
		return func(t *target, connections int) string { return rig.Spread(t.figures[connections], format, of) }
	}
	columns := []column{
		{"requests/s", figure("%.0f", func(f figures) float64 { return f.rate })},
		{"of net/http", figure("%.2f", func(f figures) float64 { return f.ofRate })},
		{"Linkforge is × faster", b.outpaces},
		{"CPU µs", figure("%.1f", func(f figures) float64 { return f.cpu })},
		{"CPU µs, PostgreSQL + Redis", func(t *target, connections int) string {
			if len(t.beside) == 0 {
				return ""
			}
			return rig.Spread(t.figures[connections], "%.1f", func(f figures) float64 { return f.beside })
		}},
		{"p50 ms", figure("%.2f", func(f figures) float64 { return f.p50 })},
		{"p99 ms", figure("%.2f", func(f figures) float64 { return f.p99 })},
		{"p99 of net/http's", figure("%.2f", func(f figures) float64 { return f.ofP99 })},
		{"at rest after s", figure("%.1f", func(f figures) float64 { return f.rest })},
	}
	if b.counts {
		columns = append(columns, column{"instructions", figure("%.0f", func(f figures) float64 { return f.instructions })})
	}
	return columns
}

// table has a line for each target. CPU time is a request's, with what was done after the burst.
func (b *bench) table(w io.Writer, connections int) {
	columns := b.columns()
	fmt.Fprintf(w, "\n| %d connections |", connections)
	for _, c := range columns {
		fmt.Fprintf(w, " %s |", c.title)
	}
	fmt.Fprintf(w, "\n|---|%s\n", strings.Repeat("---|", len(columns)))
	for _, t := range b.targets {
		fmt.Fprintf(w, "| %s |", t.name)
		for i, c := range columns {
			cell := c.cell(t, connections)
			if t.process == nil {
				cell = map[int]string{0: "not installed"}[i]
			}
			fmt.Fprintf(w, " %s |", cell)
		}
		fmt.Fprintln(w)
	}
}

// outpaces is how many times as fast as the textbook Linkforge is on the same backend.
func (b *bench) outpaces(t *target, connections int) string {
	return rig.Spread(b.outpaced(t, connections), "%.1f", func(f float64) float64 { return f })
}

// outpaced is the same, round by round.
func (b *bench) outpaced(t *target, connections int) (times []float64) {
	if t.kind != beaten {
		return nil
	}
	for _, l := range b.targets {
		if l.kind == ours && l.on == t.on {
			for i, f := range l.figures[connections] {
				times = append(times, f.rate/t.figures[connections][i].rate)
			}
		}
	}
	return times
}

// verdict holds the medians against the goals.
func (b *bench) verdict() string {
	var missed []string
	for _, connections := range loads() {
		for _, t := range b.targets {
			switch t.kind {
			case ours:
				rate := rig.Median(t.figures[connections], func(f figures) float64 { return f.ofRate })
				p99 := rig.Median(t.figures[connections], func(f figures) float64 { return f.ofP99 })
				if rate < rateGoal {
					missed = append(missed, fmt.Sprintf("%s at %d: %.2f of net/http, not %.2f", t.name, connections, rate, rateGoal))
				}
				if p99 > p99Goal {
					missed = append(missed, fmt.Sprintf("%s at %d: p99 %.1f × net/http's, not %d", t.name, connections, p99, p99Goal))
				}
			case beaten:
				times := rig.Median(b.outpaced(t, connections), func(f float64) float64 { return f })
				if times < outpaceGoal {
					missed = append(missed, fmt.Sprintf("%s at %d: outpaced %.1f ×, not %d", t.name, connections, times, outpaceGoal))
				}
			}
		}
	}
	if len(missed) == 0 {
		return "goals: pass"
	}
	return "goals: fail: " + strings.Join(missed, "; ")
}

func mebibytes(n int64) float64 { return float64(n) / (1 << 20) }
