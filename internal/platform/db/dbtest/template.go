package dbtest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/migrate"
	"github.com/linkforge/linkforge/migrations"
)

// MigratedSQLite returns a copy of a migrated database, which is many times faster than migrating.
func MigratedSQLite(t testing.TB) *db.DB {
	t.Helper()
	path := filepath.Join(t.TempDir(), "test.db")
	WriteMigratedSQLite(t, path)
	return Open(t, db.SQLite, path)
}

// WriteMigratedSQLite writes a migrated database to a new file, and makes its folder.
func WriteMigratedSQLite(t testing.TB, path string) {
	t.Helper()
	content, err := sqliteTemplate()
	if err != nil {
		t.Fatal(err)
	}
	err = errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, content, 0o600))
	if err != nil {
		t.Fatal(err)
	}
}

// sqliteTemplate returns the content of a migrated database.
var sqliteTemplate = sync.OnceValues(func() (content []byte, err error) {
	folder, err := os.MkdirTemp("", "sqlite-template")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(folder)
	path := filepath.Join(folder, "template.db")
	d, err := db.OpenSQLite(path, 1)
	if err != nil {
		return nil, err
	}
	_, err = migrate.Up(context.Background(), d, migrations.Files, time.Now())
	if err := errors.Join(err, d.Close()); err != nil { // closing moves the write-ahead log into the file
		return nil, err
	}
	return os.ReadFile(path)
})

// MigratedPostgres returns a copy of a migrated template database, which is several times faster
// than migrating. Without a server it skips the test.
func MigratedPostgres(t testing.TB) *db.DB {
	t.Helper()
	return Open(t, db.Postgres, MigratedPostgresURL(t))
}

// MigratedPostgresURL returns the URL of such a copy, which is dropped after the test.
func MigratedPostgresURL(t testing.TB) string {
	t.Helper()
	return postgresURL(t, template(t))
}

var (
	templateOnce sync.Once
	templateName string
)

// template returns the name of the template, which all processes with the same migrations share and
// which stays for the next run.
func template(t testing.TB) string {
	t.Helper()
	ServerURL(t, DatabaseURL) // skips outside of the Once
	templateOnce.Do(func() { templateName = makeTemplate(t) })
	if templateName == "" {
		t.Fatal("the template was not made")
	}
	return templateName
}

// makeTemplate migrates a database under another name first, so that a template is always complete.
// An advisory lock admits one process.
func makeTemplate(t testing.TB) string {
	t.Helper()
	server := openServer(t, "")
	defer server.Close()
	name := "template_" + fingerprint(t)
	ctx, cancel := context.WithTimeout(db.AsOwner(context.Background()), 2*time.Minute)
	defer cancel()
	lock, err := server.Conn(ctx) // CREATE DATABASE does not work in a transaction, so the session holds the lock
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if _, err := lock.ExecContext(ctx, "SELECT pg_advisory_lock(hashtext(?))", name); err != nil {
		t.Fatal(err)
	}
	defer lock.ExecContext(ctx, "SELECT pg_advisory_unlock(hashtext(?))", name)
	if there, err := exists(ctx, lock, name); err != nil || there {
		if err != nil {
			t.Fatal(err)
		}
		return name
	}
	execute(t, server, "DROP DATABASE IF EXISTS "+name+"_new")
	execute(t, server, "CREATE DATABASE "+name+"_new")
	d := openServer(t, name+"_new")
	Migrated(t, d)
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	execute(t, server, "ALTER DATABASE "+name+"_new RENAME TO "+name)
	return name
}

func exists(ctx context.Context, conn bun.IDB, database string) (there bool, err error) {
	err = conn.NewRaw("SELECT EXISTS (SELECT FROM pg_database WHERE datname = ?)", database).Scan(ctx, &there)
	return there, err
}

// fingerprint identifies the set of migrations.
func fingerprint(t testing.TB) string {
	t.Helper()
	hash := sha256.New()
	err := fs.WalkDir(migrations.Files, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		script, err := fs.ReadFile(migrations.Files, path)
		hash.Write([]byte(path))
		hash.Write(script)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return hex.EncodeToString(hash.Sum(nil)[:8])
}
