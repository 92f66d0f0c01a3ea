package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/linkforge/linkforge/bench/internal/rig"
)

// layout is everything that runs.
type layout struct {
	options
	say func(string, ...any)

	host     *host
	postgres *postgresPair
	redis    *redisCluster
	pooler   *pooler // nil when nodes do without
	nodes    []*node
	proxy    *proxy

	binary string   // of Linkforge
	common []string // settings that all nodes have
	public string   // where people come, as host:port
}

// nodeCount is how many Linkforge nodes there are.
const nodeCount = 3

// node is a Linkforge.
type node struct {
	name, address, admin string
	env                  []string
	*process
}

// start starts everything, what others need first.
func (l *layout) start(ctx context.Context) (err error) {
	wanted := []rig.Program{{Name: "redis-server", Debian: "redis-server"}, {Name: "nginx", Debian: "nginx"}}
	for _, name := range []string{"initdb", "postgres", "pg_basebackup", "pg_ctl", "pg_rewind"} {
		wanted = append(wanted, rig.Program{Name: name, Debian: "postgresql"})
	}
	if !l.direct {
		wanted = append(wanted, rig.Program{Name: "pgbouncer", Debian: "pgbouncer"})
	}
	found, err := rig.FindPrograms(ctx, l.say, wanted...)
	if err != nil {
		return err
	}
	if l.host, err = newHost(); err != nil {
		return err
	}
	l.postgres = l.host.newPostgres(found, rand.Text(), rand.Text())
	group, within := errgroup.WithContext(ctx)
	group.Go(func() error { return l.postgres.start(within) })
	group.Go(func() (err error) {
		l.redis, err = l.host.startRedis(within, found["redis-server"], rand.Text())
		return err
	})
	group.Go(func() (err error) {
		if l.binary = l.server; l.binary == "" {
			l.binary, err = rig.Build(within, l.host.folder)
		}
		return err
	})
	if err := group.Wait(); err != nil {
		return err
	}
	l.say("PostgreSQL, its standby and a Redis Cluster of %d are up", len(l.redis.servers))
	databaseURL := l.postgres.url(l.postgres.primary.address+","+l.postgres.standby.address,
		"&target_session_attrs=read-write&connect_timeout=3")
	if !l.direct {
		if l.pooler, err = l.host.startPooler(ctx, found["pgbouncer"], l.postgres.password,
			l.postgres.primary.address); err != nil {
			return err
		}
		databaseURL = l.postgres.url(l.pooler.address, "&connect_timeout=3")
	}
	l.configure(databaseURL)
	if err := l.startNodes(ctx); err != nil {
		return err
	}
	var addresses []string
	for _, n := range l.nodes {
		addresses = append(addresses, n.address)
	}
	if l.proxy, err = l.host.startProxy(ctx, found["nginx"], "127.0.0.1:"+portOf(l.public), addresses); err != nil {
		return err
	}
	l.say("%d nodes are ready behind nginx at https://%s", len(l.nodes), l.public)
	return nil
}

// configure is what an operator would write, and everything that is not there is as it is by
// default. Only destinations are not asked: they are made up.
func (l *layout) configure(databaseURL string) {
	l.public = net.JoinHostPort("localhost", portOf(l.host.address()))
	l.common = []string{
		"LINKFORGE_ENV=production", "LINKFORGE_PUBLIC_URL=https://" + l.public, "LINKFORGE_TRUSTED_PROXIES=127.0.0.1",
		"LINKFORGE_DATABASE_URL=" + databaseURL, "LINKFORGE_REDIS_URL=" + l.redis.url(), "LINKFORGE_DRAIN_DELAY=" +
			l.drain.String(),
		"LINKFORGE_JWT_SECRET=" + rand.Text() + rand.Text(), "LINKFORGE_CODE_SECRET=" + rand.Text() + rand.Text(),
		"LINKFORGE_DESTINATION_CHECKS=off",
	}
}

// startNodes starts all nodes at once: they take turns to migrate.
func (l *layout) startNodes(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	for i := range nodeCount {
		n := &node{name: fmt.Sprintf("node%d", i+1), address: l.host.address(), admin: l.host.address()}
		n.env = append([]string{
			"LINKFORGE_LISTEN=" + n.address, "LINKFORGE_ADMIN_LISTEN=" + n.admin,
			"LINKFORGE_DATA_DIR=" + filepath.Join(l.host.folder, "nodes", n.name),
		}, l.common...)
		l.nodes = append(l.nodes, n)
		group.Go(func() error { return l.run(ctx, n) })
	}
	return group.Wait()
}

// run starts a node, and waits until it is ready.
func (l *layout) run(ctx context.Context, n *node) (err error) {
	if n.process, err = l.host.launch(n.name, syscall.SIGTERM, n.env, l.binary, "serve"); err != nil {
		return err
	}
	return n.await(ctx, n.name+" is ready", func() bool {
		_, err := rig.Get(ctx, "http://"+n.address+"/readyz")
		return err == nil
	})
}

// operate runs a command of the operator's.
func (l *layout) operate(ctx context.Context, args ...string) error {
	return l.host.do(ctx, l.nodes[0].env, l.binary, args...)
}

// metric is a number that a node shows, of a metric without labels. A node that is away shows none.
func (n *node) metric(ctx context.Context, name string) (value float64, ok bool) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	text, err := rig.Get(ctx, "http://"+n.admin+"/metrics")
	if err != nil {
		return 0, false
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, name+" "); ok {
			value, err = strconv.ParseFloat(strings.TrimSpace(rest), 64)
			return value, err == nil
		}
	}
	return 0, false
}

// close ends everything, whoever needs others first, and removes what was written.
func (l *layout) close() (err error) {
	if l.proxy != nil {
		err = errors.Join(err, l.proxy.stop())
	}
	var all sync.WaitGroup
	problems := make([]error, len(l.nodes))
	for i, n := range l.nodes {
		all.Go(func() { problems[i] = n.stop() })
	}
	all.Wait()
	err = errors.Join(append(problems, err)...)
	if l.pooler != nil {
		err = errors.Join(err, l.pooler.stop())
	}
	err = errors.Join(err, l.postgres.stop(), l.redis.stop())
	if l.host != nil {
		err = errors.Join(err, os.RemoveAll(l.host.folder))
	}
	return err
}
