// Command restore is the drill of a backup: it fills the embedded default and PostgreSQL with links and clicks, backs each up under
// load as docs/OPERATIONS.md says, restores it elsewhere, starts a server there, and holds what that one says and does against what
// was there. It tells how long each step took. It needs scripts/with-services for PostgreSQL and Redis, and pg_dump and psql:
//
//	LINKFORGE_TEST_DURABLE=1 scripts/with-services go run ./bench/restore -links 10000 -clicks 30000
//
// It exits with 1 when a promise was broken. How long something took is told, and no promise.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"

	"github.com/linkforge/linkforge/bench/internal/rig"
)

// options are the command line's.
type options struct {
	// links and clicks are how many there are when the backup begins, at least.
	links, clicks int
	// databaseURL and redisURL are of the servers that scripts/with-services provides.
	databaseURL, redisURL string
}

func main() {
	rig.Main("restore", func(ctx context.Context) error { return run(ctx, os.Args[1:], os.Getenv, os.Stdout, os.Stderr) })
}

func parse(args []string, getenv func(string) string) (options, error) {
	o := options{databaseURL: getenv("LINKFORGE_TEST_DATABASE_URL"), redisURL: getenv("LINKFORGE_TEST_REDIS_URL")}
	flags := flag.NewFlagSet("restore", flag.ContinueOnError)
	flags.IntVar(&o.links, "links", 100_000, "how many links there are before the load begins")
	flags.IntVar(&o.clicks, "clicks", 300_000, "how many redirects are answered before the backup")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	switch {
	case o.links < 2*followed || o.clicks < 1:
		return o, fmt.Errorf("at least %d links and a click are needed", 2*followed)
	case o.databaseURL == "" || o.redisURL == "":
		return o, errors.New("PostgreSQL and Redis are needed: scripts/with-services provides them")
	}
	return o, nil
}

func run(ctx context.Context, args []string, getenv func(string) string, out, progress io.Writer) (err error) {
	o, err := parse(args, getenv)
	if errors.Is(err, flag.ErrHelp) {
		return nil
	}
	if err != nil {
		return err
	}
	folder, err := os.MkdirTemp("", "linkforge-restore.")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	say := rig.Teller(progress)
	binary, err := rig.Build(ctx, folder)
	if err != nil {
		return err
	}
	services, err := rig.TakeServices(ctx, o.databaseURL, o.redisURL)
	defer func() { err = errors.Join(err, services.Close()) }()
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%s, %d cores.\n", rig.Processor(), runtime.NumCPU())
	var promises []rig.Promise
	for _, b := range backends(folder, services) {
		d := &drill{options: o, backend: b, folder: folder, binary: binary, say: func(format string, args ...any) { say(b.name+": "+format, args...) }}
		if err := errors.Join(d.drill(ctx), d.server.Stop()); err != nil {
			return fmt.Errorf("%s: %w", b.name, err)
		}
		d.report(out)
		promises = append(promises, d.promises...)
	}
	return rig.Broken(promises)
}
