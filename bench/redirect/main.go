// Command redirect measures the redirect path beside its limits: nginx and a net/http handler that
// do nothing but redirect, and the textbook's ways to count. All of it happens in one run, in
// pairs, because machines differ and are shared: quote the ratios. It needs Linux, wrk, and
// scripts/with-services for PostgreSQL and Redis:
//
//	../scripts/with-services go run ./redirect -links 20000 -rounds 1 -burst 1s
//
// It exits with 1 when something went wrong: a wrong answer, or clicks that do not add up. A slow
// machine, and a goal that was missed, are not errors.
package main

import (
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/linkforge/linkforge/bench/internal/rig"
)

// options are the command line's.
type options struct {
	links, rounds int
	burst         time.Duration
	// textbook measures the textbook's ways as well.
	textbook bool
	// resolve fills caches by HEAD: then no link has been followed in the month before it is measured.
	resolve bool
	server  string
}

// connections are those that the bursts come over.
var connections = []int{64, 256}

func main() {
	rig.Main("redirect", func(ctx context.Context, args []string) error {
		if len(args) > 1 {
			switch args[0] {
			case "constant":
				return rig.ServeConstant(ctx, args[1], urlOf(0))
			case "textbook":
				return runTextbook(ctx, args[1:])
			}
		}
		return run(ctx, args)
	})
}

func parse(args []string) (o options, err error) {
	flags := flag.NewFlagSet("redirect", flag.ContinueOnError)
	flags.IntVar(&o.links, "links", 1_000_000, "how many links there are")
	flags.IntVar(&o.rounds, "rounds", 5, "how often everything is measured")
	flags.DurationVar(&o.burst, "burst", 3*time.Second, "how long each target is measured at a time")
	flags.BoolVar(&o.textbook, "textbook", true, "whether the textbook's ways are measured as well")
	flags.BoolVar(&o.resolve, "look", false, "fill caches by HEAD: measured visits are then the first of the month")
	flags.StringVar(&o.server, "server", "", "the linkforge binary to measure; built from this tree when empty")
	if err = flags.Parse(args); err == nil && (o.links < 2 || o.rounds < 1 || o.burst <= 0) {
		err = errors.New("at least 2 links, one round and some time are needed")
	}
	return o, err
}

// bench is one run.
type bench struct {
	options
	*rig.Run
	embedded, servers *backend
	targets           []*target
}

func run(ctx context.Context, args []string) (err error) {
	o, err := parse(args)
	if err != nil {
		return err
	}
	b := &bench{options: o}
	b.Run, err = rig.NewRun(ctx, o.server, os.Stderr)
	defer func() { err = errors.Join(err, b.Close()) }()
	if err != nil {
		return err
	}
	for _, step := range []func(context.Context) error{b.prepare, b.start, b.warmUp, b.measureAll, b.count} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	b.report(os.Stdout)
	return b.Problems()
}

// kind is the role of a target.
type kind int

const (
	baseline   kind = iota // the constant handler, which all others are compared with
	ours                   // Linkforge
	webServer              // nginx
	competitor             // the textbook
)

// target is a server that is measured.
type target struct {
	rig.Target
	kind    kind
	on      *backend     // nil when it has no data
	process *rig.Process // nil when it is not installed
	// seen is how many redirects it has answered, counted how many clicks its database has.
	seen, counted int64
	// before and after are its memory around the warm-up.
	before, after int64
	figures       map[int][]figures // by the number of connections
}

// figures are those of a burst, and their ratios to those of the constant handler in the burst
// before.
type figures struct {
	rig.Figures
	ofRate, ofP99 float64
}

// start starts all targets; those that are not measured are idle.
func (b *bench) start(ctx context.Context) error {
	for _, t := range []struct {
		name  string
		kind  kind
		on    *backend
		start func(context.Context, *target) (*rig.Process, error)
	}{
		{"nginx, `return 302` by a `map`", webServer, nil, b.startNginx},
		{"net/http, a constant 302", baseline, nil, func(ctx context.Context, _ *target) (*rig.Process, error) {
			return b.Helper(ctx, "constant", nil, "constant")
		}},
		{"Linkforge embedded", ours, b.embedded, b.startLinkforge},
		{"Linkforge on PostgreSQL + Redis", ours, b.servers, b.startLinkforge},
		{"SELECT, DECR, UPDATE on SQLite", competitor, b.embedded, b.startTextbook("quota")},
		{"SELECT, UPDATE on SQLite", competitor, b.embedded, b.startTextbook("plain")},
		{"SELECT, DECR, UPDATE on PostgreSQL + Redis", competitor, b.servers, b.startTextbook("quota")},
		{"SELECT, UPDATE on PostgreSQL", competitor, b.servers, b.startTextbook("plain")},
	} {
		if t.kind == competitor && !b.textbook {
			continue
		}
		one := &target{Target: rig.Target{Name: t.name}, kind: t.kind, on: t.on, figures: map[int][]figures{}}
		if t.on == b.servers {
			one.Beside = b.Services.PIDs()
		}
		b.targets = append(b.targets, one)
		var err error
		if one.process, err = t.start(ctx, one); err != nil {
			return err
		}
		if one.process != nil {
			one.Own = []int{one.process.PID()}
		}
	}
	return nil
}

