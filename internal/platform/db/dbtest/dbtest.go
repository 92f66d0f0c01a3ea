// Package dbtest provides fresh databases, Redis servers and accounts for tests, so that one test
// body runs on every kind: SQLite and the in-process Redis always, PostgreSQL and a Redis server if
// their URLs are set (make test sets them).
package dbtest

import (
	"context"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/migrate"
	"github.com/linkforge/linkforge/internal/platform/id"
	"github.com/linkforge/linkforge/internal/platform/redisx"
	"github.com/linkforge/linkforge/internal/platform/suitetest"
	"github.com/linkforge/linkforge/migrations"
)

// The environment variables that name the servers to test on.
const (
	DatabaseURL = "LINKFORGE_TEST_DATABASE_URL"
	RedisURL    = "LINKFORGE_TEST_REDIS_URL"
)

// Each runs the test on a fresh, migrated database of each kind.
func Each(t *testing.T, test func(t *testing.T, d *db.DB)) {
	t.Helper()
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		test(t, MigratedSQLite(t))
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		test(t, MigratedPostgres(t))
	})
}

// EachParallel is Each in parallel with other tests.
func EachParallel(t *testing.T, test func(t *testing.T, d *db.DB)) {
	t.Helper()
	t.Parallel()
	Each(t, test)
}

// EachIfExhaustive runs the test on SQLite, and on PostgreSQL if tests are exhaustive. It is for
// behaviour of Go code whose statements have tests on both.
func EachIfExhaustive(t *testing.T, test func(t *testing.T, d *db.DB)) {
	t.Helper()
	if suitetest.Exhaustive() {
		Each(t, test)
		return
	}
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		test(t, MigratedSQLite(t))
	})
}

// EachRedis runs the test on each kind of Redis. Server and cluster are shared: keys must be unique
// to the test.
func EachRedis(t *testing.T, test func(t *testing.T, k *redisx.Client)) {
	t.Helper()
	t.Run("miniredis", func(t *testing.T) {
		t.Parallel()
		test(t, Redis(t, ""))
	})
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		test(t, Redis(t, ServerURL(t, RedisURL)))
	})
	t.Run("cluster", func(t *testing.T) {
		t.Parallel()
		test(t, Redis(t, ClusterURL(t)))
	})
}

// SQLite returns an empty SQLite database.
func SQLite(t testing.TB) *db.DB {
	t.Helper()
	return Open(t, db.SQLite, filepath.Join(t.TempDir(), "test.db"))
}

// Postgres returns an empty PostgreSQL database; without a server it skips the test.
func Postgres(t testing.TB) *db.DB {
	t.Helper()
	return Open(t, db.Postgres, PostgresURL(t))
}

// PostgresURL returns the URL of an empty database, which is dropped after the test; without a
// server it skips the test.
func PostgresURL(t testing.TB) string {
	t.Helper()
	return postgresURL(t, "")
}

// postgresURL creates a database, a copy of the template if there is one.
func postgresURL(t testing.TB, template string) string {
	t.Helper()
	ServerURL(t, DatabaseURL) // skips
	server, err := sharedServer()
	if err != nil {
		t.Fatal(err)
	}
	name := "test_" + strings.TrimPrefix(id.New(id.Log), string(id.Log))
	statement := "CREATE DATABASE " + name
	if template != "" {
		statement += " TEMPLATE " + template + " STRATEGY file_copy" // a third of the time of the default
	}
	execute(t, server, statement)
	t.Cleanup(func() { drop(t, server, name) })
	return databaseURL(t, name)
}

// sharedServer opens the database in the URL of the server, once for all tests: a connection costs
// as much as creating a database.
var sharedServer = sync.OnceValues(func() (*db.DB, error) { return db.OpenPostgres(os.Getenv(DatabaseURL), 2) })

func databaseURL(t testing.TB, name string) string {
	t.Helper()
	u, err := url.Parse(ServerURL(t, DatabaseURL))
	if err != nil {
		t.Fatal(err)
	}
	if name != "" {
		u.Path = "/" + name
	}
	return u.String()
}

// openServer opens a database of the server: the one in its URL if the name is empty.
func openServer(t testing.TB, name string) *db.DB {
	t.Helper()
	d, err := db.OpenPostgres(databaseURL(t, name), 2)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// Redis opens the Redis with the URL, the in-process one if it is empty.
func Redis(t testing.TB, redisURL string) *redisx.Client {
	t.Helper()
	k, err := redisx.Open(redisURL, 20)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { k.Close() })
	return k
}

// Migrated applies all migrations.
func Migrated(t testing.TB, d *db.DB) *db.DB {
	t.Helper()
	if _, err := migrate.Up(t.Context(), d, migrations.Files, time.Now()); err != nil {
		t.Fatal(err)
	}
	return d
}

func closeAfter(t testing.TB, d *db.DB) {
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
}

// drop waits for the connections that the test has closed: DROP DATABASE itself would look for them
// only every 100 ms. It also disconnects clients, which fails while an autovacuum worker is
// connected. Without FORCE the server waits for such a worker and ends it.
func drop(t testing.TB, d *db.DB, name string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for range 20 {
		n, err := d.NewSelect().TableExpr("pg_stat_database").Where("datname = ?", name).Where("numbackends > 0").
			Count(ctx)
		if err != nil || n == 0 {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	if try(d, "DROP DATABASE "+name+" WITH (FORCE)") != nil {
		execute(t, d, "DROP DATABASE "+name)
	}
}

func execute(t testing.TB, d *db.DB, statement string) {
	t.Helper()
	if err := try(d, statement); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

func try(d *db.DB, statement string) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute) // t.Context is over in a Cleanup
	defer cancel()
	_, err := d.ExecContext(db.AsOwner(ctx), statement)
	return err
}

// ServerURL returns the value of the variable; without one it skips the test.
func ServerURL(t testing.TB, variable string) string {
	t.Helper()
	u := os.Getenv(variable)
	if u == "" {
		t.Skipf("%s is not set: make test sets it", variable)
	}
	return u
}
