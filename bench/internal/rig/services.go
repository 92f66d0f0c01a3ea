package rig

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/prometheus/procfs"
	"github.com/redis/go-redis/v9"
	_ "modernc.org/sqlite" // the driver "sqlite"
)

// errURL does not show a URL, which may hold a password.
var errURL = errors.New("the URL of the database cannot be parsed")

// OpenServices creates a database on PostgreSQL, and takes an empty one of Redis. Another call
// opens others.
func (r *Run) OpenServices() {
	if os.Getenv("LINKFORGE_TEST_DATABASE_URL") == "" || os.Getenv("LINKFORGE_TEST_REDIS_URL") == "" {
		Failf("PostgreSQL and Redis are needed: scripts/with-services provides them")
	}
	r.DatabaseURL = r.CreateDatabase()
	r.takeRedis()
	var session int // its parent is PostgreSQL's first process
	r.In(r.DatabaseURL, false, func(d *sql.DB) {
		Check(d.QueryRowContext(r, "SELECT pg_backend_pid()").Scan(&session))
		if s, err := stat(session); err == nil && strings.HasPrefix(s.Comm, "postgres") {
			r.addService(s.PPID)
		}
	})
	pid, _ := strconv.Atoi(Must(r.Redis.InfoMap(r, "server").Result())["Server"]["process_id"])
	if s, err := stat(pid); err == nil && strings.HasPrefix(s.Comm, "redis") {
		r.addService(pid)
	}
}

// addService adds a process to ServicePIDs: the same ones serve each call of OpenServices.
func (r *Run) addService(pid int) {
	if !slices.Contains(r.ServicePIDs, pid) {
		r.ServicePIDs = append(r.ServicePIDs, pid)
	}
}

func stat(pid int) (s procfs.ProcStat, err error) {
	p, err := procfs.NewProc(pid)
	if err != nil {
		return s, err
	}
	return p.Stat()
}

// ServicesEnv returns the settings of a server that uses the run's PostgreSQL and Redis.
func (r *Run) ServicesEnv() []string {
	return []string{"LINKFORGE_DATABASE_URL=" + r.DatabaseURL, "LINKFORGE_REDIS_URL=" + r.RedisURL}
}

// CreateDatabase creates a database, and returns its URL. The end of the run drops it.
func (r *Run) CreateDatabase() string {
	server, name := os.Getenv("LINKFORGE_TEST_DATABASE_URL"), fmt.Sprintf("bench_%016x", rand.Uint64())
	r.Exec(server, "CREATE DATABASE "+name)
	r.Cleanup(func() error { // also after an interrupt
		return Try(func() { (&Run{Context: context.Background()}).Exec(server, "DROP DATABASE "+name+" WITH (FORCE)") })
	})
	return withPath(server, name)
}

func withPath(serverURL, path string) string {
	u, err := url.Parse(serverURL)
	if err != nil {
		Check(errURL)
	}
	u.Path = "/" + path
	return u.String()
}

// takeRedis selects an empty database, which the end of the run empties.
func (r *Run) takeRedis() {
	for number := range 16 { // Redis's default number of databases
		r.RedisURL = withPath(os.Getenv("LINKFORGE_TEST_REDIS_URL"), strconv.Itoa(number))
		options, err := redis.ParseURL(r.RedisURL)
		if err != nil {
			Check(errURL)
		}
		client := redis.NewClient(options)
		if Must(client.DBSize(r).Result()) == 0 {
			r.Redis = client
			r.Cleanup(func() error { return errors.Join(client.FlushDB(context.Background()).Err(), client.Close()) })
			return
		}
		client.Close()
	}
	Failf("no database of Redis is empty")
}

// Open opens PostgreSQL by its URL, or SQLite by its path. As the system, PostgreSQL shows the rows
// of all workspaces; otherwise the connection is the owner's, from which row-level security hides
// them.
func Open(where string, system bool) *sql.DB {
	if !strings.Contains(where, "://") {
		query := url.Values{"_pragma": {"journal_mode(WAL)", "synchronous(FULL)", "busy_timeout(10000)"}}
		source := url.URL{Scheme: "file", Opaque: (&url.URL{Path: where}).EscapedPath(), RawQuery: query.Encode()}
		return Must(sql.Open("sqlite", source.String()))
	}
	config, err := pgx.ParseConfig(where)
	if err != nil {
		Check(errURL)
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
	return d
}

// In opens a database while do uses it.
func (r *Run) In(where string, system bool, do func(*sql.DB)) {
	d := Open(where, system)
	defer d.Close()
	do(d)
}

// Exec runs statements as the owner of a database.
func (r *Run) Exec(where string, statements ...string) {
	r.In(where, false, func(d *sql.DB) {
		for _, statement := range statements {
			if _, err := d.ExecContext(r, statement); err != nil {
				Failf("%.60s: %w", statement, err)
			}
		}
	})
}

// Number queries one number as the system.
func (r *Run) Number(where, query string, args ...any) (n int64) {
	r.In(where, true, func(d *sql.DB) { Check(d.QueryRowContext(r, query, args...).Scan(&n)) })
	return n
}

// Rows reads all rows of a query, as the system, into structs whose fields take the columns in
// order.
func Rows[T any](r *Run, where, query string, args ...any) (all []T) {
	r.In(where, true, func(d *sql.DB) {
		rows := Must(d.QueryContext(r, query, args...))
		defer rows.Close()
		for rows.Next() {
			var one T
			value := reflect.ValueOf(&one).Elem()
			fields := make([]any, value.NumField())
			for i := range fields {
				fields[i] = value.Field(i).Addr().Interface()
			}
			Check(rows.Scan(fields...))
			all = append(all, one)
		}
		Check(rows.Err())
	})
	return all
}

// Copy copies n rows into a table after another statement, in one transaction: PostgreSQL need not
// log rows of a table that the transaction has truncated.
func (r *Run) Copy(where, before, table string, columns []string, n int, row func(i int) []any) {
	conn := Must(pgx.Connect(r, where))
	defer conn.Close(context.WithoutCancel(r))
	Check(pgx.BeginFunc(r, conn, func(tx pgx.Tx) error {
		if _, err := tx.Exec(r, before); err != nil {
			return err
		}
		rows := pgx.CopyFromSlice(n, func(i int) ([]any, error) { return row(i), nil })
		_, err := tx.CopyFrom(r, pgx.Identifier{table}, columns, rows)
		return err
	}))
}

// LibpqEnv returns the environment of PostgreSQL's own programs for a database. Command lines would
// be visible to all users of the machine.
func LibpqEnv(databaseURL string) []string {
	c, err := pgx.ParseConfig(databaseURL)
	if err != nil {
		Check(errURL)
	}
	return []string{"PGHOST=" + c.Host, "PGPORT=" + strconv.Itoa(int(c.Port)), "PGUSER=" + c.User,
		"PGPASSWORD=" + c.Password, "PGDATABASE=" + c.Database}
}
