package dbtest

import (
	"bufio"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/linkforge/linkforge/internal/platform/proctest"
	"github.com/linkforge/linkforge/internal/platform/redisx"
)

// formation bounds the start of servers on a busy machine.
const formation = 60 * time.Second

// node is a Redis server of one test.
type node struct {
	address, bus string
	folder       string
	command      []string
	pid          int
	client       *redis.Client
	supervisor   *exec.Cmd
	leash        io.Closer
}

// supervise ends its server and removes its folder when the test process ends, however it ends.
const supervise = `"$@" >/dev/null 2>&1 & echo $!; cat >/dev/null; kill -9 $!; ` +
	`wait; rm -rf -- "$folder"; rmdir -- "${folder%/*}"`

// redisServer returns the path of the binary. Without one, tests fail where a Redis is configured.
func redisServer(t testing.TB) string {
	t.Helper()
	proctest.SkipShort(t)
	ServerURL(t, RedisURL)
	path, err := exec.LookPath("redis-server")
	if err != nil {
		t.Fatal("redis-server is not on PATH: make test installs it")
	}
	return path
}

// launch starts a server with the settings and waits until it responds. The caller ends it.
func launch(path, folder, password string, settings func(n *node) []string, args ...string) (*node, error) {
	for range 10 {
		n := &node{address: proctest.FreeAddress(), bus: proctest.FreeAddress()}
		own, err := os.MkdirTemp(folder, "node")
		if err != nil {
			return nil, err
		}
		lines := append([]string{
			"port " + portOf(n.address), "bind 127.0.0.1", "dir " + own, "daemonize no", "requirepass " + password,
			"logfile " + filepath.Join(own, "log"),
		}, settings(n)...)
		conf := filepath.Join(own, "redis.conf")
		if err := os.WriteFile(conf, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
			return nil, err
		}
		n.folder, n.command = own, append([]string{path, conf}, args...)
		if err := n.run(); err != nil {
			return nil, err
		}
		n.client = redis.NewClient(&redis.Options{Addr: n.address, Password: password, MaxRetries: -1,
			DialerRetries: 1})
		if n.awaitAnswer() {
			return n, nil
		}
		n.end() // another process took its port
	}
	return nil, fmt.Errorf("redis-server does not start")
}

func (n *node) run() (err error) {
	n.supervisor = exec.Command("/bin/sh", append([]string{"-c", supervise, "sh"}, n.command...)...)
	n.supervisor.Env = append(os.Environ(), "folder="+n.folder)
	if n.leash, err = n.supervisor.StdinPipe(); err != nil {
		return err
	}
	out, err := n.supervisor.StdoutPipe()
	if err != nil {
		return err
	}
	if err := n.supervisor.Start(); err != nil {
		return err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return err
	}
	n.pid, err = strconv.Atoi(strings.TrimSpace(line))
	return err
}

func (n *node) awaitAnswer() bool {
	return poll(func() bool { return n.gone() || n.listens() && n.do("PING") == nil }) && !n.gone()
}

func (n *node) gone() bool { return syscall.Kill(n.pid, 0) != nil }

func (n *node) listens() bool {
	conn, err := net.Dial("tcp", n.address)
	if err != nil {
		return false
	}
	conn.Close()
	return true
}

func (n *node) kill() { _ = syscall.Kill(n.pid, syscall.SIGKILL) } // it may have ended

func (n *node) end() {
	n.kill()
	n.client.Close()
	n.leash.Close()
	_ = n.supervisor.Wait() // its kill found nothing to end, and it says so
}

func (n *node) do(args ...any) error { return n.client.Do(context.Background(), args...).Err() }

// poll waits until the condition is true, at most for formation.
func poll(yes func() bool) bool {
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for over := time.After(formation); !yes(); {
		select {
		case <-again.C:
		case <-over:
			return false
		}
	}
	return true
}

func portOf(address string) string {
	_, port, _ := net.SplitHostPort(address)
	return port
}

// RedisServer is a Redis of one test, which the test may put into any state.
type RedisServer struct {
	// URL is what LINKFORGE_REDIS_URL would be, Address its host and port, Password its password.
	URL, Address, Password string
	node                   *node
}

