package dbtest

import (
	"bufio"
	"errors"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/proctest"
)

// EachShared is Each for tests with a second process, which opens the database by Open.
func EachShared(t *testing.T, test func(t *testing.T, kind db.Kind, where string)) {
	t.Helper()
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		where := filepath.Join(t.TempDir(), "test.db")
		WriteMigratedSQLite(t, where)
		test(t, db.SQLite, where)
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		test(t, db.Postgres, MigratedPostgresURL(t))
	})
}

// Open opens a SQLite path or PostgreSQL URL.
func Open(t testing.TB, kind db.Kind, where string) *db.DB {
	t.Helper()
	open, pool := db.OpenSQLite, 4
	if kind == db.Postgres {
		open, pool = db.OpenPostgres, 10
	}
	d, err := open(where, pool)
	if err != nil {
		t.Fatal(err)
	}
	closeAfter(t, d)
	return d
}

// Kill runs a test of this binary in another process and kills it once it has printed the line.
func Kill(t *testing.T, test, line string, env ...string) {
	t.Helper()
	process := proctest.Self(t, test, env...)
	out, err := process.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() && lines.Text() != line {
		t.Log(lines.Text())
	}
	if lines.Text() != line {
		t.Errorf("the process ended too early: %v", lines.Err())
	}
	if err := process.Process.Kill(); err != nil { // SIGKILL
		t.Error(err)
	}
	err = process.Wait()
	if ended, ok := errors.AsType[*exec.ExitError](err); !ok || ended.Exited() {
		t.Fatalf("the process was not killed: %v", err)
	}
}
