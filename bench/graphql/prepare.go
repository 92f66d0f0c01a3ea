package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/linkforge/linkforge/bench/internal/rig"
	"github.com/linkforge/linkforge/internal/db"
)

// generous is a rate that counts and never refuses.
const generous = 1 << 40

const (
	// listed is how many links each workspace has, beforehand: PostgreSQL plans by how rows are spread, and is not to believe that
	// all links are those of the one whose page is asked for.
	listed = 500
	// atOnce is how many of them one call makes.
	atOnce = 250
)

// prepare makes everything that is there before something is measured.
func (b *bench) prepare(ctx context.Context) (err error) {
	if b.self, err = os.Executable(); err != nil {
		return err
	}
	if b.folder, err = os.MkdirTemp("", "linkforge-bench."); err != nil {
		return err
	}
	if b.server == "" {
		if b.server, err = rig.Build(ctx, b.folder); err != nil {
			return err
		}
		b.say("the server is built")
	}
	if b.services, err = rig.TakeServices(ctx, b.databaseURL, b.redisURL); err != nil {
		return err
	}
	b.pgbenchBinary = findPgbench()
	if err := b.start(ctx); err != nil {
		return err
	}
	b.client = &client{address: b.ours.process.Address}
	if b.estate, err = b.client.settle(ctx); err != nil {
		return fmt.Errorf("preparing the links: %w", err)
	}
	b.say("%d workspaces and %d links are there", 2+len(b.estate.many), b.estate.links)
	return b.startLeast(ctx)
}

// startLeast starts what creations are held against as well, once there is a table to be like.
func (b *bench) startLeast(ctx context.Context) error {
	err := b.within(func(d *db.DB) error {
		_, err := d.ExecContext(db.AsOwner(ctx), "CREATE TABLE "+leastTable+" (LIKE links INCLUDING ALL)")
		return err
	})
	if err != nil {
		return fmt.Errorf("preparing a table for the least: %w", err)
	}
	database := []string{bareDatabase + "=" + b.services.DatabaseURL}
	alone := &target{name: "gqlgen over net/http, one INSERT a request", beside: b.services.PIDs()}
	if alone.process, err = b.startBare(ctx, "alone", database); err != nil {
		return err
	}
	b.least = append(b.least, alone)
	gathered := &target{name: "gqlgen over net/http, one INSERT for all of a workspace who wait", beside: b.services.PIDs()}
	if gathered.process, err = b.startBare(ctx, "gathered", database, "-gathered"); err != nil {
		return err
	}
	b.least = append(b.least, gathered)
	return nil
}

func (b *bench) startBare(ctx context.Context, name string, env []string, more ...string) (*rig.Process, error) {
	address, err := rig.FreeAddress()
	if err != nil {
		return nil, err
	}
	return rig.Start(ctx, b.folder, name, address, env, append([]string{b.self, "bare", "-address", address}, more...)...)
}

// start starts both targets. The one that is not measured has nothing to do.
func (b *bench) start(ctx context.Context) (err error) {
	b.bare = &target{name: "gqlgen over net/http, constants"}
	if b.bare.process, err = b.startBare(ctx, "bare", nil); err != nil {
		return err
	}
	b.ours = &target{name: "Linkforge on PostgreSQL + Redis", beside: b.services.PIDs()}
	var more []string
	if b.details != "" {
		if b.admin, err = rig.FreeAddress(); err != nil {
			return err
		}
		more = append(more, "LINKFORGE_ADMIN_LISTEN="+b.admin)
	}
	b.ours.process, err = b.startLinkforge(ctx, "linkforge", b.services.DatabaseURL, more...)
	return err
}

func (b *bench) startLinkforge(ctx context.Context, name, databaseURL string, more ...string) (*rig.Process, error) {
	address, err := rig.FreeAddress()
	if err != nil {
		return nil, err
	}
	env := append(settings(address, filepath.Join(b.folder, name+"-data")), "LINKFORGE_DATABASE_URL="+databaseURL, "LINKFORGE_REDIS_URL="+b.services.RedisURL)
	return rig.Start(ctx, b.folder, name, address, append(env, more...), b.server, "serve")
}

