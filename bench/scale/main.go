// Command scale measures how the cost of an operation grows: with the links in the database, with
// the nodes beside each other, and with the workspaces. What is told is CPU time, of Linkforge and
// of PostgreSQL with Redis, for one operation, and how long it takes: on a machine of few cores
// throughput cannot grow with the nodes, and what each operation costs says what a larger machine
// could do. It needs Linux, and scripts/with-services for PostgreSQL and Redis:
//
//	LINKFORGE_TEST_DURABLE=1 ../scripts/with-services go run ./scale -links 10000,50000 -tenants 100 -rounds 1
//
// Sizes that are compared take turns, in short bursts, so that a noisy machine is noisy for all of
// them. Every server is a process of its own, built from this tree unless -server names another,
// with everything on but what would ask the internet or refuse the load. One load generator, this
// program in another process, drives them all.
//
// It exits with 1 when something went wrong, as a wrong answer. A cost that grows is not an error.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/linkforge/linkforge/bench/internal/rig"
)

// parts are what can be measured, each by itself.
var parts = []string{"links", "nodes", "tenants"}

// options are the command line's.
type options struct {
	// parts are those to measure.
	parts []string
	// operations are those to measure, of those that a part has.
	operations []string
	// links are the numbers of links that are compared, with as many workspaces as the first of
	// tenants.
	links []int
	// tenants is how many workspaces the parts links and nodes have, manyTenants are those that are
	// compared.
	tenants     int
	manyTenants []int
	// at is how many links the parts nodes and tenants have.
	at int
	// nodes are the numbers of nodes that are compared.
	nodes []int
	// rounds is how often everything is measured, burst how long at a time and warmUp how long before,
	// idle how long nodes are watched while nothing is asked.
	rounds              int
	burst, warmUp, idle time.Duration
	// connections is over how many everything is asked.
	connections int
	// plans says that PostgreSQL is asked how it finds links.
	plans bool
	// server is the binary to measure; empty means this tree's.
	server string
}

func main() {
	rig.Main("scale", func(ctx context.Context, args []string) error {
		if len(args) > 1 && args[0] == "constant" {
			return rig.ServeConstant(ctx, args[1], urlOf(0))
		}
		o, err := parse(args)
		if err != nil {
			return err
		}
		return measure(ctx, o, os.Stdout)
	})
}

func parse(args []string) (o options, _ error) {
	var names, asked, links, manyTenants, nodes string
	flags := flag.NewFlagSet("scale", flag.ContinueOnError)
	flags.StringVar(&names, "parts", strings.Join(parts, ","), "which parts, with commas between them")
	flags.StringVar(&asked, "operations", strings.Join(operationNames(), ","),
		"which operations of those that a part has, with commas between them")
	flags.StringVar(&links, "links", "100000,1000000,10000000", "how many links are compared, the fewest first")
	flags.IntVar(&o.tenants, "tenants", 1000, "how many workspaces there are while links and nodes are compared")
	flags.StringVar(&manyTenants, "many-tenants", "10,1000,100000", "how many workspaces are compared")
	flags.IntVar(&o.at, "at", 1_000_000, "how many links there are while nodes and workspaces are compared")
	flags.StringVar(&nodes, "nodes", "1,2,4", "how many nodes are compared")
	flags.IntVar(&o.rounds, "rounds", 3, "how often everything is measured")
	flags.DurationVar(&o.burst, "burst", 2*time.Second, "how long at a time")
	flags.DurationVar(&o.warmUp, "warm-up", time.Second, "how long before")
	flags.DurationVar(&o.idle, "idle", 10*time.Second, "how long nodes are watched that nobody asks")
	flags.IntVar(&o.connections, "connections", 8, "over how many connections")
	flags.BoolVar(&o.plans, "plans", false, "whether PostgreSQL's plans are told, with the progress")
	flags.StringVar(&o.server, "server", "", "the linkforge binary to measure; built from this tree when empty")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	var err [3]error
	o.links, err[0] = numbers("links", links)
	o.manyTenants, err[1] = numbers("many-tenants", manyTenants)
	o.nodes, err[2] = numbers("nodes", nodes)
	o.parts, o.operations = strings.Split(names, ","), strings.Split(asked, ",")
	return o, errors.Join(append(err[:], o.check())...)
}

// numbers reads whole numbers with commas between them, each larger than the one before.
func numbers(name, list string) (all []int, err error) {
	for word := range strings.SplitSeq(list, ",") {
		n, err := strconv.Atoi(word)
		if err != nil || n < 1 || len(all) > 0 && n <= all[len(all)-1] {
			return nil, fmt.Errorf("-%s: %q is no list of numbers of which each is larger than the one before", name, list)
		}
		all = append(all, n)
	}
	return all, nil
}

// leastShare is how many links a workspace has at least.
const leastShare = 2

func (o options) check() error {
	for _, name := range o.parts {
		if !slices.Contains(parts, name) {
			return fmt.Errorf("there is no part %q: there are %s", name, strings.Join(parts, ", "))
		}
	}
	for _, name := range o.operations {
		if _, err := operationNamed(name); err != nil {
			return err
		}
	}
	for _, s := range o.shapes() {
		if s.Tenants < 2 || s.Links < leastLinks || s.Links > mostLinks || s.size(1) < leastShare {
			return fmt.Errorf("%d links in %d workspaces cannot be compared", s.Links, s.Tenants)
		}
	}
	if o.rounds < 1 || o.burst <= 0 || o.warmUp <= 0 || o.idle <= 0 || o.connections < 1 {
		return errors.New("at least one round, one connection and some time are needed")
	}
	return nil
}

// shapes are all estates that the parts need, each once.
func (o options) shapes() (all []shape) {
	add := func(links, tenants int) {
		s := shape{Number: len(all) + 1, Links: links, Tenants: tenants}
		if !slices.ContainsFunc(all, s.isLike) {
			all = append(all, s)
		}
	}
	if slices.Contains(o.parts, "links") {
		for _, links := range o.links {
			add(links, o.tenants)
		}
	}
	if slices.Contains(o.parts, "nodes") {
		add(o.at, o.tenants)
	}
	if slices.Contains(o.parts, "tenants") {
		for _, tenants := range o.manyTenants {
			add(o.at, tenants)
		}
	}
	return all
}

func measure(ctx context.Context, o options, out io.Writer) (err error) {
	b := &bench{options: o}
	b.Run, err = rig.NewRun(ctx, o.server, os.Stderr)
	defer func() { err = errors.Join(err, b.stop(), b.Close()) }()
	if err != nil {
		return err
	}
	if err := b.prepare(ctx); err != nil {
		return err
	}
	fmt.Fprintf(out, "%d connections, %s of bursts of %s after %s, %s. Medians.\n", o.connections,
		plural(o.rounds, "round"), o.burst, o.warmUp, rig.Machine())
	for _, part := range []struct {
		name    string
		measure func(context.Context, io.Writer) error
	}{{"links", b.compareLinks}, {"nodes", b.compareNodes}, {"tenants", b.compareTenants}} {
		if !slices.Contains(o.parts, part.name) {
			continue
		}
		b.Say("the part %s", part.name)
		if err := part.measure(ctx, out); err != nil {
			return fmt.Errorf("%s: %w", part.name, err)
		}
	}
	return b.Problems()
}
