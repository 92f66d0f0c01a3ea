// Package dbtest gives tests a fresh database and a Redis, so that one test body runs on every kind
// of them: SQLite and the in-process Redis always, PostgreSQL and a Redis server when their URLs
// are set (make test sets them).
package dbtest

import (
	"context"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/id"
	"github.com/linkforge/linkforge/internal/redisx"
	"github.com/linkforge/linkforge/migrations"
)

// The environment variables that name the servers to test on.
const (
	DatabaseURL = "LINKFORGE_TEST_DATABASE_URL"
	RedisURL    = "LINKFORGE_TEST_REDIS_URL"
)

// Each runs the test on a fresh, migrated database of either kind.
func Each(t *testing.T, test func(t *testing.T, d *db.DB)) {
	t.Helper()
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		test(t, Migrated(t, SQLite(t)))
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		test(t, MigratedPostgres(t))
	})
}

// EachRedis runs the test on every kind of Redis. Server and cluster are shared: keys must be the
// test's own.
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

// SQLite is an empty SQLite database.
func SQLite(t testing.TB) *db.DB {
	t.Helper()
	d, err := db.OpenSQLite(filepath.Join(t.TempDir(), "test.db"), 4)
	if err != nil {
		t.Fatal(err)
	}
	closeAfter(t, d)
	return d
}

// Postgres is an empty database on the PostgreSQL server; without one the test is skipped.
func Postgres(t testing.TB) *db.DB {
	t.Helper()
	d, err := db.OpenPostgres(PostgresURL(t), 10)
	if err != nil {
		t.Fatal(err)
	}
	closeAfter(t, d)
	return d
}

// PostgresURL is the URL of an empty database, which is dropped after the test; without a server
// the test is skipped.
func PostgresURL(t testing.TB) string {
	t.Helper()
	return postgresURL(t, "")
}

// postgresURL is the URL of a new database that is a copy of the template, or empty without one.
func postgresURL(t testing.TB, template string) string {
	t.Helper()
	server := openServer(t, "")
	name := "test_" + strings.TrimPrefix(id.New(id.Log), string(id.Log))
	statement := "CREATE DATABASE " + name
	if template != "" {
		statement += " TEMPLATE " + template
	}
	execute(t, server, statement)
	t.Cleanup(func() {
		drop(t, server, name)
		server.Close()
	})
	return databaseURL(t, name)
}

// databaseURL is where a database of the server is.
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

// openServer opens a database of the server: the one in its URL when the name is empty.
func openServer(t testing.TB, name string) *db.DB {
	t.Helper()
	d, err := db.OpenPostgres(databaseURL(t, name), 2)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// Redis opens the Redis with the URL, the in-process one when it is empty.
func Redis(t testing.TB, redisURL string) *redisx.Client {
	t.Helper()
	k, err := redisx.Open(redisURL, 20)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { k.Close() })
	return k
}

// Migrated brings the database's schema up to date.
func Migrated(t testing.TB, d *db.DB) *db.DB {
	t.Helper()
	if _, err := d.Migrate(t.Context(), migrations.Files, time.Now()); err != nil {
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

// drop ends what is still connected, which fails while one of the server's own autovacuum workers
// is. Without FORCE the server waits a few seconds for everyone to go, and asks such a worker to.
func drop(t testing.TB, d *db.DB, name string) {
	t.Helper()
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

// ServerURL is the value of the variable; without one the test is skipped.
func ServerURL(t testing.TB, variable string) string {
	t.Helper()
	u := os.Getenv(variable)
	if u == "" {
		t.Skipf("%s is not set: make test sets it", variable)
	}
	return u
}