// settings have everything on but what would ask the internet. Limits are there, and generous.
func settings(address, data string) []string {
	secret := strings.Repeat("benchmark", 4)
	most := strconv.Itoa(generous)
	return []string{
		"LINKFORGE_LISTEN=" + address, "LINKFORGE_PUBLIC_URL=http://" + address, "LINKFORGE_ENV=production", "LINKFORGE_DATA_DIR=" + data,
		"LINKFORGE_RATE_LIMITS=on", "LINKFORGE_REQUEST_RATE=" + most, "LINKFORGE_COST_RATE=" + most, "LINKFORGE_LINK_QUOTA=" + most,
		"LINKFORGE_DESTINATION_CHECKS=off", "LINKFORGE_JWT_SECRET=" + secret, "LINKFORGE_CODE_SECRET=" + secret,
	}
}

// analyze has PostgreSQL do at once what it would do in time, while something is measured.
func (b *bench) analyze(ctx context.Context) error {
	return b.within(func(d *db.DB) error {
		_, err := d.ExecContext(db.AsOwner(ctx), "VACUUM ANALYZE")
		return err
	})
}

// within opens the database for as long as something is done in it.
func (b *bench) within(do func(*db.DB) error) (err error) {
	d, err := db.OpenPostgres(b.services.DatabaseURL, 2)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	return do(d)
}

// estate is what the operations are about: the workspace whose links are listed, the one and the many that get new ones.
type estate struct {
	listed, one string
	many        []string
	links       int // that were made beforehand
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

// client asks what is asked once. It is logged in once it has a token.
type client struct{ address, token string }

// settle makes an account, its workspaces and the links that are to be listed.
func (c *client) settle(ctx context.Context) (e estate, err error) {
	var registered struct {
		Register struct{ Token string }
	}
	input := map[string]any{"email": email, "password": "a long word for " + email, "name": personName}
	if err := c.mutate(ctx, "register", "RegisterInput", "token", input, &registered); err != nil {
		return e, err
	}
	c.token = registered.Register.Token
	if e.listed, err = c.makeWorkspace(ctx, "listed"); err != nil {
		return e, err
	}
	if e.one, err = c.makeWorkspace(ctx, "one"); err != nil {
		return e, err
	}
	for n := range 16 {
		w, err := c.makeWorkspace(ctx, fmt.Sprintf("many-%d", n+1))
		if err != nil {
			return e, err
		}
		e.many = append(e.many, w)
	}
	for _, w := range append([]string{e.listed, e.one}, e.many...) {
		if err := c.makeLinks(ctx, w); err != nil {
			return e, err
		}
		e.links += listed
	}
	return e, nil
}

func (c *client) makeWorkspace(ctx context.Context, name string) (string, error) {
	var made struct {
		CreateWorkspace struct{ Workspace struct{ ID string } }
	}
	err := c.mutate(ctx, "createWorkspace", "CreateWorkspaceInput", "workspace { id }", map[string]any{"name": name, "slug": "bench-" + name}, &made)
	return made.CreateWorkspace.Workspace.ID, err
}

func (c *client) makeLinks(ctx context.Context, workspace string) error {
	for from := 0; from < listed; from += atOnce {
		var some []any
		for number := from; number < from+atOnce; number++ {
			some = append(some, map[string]any{"url": listedURL(number), "title": listedTitle(number), "tags": listedTags(number)})
		}
		var made struct {
			CreateLinks struct{ Results []struct{ Created bool } }
		}
		input := map[string]any{"workspaceId": workspace, "links": some}
		if err := c.mutate(ctx, "createLinks", "CreateLinksInput", "results { created }", input, &made); err != nil {
			return err
		}
		if n := len(made.CreateLinks.Results); n != atOnce {
			return fmt.Errorf("%d links were made of %d", n, atOnce)
		}
	}
	return nil
}

// mutate calls a mutation that has one input and a payload with errors.
func (c *client) mutate(ctx context.Context, name, kind, fields string, input, into any) error {
	document := "mutation($input: " + kind + "!) { " + name + "(input: $input) { " + fields + " errors { message } } }"
	answer, err := c.ask(ctx, body(document, map[string]any{"input": input}))
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if bytes.Contains(answer, withErrors) {
		return fmt.Errorf("%s: %s", name, answer[:min(len(answer), sampleBytes)])
	}
	return json.Unmarshal(answer, &struct{ Data any }{into})
}

// ask sends a body, and returns the answer's.
func (c *client) ask(ctx context.Context, body string) ([]byte, error) {
	target := url.URL{Scheme: "http", Host: c.address, Path: "/graphql"}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, target.String(), strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept-Encoding", "identity") // as the load generator
	if c.token != "" {
		request.Header.Set("Authorization", "Bearer "+c.token)
	}
	response, err := (&http.Client{Timeout: patience}).Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("it was answered with %d: %s", response.StatusCode, answer[:min(len(answer), sampleBytes)])
	}
	return answer, err
}

