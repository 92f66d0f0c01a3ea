package jobs

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/dbtest"
)

// The environment variables that make TestHolder hold a lease, and the line it says so with.
const (
	holderKind = "LINKFORGE_TEST_HOLDER_KIND"
	holderURL  = "LINKFORGE_TEST_HOLDER_URL"
	holding    = "holding"
)

// open opens the database of the kind: SQLite's path, or PostgreSQL's URL.
func open(t *testing.T, kind db.Kind, where string) *db.DB {
	t.Helper()
	opener := map[db.Kind]func(string, int) (*db.DB, error){db.SQLite: db.OpenSQLite, db.Postgres: db.OpenPostgres}[kind]
	d, err := opener(where, 2)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

// TestHolder is the process that TestAKilledHolderIsTakenOver kills; by itself it does nothing. Its clock stands at
// noon.
func TestHolder(t *testing.T) {
	t.Parallel()
	kind := db.Kind(os.Getenv(holderKind))
	if kind == "" {
		return
	}
	r, _ := setup(open(t, kind, os.Getenv(holderURL)))
	_, err := r.Look(t.Context(), quarterly(func(ctx context.Context) error {
		fmt.Println(holding)
		<-ctx.Done()
		return nil
	}))
	t.Errorf("nobody killed the holder: %v", err)
}

// TestAKilledHolderIsTakenOver kills the process that runs a job. A node that looks each minute, as unluckily as it
// can, has the job within fifteen minutes, and not before the lease has ended.
func TestAKilledHolderIsTakenOver(t *testing.T) {
	t.Parallel()
	for kind, database := range map[db.Kind]func(t *testing.T) string{
		db.SQLite:   func(t *testing.T) string { return filepath.Join(t.TempDir(), "test.db") },
		db.Postgres: func(t *testing.T) string { return dbtest.PostgresURL(t) },
	} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			where := database(t)
			d := dbtest.Migrated(t, open(t, kind, where))
			killHolder(t, kind, where)
			if l := leaseOf(t, d, "tidy"); l.Holder == "" {
				t.Errorf("the holder gave its lease back: %+v", l)
			}
			const late = 59 * time.Second
			for minute := range time.Duration(14) { // until 13m59s
				look(t, d, minute*time.Minute+late, quarterly(nothing), false)
			}
			look(t, d, 14*time.Minute+late, quarterly(nothing), true)
		})
	}
}

// killHolder runs TestHolder in a process of its own, and kills it while its job runs.
func killHolder(t *testing.T, kind db.Kind, where string) {
	t.Helper()
	holder := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestHolder$", "-test.timeout="+patience.String())
	holder.Env = append(os.Environ(), holderKind+"="+string(kind), holderURL+"="+where)
	holder.Stderr = os.Stderr
	out, err := holder.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := holder.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() && lines.Text() != holding {
		t.Log(lines.Text())
	}
	if lines.Text() != holding {
		t.Errorf("the holder ended too early: %v", lines.Err())
	}
	if err := holder.Process.Kill(); err != nil { // SIGKILL
		t.Error(err)
	}
	err = holder.Wait()
	if ended, ok := errors.AsType[*exec.ExitError](err); !ok || ended.Exited() {
		t.Fatalf("the holder was not killed: %v", err)
	}
}
