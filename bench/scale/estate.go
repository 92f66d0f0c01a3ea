package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/linkforge/linkforge/bench/internal/rig"
)

// bench is one run.
type bench struct {
	options
	*rig.Run
	estates  []*estate
	constant *rig.Process
	running  []*stand
	started  int // how many servers there have been
	next     int // the number of the next new link
	turn     int // the first turn of the next burst
}

// estate is a database with links in it.
type estate struct {
	shape
	databaseURL string
	disk        disk
	tenant      *rig.Tenant // an owner of the workspaces that are queried; nil before the first server has started
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

// prepare fills all databases.
func (b *bench) prepare(ctx context.Context) (err error) {
	for _, s := range b.shapes() {
		e := &estate{shape: s}
		if e.databaseURL, err = b.Services.CreateDatabase(ctx); err != nil {
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
	b.constant, err = b.Helper(ctx, "constant", nil, "constant")
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
	nodes   []*node
	conn    *pgx.Conn // reads PostgreSQL's statistics
	cold    int       // the next turn of requests that are sent once
	perLink float64   // bytes of a link in a node's memory
}

// node is a server.
type node struct {
	process *rig.Process
	admin   string
}

// target is the stand's, or only its first node, to which wrk sends: other nodes share the database
// and Redis.
func (b *bench) target(s *stand) rig.Target {
	t := rig.Target{Name: s.title(), Beside: b.Services.PIDs()}
	for _, n := range s.nodes {
		t.Own = append(t.Own, n.process.PID())
	}
	return t
}

// start starts nodes on an estate, and has each cache the hot links.
func (b *bench) start(ctx context.Context, e *estate, nodes int) (*stand, error) {
	s := &stand{estate: e}
	b.running = append(b.running, s)
	var err error
	if s.conn, err = pgx.Connect(ctx, e.databaseURL); err != nil {
		return nil, err
	}
	for range nodes {
		n := &node{}
		if n.admin, err = rig.FreeAddress(); err != nil {
			return nil, err
		}
		b.started++
		n.process, err = b.Serve(ctx, fmt.Sprintf("node-%d", b.started), b.Server, "LINKFORGE_ADMIN_LISTEN="+n.admin,
			"LINKFORGE_PUBLIC_URL="+rig.PublicURL, "LINKFORGE_DATABASE_URL="+s.databaseURL,
			"LINKFORGE_REDIS_URL="+b.Services.RedisURL)
		if err != nil {
			return nil, err
		}
		s.nodes = append(s.nodes, n)
	}
	if err := e.join(ctx, s.nodes[0].process.Address); err != nil {
		return nil, err
	}
	if s.perLink, err = b.fillCaches(ctx, s); err != nil {
		return nil, err
	}
	return s, b.rest(ctx, follow, s)
}

// join registers an account once, and makes it an owner of the workspaces that are queried.
func (e *estate) join(ctx context.Context, address string) (err error) {
	if e.tenant != nil {
		return nil
	}
	if e.tenant, err = rig.NewTenant(ctx, address, "scale"); err != nil {
		return err
	}
	return rig.Within(e.databaseURL, true, func(d *sql.DB) error {
		_, err := d.ExecContext(ctx, `INSERT INTO members (workspace_id, account_id, role, created_at)
			SELECT w.id, m.account_id, 'OWNER', m.created_at FROM workspaces w, members m
			WHERE m.workspace_id = $1 AND w.id <> $1 AND w.id <= $2 AND w.id LIKE 'ws_00%'`, e.tenant.Workspace, e.workspaceID(e.asked()-1))
		return err
	})
}

// fillCaches has each node cache the hot links, and returns what one takes in the first node's
// memory: the heap after a garbage collection, before and after.
func (b *bench) fillCaches(ctx context.Context, s *stand) (perLink float64, err error) {
	before, err := s.nodes[0].alive(ctx)
	if err != nil {
		return 0, err
	}
	for _, n := range s.nodes {
		if err := b.turns(ctx, s, n, sweep, s.hot()); err != nil {
			return 0, err
		}
	}
	after, err := s.nodes[0].alive(ctx)
	for _, n := range s.nodes {
		if err := b.turns(ctx, s, n, follow, s.followed()); err != nil {
			return 0, err
		}
	}
	return float64(after-before) / float64(s.hot()), err
}

func (b *bench) turns(ctx context.Context, s *stand, n *node, op operation, turns int) error {
	_, err := b.Drive(ctx, op.name, rig.Load{
		Address: n.process.Address, Requests: func(i int) string { return op.request(s.shape, i, nil) }, N: turns,
		Connections: b.connections, Status: 302,
	})
	return err
}

// alive is the node's heap after a collection, in bytes.
func (n *node) alive(ctx context.Context) (int64, error) {
	return n.number(ctx, "/debug/pprof/heap?gc=1&debug=1", "# HeapAlloc = ")
}

// number reads a whole number behind a name, to the end of the line, from the node's admin address.
func (n *node) number(ctx context.Context, path, name string) (int64, error) {
	text, err := rig.Get(ctx, "http://"+n.admin+path)
	if err != nil {
		return 0, err
	}
	_, rest, ok := bytes.Cut(text, []byte(name))
	if !ok {
		return 0, fmt.Errorf("the node does not report its %q", name)
	}
	number, _, _ := bytes.Cut(rest, []byte("\n"))
	return strconv.ParseInt(string(number), 10, 64)
}

// stop stops all nodes.
func (b *bench) stop() (err error) {
	for _, s := range b.running {
		for _, n := range s.nodes {
			err = errors.Join(err, n.process.Stop())
		}
		if s.conn != nil {
			err = errors.Join(err, s.conn.Close(context.Background()))
		}
	}
	b.running = nil
	return err
}

// reportPlans prints PostgreSQL's plans of the statements that find links among all, as they are
// with warm caches.
func (s *stand) reportPlans(ctx context.Context, w io.Writer) error {
	workspace, one := "workspace_id = '"+s.workspaceID(0)+"'", s.linkOf(0, s.size(0)/2)
	index := "SELECT id FROM links WHERE " + workspace + " AND purged_at IS NULL AND search LIKE '%%%s%%' LIMIT 5001"
	for _, q := range []struct{ title, role, text string }{
		{"a redirect that is not in memory", "linkforge_resolver", "SELECT * FROM links WHERE root_code = '" + rig.Code(one) +
			"'"},
		{"a known URL", "linkforge_tenant", fmt.Sprintf(`SELECT * FROM links WHERE %s AND purged_at IS NULL AND strategy = 'DETERMINISTIC'
			AND canonical_hash = '\x%x'`, workspace, sha256.Sum256([]byte(urlOf(one))))},
		{"a page", "linkforge_tenant", "SELECT * FROM links WHERE " + workspace + ` AND purged_at IS NULL
			AND (deleted_at IS NULL OR disabled_at IS NOT NULL) ORDER BY id DESC LIMIT 21`},
		{"search, a word", "linkforge_resolver", fmt.Sprintf(index, rareWord)},
		{"search, 8 digits", "linkforge_resolver", fmt.Sprintf(index, fmt.Sprintf("%08d", serial(one)))},
	} {
		var lines []string
		_, err := s.conn.Exec(ctx, "SELECT set_config('role', $1, false), set_config('linkforge.workspace', $2, false)",
			q.role, s.workspaceID(0))
		for range 2 {
			if err != nil {
				return err
			}
			var rows pgx.Rows
			if rows, err = s.conn.Query(ctx, "EXPLAIN (ANALYZE, BUFFERS) "+q.text); err == nil {
				lines, err = pgx.CollectRows(rows, pgx.RowTo[string])
			}
		}
		if _, reset := s.conn.Exec(ctx, "RESET ROLE"); err != nil || reset != nil {
			return errors.Join(err, reset)
		}
		fmt.Fprintf(w, "\n-- %s, %s\n%s\n", q.title, s.title(), strings.Join(lines, "\n"))
	}
	return nil
}

// watch returns what a stand uses while it has no requests.
func (b *bench) watch(ctx context.Context, s *stand) (rig.Usage, error) {
	t := b.target(s)
	before, err := rig.Used(t.Own, t.Beside)
	if err != nil {
		return before, err
	}
	if err := rig.Pause(ctx, b.idle); err != nil {
		return before, err
	}
	after, err := rig.Used(t.Own, t.Beside)
	return after.Minus(before), err
}

// rest waits until work that an operation defers is done: nodes keep clicks in their logs, and
// pause meanwhile.
func (b *bench) rest(ctx context.Context, op operation, s *stand) error {
	if !op.puts {
		return nil
	}
	for _, n := range s.nodes {
		var err error
		waiting := rig.Await(ctx, "clicks are ingested", time.Minute, func() bool {
			var lag int64
			lag, err = n.number(ctx, "/metrics", "\nlinkforge_click_log_lag_clicks ")
			return lag == 0 || err != nil
		})
		if err := errors.Join(err, waiting); err != nil {
			return err
		}
	}
	t := b.target(s)
	_, err := rig.Rest(ctx, append(t.Own, t.Beside...), 15*time.Second)
	return err
}
