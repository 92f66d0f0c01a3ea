// Package rig is what benchmarks and drills of servers share: databases of a run's own, servers as
// processes, wrk as the load generator, CPU time, and tables of medians. It needs Linux.
package rig

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/redis/go-redis/v9"
	_ "modernc.org/sqlite" // the driver "sqlite"
)

// Services are a database on PostgreSQL and one on Redis, which are a run's own.
type Services struct {
	DatabaseURL, RedisURL string
	// Redis is a client of that database.
	Redis                 *redis.Client
	postgresPID, redisPID int // zero when they are not on this machine

	postgres *sql.DB // the database in which others are created
	created  []string
	server   string
}

// ErrURL does not show a URL, which may hold a password.
var ErrURL = errors.New("the URL of the database cannot be read")

// OpenServices creates a database on PostgreSQL and takes an empty one of Redis. What it returns is
// to be closed, also when there is an error.
func OpenServices(ctx context.Context, databaseURL, redisURL string) (s *Services, err error) {
	s = &Services{server: databaseURL, RedisURL: redisURL}
	if s.postgres, err = Open(databaseURL, false); err != nil {
		return s, err
	}
	if s.DatabaseURL, err = s.CreateDatabase(ctx); err != nil {
		return s, err
	}
	if err := s.takeRedis(ctx); err != nil {
		return s, err
	}
	s.findPIDs(ctx)
	return s, nil
}

// Open opens PostgreSQL by its URL, or SQLite by its path. As the system, PostgreSQL shows the rows
// of all workspaces; otherwise the connection is the owner's, which row-level security hides them
// from.
func Open(where string, system bool) (*sql.DB, error) {
	if !strings.Contains(where, "://") {
		query := url.Values{"_pragma": {"journal_mode(WAL)", "synchronous(FULL)", "busy_timeout(10000)"}}
		source := url.URL{Scheme: "file", Opaque: (&url.URL{Path: where}).EscapedPath(), RawQuery: query.Encode()}
		return sql.Open("sqlite", source.String())
	}
	config, err := pgx.ParseConfig(where)
	if err != nil {
		return nil, ErrURL
	}
	var options []stdlib.OptionOpenDB
	if system {
		options = append(options, stdlib.OptionAfterConnect(func(ctx context.Context, conn *pgx.Conn) error {
			_, err := conn.Exec(ctx, "SET ROLE linkforge_system")
			return err
		}))
	}
	d := stdlib.OpenDB(*config, options...)
	d.SetMaxOpenConns(2)
	return d, nil
}

// Within opens a database while do uses it.
func Within(where string, system bool, do func(*sql.DB) error) error {
	d, err := Open(where, system)
	if err != nil {
		return err
	}
	return errors.Join(do(d), d.Close())
}

// CreateDatabase creates one more database on the same server, and returns its URL.
func (s *Services) CreateDatabase(ctx context.Context) (databaseURL string, err error) {
	name := fmt.Sprintf("bench_%016x", rand.Uint64())
	if _, err := s.postgres.ExecContext(ctx, "CREATE DATABASE "+name); err != nil {
		return "", err
	}
	s.created = append(s.created, name)
	return withPath(s.server, name)
}

func withPath(serverURL, path string) (string, error) {
	u, err := url.Parse(serverURL)
	if err != nil {
		return "", ErrURL
	}
	u.Path = "/" + path
	return u.String(), nil
}

// takeRedis selects an empty database, which is emptied at the end.
func (s *Services) takeRedis(ctx context.Context) error {
	for number := range 16 { // as many as Redis has by default
		where, err := withPath(s.RedisURL, strconv.Itoa(number))
		if err != nil {
			return err
		}
		options, err := redis.ParseURL(where)
		if err != nil {
			return ErrURL
		}
		client := redis.NewClient(options)
		size, err := client.DBSize(ctx).Result()
		if err == nil && size == 0 {
			s.Redis, s.RedisURL = client, where
			return nil
		}
		client.Close()
		if err != nil {
			return err
		}
	}
	return errors.New("no database of Redis is empty")
}

// findPIDs finds both servers when they are on this machine: a session's parent is PostgreSQL's
// first process.
func (s *Services) findPIDs(ctx context.Context) {
	var session int
	if err := s.postgres.QueryRowContext(ctx, "SELECT pg_backend_pid()").Scan(&session); err == nil {
		if of, err := readStat(session); err == nil && strings.HasPrefix(of.name, "postgres") {
			s.postgresPID = of.parent
		}
	}
	if info, err := s.Redis.InfoMap(ctx, "server").Result(); err == nil {
		pid, _ := strconv.Atoi(info["Server"]["process_id"])
		if of, err := readStat(pid); err == nil && strings.HasPrefix(of.name, "redis") {
			s.redisPID = pid
		}
	}
}

// PIDs are the processes of PostgreSQL and Redis that were found.
func (s *Services) PIDs() (pids []int) {
	for _, pid := range []int{s.postgresPID, s.redisPID} {
		if pid > 0 {
			pids = append(pids, pid)
		}
	}
	return pids
}

// Close drops what was created.
func (s *Services) Close() (err error) {
	if s == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute) // also after an interrupt
	defer cancel()
	if s.Redis != nil {
		err = errors.Join(err, s.Redis.FlushDB(ctx).Err(), s.Redis.Close())
	}
	for _, name := range s.created {
		// FORCE fails while one of the server's own workers is connected, for which the server waits
		// without it.
		if _, forced := s.postgres.ExecContext(ctx, "DROP DATABASE "+name+" WITH (FORCE)"); forced != nil {
			_, problem := s.postgres.ExecContext(ctx, "DROP DATABASE "+name)
			err = errors.Join(err, problem)
		}
	}
	if s.postgres != nil {
		err = errors.Join(err, s.postgres.Close())
	}
	return err
}

// Root returns the folder of the server's module.
func Root(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/linkforge/linkforge").Output()
	if err != nil {
		return "", fmt.Errorf("finding the server's module: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}

// Build builds this tree's server into a folder, and returns its path.
func Build(ctx context.Context, folder string) (string, error) {
	root, err := Root(ctx)
	if err != nil {
		return "", err
	}
	binary := filepath.Join(folder, "linkforge")
	cmd := exec.CommandContext(ctx, "go", "build", "-o", binary, "./server")
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building the server: %w\n%s", err, out)
	}
	return binary, nil
}