// NewRedisServer starts a server with further settings; it keeps nothing over a restart unless they
// say so. All servers of a process have the same password.
func NewRedisServer(t testing.TB, settings ...string) *RedisServer {
	t.Helper()
	password := "password-of-tests"
	n, err := launch(redisServer(t), t.TempDir(), password, func(*node) []string {
		return append([]string{`save ""`}, settings...)
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.end)
	return &RedisServer{"redis://:" + password + "@" + n.address, n.address, password, n}
}

// Stop kills the server with SIGKILL.
func (s *RedisServer) Stop() { s.node.kill() }

// Start starts a stopped server again, with the data in its files. Any goroutine may call it.
func (s *RedisServer) Start(t testing.TB) {
	t.Helper()
	former, leash := s.node.supervisor, s.node.leash
	t.Cleanup(func() {
		leash.Close()
		_ = former.Wait() // its kill found nothing to end, and it says so
	})
	if err := s.node.run(); err != nil {
		t.Error(err)
	} else if !s.node.awaitAnswer() {
		t.Error("redis-server does not start again")
	}
}

// Do executes a command of the words of a text.
func (s *RedisServer) Do(t testing.TB, command string) {
	t.Helper()
	var args []any
	for word := range strings.FieldsSeq(command) {
		args = append(args, strings.Trim(word, `"`))
	}
	if err := s.node.do(args...); err != nil {
		t.Fatalf("%s: %v", command, err)
	}
}

// LoseAnswers returns a function after which the next answer to a client gets lost, and its
// connection ends. The client has no connections yet, and is not of a cluster.
func LoseAnswers(t testing.TB, k *redisx.Client) (lose func()) {
	d := &dropped{}
	k.AddHook(d)
	return func() {
		t.Helper()
		if err := k.Ping(t.Context()).Err(); err != nil { // opens a connection
			t.Fatal(err)
		}
		d.next.Store(true)
	}
}

// dropped is a hook that loses the next answer.
type dropped struct{ next atomic.Bool }

func (d *dropped) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := next(ctx, network, address)
		return droppedConn{conn, d}, err
	}
}

func (*dropped) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (*dropped) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

type droppedConn struct {
	net.Conn
	*dropped
}

func (c droppedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if err == nil && c.next.CompareAndSwap(true, false) {
		return 0, io.EOF
	}
	return n, err
}

// Cluster is a Redis cluster of one test.
type Cluster struct {
	// URL is what LINKFORGE_REDIS_URL would be.
	URL      string
	nodes    []*node // the masters, then their replicas
	masters  int
	password string
}

