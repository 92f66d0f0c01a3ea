// Command redirect measures the redirect path beside its limits: a web server and a handler that do nothing but
// redirect, and the textbook's ways to count. All of it happens in one run, in turns, because machines differ and are
// shared: quote the ratios. It needs Linux, and scripts/with-services for PostgreSQL and Redis:
//
//	scripts/with-services go run ./bench/redirect -links 20000 -rounds 1 -burst 1s
//
// The server is a process of its own, built from this tree unless -server names another, and everything is on but what
// would ask the internet or refuse the load: destination checks and rate limits. One load generator, this program in
// another process, drives all targets. A faster one would be another's: what it costs is the same for all of them, and
// that makes the ratios honest.
//
// It exits with 1 when something went wrong: a wrong answer, or clicks that do not add up. A slow machine, and a target
// that was missed, are not errors.
package main

import (
	"context"
	"errors"
	"flag"
	"io"
	"os"
	"time"

	"github.com/linkforge/linkforge/bench/internal/rig"
)

// options are the command line's.
type options struct {
	// links is how many there are, rounds how often everything is measured, burst how long at a time.
	links, rounds int
	burst         time.Duration
	// textbook says that the ways that are to be beaten are measured as well.
	textbook bool
	// look says that no link has been followed in the month before it is measured.
	look bool
	// server is the binary to measure; empty means this tree's.
	server string
	// databaseURL and redisURL are of the servers that scripts/with-services provides.
	databaseURL, redisURL string
}

// loads are how many connections the bursts come over.
func loads() []int { return []int{64, 256} }

func main() {
	rig.Main("redirect", func(ctx context.Context) error { return run(ctx, os.Args[1:], os.Getenv, os.Stdout, os.Stderr) })
}

// run also is what the other processes do that this one starts.
func run(ctx context.Context, args []string, getenv func(string) string, out, progress io.Writer) error {
	if len(args) > 0 {
		switch args[0] {
		case "load":
			return runLoad(ctx, args[1:], out)
		case "constant":
			return runConstant(ctx, args[1:])
		case "textbook":
			return runTextbook(ctx, args[1:], getenv)
		}
	}
	o, err := parse(args, getenv)
	if errors.Is(err, flag.ErrHelp) {
		return nil
	}
	if err != nil {
		return err
	}
	return measure(ctx, o, out, progress)
}

func parse(args []string, getenv func(string) string) (options, error) {
	o := options{databaseURL: getenv("LINKFORGE_TEST_DATABASE_URL"), redisURL: getenv("LINKFORGE_TEST_REDIS_URL")}
	flags := flag.NewFlagSet("redirect", flag.ContinueOnError)
	flags.IntVar(&o.links, "links", 1_000_000, "how many links there are")
	flags.IntVar(&o.rounds, "rounds", 5, "how often everything is measured")
	flags.DurationVar(&o.burst, "burst", 3*time.Second, "how long each target is measured at a time")
	flags.BoolVar(&o.textbook, "textbook", true, "whether the ways that are to be beaten are measured as well")
	flags.BoolVar(&o.look, "look", false, "whether links are only looked at beforehand: the measured visits are then the first of the month")
	flags.StringVar(&o.server, "server", "", "the linkforge binary to measure; built from this tree when empty")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	switch {
	case o.links < 2 || o.rounds < 1 || o.burst <= 0:
		return o, errors.New("at least 2 links, one round and some time are needed")
	case o.databaseURL == "" || o.redisURL == "":
		return o, errors.New("PostgreSQL and Redis are needed: scripts/with-services provides them")
	}
	return o, nil
}

// measure tells the whole story: prepare, start everything, fill the caches, take turns, stop, see that every redirect
// was counted, and report.
func measure(ctx context.Context, o options, out, progress io.Writer) (err error) {
	say := rig.Teller(progress)
	b := &bench{options: o, say: say}
	defer func() { err = errors.Join(err, b.close()) }()
	if err := b.prepare(ctx); err != nil {
		return err
	}
	if err := b.start(ctx); err != nil {
		return err
	}
	if err := b.warmUp(ctx); err != nil {
		return err
	}
	for round := range o.rounds {
		say("round %d of %d", round+1, o.rounds)
		for _, connections := range loads() {
			if err := b.round(ctx, round, connections); err != nil {
				return err
			}
		}
	}
	say("stopping the servers, and counting")
	if err := b.count(ctx); err != nil {
		return err
	}
	b.report(out)
	return b.problems()
}
