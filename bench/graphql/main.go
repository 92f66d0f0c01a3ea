// Command graphql measures what an operation costs beside what it cannot cost less than: the same document on a bare gqlgen
// handler over the same schema, whose resolvers return constants; the same SQL sent by pgbench; and, for creations, that handler with
// nothing behind it but an INSERT into a table of the same columns and indexes. All of it happens in one run, in turns, because machines
// differ and are shared: quote the ratios. It needs Linux, and scripts/with-services for PostgreSQL and Redis:
//
//	LINKFORGE_TEST_DURABLE=1 scripts/with-services go run ./bench/graphql -rounds 1 -burst 1s
//
// Every target is a process of its own, Linkforge built from this tree unless -server names another, with everything on but
// destination checks, which would ask the internet; rate limits are on, and generous. One load generator, this program in another
// process, drives all targets but pgbench, which drives PostgreSQL itself. The SQL is not written down here: it is recorded at the
// start of each run, from a Linkforge that speaks to PostgreSQL through this program.
//
// It exits with 1 when something went wrong: a wrong answer, or links that do not add up. A slow machine, and a goal that was
// missed, are not errors.
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
	// rounds is how often everything is measured, burst how long at a time, connections over how many connections.
	rounds, connections int
	burst               time.Duration
	// operations are those to measure.
	operations []operation
	// server is the binary to measure; empty means this tree's.
	server string
	// details is a folder for the SQL that was recorded and a CPU profile of Linkforge under each operation; empty means that
	// nobody wants them.
	details string
	// databaseURL and redisURL are of the servers that scripts/with-services provides.
	databaseURL, redisURL string
}

func main() {
	rig.Main("graphql", func(ctx context.Context) error {
		return run(ctx, os.Args[1:], os.Getenv, os.Stdin, os.Stdout, os.Stderr)
	})
}

// run also is what the other processes do that this one starts.
func run(ctx context.Context, args []string, getenv func(string) string, in io.Reader, out, progress io.Writer) error {
	if len(args) > 0 {
		switch args[0] {
		case "load":
			return runLoad(ctx, in, out)
		case "bare":
			return runBare(ctx, args[1:], getenv)
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
	var names string
	flags := flag.NewFlagSet("graphql", flag.ContinueOnError)
	flags.IntVar(&o.rounds, "rounds", 3, "how often everything is measured")
	flags.DurationVar(&o.burst, "burst", 2*time.Second, "how long each target is measured at a time")
	flags.IntVar(&o.connections, "connections", 64, "over how many connections")
	flags.StringVar(&names, "operations", strings.Join(operationNames(), ","), "which operations, with commas between them")
	flags.StringVar(&o.server, "server", "", "the linkforge binary to measure; built from this tree when empty")
	flags.StringVar(&o.details, "details", "", "a folder for the SQL that was recorded, and CPU profiles of Linkforge from another burst of each operation")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	for name := range strings.SplitSeq(names, ",") {
		at := slices.Index(operationNames(), name)
		if at < 0 {
			return o, fmt.Errorf("there is no operation %q: there are %s", name, strings.Join(operationNames(), ", "))
		}
		o.operations = append(o.operations, operations()[at])
	}
	switch {
	case o.rounds < 1 || o.burst <= 0 || o.connections < 1:
		return o, errors.New("at least one round, one connection and some time are needed")
	case o.databaseURL == "" || o.redisURL == "":
		return o, errors.New("PostgreSQL and Redis are needed: scripts/with-services provides them")
	}
	return o, nil
}

// measure tells the whole story: prepare, start everything, see that all answer the same, record the SQL, take turns, see that
// every link is there that was answered, and report.
func measure(ctx context.Context, o options, out, progress io.Writer) (err error) {
	b := &bench{options: o, say: rig.Teller(progress)}
	defer func() { err = errors.Join(err, b.close()) }()
	if err := b.prepare(ctx); err != nil {
		return err
	}
	if err := b.compare(ctx); err != nil {
		return err
	}
	if err := b.record(ctx); err != nil {
		return err
	}
	for round := range o.rounds {
		b.say("round %d of %d", round+1, o.rounds)
		if err := b.round(ctx); err != nil {
			return err
		}
	}
	if err := b.profile(ctx); err != nil {
		return err
	}
	b.say("counting the links")
	if err := b.count(ctx); err != nil {
		return err
	}
	b.report(out)
	return b.problems()
}
