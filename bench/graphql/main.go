// Command graphql measures what an operation costs beside its lower bounds: the same document on a
// bare gqlgen handler over the same schema, whose resolvers return constants; the same SQL sent by
// pgbench; and, for creations, that handler with nothing behind it but an INSERT into a table of
// the same columns and indexes. All of it happens in one run, in turns, because machines differ and
// are shared: quote the ratios. It needs Linux, wrk, and scripts/with-services for PostgreSQL and
// Redis:
//
//	LINKFORGE_TEST_DURABLE=1 ../scripts/with-services go run ./graphql -rounds 1 -burst 1s
//
// Every target is a process of its own, Linkforge with everything on but destination checks, which
// would query the internet; rate limits are on, and generous. The SQL is recorded at the start of
// each run, from a Linkforge that connects to PostgreSQL through this program.
//
// It exits with 1 when something went wrong: a wrong answer, or links that do not add up. A slow
// machine, and a goal that was missed, are not errors.
package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/linkforge/linkforge/bench/internal/rig"
)

// options are the command line's.
type options struct {
	rounds, connections int
	burst               time.Duration
	operations          []operation
	server              string
	// details is a folder for the SQL that was recorded and a CPU profile of Linkforge under each
	// operation; empty for none.
	details string
}

func main() {
	rig.Main("graphql", func(ctx context.Context, args []string) error {
		if len(args) > 1 && args[0] == "bare" {
			return runBare(ctx, args[1:])
		}
		return run(ctx, args)
	})
}

func parse(args []string) (o options, err error) {
	var names string
	flags := flag.NewFlagSet("graphql", flag.ContinueOnError)
	flags.IntVar(&o.rounds, "rounds", 3, "how often everything is measured")
	flags.DurationVar(&o.burst, "burst", 2*time.Second, "how long each target is measured at a time")
	flags.IntVar(&o.connections, "connections", 64, "over how many connections")
	flags.StringVar(&names, "operations", strings.Join(operationNames(), ","),
		"which operations, with commas between them")
	flags.StringVar(&o.server, "server", "", "the linkforge binary to measure; built from this tree when empty")
	flags.StringVar(&o.details, "details", "", "a folder for the recorded SQL, and CPU profiles of Linkforge from "+
		"another burst of each operation")
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
	if o.rounds < 1 || o.burst <= 0 || o.connections < 1 {
		return o, errors.New("at least one round, one connection and some time are needed")
	}
	return o, nil
}

// bench is one run.
type bench struct {
	options
	*rig.Run
	pgbenchBinary string // empty when there is none
	bare, ours    *target
	sql           *target   // pgbench
	bounds        []*target // the bare handler with a table for new links
	tenant        *rig.Tenant
	estate        estate
	admin         string            // where ours serves its profiles
	scripts       map[string]string // for pgbench, by operation
	next          int               // the number of the next request

	// created is how many links were acknowledged, found how many the database has.
	created, found int64
}

// target is a server that is measured.
type target struct {
	rig.Target
	address, token string
	figures        map[string][]rig.Figures // by operation, one a round
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
	for _, step := range []func(context.Context) error{b.prepare, b.compare, b.record, b.measureAll, b.profile, b.count} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	b.report(os.Stdout)
	return b.Problems()
}

// boundsOf are the targets that an operation is compared with beside the bare handler.
func (b *bench) boundsOf(o operation) []*target {
	if !o.creates {
		return nil
	}
	return b.bounds
}

// compare checks that all targets answer each operation in the same shape.
func (b *bench) compare(ctx context.Context) error {
	for _, o := range b.operations {
		var first []byte
		for _, t := range append([]*target{b.bare, b.ours}, b.boundsOf(o)...) {
			tenant := &rig.Tenant{Address: t.address, Token: t.token, HTTP: b.tenant.HTTP}
			answer, err := tenant.Post(ctx, withNumber(o.bodies(b.estate.of(o))[0], b.next))
			b.next++
			if err != nil {
				return fmt.Errorf("%s, %s: %w", t.Name, o.name, err)
			}
			if t == b.bare {
				first = answer
			}
			if err := sameShape(first, answer); err != nil {
				return fmt.Errorf("%s, %s: %w", t.Name, o.name, err)
			}
		}
		if o.creates {
			b.created++
		}
	}
	return nil
}

