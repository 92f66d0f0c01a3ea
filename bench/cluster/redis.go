package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

const (
	masters = 3
	slots   = 16384
	// nodeTimeout is how long a master may be silent before its replica takes over.
	nodeTimeout = time.Second
)

// redisServer is one of a cluster.
type redisServer struct {
	name, address, bus, settings string
	client                       *goredis.Client
	*process
}

// redisCluster are three masters, then a replica of each, in the same order.
type redisCluster struct {
	*host
	binary, password string
	servers          []*redisServer
}

// startRedis starts the servers, and makes them a cluster.
func (h *host) startRedis(ctx context.Context, binary, password string) (*redisCluster, error) {
	c := &redisCluster{host: h, binary: binary, password: password}
	for i := range 2 * masters {
		if err := c.add(ctx, fmt.Sprintf("redis%d", i+1)); err != nil {
			return c, err
		}
	}
	return c, c.form(ctx)
}

func (c *redisCluster) add(ctx context.Context, name string) error {
	folder, err := c.room(name)
	if err != nil {
		return err
	}
	s := &redisServer{name: name, address: c.address(), bus: c.address(), settings: filepath.Join(folder, "redis.conf")}
	s.client = goredis.NewClient(&goredis.Options{Addr: s.address, Password: c.password, MaxRetries: -1})
	c.servers = append(c.servers, s)
	lines := []string{
		"port " + portOf(s.address), "bind 127.0.0.1", "dir " + folder, "daemonize no", "requirepass " + c.password,
		"masterauth " + c.password,
		`save ""`, "appendonly no", "maxmemory-policy noeviction", "cluster-enabled yes", "cluster-port " + portOf(s.bus),
		fmt.Sprintf("cluster-node-timeout %d", nodeTimeout.Milliseconds()), "repl-diskless-sync-delay 0",
	}
	if err := c.write(s.settings, strings.Join(lines, "\n")+"\n"); err != nil {
		return err
	}
	return c.run(ctx, s)
}

func (c *redisCluster) run(ctx context.Context, s *redisServer) (err error) {
	if s.process, err = c.launch(s.name, syscall.SIGTERM, nil, c.binary, s.settings); err != nil {
		return err
	}
	return s.await(ctx, s.name+" answers", func() bool { return s.client.Ping(ctx).Err() == nil })
}

// form makes the servers a cluster.
func (c *redisCluster) form(ctx context.Context) error {
	for i, s := range c.servers {
		if err := s.client.Do(ctx, "CLUSTER", "SET-CONFIG-EPOCH", i+1).Err(); err != nil {
			return err
		}
		if i < masters {
			if err := s.client.ClusterAddSlotsRange(ctx, i*slots/masters, (i+1)*slots/masters-1).Err(); err != nil {
				return err
			}
		}
		if err := c.servers[0].client.Do(ctx, "CLUSTER", "MEET", "127.0.0.1", portOf(s.address), portOf(s.bus)).
			Err(); err != nil {
			return err
		}
	}
	for i, s := range c.servers {
		if err := s.await(ctx, "the cluster has formed", func() bool { return c.complete(ctx, s) }); err != nil {
			return err
		}
		if i < masters {
			continue
		}
		master, err := c.servers[i-masters].client.ClusterMyID(ctx).Result()
		if err == nil {
			err = s.client.ClusterReplicate(ctx, master).Err()
		}
		if err != nil {
			return err
		}
	}
	for _, s := range c.servers[masters:] {
		if err := c.awaitReplica(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

// complete says that a server knows all others, and who has every key.
func (c *redisCluster) complete(ctx context.Context, s *redisServer) bool {
	info := s.client.ClusterInfo(ctx).Val()
	return strings.Contains(info, "cluster_state:ok") &&
		strings.Contains(info, fmt.Sprintf("cluster_known_nodes:%d\r", len(c.servers)))
}

// awaitReplica waits until a server is a replica that has all that its master has.
func (c *redisCluster) awaitReplica(ctx context.Context, s *redisServer) error {
	return s.await(ctx, s.name+" follows its master", func() bool {
		return strings.Contains(s.client.Info(ctx, "replication").Val(), "master_link_status:up")
	})
}

// masterOf is the server that has the key, as long as nobody has died.
func (c *redisCluster) masterOf(ctx context.Context, key string) (*redisServer, error) {
	slot, err := c.servers[0].client.ClusterKeySlot(ctx, key).Result()
	if err != nil {
		return nil, err
	}
	for i, s := range c.servers[:masters] {
		if slot < int64((i+1)*slots/masters) {
			return s, nil
		}
	}
	return nil, fmt.Errorf("nobody has slot %d", slot)
}

// sum adds up the numbers under all keys of a pattern on one server.
func (s *redisServer) sum(ctx context.Context, pattern string) (sum int64, err error) {
	keys, err := s.client.Keys(ctx, pattern).Result()
	if err != nil {
		return 0, err
	}
	for _, key := range keys {
		n, err := s.client.Get(ctx, key).Int64()
		if err != nil && !errors.Is(err, goredis.Nil) { // else it has gone meanwhile
			return 0, err
		}
		sum += n
	}
	return sum, nil
}

// rejoin starts a server that was killed; it becomes a replica of the one that took over.
func (c *redisCluster) rejoin(ctx context.Context, s *redisServer) error {
	if err := c.run(ctx, s); err != nil {
		return err
	}
	return c.awaitReplica(ctx, s)
}

// url is what LINKFORGE_REDIS_URL is.
func (c *redisCluster) url() string {
	var addresses []string
	for _, s := range c.servers {
		addresses = append(addresses, s.address)
	}
	return "redis+cluster://:" + c.password + "@" + strings.Join(addresses, ",")
}

func (c *redisCluster) stop() (err error) {
	if c == nil {
		return nil
	}
	for _, s := range c.servers {
		err = errors.Join(err, s.client.Close(), s.process.stop())
	}
	return err
}
