package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/linkforge/linkforge/bench/internal/rig"
)

const (
	// listed is how many links each workspace has: PostgreSQL plans by how rows are spread, and is not
	// to believe that all links are those of the one whose page is queried.
	listed = 500
	// batchSize is how many of them one call creates.
	batchSize = 250
)

// prepare starts everything, and creates what the operations are about.
func (b *bench) prepare(ctx context.Context) (err error) {
	if found, err := rig.FindPrograms(ctx, b.Say, rig.Program{Name: "pgbench", Debian: "postgresql"}); err == nil {
		b.pgbenchBinary = found["pgbench"]
	}
	if b.bare, err = b.startBare(ctx, "gqlgen over net/http, constants", "alone"); err != nil {
		return err
	}
	if b.admin, err = rig.FreeAddress(); err != nil {
		return err
	}
	if b.ours, err = b.startLinkforge(ctx, "linkforge", b.Services.DatabaseURL,
		"LINKFORGE_ADMIN_LISTEN="+b.admin); err != nil {
		return err
	}
	if b.tenant, err = rig.NewTenant(ctx, b.ours.address, "listed"); err != nil {
		return err
	}
	b.ours.token = b.tenant.Token
	if err := b.estate.create(ctx, b.tenant); err != nil {
		return fmt.Errorf("preparing the links: %w", err)
	}
	b.Say("%d workspaces and %d links are there", 2+len(b.estate.many), b.estate.links)
	err = rig.Within(b.Services.DatabaseURL, false, func(d *sql.DB) error {
		_, err := d.ExecContext(ctx, "CREATE TABLE "+leastTable+" (LIKE links INCLUDING ALL)")
		return err
	})
	if err != nil {
		return err
	}
	for _, bound := range [][2]string{
		{"gqlgen over net/http, one INSERT a request", "alone"},
		{"gqlgen over net/http, one INSERT for all waiting requests of a workspace", "gathered"},
	} {
		t, err := b.startBare(ctx, bound[0], bound[1], bareDatabase+"="+b.Services.DatabaseURL)
		if err != nil {
			return err
		}
		t.Beside = b.Services.PIDs()
		b.bounds = append(b.bounds, t)
	}
	return nil
}

func (b *bench) startBare(ctx context.Context, name, variant string, env ...string) (*target, error) {
	p, err := b.Helper(ctx, fmt.Sprintf("bare-%s-%d", variant, len(env)), env, "bare", variant)
	if err != nil {
		return nil, err
	}
	return &target{Target: rig.Target{Name: name, Own: []int{p.PID()}}, address: p.Address,
		figures: map[string][]rig.Figures{}}, nil
}

func (b *bench) startLinkforge(ctx context.Context, name, databaseURL string, env ...string) (*target, error) {
	limit := strconv.Itoa(rig.Unlimited)
	env = append([]string{
		"LINKFORGE_DATABASE_URL=" + databaseURL, "LINKFORGE_REDIS_URL=" + b.Services.RedisURL,
		"LINKFORGE_RATE_LIMITS=on", "LINKFORGE_REQUEST_RATE=" + limit, "LINKFORGE_COST_RATE=" + limit,
	}, env...)
	p, err := b.Serve(ctx, name, b.Server, env...)
	if err != nil {
		return nil, err
	}
	return &target{
		Target:  rig.Target{Name: "Linkforge on PostgreSQL + Redis", Own: []int{p.PID()}, Beside: b.Services.PIDs()},
		address: p.Address, figures: map[string][]rig.Figures{},
	}, nil
}

// estate has the workspace whose links are listed, and the one and the many that get new ones.
type estate struct {
	listed, one string
	many        []string
	links       int
}

// of are the workspaces that an operation's requests take turns with.
func (e estate) of(o operation) []string {
	switch {
	case !o.creates:
		return []string{e.listed}
	case o.workspaces == 1:
		return []string{e.one}
	}
	return e.many
}

func (e *estate) create(ctx context.Context, tenant *rig.Tenant) (err error) {
	e.listed = tenant.Workspace
	if e.one, err = tenant.CreateWorkspace(ctx, "bench-one"); err != nil {
		return err
	}
	for n := range 16 {
		w, err := tenant.CreateWorkspace(ctx, fmt.Sprintf("bench-many-%d", n+1))
		if err != nil {
			return err
		}
		e.many = append(e.many, w)
	}
	for _, w := range append([]string{e.listed, e.one}, e.many...) {
		for from := 0; from < listed; from += batchSize {
			var some []any
			for n := from; n < from+batchSize; n++ {
				some = append(some, map[string]any{"url": listedURL(n), "title": listedTitle(n), "tags": listedTags(n)})
			}
			in := *tenant
			in.Workspace = w
			if _, err := in.MakeLinks(ctx, some); err != nil {
				return err
			}
		}
		e.links += listed
	}
	return nil
}

// recordings is how often an operation is requested to record its SQL.
const recordings = 40

// record finds out the SQL of each reading operation: another Linkforge connects to PostgreSQL
// through a recorder.
func (b *bench) record(ctx context.Context) (err error) {
	if b.pgbenchBinary == "" {
		return nil
	}
	config, err := pgx.ParseConfig(b.Services.DatabaseURL)
	if err != nil {
		return rig.ErrURL
	}
	r, err := startRecorder(net.JoinHostPort(config.Host, strconv.Itoa(int(config.Port))))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	database := url.URL{
		Scheme: "postgres", Host: r.listener.Addr().String(), Path: config.Database,
		User:     url.UserPassword(config.User, config.Password),
		RawQuery: "sslmode=disable", // it goes to this process
	}
	// Tokens are valid at the public URL of the server that issued them.
	p, err := b.Serve(ctx, "recorded", b.Server, "LINKFORGE_DATABASE_URL="+database.String(),
		"LINKFORGE_REDIS_URL="+b.Services.RedisURL,
		"LINKFORGE_PUBLIC_URL=http://"+b.ours.address)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Stop()) }()
	b.scripts, b.sql = map[string]string{}, &target{Target: rig.Target{Name: "the same SQL by pgbench"},
		figures: map[string][]rig.Figures{}}
	for _, o := range b.operations {
		if o.creates {
			continue
		}
		statements, err := recordOne(ctx, r, b.tenant.At(p.Address), o.bodies(b.estate.of(o))[0])
		if err != nil {
			return fmt.Errorf("recording the SQL of %s: %w", o.name, err)
		}
		b.scripts[o.name] = script(statements)
		if err := b.writeDetail(o.name+".sql", []byte(b.scripts[o.name])); err != nil {
			return err
		}
		b.Say("%s is %d statements", o.name, len(statements))
	}
	return nil
}

// recordOne repeats a request, so that its statements can be told from those of jobs.
func recordOne(ctx context.Context, r *recorder, t *rig.Tenant, body string) ([]statement, error) {
	var sequences [][]statement
	for range recordings {
		if _, err := r.taken(); err != nil {
			return nil, err
		}
		if _, err := t.Post(ctx, body); err != nil {
			return nil, err
		}
		statements, err := r.taken()
		if err != nil {
			return nil, err
		}
		sequences = append(sequences, statements)
		if err := rig.Pause(ctx, 5*time.Millisecond); err != nil { // what follows an answer does not belong to the next one
			return nil, err
		}
	}
	found := usual(sequences)
	if len(found) == 0 {
		return nil, errors.New("no statement went to PostgreSQL")
	}
	return found, nil
}