// sameShape returns an error when two answers differ in more than their values, or by 5 % in their
// length.
func sameShape(one, other []byte) error {
	shapes := make([]string, 2)
	for i, text := range [][]byte{one, other} {
		var value any
		if err := json.Unmarshal(text, &value); err != nil {
			return fmt.Errorf("no answer: %w", err)
		}
		shapes[i] = shape(value)
	}
	if shapes[0] != shapes[1] {
		return fmt.Errorf("the answers differ:\n%s\n%s", shapes[0], shapes[1])
	}
	if short, long := min(len(one), len(other)), max(len(one), len(other)); float64(long-short) > 0.05*float64(long) {
		return fmt.Errorf("the answers have %d and %d bytes", len(one), len(other))
	}
	return nil
}

// shape is a JSON value without its texts and numbers.
func shape(value any) string {
	switch value := value.(type) {
	case map[string]any:
		var fields []string
		for name, of := range value {
			fields = append(fields, name+": "+shape(of))
		}
		slices.Sort(fields)
		return "{" + strings.Join(fields, ", ") + "}"
	case []any:
		var items []string
		for _, of := range value {
			items = append(items, shape(of))
		}
		return "[" + strings.Join(items, ", ") + "]"
	case nil:
		return "null"
	}
	return fmt.Sprintf("%T", value)
}

// measureAll measures each operation on one target right after the other, round by round.
func (b *bench) measureAll(ctx context.Context) error {
	for round := range b.rounds {
		b.Say("round %d of %d", round+1, b.rounds)
		// PostgreSQL does at once what it would do in time, while something is measured.
		err := rig.Within(b.Services.DatabaseURL, false, func(d *sql.DB) error {
			_, err := d.ExecContext(ctx, "VACUUM ANALYZE")
			return err
		})
		if err != nil {
			return err
		}
		for _, o := range b.operations {
			for _, t := range append([]*target{b.bare, b.ours}, b.boundsOf(o)...) {
				if err := b.measure(ctx, t, o); err != nil {
					return err
				}
			}
			if script, ok := b.scripts[o.name]; ok {
				f, err := b.measureSQL(ctx, script)
				if err != nil {
					return err
				}
				b.sql.figures[o.name] = append(b.sql.figures[o.name], f)
			}
		}
	}
	return nil
}

const warmUpTime = 500 * time.Millisecond

func (b *bench) load(t *target, o operation, burst time.Duration) rig.Load {
	bodies := o.bodies(b.estate.of(o))
	return rig.Load{
		Address: t.address, Token: t.token, Requests: func(i int) string { return bodies[i%len(bodies)] },
		N:           16 * len(bodies),
		Connections: b.connections, Burst: burst, Status: 200, Expected: o.good, First: b.next,
	}
}

func (b *bench) measure(ctx context.Context, t *target, o operation) error {
	f, came, before, err := b.Measure(ctx, t.Target, warmUpTime, b.load(t, o, b.burst))
	b.next = max(b.next, came.Next)
	if t == b.ours && o.creates {
		b.created += before.Right + came.Right
	}
	t.figures[o.name] = append(t.figures[o.name], f)
	return err
}

// profile writes a CPU profile of Linkforge under each operation when details are wanted.
func (b *bench) profile(ctx context.Context) error {
	if b.details == "" {
		return nil
	}
	for _, o := range b.operations {
		b.Say("a profile of %s", o.name)
		length := max(b.burst, 2*time.Second).Round(time.Second)
		ended := make(chan error, 1)
		go func() {
			text, err := rig.Get(ctx, fmt.Sprintf("http://%s/debug/pprof/profile?seconds=%.0f", b.admin, length.Seconds()))
			ended <- errors.Join(err, b.writeDetail(o.name+".pprof", text))
		}()
		came, err := b.Drive(ctx, b.ours.Name, b.load(b.ours, o, length))
		if err := errors.Join(err, <-ended); err != nil {
			return err
		}
		if b.next = max(b.next, came.Next); o.creates {
			b.created += came.Right
		}
	}
	return nil
}

func (b *bench) writeDetail(name string, text []byte) error {
	if b.details == "" {
		return nil
	}
	return errors.Join(os.MkdirAll(b.details, 0o755), os.WriteFile(filepath.Join(b.details, name), text, 0o600))
}

// count compares the new links in the database with the answers that acknowledged one.
func (b *bench) count(ctx context.Context) error {
	err := rig.Within(b.Services.DatabaseURL, true, func(d *sql.DB) error {
		return d.QueryRowContext(ctx, "SELECT count(*) FROM links").Scan(&b.found)
	})
	b.found -= int64(b.estate.links)
	if b.found != b.created {
		b.Wrong = append(b.Wrong, fmt.Sprintf("links in the database %d, acknowledged %d", b.found, b.created))
	}
	return err
}
