package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/linkforge/linkforge/bench/internal/rig"
	"github.com/linkforge/linkforge/internal/db"
)

const (
	// publicURL is every server's, because log-in tokens are good at one URL. Nobody asks there.
	publicURL = "http://sho.rt"
	// generous is an allowance that nobody uses up.
	generous = 1 << 40
)

// bench is one run.
type bench struct {
	options
	say func(format string, args ...any)
	// progress is where say writes.
	progress io.Writer
	// self is this binary, folder is where everything is written.
	self, folder string
	services     *rig.Services
	estates      []*estate
	constant     *rig.Process
	running      []*stand
	started      int // how many servers there have been
	// next is the number of the next new link.
	next int
	// warnings are those in the logs of servers, wrong is what should not have been.
	warnings, wrong []string
}

// estate is a database with links in it.
type estate struct {
	shape
	databaseURL string
	disk        disk
	// tenant may do everything in the workspaces that are asked; nil before a server has met them.
	tenant *rig.Tenant
}

func (e *estate) title() string {
	return fmt.Sprintf("%s links in %s workspaces", thousands(e.Links), thousands(e.Tenants))
}

// thousands writes a number with commas.
func thousands(n int) string {
	text := strconv.Itoa(n)
	for at := len(text) - 3; at > 0; at -= 3 {
		text = text[:at] + "," + text[at:]
	}
	return text
}

