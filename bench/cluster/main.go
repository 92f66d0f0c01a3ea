// Command cluster drills the layout of production on one machine: PostgreSQL with a standby, a
// Redis Cluster of three masters with a replica each, PgBouncer, three Linkforge nodes, and nginx
// in front of them as docs/deploy/nginx.conf has it. Under a load that never stops it replaces the
// nodes one after the other, kills a master of Redis, and kills the PostgreSQL primary, and sees
// whether what docs/OPERATIONS.md promises is so:
//
//	make cluster
//	make cluster ARGS='-stay'          keeps everything running when the drill is over
//	make cluster ARGS='-phases= -stay' starts it all, without a drill
//
// Everything is on loopback, in a temporary folder, with passwords of the run's own, and is gone at
// the end and after Ctrl-C. It needs Linux. Servers run as an unprivileged user when root starts
// it.
//
// PgBouncer pools sessions, because Linkforge refuses poolers of transactions: what a connection
// may see is kept in its session. The promotion points PgBouncer at the new primary, as an
// operator's failover tool does, so that it is decided in one place who the primary is: nodes that
// looked for it by themselves could find an old one that has come back. With -direct they do look
// by themselves, without PgBouncer: both hosts are in their URL, and
// target_session_attrs=read-write.
//
// It exits with 1 when a promise was not kept.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/linkforge/linkforge/bench/internal/rig"
)

// options are the command line's.
type options struct {
	// phases are what is drilled, in the order of allPhases.
	phases []string
	// links is how many are followed, rate how many visits a second there are, creates how many calls
	// that create.
	links, rate, creates int
	// quota is the monthly allowance of the one link whose allowance is used up.
	quota int
	// notice is how long after the primary's death its standby is promoted: what a failover tool takes
	// to be sure.
	notice time.Duration
	// drain is LINKFORGE_DRAIN_DELAY.
	drain time.Duration
	// direct says that nodes do without PgBouncer.
	direct bool
	// stay says that everything goes on when the drill is over.
	stay bool
	// server is the binary to drill; empty means this tree's.
	server string
}

// The phases beside the calm one, which is always first.
const (
	phaseRestart  = "restart"
	phaseRedis    = "redis"
	phasePostgres = "postgres"
)

func allPhases() []string { return []string{phaseRestart, phaseRedis, phasePostgres} }

func main() {
	rig.Main("cluster", func(ctx context.Context, args []string) error {
		o, err := parse(args)
		if err != nil {
			return err
		}
		return drill(ctx, o, os.Stdout, rig.Progress(os.Stderr))
	})
}

func parse(args []string) (options, error) {
	var o options
	flags := flag.NewFlagSet("cluster", flag.ContinueOnError)
	phases := flags.String("phases", strings.Join(allPhases(), ","),
		"what is drilled, with commas between; empty for nothing")
	flags.IntVar(&o.links, "links", 200, "how many links are followed")
	flags.IntVar(&o.rate, "rate", 300, "how many visits a second there are")
	flags.IntVar(&o.creates, "creates", 20, "how many calls of createLink a second there are")
	flags.IntVar(&o.quota, "quota", 600, "the monthly allowance of the link whose allowance is used up")
	flags.DurationVar(&o.notice, "notice", 2*time.Second, "how long after the primary's death the standby is promoted")
	flags.DurationVar(&o.drain, "drain", 3*time.Second, "LINKFORGE_DRAIN_DELAY of the nodes")
	flags.BoolVar(&o.direct, "direct", false, "without PgBouncer: nodes name both PostgreSQL hosts")
	flags.BoolVar(&o.stay, "stay", false, "keep everything running when the drill is over, until Ctrl-C")
	flags.StringVar(&o.server, "server", "", "the linkforge binary to drill; built from this tree when empty")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	for phase := range strings.SplitSeq(*phases, ",") {
		if phase == "" {
			continue
		}
		if !slices.Contains(allPhases(), phase) {
			return o, fmt.Errorf("there is no phase %q: the phases are %s", phase, strings.Join(allPhases(), ", "))
		}
		o.phases = append(o.phases, phase)
	}
	if o.links < 1 || o.links > 1000 || o.rate < visitors || o.creates < creators || o.quota < 1 {
		return o, fmt.Errorf("1 to 1000 links, %d visits, %d creations a second and an allowance of 1 are the least",
			visitors, creators)
	}
	return o, nil
}

// drill tells the whole story: start everything, let people in, let servers die, count, and report.
func drill(ctx context.Context, o options, out io.Writer, say func(string, ...any)) (err error) {
	l := &layout{options: o, say: say}
	defer func() {
		if l.host != nil {
			say("stopping everything")
		}
		err = errors.Join(err, l.close())
	}()
	d := &scenario{layout: l, book: newBook(), tally: newTally()}
	if err := d.prepare(ctx); err != nil {
		return orInterrupted(ctx, err)
	}
	if len(o.phases) > 0 {
		if err := d.run(ctx); err != nil {
			return orInterrupted(ctx, err)
		}
		d.report(out)
		err = d.promises().Broken()
	}
	if o.stay {
		d.stay(ctx, out)
	}
	return err
}

var errInterrupted = errors.New("interrupted")

// orInterrupted is the error, unless it is only what an interrupt has come to.
func orInterrupted(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return errInterrupted
	}
	return err
}