func (b *bench) startLinkforge(ctx context.Context, t *target) (*rig.Process, error) {
	const defaultCache, cachedLink = 256 << 20, 600 // LINKFORGE_CACHE_BYTES, and what a link takes of it: all links fit
	return b.Serve(ctx, "linkforge-"+t.on.name, b.Server,
		append([]string{"LINKFORGE_CACHE_BYTES=" + strconv.Itoa(max(defaultCache, b.links*cachedLink))}, t.on.settings...)...)
}

func (b *bench) startTextbook(variant string) func(context.Context, *target) (*rig.Process, error) {
	return func(ctx context.Context, t *target) (*rig.Process, error) {
		return b.Helper(ctx, "textbook-"+t.on.name+"-"+variant, t.on.textbookSettings, "textbook", variant)
	}
}

// load is a burst of visits. Without one, each link is visited once.
func (b *bench) load(t *target, connections int, burst time.Duration, seed uint64) rig.Load {
	l := rig.Load{Address: t.process.Address, Connections: connections, Status: http.StatusFound, Burst: burst, N: b.links}
	l.Requests = func(i int) string { return "/" + rig.Code(i) }
	if burst > 0 {
		visits := draw(b.links, seed)
		l.N, l.Requests = len(visits), func(i int) string { return "/" + rig.Code(visits[i]) }
	}
	return l
}

// warmUp visits every link once on Linkforge, or resolves it, and visits all other targets for a
// moment.
func (b *bench) warmUp(ctx context.Context) (err error) {
	for _, t := range b.targets {
		if t.process == nil {
			continue
		}
		l := b.load(t, connections[0], min(b.burst, time.Second), 0)
		if t.kind == ours {
			l = b.load(t, connections[0], 0, 0)
			if b.resolve {
				l.Requests = func(i int) string { return "?/" + rig.Code(i) }
			}
		}
		if t.before, err = rig.RSS(t.process.PID()); err != nil {
			return err
		}
		o, err := b.Drive(ctx, t.Name, l)
		if err != nil {
			return err
		}
		if !b.resolve || t.kind != ours {
			t.seen += o.Right
		}
		if _, err := rig.Rest(ctx, append(t.Own, t.Beside...), 30*time.Minute); err != nil {
			return err
		}
		if t.after, err = rig.RSS(t.process.PID()); err != nil {
			return err
		}
		b.Say("%s is warm: %d requests in %.1f s", t.Name, o.Right, o.Took.Seconds())
	}
	return nil
}

// warmUpTime is how long a target is driven before it is measured: after a pause, its short-lived
// caches are empty.
const warmUpTime = 2 * time.Second