// close stops and removes everything that is still there.
func (b *bench) close() (err error) {
	for _, t := range append([]*target{b.bare, b.ours}, b.least...) {
		if t != nil {
			err = errors.Join(err, t.process.Stop())
		}
	}
	err = errors.Join(err, b.services.Close())
	if b.folder != "" {
		err = errors.Join(err, os.RemoveAll(b.folder))
	}
	return err
}

// recordings is how often an operation is asked to record its SQL.
const recordings = 40

// record finds out which SQL each reading operation is: a Linkforge of its own speaks to PostgreSQL through a recorder.
func (b *bench) record(ctx context.Context) (err error) {
	if b.pgbenchBinary == "" {
		b.say("pgbench is not installed: the same SQL is not measured")
		return nil
	}
	config, err := pgx.ParseConfig(b.services.DatabaseURL)
	if err != nil {
		return errUnreadable
	}
	r, err := startRecorder(net.JoinHostPort(config.Host, strconv.Itoa(int(config.Port))))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	database := url.URL{
		Scheme: "postgres", Host: r.listener.Addr().String(), Path: config.Database, User: url.UserPassword(config.User, config.Password),
		RawQuery: "sslmode=disable", // it goes to this process
	}
	// Tokens are good at the address that has given them.
	p, err := b.startLinkforge(ctx, "recorded", database.String(), "LINKFORGE_PUBLIC_URL=http://"+b.ours.process.Address)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Stop()) }()
	c := &client{address: p.Address, token: b.client.token}
	b.scripts = map[string]string{}
	for _, o := range b.operations {
		if o.creates {
			continue
		}
		statements, err := recordOne(ctx, r, c, o.bodies(b.estate.of(o))[0])
		if err != nil {
			return fmt.Errorf("recording the SQL of %s: %w", o.name, err)
		}
		b.scripts[o.name] = script(statements)
		if err := b.keep(o.name+".sql", []byte(b.scripts[o.name])); err != nil {
			return err
		}
		b.say("%s is %d statements", o.name, len(statements))
	}
	return nil
}

// recordOne asks over and over, so that what is usual can be told from what others do meanwhile.
func recordOne(ctx context.Context, r *recorder, c *client, body string) ([]statement, error) {
	var sequences [][]statement
	for range recordings {
		if _, err := r.taken(); err != nil {
			return nil, err
		}
		if _, err := c.ask(ctx, body); err != nil {
			return nil, err
		}
		statements, err := r.taken()
		if err != nil {
			return nil, err
		}
		sequences = append(sequences, statements)
		if err := wait(ctx, 5*time.Millisecond); err != nil { // what follows an answer is not the next one's
			return nil, err
		}
	}
	found := usual(sequences)
	if len(found) == 0 {
		return nil, errors.New("nothing was said to PostgreSQL")
	}
	return found, nil
}