// NewCluster starts a cluster. A replica takes over once its master has not responded for the
// timeout.
func NewCluster(t testing.TB, masters, replicas int, timeout time.Duration) *Cluster {
	t.Helper()
	c, err := startCluster(redisServer(t), t.TempDir(), masters, replicas, timeout)
	t.Cleanup(func() { c.end() })
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func startCluster(path, folder string, masters, replicas int, timeout time.Duration) (*Cluster, error) {
	c := &Cluster{masters: masters, password: rand.Text()}
	var addresses []string
	for range masters * (1 + replicas) {
		n, err := launch(path, folder, c.password, func(n *node) []string {
			return []string{
				`save ""`, "appendonly no", "masterauth " + c.password, "cluster-enabled yes",
				"cluster-port " + portOf(n.bus),
				fmt.Sprintf("cluster-node-timeout %d", timeout.Milliseconds()), "repl-diskless-sync-delay 0",
			}
		})
		if err != nil {
			return c, err
		}
		c.nodes = append(c.nodes, n)
		addresses = append(addresses, n.address)
	}
	c.URL = "redis+cluster://:" + c.password + "@" + strings.Join(addresses, ",")
	return c, c.form()
}

func (c *Cluster) form() error {
	for i, n := range c.nodes {
		if err := n.do("CLUSTER", "SET-CONFIG-EPOCH", i+1); err != nil {
			return err
		}
		if i < c.masters {
			if err := n.do("CLUSTER", "ADDSLOTSRANGE", i*16384/c.masters, (i+1)*16384/c.masters-1); err != nil {
				return err
			}
		}
		if err := c.nodes[0].do("CLUSTER", "MEET", "127.0.0.1", portOf(n.address), portOf(n.bus)); err != nil {
			return err
		}
	}
	for i, n := range c.nodes {
		if !poll(func() bool { return n.complete(len(c.nodes)) }) {
			return fmt.Errorf("the cluster does not form")
		}
		if i < c.masters {
			continue
		}
		master := c.nodes[i%c.masters]
		id, err := master.client.ClusterMyID(context.Background()).Result()
		if err == nil {
			err = n.do("CLUSTER", "REPLICATE", id)
		}
		if err != nil {
			return err
		}
	}
	for i, n := range c.nodes {
		if i >= c.masters && !poll(n.follows) {
			return fmt.Errorf("a replica does not follow its master")
		}
	}
	return nil
}

// complete reports whether the node knows all nodes and all slots are served.
func (n *node) complete(nodes int) bool {
	info := n.client.ClusterInfo(context.Background()).Val()
	return strings.Contains(info, "cluster_state:ok") &&
		strings.Contains(info, fmt.Sprintf("cluster_known_nodes:%d\r", nodes))
}

// follows reports whether the node is a synchronized replica.
func (n *node) follows() bool {
	return strings.Contains(n.client.Info(context.Background(), "replication").Val(), "master_link_status:up")
}

// KillMaster kills the master of the key with SIGKILL.
func (c *Cluster) KillMaster(t testing.TB, key string) {
	t.Helper()
	slot, err := c.nodes[0].client.ClusterKeySlot(t.Context(), key).Result()
	if err != nil {
		t.Fatal(err)
	}
	for i, n := range c.nodes[:c.masters] {
		if slot >= int64(i*16384/c.masters) && slot < int64((i+1)*16384/c.masters) {
			n.kill()
		}
	}
}

func (c *Cluster) end() {
	for _, n := range c.nodes {
		n.end()
	}
}

// sharedCluster serves all tests of the process: three masters without failover.
var sharedCluster = sync.OnceValues(func() (*Cluster, error) {
	folder, err := os.MkdirTemp("", "linkforge-cluster-")
	if err != nil {
		return nil, err
	}
	path, err := exec.LookPath("redis-server")
	if err != nil {
		return nil, err
	}
	return startCluster(path, folder, 3, 0, 30*time.Second)
})

// ClusterURL returns the URL of a cluster shared by the process: keys must be unique to the test.
func ClusterURL(t testing.TB) string {
	t.Helper()
	redisServer(t)
	c, err := sharedCluster()
	if err != nil {
		t.Fatal(err)
	}
	return c.URL
}

// Sentinels are a Redis with a replica and three sentinels.
type Sentinels struct {
	// URL is what LINKFORGE_REDIS_URL would be.
	URL   string
	redis []*node
}

// NewSentinels starts them for one test. The replica takes over once the master has not responded
// for the timeout.
func NewSentinels(t testing.TB, timeout time.Duration) *Sentinels {
	t.Helper()
	path, folder, password, own := redisServer(t), t.TempDir(), rand.Text(), rand.Text()
	s := &Sentinels{}
	start := func(password string, settings []string, args ...string) *node {
		n, err := launch(path, folder, password, func(*node) []string { return settings }, args...)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(n.end)
		return n
	}
	settings := []string{`save ""`, "appendonly no", "masterauth " + password, "repl-diskless-sync-delay 0"}
	master := start(password, settings)
	at := "127.0.0.1 " + portOf(master.address)
	s.redis = []*node{master, start(password, append(settings, "replicaof "+at))}
	if !poll(s.redis[1].follows) {
		t.Fatal("the replica does not follow its master")
	}
	var addresses []string
	for range 3 {
		n := start(own, []string{
			"sentinel monitor linkforge " + at + " 2", "sentinel auth-pass linkforge " + password,
			"sentinel sentinel-pass " +
				own,
			fmt.Sprintf("sentinel down-after-milliseconds linkforge %d", timeout.Milliseconds()),
			"sentinel failover-timeout linkforge 5000",
		}, "--sentinel")
		if !poll(n.watches) {
			t.Fatal("a sentinel does not know the others, or the replica")
		}
		addresses = append(addresses, n.address)
	}
	s.URL = "redis+sentinel://:" + password + "@" + strings.Join(addresses, ",") + "/linkforge?sentinel_password=" + own
	return s
}

// watches reports whether a sentinel knows the replica.
func (n *node) watches() bool {
	known, err := n.client.Do(context.Background(), "SENTINEL", "REPLICAS", "linkforge").Slice()
	return err == nil && len(known) == 1
}

// KillMaster kills the master with SIGKILL.
func (s *Sentinels) KillMaster() { s.redis[0].kill() }

// CutReplica separates the replica from its master: it receives no further writes.
func (s *Sentinels) CutReplica() error { return s.redis[1].do("REPLICAOF", "127.0.0.1", "1") }
