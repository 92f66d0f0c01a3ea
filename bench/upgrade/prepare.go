package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/linkforge/linkforge/bench/internal/rig"
	"github.com/linkforge/linkforge/internal/db"
)

const (
	// batch is how many links one call makes, callers how many call at once.
	batch   = 1000
	callers = 4
	// publicURL is both servers'. Nobody asks there: the load asks at the servers' own addresses.
	publicURL = "http://sho.rt"
	// generous is an allowance that nobody uses up.
	generous = 1 << 40
)

// prepare builds both versions, starts the early one, and makes the links with it.
func (d *drill) prepare(ctx context.Context) (err error) {
	if d.revision, err = findRevision(ctx, d.from); err != nil {
		return err
	}
	if d.folder, err = os.MkdirTemp("", "linkforge-upgrade."); err != nil {
		return err
	}
	if err := d.build(ctx); err != nil {
		return err
	}
	if d.services, err = rig.TakeServices(ctx, d.databaseURL, d.redisURL); err != nil {
		return err
	}
	if d.early, err = d.start(ctx, "early", d.earlyBinary()); err != nil {
		return err
	}
	if err := rig.AwaitReady(ctx, d.early.Address); err != nil {
		return err
	}
	began := time.Now()
	if d.estate, err = settle(ctx, d.early.Address, d.links); err != nil {
		return fmt.Errorf("making the links: %w", err)
	}
	if err := d.within(func(in *db.DB) error { return analyze(ctx, in) }); err != nil {
		return err
	}
	d.filled = time.Since(began)
	d.say("%d links are there after %.1f s", d.links, d.filled.Seconds())
	d.load = newLoad(d.estate, d.early.Address)
	return nil
}

func (d *drill) earlyBinary() string { return filepath.Join(d.folder, "linkforge-early") }
func (d *drill) lateBinary() string  { return filepath.Join(d.folder, "linkforge") }

func (d *drill) build(ctx context.Context) error {
	d.say("building %s (%s) and this tree", d.revision.hash, d.revision.subject)
	source := filepath.Join(d.folder, "early")
	if err := os.Mkdir(source, 0o700); err != nil {
		return err
	}
	if err := d.revision.build(ctx, source, d.earlyBinary()); err != nil {
		return err
	}
	_, err := rig.Build(ctx, d.folder)
	return err
}

// start starts a server. Both share a data folder, so that the late one finds what the early one may leave in its log.
func (d *drill) start(ctx context.Context, name, binary string) (*rig.Process, error) {
	address, err := rig.FreeAddress()
	if err != nil {
		return nil, err
	}
	secret, most := strings.Repeat("benchmark", 4), strconv.Itoa(generous)
	return rig.Start(ctx, d.folder, name, address, []string{
		"LINKFORGE_LISTEN=" + address, "LINKFORGE_PUBLIC_URL=" + publicURL, "LINKFORGE_ENV=production",
		"LINKFORGE_DATA_DIR=" + filepath.Join(d.folder, "data"), "LINKFORGE_DATABASE_URL=" + d.services.DatabaseURL,
		"LINKFORGE_REDIS_URL=" + d.services.RedisURL, "LINKFORGE_JWT_SECRET=" + secret, "LINKFORGE_CODE_SECRET=" + secret,
		"LINKFORGE_RATE_LIMITS=off", "LINKFORGE_LINK_QUOTA=" + most, "LINKFORGE_DESTINATION_CHECKS=off", "LINKFORGE_DRAIN_DELAY=0s",
	}, binary, "serve")
}

// within opens the database for as long as something is done in it.
func (d *drill) within(do func(*db.DB) error) (err error) {
	in, err := db.OpenPostgres(d.services.DatabaseURL, 2)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	return do(in)
}

// analyze has PostgreSQL do at once what it would do in time, while something is measured.
func analyze(ctx context.Context, in *db.DB) error {
	_, err := in.ExecContext(db.AsOwner(ctx), "VACUUM ANALYZE")
	return err
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