// measureAll measures each target right after the constant handler, but the textbook, which is
// compared with Linkforge.
func (b *bench) measureAll(ctx context.Context) error {
	constant := b.targets[1]
	for round := range b.rounds {
		b.Say("round %d of %d", round+1, b.rounds)
		for _, n := range connections {
			var base figures
			for _, t := range b.targets {
				if t.process == nil || t == constant {
					continue
				}
				var err error
				if t.kind != competitor {
					if base, err = b.measure(ctx, constant, n, uint64(round), base); err != nil {
						return err
					}
				}
				if _, err = b.measure(ctx, t, n, uint64(round), base); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (b *bench) measure(ctx context.Context, t *target, n int, seed uint64, base figures) (figures, error) {
	got, o, before, err := b.Measure(ctx, t.Target, warmUpTime, b.load(t, n, b.burst, seed))
	t.seen += o.Right + before.Right
	f := figures{got, 1, 1}
	if t.kind != baseline {
		f.ofRate, f.ofP99 = f.Rate/base.Rate, f.P99/base.P99
	}
	t.figures[n] = append(t.figures[n], f)
	return f, err
}

// count stops all targets, and compares the clicks in Linkforge's databases with the redirects that
// were answered.
func (b *bench) count(ctx context.Context) error {
	b.Say("stopping the servers, and counting")
	for _, t := range b.targets {
		if err := t.process.Stop(); err != nil {
			return err
		}
		if t.kind != ours {
			continue
		}
		if err := t.countClicks(ctx); err != nil {
			return err
		}
		if t.counted < t.seen { // the next start ingests the rest of the click log before it is ready
			again, err := b.startLinkforge(ctx, t)
			if err != nil {
				return err
			}
			if err := errors.Join(again.Stop(), t.countClicks(ctx)); err != nil {
				return err
			}
		}
		if t.counted != t.seen {
			b.Wrong = append(b.Wrong, fmt.Sprintf("%s: clicks counted %d, redirects seen %d", t.Name, t.counted, t.seen))
		}
	}
	return nil
}

func (t *target) countClicks(ctx context.Context) error {
	return rig.Within(t.on.links, true, func(d *sql.DB) error {
		return d.QueryRowContext(ctx, "SELECT coalesce(sum(clicks), 0) FROM click_totals WHERE subject_id <> workspace_id").
			Scan(&t.counted)
	})
}

// The goals: the parts of the constant handler's rate and p99, and how many times the textbook's
// rate.
const (
	rateGoal    = 0.85
	p99Goal     = 2
	outpaceGoal = 8
)

// report prints everything, in Markdown.
func (b *bench) report(w *os.File) {
	fmt.Fprintf(w, "%d links, %d rounds of %s, %s. Medians, with the least and the most.\n", b.links, b.rounds, b.burst,
		rig.Machine())
	var missed []string
	for _, n := range connections {
		rows := [][]string{{
			fmt.Sprintf("%d connections", n), "requests/s", "of net/http", "Linkforge is × faster", "CPU µs",
			"CPU µs, PostgreSQL + Redis",
			"p50 ms", "p99 ms", "p99 of net/http's", "at rest after s",
		}}
		for _, t := range b.targets {
			if t.process == nil {
				rows = append(rows, append([]string{t.Name, "not installed"}, make([]string, 8)...))
				continue
			}
			all := t.figures[n]
			outpaced := b.outpaced(t, n)
			of := func(format string, value func(f figures) float64) string { return rig.Spread(all, format, value) }
			beside := ""
			if len(t.Beside) > 0 {
				beside = of("%.1f", func(f figures) float64 { return f.Beside })
			}
			rows = append(rows, []string{
				t.Name, of("%.0f", func(f figures) float64 { return f.Rate }), of("%.2f", ofRate),
				rig.Spread(outpaced, "%.1f", same),
				of("%.1f", func(f figures) float64 { return f.Own }), beside, of("%.2f", func(f figures) float64 { return f.P50 }),
				of("%.2f", func(f figures) float64 { return f.P99 }), of("%.2f", ofP99),
				of("%.1f", func(f figures) float64 { return f.Rest }),
			})
			missed = append(missed, missedGoals(t, n, outpaced)...)
		}
		rig.Table(w, rows...)
	}
	fmt.Fprintln(w)
	b.ReportMachine(w)
	for _, t := range b.targets {
		if t.kind != ours {
			continue
		}
		fmt.Fprintf(w, "- %s: clicks counted %d, redirects seen %d. %d MiB before every link was visited, %d after: %d "+
			"bytes a link.\n",
			t.Name, t.counted, t.seen, t.before>>20, t.after>>20, (t.after-t.before)/int64(b.links))
		if lines := t.process.Warnings(); len(lines) > 0 {
			fmt.Fprintf(w, "- %s: %d warnings, the first `%s`.\n", t.Name, len(lines), lines[0])
		}
	}
	if len(missed) > 0 {
		fmt.Fprintf(w, "\ngoals: fail: %s\n", strings.Join(missed, "; "))
		return
	}
	fmt.Fprintln(w, "\ngoals: pass")
}

func same(f float64) float64   { return f }
func ofRate(f figures) float64 { return f.ofRate }
func ofP99(f figures) float64  { return f.ofP99 }

// outpaced is how many times as fast as the textbook Linkforge is on the same backend, round by
// round.
func (b *bench) outpaced(t *target, connections int) (times []float64) {
	for _, l := range b.targets {
		if t.kind == competitor && l.kind == ours && l.on == t.on {
			for i, f := range l.figures[connections] {
				times = append(times, f.Rate/t.figures[connections][i].Rate)
			}
		}
	}
	return times
}

func missedGoals(t *target, n int, outpaced []float64) (missed []string) {
	if rate := rig.Median(t.figures[n], ofRate); t.kind == ours && rate < rateGoal {
		missed = append(missed, fmt.Sprintf("%s at %d: %.2f of net/http, not %.2f", t.Name, n, rate, rateGoal))
	}
	if p99 := rig.Median(t.figures[n], ofP99); t.kind == ours && p99 > p99Goal {
		missed = append(missed, fmt.Sprintf("%s at %d: p99 %.1f × net/http's, not %d", t.Name, n, p99, p99Goal))
	}
	if times := rig.Median(outpaced, same); t.kind == competitor && times < outpaceGoal {
		missed = append(missed, fmt.Sprintf("%s at %d: outpaced %.1f ×, not %d", t.Name, n, times, outpaceGoal))
	}
	return missed
}
