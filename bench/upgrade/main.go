// Command upgrade is the drill of an upgrade: a server of an early version works on a schema of its
// time with a million links and is kept busy, a server of this tree starts beside it and migrates,
// the load moves over, and the early one is told to stop. No request and no creation may fail
// meanwhile, every URL keeps its code, and every redirect is counted once. It needs git, which has
// the early version, and scripts/with-services for PostgreSQL and Redis:
//
//	LINKFORGE_TEST_DURABLE=1 ../scripts/with-services go run ./upgrade -links 100000
//
// The load is paced: what is looked for is who has to wait for a migration, not how much the
// machine can do. It exits with 1 when a promise was broken. How long something took is told, and
// no promise.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/linkforge/linkforge/bench/internal/rig"
)

// options are the command line's.
type options struct {
	// links is how many there are before the load begins.
	links int
	// from is the revision of the early version; empty for the oldest that can be upgraded under load.
	from string
	// phase is how long each phase of the load lasts but the migration's, which takes what it takes.
	phase time.Duration
	// dump is how long somebody goes on to read all tables while the late server begins to migrate, as
	// a pg_dump does.
	dump time.Duration
}

func main() {
	rig.Main("upgrade", func(ctx context.Context, args []string) (err error) {
		o, err := parse(args)
		if err != nil {
			return err
		}
		d := &drill{options: o}
		if d.revision, err = findRevision(ctx, o.from); err != nil {
			return err
		}
		d.Run, err = rig.NewRun(ctx, "", os.Stderr)
		defer func() { err = errors.Join(err, d.Close()) }()
		if err != nil {
			return err
		}
		if err := d.upgrade(ctx); err != nil {
			return err
		}
		d.report(os.Stdout)
		return d.promises.Broken()
	})
}

func parse(args []string) (o options, _ error) {
	flags := flag.NewFlagSet("upgrade", flag.ContinueOnError)
	flags.IntVar(&o.links, "links", 1_000_000, "how many links there are before the load begins")
	flags.StringVar(&o.from, "from", "", "the git revision of the early version; the oldest that can be upgraded under "+
		"load when empty")
	flags.DurationVar(&o.phase, "phase", 15*time.Second, "how long each phase of the load lasts")
	flags.DurationVar(&o.dump, "dump", 4*time.Second, "how long a dump goes on while the late server migrates; 0 for none")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if o.links < batch || o.phase <= 0 {
		return o, fmt.Errorf("at least %d links and some time are needed", batch)
	}
	return o, nil
}

// drill is a run.
type drill struct {
	options
	*rig.Run
	revision revision
	// early and late are the servers of both versions.
	early, late *rig.Process
	estate      *estate
	load        *load
	steps       []step
	promises    rig.Promises
	filled      time.Duration
}

// upgrade is the story: fill, load, migrate, both, move, stop, check.
func (d *drill) upgrade(ctx context.Context) error {
	if err := d.prepare(ctx); err != nil {
		return err
	}
	d.load.start()
	defer d.load.stop()
	if err := d.during(ctx, before); err != nil {
		return err
	}
	if err := d.migrate(ctx); err != nil {
		return err
	}
	d.load.aim(d.early.Address, d.late.Address)
	if err := d.during(ctx, beside); err != nil {
		return err
	}
	if err := d.retire(); err != nil {
		return err
	}
	if err := d.during(ctx, after); err != nil {
		return err
	}
	d.load.stop()
	return d.check(ctx)
}

// during lets the load go on.
func (d *drill) during(ctx context.Context, p phase) error {
	d.Say("%s", p)
	d.load.enter(p)
	return rig.Pause(ctx, d.phase)
}

// migrate starts the late server, which migrates before it listens.
func (d *drill) migrate(ctx context.Context) error {
	d.Say("%s", migrating)
	d.load.enter(migrating)
	watch, err := watchMigrations(ctx, d.Services.DatabaseURL)
	if err != nil {
		return err
	}
	endDump, err := d.dumping(ctx)
	if err != nil {
		return err
	}
	d.late, err = d.start(ctx, "late", d.Server)
	var problem error
	d.steps, problem = watch.end()
	return errors.Join(err, problem, endDump())
}

// dumping holds what a pg_dump holds, all tables against changes of what they are, until its time
// is over. The function that it returns waits for that.
func (d *drill) dumping(ctx context.Context) (end func() error, err error) {
	in, err := rig.Open(d.Services.DatabaseURL, false)
	if err != nil {
		return nil, err
	}
	tx, err := in.BeginTx(ctx, nil)
	if err == nil {
		_, err = tx.ExecContext(ctx, `DO $$ BEGIN EXECUTE 'LOCK TABLE ' || (SELECT string_agg(quote_ident(tablename), ', ')
			FROM pg_tables WHERE schemaname = 'public') || ' IN ACCESS SHARE MODE'; END $$`)
	}
	if err != nil {
		return nil, errors.Join(err, in.Close())
	}
	ended := make(chan error, 1)
	time.AfterFunc(d.dump, func() { ended <- errors.Join(tx.Rollback(), in.Close()) })
	return func() error { return <-ended }, nil
}

// retire takes the early server out, as a proxy does before it is told to stop.
func (d *drill) retire() error {
	d.Say("the load moves to the late server, and the early one is told to stop")
	d.load.aim(d.late.Address)
	d.load.rest(d.early.Address)
	began := time.Now()
	err := d.early.Stop()
	d.Say("the early server has ended after %.1f s", time.Since(began).Seconds())
	return err
}
