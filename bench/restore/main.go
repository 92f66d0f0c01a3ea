// Command restore is the drill of a backup: it fills the embedded default and PostgreSQL with links
// and clicks, backs each up under load as docs/OPERATIONS.md says, restores it elsewhere, starts a
// server there, and holds what that one says and does against what was there. It tells how long
// each step took. It needs scripts/with-services for PostgreSQL and Redis, and pg_dump and psql:
//
//	LINKFORGE_TEST_DURABLE=1 ../scripts/with-services go run ./restore -links 10000 -clicks 30000
//
// It exits with 1 when a promise was broken. How long something took is told, and no promise.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"

	"github.com/linkforge/linkforge/bench/internal/rig"
)

// options are the command line's.
type options struct {
	// links and clicks are how many there are when the backup begins, at least.
	links, clicks int
}

func main() { rig.Main("restore", run) }

func parse(args []string) (o options, _ error) {
	flags := flag.NewFlagSet("restore", flag.ContinueOnError)
	flags.IntVar(&o.links, "links", 100_000, "how many links there are before the load begins")
	flags.IntVar(&o.clicks, "clicks", 300_000, "how many redirects are answered before the backup")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if o.links < 2*followed || o.clicks < 1 {
		return o, fmt.Errorf("at least %d links and a click are needed", 2*followed)
	}
	return o, nil
}

func run(ctx context.Context, args []string) (err error) {
	o, err := parse(args)
	if err != nil {
		return err
	}
	r, err := rig.NewRun(ctx, "", os.Stderr)
	defer func() { err = errors.Join(err, r.Close()) }()
	if err != nil {
		return err
	}
	fmt.Println(rig.Machine())
	var promises rig.Promises
	for _, b := range []*backend{embedded(r.Folder), onPostgres(r)} {
		d := &drill{options: o, Run: r, backend: b}
		if err := errors.Join(d.drill(ctx), d.server.Stop()); err != nil {
			return fmt.Errorf("%s: %w", b.name, err)
		}
		d.report(os.Stdout)
		promises = append(promises, d.promises...)
	}
	return promises.Broken()
}
