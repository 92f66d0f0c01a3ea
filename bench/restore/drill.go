package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/linkforge/linkforge/bench/internal/rig"
)

// drill is that of one backend.
type drill struct {
	options
	*backend
	*rig.Run
	server   *rig.Process
	estate   *estate
	steps    []step
	promises rig.Promises
	// least and most are how many clicks each followed link may have after the restore: those that
	// were certainly in the backup, and those that may be.
	least, most []int64
	size        int64
}

// step is one that was timed.
type step struct {
	name string
	took time.Duration
}

func (d *drill) timed(name string, do func() error) error {
	d.Say("%s: %s", d.name, name)
	began := time.Now()
	err := do()
	d.steps = append(d.steps, step{name, time.Since(began)})
	return err
}

// drill is the story: fill, back up under load, go on for a while, restore elsewhere, check.
func (d *drill) drill(ctx context.Context) error {
	if err := d.fill(ctx); err != nil {
		return err
	}
	if err := d.backUpUnderLoad(ctx); err != nil {
		return err
	}
	if err := d.server.Stop(); err != nil {
		return err
	}
	if err := d.restore(ctx, d); err != nil {
		return err
	}
	err := d.timed("start, until it is ready", func() error { return d.start(ctx, "restored", d.restored) })
	if err != nil {
		return err
	}
	d.estate.Tenant = d.estate.At(d.server.Address)
	return d.check(ctx)
}

// start starts a server. Its quotas are those of the workspace.
func (d *drill) start(ctx context.Context, name string, env []string) (err error) {
	env = append([]string{"LINKFORGE_PUBLIC_URL=" + rig.PublicURL, "LINKFORGE_ENV=development",
		"LINKFORGE_LINK_QUOTA=1000000000", "LINKFORGE_HIT_QUOTA=1000000000"}, env...)
	d.server, err = d.Serve(ctx, name+"-"+d.name, d.Server, env...)
	return err
}

func (d *drill) fill(ctx context.Context) error {
	if err := d.start(ctx, "before", d.env); err != nil {
		return err
	}
	err := d.timed("making the links", func() (err error) {
		d.estate, err = settle(ctx, d.server.Address, d.links)
		return err
	})
	if err != nil {
		return err
	}
	err = d.timed("following them", func() error { return d.estate.follow(ctx, d.clicks) })
	if err != nil {
		return err
	}
	return d.timed("until the database has the clicks", func() error { return d.awaitClicks(ctx) })
}

// awaitClicks waits until the logs are written: a dump has only what the database has.
func (d *drill) awaitClicks(ctx context.Context) error {
	for {
		clicks, err := d.clicksOf(ctx, d.env)
		if err != nil || total(clicks) == total(loads(d.estate.answered)) {
			return err
		}
		if err := rig.Pause(ctx, 200*time.Millisecond); err != nil {
			return err
		}
	}
}

// backUpUnderLoad has people follow and make links while the backup is made, and for a while after.
func (d *drill) backUpUnderLoad(ctx context.Context) error {
	l := d.estate.load()
	defer l.end()
	var err error
	if d.least, err = d.certain(ctx); err != nil {
		return err
	}
	if err := d.backUp(ctx, d); err != nil {
		return err
	}
	d.most = loads(d.estate.asked)
	info, err := os.Stat(d.file)
	if err != nil {
		return err
	}
	d.size = info.Size()
	time.Sleep(2 * time.Second) // what is given out after the backup must not be given out again
	return l.end()
}

// report prints everything, in Markdown.
func (d *drill) report(w io.Writer) {
	fmt.Fprintf(w, "\n%s: %d links and %d clicks, a backup of %.1f MB.\n\n| step | seconds |\n|---|--:|\n", d.name,
		len(d.estate.links), total(d.most), float64(d.size)/1e6)
	for _, s := range d.steps {
		fmt.Fprintf(w, "| %s | %.1f |\n", s.name, s.took.Seconds())
	}
	fmt.Fprintln(w)
	if lines := d.server.Warnings(); len(lines) > 0 {
		fmt.Fprintf(w, "- the restored server: %d warnings, the first `%.300s`\n", len(lines), lines[0])
	}
	d.promises.Report(w)
}
