// Command clicks measures the room of clicks with a year of them: it makes some ten million clicks
// of 10,000 links over 13 months, sends them through the real recorder, has the jobs run as the
// days pass, and asks for stats as tenants do. What ingest costs is held against PostgreSQL's own
// COPY of the same rows, in turns in one run, because machines differ and are shared: quote the
// ratio. It needs scripts/with-services for PostgreSQL:
//
//	LINKFORGE_TEST_DURABLE=1 ../scripts/with-services go run ./clicks -clicks 300000
//
// Everything but the ids of workspaces follows from the seed and the day. The clock that the room
// sees is that of the clicks, so a day's jobs run when its clicks are in.
//
// It exits with 1 when something went wrong: a click that was lost, or stats that are not what was
// sent. A slow machine, and a goal that was missed, are not errors.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"runtime/pprof"
	"time"

	"github.com/linkforge/linkforge/bench/internal/rig"
	"github.com/linkforge/linkforge/internal/db"
)

// options are the command line's.
type options struct {
	// clicks is how many there are, sqliteClicks how many of them on SQLite. onlySQLite leaves
	// PostgreSQL out.
	clicks, sqliteClicks int
	onlySQLite           bool
	// links is how many there are, months over how many whole months before the running one they are
	// followed.
	links, months int
	// round is how many clicks are ingested before the same are copied.
	round int
	// asks is how often each question is asked, checks how many ranges are held against what was sent.
	asks, checks int
	// plans prints how PostgreSQL answers, rebuild makes sums anew at the end.
	plans, rebuild bool
	seed           uint64
	// profile is a file for this process's CPU profile; empty for none.
	profile string
	// databaseURL is of the server that scripts/with-services provides.
	databaseURL string
}

func main() {
	rig.Main("clicks", func(ctx context.Context, args []string) error {
		return run(ctx, args, os.Getenv, os.Stdout,
			os.Stderr)
	})
}

func run(ctx context.Context, args []string, getenv func(string) string, out, progress io.Writer) error {
	o, err := parse(args, getenv)
	if err != nil {
		return err
	}
	if o.profile != "" {
		stop, err := startProfile(o.profile)
		if err != nil {
			return err
		}
		defer stop()
	}
	now := time.Now().UTC()
	if !o.onlySQLite {
		err = measure(ctx, o, db.Postgres, o.clicks, now, out, progress)
	}
	if o.sqliteClicks > 0 && ctx.Err() == nil {
		err = errors.Join(err, measure(ctx, o, db.SQLite, o.sqliteClicks, now, out, progress))
	}
	return err
}

func parse(args []string, getenv func(string) string) (options, error) {
	o := options{databaseURL: getenv("LINKFORGE_TEST_DATABASE_URL")}
	flags := flag.NewFlagSet("clicks", flag.ContinueOnError)
	flags.IntVar(&o.clicks, "clicks", 10_000_000, "how many clicks there are")
	flags.IntVar(&o.sqliteClicks, "sqlite-clicks", 1_000_000, "how many of them on SQLite; 0 leaves it out")
	flags.BoolVar(&o.onlySQLite, "sqlite", false, "leave PostgreSQL out, and send all clicks to SQLite")
	flags.IntVar(&o.links, "links", 10_000, "how many links there are")
	flags.IntVar(&o.months, "months", 13, "how many whole months before the running one the clicks are of")
	flags.IntVar(&o.round, "round", 200_000, "how many clicks are ingested before PostgreSQL copies the same")
	flags.IntVar(&o.asks, "asks", 200, "how often each question is asked")
	flags.IntVar(&o.checks, "checks", 200, "how many ranges are held against what was sent")
	flags.BoolVar(&o.plans, "plans", false, "print how PostgreSQL answers")
	flags.BoolVar(&o.rebuild, "rebuild", false, "verify all sums, spoil some, rebuild them, and check again")
	flags.Uint64Var(&o.seed, "seed", 1, "what all chance comes from")
	flags.StringVar(&o.profile, "profile", "", "a file for this process's CPU profile")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	o.sqliteClicks = min(o.sqliteClicks, o.clicks)
	if o.onlySQLite {
		o.sqliteClicks = o.clicks
	}
	switch {
	case o.links < workspaces || o.links > math.MaxUint16:
		return o, fmt.Errorf("from %d to %d links are needed", workspaces, math.MaxUint16)
	case o.clicks < 1000 || o.months < 1 || o.months > 13 || min(o.round, o.asks, o.checks) < 1:
		return o, errors.New("at least 1000 clicks, 1 to 13 months, and a round, a question and a check of something are " +
			"needed")
	case o.databaseURL == "" && !o.onlySQLite:
		return o, errors.New("PostgreSQL is needed: scripts/with-services provides it, and -sqlite does without")
	}
	return o, nil
}

// startProfile profiles this process until the function that it returns is called.
func startProfile(path string) (stop func(), err error) {
	file, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(file); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return func() {
		pprof.StopCPUProfile()
		_ = file.Close()
	}, nil
}

// measure tells the whole story on one database: open it, send all clicks, tidy up, ask, and hold
// the answers against what was sent.
func measure(
	ctx context.Context, o options, kind db.Kind, clicks int, now time.Time, out, progress io.Writer,
) (err error) {
	b := &bench{options: o, kind: kind, total: clicks, end: now, say: rig.Progress(progress), out: out, progress: progress}
	defer func() { err = errors.Join(err, b.close()) }()
	if err := b.open(ctx); err != nil {
		return err
	}
	if err := b.ingest(ctx); err != nil {
		return err
	}
	b.say("%s: looking at what is there", kind)
	if err := b.tidy(ctx); err != nil {
		return err
	}
	b.reportIngest()
	if err := b.ask(ctx); err != nil {
		return err
	}
	b.reportAnswers()
	b.say("%s: checking %d ranges", kind, o.checks)
	if err := b.reconcile(ctx, ""); err != nil {
		return err
	}
	if o.rebuild {
		if err := b.mend(ctx); err != nil {
			return err
		}
	}
	b.reportGoals()
	return b.problems()
}
