package main

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/linkforge/linkforge/bench/internal/rig"
)

const (
	// batch is how many links one call makes, callers how many call at once.
	batch   = 1000
	callers = 4
)

// prepare builds both versions, starts the early one, and makes the links with it.
func (d *drill) prepare(ctx context.Context) (err error) {
	d.Say("building %s (%s)", d.revision.hash, d.revision.subject)
	source := filepath.Join(d.Folder, "early")
	if err := os.Mkdir(source, 0o700); err != nil {
		return err
	}
	if err := d.revision.build(ctx, source, d.earlyBinary()); err != nil {
		return err
	}
	if d.early, err = d.start(ctx, "early", d.earlyBinary()); err != nil {
		return err
	}
	began := time.Now()
	if d.estate, err = settle(ctx, d.early.Address, d.links); err != nil {
		return fmt.Errorf("making the links: %w", err)
	}
	err = rig.Within(d.Services.DatabaseURL, false, func(in *sql.DB) error {
		_, err := in.ExecContext(ctx, "VACUUM ANALYZE")
		return err
	})
	if err != nil {
		return err
	}
	d.filled = time.Since(began)
	d.Say("%d links are there after %.1f s", d.links, d.filled.Seconds())
	d.load = newLoad(d.estate, d.early.Address)
	return nil
}

func (d *drill) earlyBinary() string { return filepath.Join(d.Folder, "linkforge-early") }

// start starts a server. Both share a data folder, so that the late one finds what the early one
// may leave in its log.
func (d *drill) start(ctx context.Context, name, binary string) (*rig.Process, error) {
	return d.Serve(ctx, name, binary, append(d.ServicesEnv(), "LINKFORGE_PUBLIC_URL="+rig.PublicURL,
		"LINKFORGE_DATA_DIR="+filepath.Join(d.Folder, "data"), "LINKFORGE_DRAIN_DELAY=0s")...)
}

// estate is a workspace with its links.
type estate struct {
	*rig.Tenant
	// codes are those of the links, by number.
	codes []string
}

// settle makes an account, its workspace and the links.
func settle(ctx context.Context, address string, links int) (*estate, error) {
	tenant, err := rig.NewTenant(ctx, address, "drill")
	if err != nil {
		return nil, err
	}
	e := &estate{Tenant: tenant, codes: make([]string, links)}
	return e, rig.InBatches(ctx, links, batch, callers, e.makeLinks)
}

func (e *estate) makeLinks(ctx context.Context, from, to int) error {
	var some []any
	for number := from; number < to; number++ {
		some = append(some, map[string]any{"url": urlOf(number)})
	}
	made, err := e.MakeLinks(ctx, some)
	for i, one := range made {
		e.codes[from+i] = one.Link.Code
	}
	return err
}

// urlOf is where a link leads, which also is its canonical form.
func urlOf(number int) string {
	return fmt.Sprintf("https://www.example.com/articles/%d/a-title-of-some-words?n=%d", number%997, number)
}
