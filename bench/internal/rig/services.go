// Package rig is what benchmarks of servers have in common: services of a run's own, targets that are processes, what these use, and
// figures made of it. It needs Linux.
package rig

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/id"
)

// Services are a database on PostgreSQL and one on Redis, which are a run's own.
type Services struct {
	// DatabaseURL and RedisURL lead to them.
	DatabaseURL, RedisURL string
	// PostgresPID and RedisPID are the servers; zero when they are not on this machine.
	PostgresPID, RedisPID int

	postgres *db.DB   // in which the database is one of many
	made     []string // the names of those that were made there
	server   string   // where that is
	redis    *redis.Client
}

// TakeServices makes a database on the one server and takes an empty one on the other. What it returns is to be closed, also
// when there is an error.
func TakeServices(ctx context.Context, databaseURL, redisURL string) (s *Services, err error) {
	s = &Services{server: databaseURL, RedisURL: redisURL}
	if s.postgres, err = db.OpenPostgres(databaseURL, 2); err != nil {
		return s, err
	}
	if s.DatabaseURL, err = s.AnotherDatabase(ctx); err != nil {
		return s, err
	}
	if err := s.takeRedis(ctx); err != nil {
		return s, err
	}
	s.PostgresPID, s.RedisPID = s.findPostgres(ctx), s.findRedis(ctx)
	return s, nil
}

// AnotherDatabase makes one more on the same server, and returns where it is.
func (s *Services) AnotherDatabase(ctx context.Context) (databaseURL string, err error) {
	name := "bench_" + strings.TrimPrefix(id.New(id.Log), string(id.Log))
	if _, err := s.postgres.ExecContext(db.AsOwner(ctx), "CREATE DATABASE "+name); err != nil {
		return "", err
	}
	s.made = append(s.made, name)
	return withPath(s.server, name)
}

// EmptyRedis is FLUSHDB.
func (s *Services) EmptyRedis(ctx context.Context) error { return s.redis.FlushDB(ctx).Err() }

// withPath is a server's URL with another database.
func withPath(serverURL, path string) (string, error) {
	u, err := url.Parse(serverURL)
	if err != nil {
		return "", errors.New("a URL cannot be read") // which may hold a password
	}
	u.Path = "/" + path
	return u.String(), nil
}

// takeRedis takes a database that is empty: it is emptied at the end.
func (s *Services) takeRedis(ctx context.Context) error {
	for number := range 16 { // as many as a Redis has that was not told otherwise
		where, err := withPath(s.RedisURL, strconv.Itoa(number))
		if err != nil {
			return err
		}
		options, err := redis.ParseURL(where)
		if err != nil {
			return errors.New("the Redis URL cannot be read")
		}
		client := redis.NewClient(options)
		size, err := client.DBSize(ctx).Result()
		if err == nil && size == 0 {
			s.redis, s.RedisURL = client, where
			return nil
		}
		client.Close()
		if err != nil {
			return err
		}
	}
	return errors.New("no database of Redis is empty")
}

// findPostgres is the process of the database server, when it is on this machine: whose child a session's is.
func (s *Services) findPostgres(ctx context.Context) int {
	var session int
	if err := s.postgres.NewRaw("SELECT pg_backend_pid()").Scan(db.AsOwner(ctx), &session); err != nil {
		return 0
	}
	of, err := readStat(session)
	if err != nil || !strings.HasPrefix(of.name, "postgres") {
		return 0
	}
	return of.parent
}

// findRedis is the process of Redis, when it is on this machine.
func (s *Services) findRedis(ctx context.Context) int {
	info, err := s.redis.InfoMap(ctx, "server").Result()
	if err != nil {
		return 0
	}
	pid, _ := strconv.Atoi(info["Server"]["process_id"])
	if of, err := readStat(pid); err != nil || !strings.HasPrefix(of.name, "redis") {
		return 0
	}
	return pid
}

// PIDs are the processes of PostgreSQL and Redis that could be found.
func (s *Services) PIDs() (pids []int) {
	for _, pid := range []int{s.PostgresPID, s.RedisPID} {
		if pid > 0 {
			pids = append(pids, pid)
		}
	}
	return pids
}

// Close leaves nothing behind.
func (s *Services) Close() (err error) {
	if s == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute) // also after an interrupt
	defer cancel()
	if s.redis != nil {
		err = errors.Join(err, s.redis.FlushDB(ctx).Err(), s.redis.Close())
	}
	for _, name := range s.made {
		err = errors.Join(err, s.drop(ctx, name))
	}
	if s.postgres != nil {
		err = errors.Join(err, s.postgres.Close())
	}
	return err
}

// drop ends what is still connected, which fails while one of the server's own workers is: without FORCE the server waits
// for that.
func (s *Services) drop(ctx context.Context, name string) error {
	_, err := s.postgres.ExecContext(db.AsOwner(ctx), "DROP DATABASE "+name+" WITH (FORCE)")
	if err != nil {
		_, err = s.postgres.ExecContext(db.AsOwner(ctx), "DROP DATABASE "+name)
	}
	return err
}

// Build builds this tree's server into a folder, and returns where it is.
func Build(ctx context.Context, folder string) (string, error) {
	binary := filepath.Join(folder, "linkforge")
	root, err := Root(ctx)
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, "go", "build", "-o", binary, "./server")
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building the server: %w\n%s", err, out)
	}
	return binary, nil
}

// Root returns the folder of the server's module.
func Root(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/linkforge/linkforge").Output()
	if err != nil {
		return "", fmt.Errorf("finding the server's module: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}
