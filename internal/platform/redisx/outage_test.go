package redisx_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/errs/errstest"
	"github.com/linkforge/linkforge/internal/platform/faulttest"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/poll/polltest"
	"github.com/linkforge/linkforge/internal/platform/redisx"
)

// protected opens a Redis with a protected client.
func protected(t *testing.T, redisURL string) *redisx.Client {
	k := dbtest.Redis(t, redisURL)
	k.Protect(slog.New(slog.DiscardHandler))
	return k
}

// writes are the forms of commands that write. A transaction reports READONLY as EXECABORT, a
// pipeline may report it for its second command only.
var writes = map[string]func(t *testing.T, k *redisx.Client) error{
	"command": func(t *testing.T, k *redisx.Client) error { return k.Set(t.Context(), "key", 1, time.Minute).Err() },
	"transaction": func(t *testing.T, k *redisx.Client) error {
		pipe := k.TxPipeline()
		pipe.PTTL(t.Context(), "key")
		pipe.Incr(t.Context(), "key")
		_, err := pipe.Exec(t.Context())
		return err
	},
	"pipeline": func(t *testing.T, k *redisx.Client) error {
		pipe := k.Pipeline()
		pipe.Get(t.Context(), "no key")
		pipe.Incr(t.Context(), "key")
		if _, err := pipe.Exec(t.Context()); err != redis.Nil { // that of the first command
			return err
		}
		return nil
	},
	"script": func(t *testing.T, k *redisx.Client) error {
		return redis.NewScript(`return redis.call("INCR", KEYS[1])`).Run(t.Context(), k, []string{"key"}).Err()
	},
}

// TestProtect_NoticesRefusedWrites puts a server into each state that refuses writes and still
// responds to PING: the circuit breaker opens, Ready explains the state, and closes once the server
// takes writes again.
func TestProtect_NoticesRefusedWrites(t *testing.T) {
	t.Parallel()
	server := dbtest.NewRedisServer(t)
	for state, c := range map[string]struct{ begin, end string }{
		"READONLY":   {"REPLICAOF 127.0.0.1 1", "REPLICAOF NO ONE"},
		"OOM":        {"CONFIG SET maxmemory 1", "CONFIG SET maxmemory 0"},
		"NOREPLICAS": {"CONFIG SET min-replicas-to-write 1", "CONFIG SET min-replicas-to-write 0"},
	} {
		for way, write := range writes {
			k := protected(t, server.URL)
			must.NoError(t, write(t, k))
			server.Do(t, c.begin)
			_ = write(t, k)
			if !k.IsOpen() {
				t.Errorf("%s, %s: the circuit breaker is closed", state, way)
			}
			polltest.Until(t, state+" is explained", func() bool {
				return strings.HasSuffix(redisx.Explain(k.Ready(t.Context())), "("+state+")")
			})
			errstest.Want(t, errs.Unavailable, "%s, %s: a write while the circuit breaker is open", state, way)(
				write(t, k))
			server.Do(t, c.end)
			polltest.Until(t, "writes work again", func() bool { return write(t, k) == nil })
			must.NoError(t, k.Close())
		}
	}
}

// TestProtect_LeavesADemotedServer: behind a fixed address another server takes over. The client
// has connections to the former one, which stays up.
func TestProtect_LeavesADemotedServer(t *testing.T) {
	t.Parallel()
	for name, state := range map[string]string{
		"replica": "REPLICAOF 127.0.0.1 1", "without memory": "CONFIG SET maxmemory 1",
		"isolated": "CONFIG SET min-replicas-to-write 1",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			former, next := dbtest.NewRedisServer(t), dbtest.NewRedisServer(t)
			p := faulttest.NewProxy(t, former.Address)
			k := protected(t, "redis://:"+former.Password+"@"+p.Address)
			var held []*redis.Conn // so that the pool has several connections
			for range 5 {
				conn := k.UniversalClient.(*redis.Client).Conn()
				must.NoError(t, conn.Ping(t.Context()).Err())
				held = append(held, conn)
			}
			for _, conn := range held {
				must.NoError(t, conn.Close())
			}
			former.Do(t, state)
			p.SetTarget(next.Address)
			write := writes["transaction"]
			polltest.Until(t, "the next server takes writes", func() bool { return write(t, k) == nil })
			for range 10 {
				must.NoError(t, write(t, k))
			}
		})
	}
}

// TestProtect_KnowsReplies: which error replies are outages, and which are faults of the command.
func TestProtect_KnowsReplies(t *testing.T) {
	t.Parallel()
	server := miniredis.RunT(t)
	for reply, want := range map[string]string{
		"LOADING Redis is loading the dataset in memory":                    "Redis is loading",
		"MASTERDOWN Link with MASTER is down":                               "must lead to the master",
		"MISCONF Redis is configured to save RDB snapshots":                 "cannot save its data",
		"CLUSTERDOWN The cluster is down":                                   "cluster that is down",
		"MOVED 3999 192.0.2.1:6381":                                         "redis+cluster://",
		"ASK 3999 192.0.2.1:6381":                                           "redis+cluster://",
		"BUSY Redis is busy running a script":                               "script",
		"NOAUTH Authentication required.":                                   "requires a password",
		"WRONGPASS invalid username-password pair or user is disabled.":     "refuses the user or the password",
		"ERR max number of clients reached":                                 "maxclients",
		"NOPERM this user has no permissions to run the 'incr' command":     "",
		"WRONGTYPE Operation against a key holding the wrong kind of value": "",
		"ERR value is not an integer or out of range":                       "",
	} {
		var isOpen bool
		var err error
		polltest.Until(t, "Redis replies in time", func() bool {
			k := protected(t, "redis://"+server.Addr())
			if k.Set(t.Context(), "key", 1, 0).Err() != nil {
				return false
			}
			server.SetError(reply)
			err = k.Incr(t.Context(), "key").Err()
			isOpen = k.IsOpen()
			server.SetError("")
			return !errors.Is(err, context.DeadlineExceeded)
		})
		if isOpen != (want != "") {
			t.Errorf("%s: the circuit breaker is open: %t", reply, isOpen)
		}
		text := redisx.Explain(err)
		if err == nil || !strings.Contains(text, want) || strings.Contains(text, "192.0.2.1") ||
			want == "" && !strings.Contains(text, "refuses commands") {
			t.Errorf("%s: explained as %q, %v", reply, text, err)
		}
	}
}

// TestReady_RefusesANodeOfACluster by the URL of one server.
func TestReady_RefusesANodeOfACluster(t *testing.T) {
	t.Parallel()
	one, _, _ := strings.Cut(strings.Replace(dbtest.ClusterURL(t), "redis+cluster", "redis", 1), ",")
	k := dbtest.Redis(t, one)
	if err := k.Ready(t.Context()); !errors.Is(err, redisx.ErrClusterNode) ||
		!strings.Contains(err.Error(), "redis+cluster://") {
		t.Errorf("ready: %v", err)
	}
	must.NoError(t, dbtest.Redis(t, dbtest.ClusterURL(t)).Ready(t.Context()))
}