// prepare makes everything that is there before a server starts.
func (b *bench) prepare(ctx context.Context) (err error) {
	if b.self, err = os.Executable(); err != nil {
		return err
	}
	if b.folder, err = os.MkdirTemp("", "linkforge-scale."); err != nil {
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
	for _, s := range b.shapes() {
		e := &estate{shape: s}
		if e.databaseURL, err = b.services.AnotherDatabase(ctx); err != nil {
			return err
		}
		b.estates = append(b.estates, e)
	}
	if err := b.fillAll(ctx); err != nil {
		return err
	}
	for _, e := range b.estates {
		if err := e.measureDisk(ctx); err != nil {
			return err
		}
	}
	address, err := rig.FreeAddress()
	if err != nil {
		return err
	}
	b.constant, err = rig.Start(ctx, b.folder, "constant", address, nil, b.self, "constant", "-address", address)
	return err
}

// find is the estate that holds as much.
func (b *bench) find(links, tenants int) *estate {
	for _, e := range b.estates {
		if e.isLike(shape{Links: links, Tenants: tenants}) {
			return e
		}
	}
	panic("an estate that the options do not name") // shapes has them all
}

// stand is an estate with nodes in front of it.
type stand struct {
	*estate
	nodes []*node
	conn  *pgx.Conn // which asks PostgreSQL for its statistics
	cold  int       // the next turn of what is asked once
	// perLink is what a link takes in a node's memory, in bytes.
	perLink float64
}

// node is a server.
type node struct {
	process *rig.Process
	admin   string
}

func (s *stand) pids() (pids []int) {
	for _, n := range s.nodes {
		pids = append(pids, n.process.PID())
	}
	return pids
}

func (s *stand) addresses() (all []string) {
	for _, n := range s.nodes {
		all = append(all, n.process.Address)
	}
	return all
}

// start starts nodes on an estate, and has each remember the hot links.
func (b *bench) start(ctx context.Context, e *estate, nodes int) (*stand, error) {
	s := &stand{estate: e}
	b.running = append(b.running, s)
	var err error
	if s.conn, err = pgx.Connect(ctx, e.databaseURL); err != nil {
		return nil, err
	}
	for range nodes {
		if err := b.startNode(ctx, s); err != nil {
			return nil, err
		}
	}
	if err := e.settle(ctx, s.nodes[0].process.Address); err != nil {
		return nil, err
	}
	if s.perLink, err = b.remember(ctx, s); err != nil {
		return nil, err
	}
	return s, b.rest(ctx, follow, s)
}

func (b *bench) startNode(ctx context.Context, s *stand) (err error) {
	n := &node{}
	address, err := rig.FreeAddress()
	if err != nil {
		return err
	}
	if n.admin, err = rig.FreeAddress(); err != nil {
		return err
	}
	b.started++
	name, secret, most := fmt.Sprintf("node-%d", b.started), strings.Repeat("benchmark", 4), strconv.Itoa(generous)
	n.process, err = rig.Start(ctx, b.folder, name, address, []string{
		"LINKFORGE_LISTEN=" + address, "LINKFORGE_ADMIN_LISTEN=" + n.admin, "LINKFORGE_PUBLIC_URL=" + publicURL, "LINKFORGE_ENV=production",
		"LINKFORGE_LOG_LEVEL=warn", "LINKFORGE_DATA_DIR=" + filepath.Join(b.folder, name), "LINKFORGE_DATABASE_URL=" + s.databaseURL,
		"LINKFORGE_REDIS_URL=" + b.services.RedisURL, "LINKFORGE_JWT_SECRET=" + secret, "LINKFORGE_CODE_SECRET=" + secret,
		"LINKFORGE_RATE_LIMITS=off", "LINKFORGE_DESTINATION_CHECKS=off", "LINKFORGE_LINK_QUOTA=" + most, "LINKFORGE_HIT_QUOTA=" + most,
	}, b.server, "serve")
	if err != nil {
		return err
	}
	s.nodes = append(s.nodes, n)
	return rig.AwaitReady(ctx, address)
}

// settle makes an account, once, and a member of the workspaces that are asked.
func (e *estate) settle(ctx context.Context, address string) (err error) {
	if e.tenant != nil {
		return nil
	}
	tenant, err := rig.NewTenant(ctx, address, "scale")
	if err != nil {
		return err
	}
	d, err := db.OpenPostgres(e.databaseURL, 1)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	_, err = d.ExecContext(db.AsSystem(ctx), `INSERT INTO members (workspace_id, account_id, role, created_at)
		SELECT w.id, m.account_id, 'OWNER', m.created_at FROM workspaces w, members m WHERE m.workspace_id = ? AND w.id <= ? AND w.id LIKE 'ws_00%'
			AND w.id <> 'ws_00000000000000000000000000'`, tenant.Workspace, e.workspaceID(e.asked()-1))
	if err == nil {
		e.tenant = tenant
	}
	return err
}

// remember has each node remember the hot links, and tells what one took in the first node's memory: what was alive after the
// garbage had been collected, before and after.
func (b *bench) remember(ctx context.Context, s *stand) (perLink float64, err error) {
	before, err := s.nodes[0].alive(ctx)
	if err != nil {
		return 0, err
	}
	for _, n := range s.nodes {
		l := load{Operation: sweep.name, Shape: s.shape, Addresses: []string{n.process.Address}, Connections: b.connections, Turns: s.hot()}
		if _, err := b.drive(ctx, l); err != nil {
			return 0, err
		}
	}
	after, err := s.nodes[0].alive(ctx)
	for _, n := range s.nodes {
		l := load{Operation: follow.name, Shape: s.shape, Addresses: []string{n.process.Address}, Connections: b.connections, Turns: s.followed()}
		if _, err := b.drive(ctx, l); err != nil {
			return 0, err
		}
	}
	return float64(after-before) / float64(s.hot()), err
}

// alive is what lies on the node's heap after a collection, in bytes.
func (n *node) alive(ctx context.Context) (int64, error) {
	text, err := n.get(ctx, "/debug/pprof/heap?gc=1&debug=1")
	if err != nil {
		return 0, err
	}
	return readNumber(text, "# HeapAlloc = ")
}

// awaitIngested waits until the database has all of the node's clicks.
func (n *node) awaitIngested(ctx context.Context) error {
	for {
		text, err := n.get(ctx, "/metrics")
		if err != nil {
			return err
		}
		if waiting, err := readNumber(text, "\nlinkforge_click_log_lag_clicks "); waiting == 0 || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// get is what the node shows to its operator.
func (n *node) get(ctx context.Context, path string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+n.admin+path, nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	return io.ReadAll(response.Body)
}

// readNumber reads a whole number behind a name, to the end of the line.
func readNumber(text []byte, name string) (int64, error) {
	_, rest, ok := bytes.Cut(text, []byte(name))
	if !ok {
		return 0, fmt.Errorf("the node does not tell its %q", name)
	}
	number, _, _ := bytes.Cut(rest, []byte("\n"))
	return strconv.ParseInt(string(number), 10, 64)
}

// stop stops all nodes.
func (b *bench) stop() (err error) {
	for _, s := range b.running {
		for _, n := range s.nodes {
			b.warnings = append(b.warnings, n.process.Warnings()...)
			err = errors.Join(err, n.process.Stop())
		}
		if s.conn != nil {
			err = errors.Join(err, s.conn.Close(context.Background()))
		}
	}
	b.running = nil
	return err
}

// close stops and removes everything that is still there.
func (b *bench) close() error {
	err := errors.Join(b.stop(), b.constant.Stop(), b.services.Close())
	if b.folder != "" {
		err = errors.Join(err, os.RemoveAll(b.folder))
	}
	return err
}

// problems are what the run must not have met.
func (b *bench) problems() error {
	if len(b.wrong) == 0 {
		return nil
	}
	return errors.New(strings.Join(b.wrong, "\n"))
}
