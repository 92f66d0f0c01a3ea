package db_test

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/wanttest"
)

// TestClose_LeavesNothingBehind counts goroutines, and so runs before every test that is parallel.
func TestClose_LeavesNothingBehind(t *testing.T) {
	before := runtime.NumGoroutine()
	d := must.Value(db.OpenSQLite(filepath.Join(t.TempDir(), "test.db"), 4))(t)
	setup(t, d)
	things(t, d)
	for range 2 { // closing twice is harmless
		must.NoError(t, d.Close())
	}
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	for over := time.Now().Add(10 * time.Second); runtime.NumGoroutine() > before; <-again.C {
		if time.Now().After(over) {
			t.Fatalf("%d goroutines before, %d after", before, runtime.NumGoroutine())
		}
	}
	if err := d.NewSelect().Model((*thing)(nil)).Scan(db.AsOwner(t.Context())); err == nil {
		t.Error("the readers are open after Close")
	}
}

func TestOpen_SQLitePaths(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	here, err := os.Getwd()
	must.NoError(t, err)
	relative, err := filepath.Rel(here, dir)
	must.NoError(t, err)
	for _, name := range []string{
		"plain.db", "with a space.db", "100%.db", "%41.db", "what?.db", "a#b.db", "a&b=c.db", "a+b.db", "üñï.db",
		"a:b.db",
		"'quoted'.db",
		`back\slash.db`, "mode=memory?mode=memory.db",
	} {
		for _, folder := range []string{dir, relative} {
			d := must.Value(db.OpenSQLite(filepath.Join(folder, name), 2))(t)
			if folder == dir {
				setup(t, d)
			}
			wanttest.Equal(t, map[string]int64{"first": 0}, things(t, d), "%s", filepath.Join(folder, name))
			must.NoError(t, d.Close())
		}
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Size() == 0 {
			t.Errorf("%s is not the file that was written: %v", name, err)
		}
	}
	// No other file was written.
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != 13 {
		t.Errorf("%d files, want 13: %v, %v", len(files), files, err)
	}
}

func TestOpen_SQLiteFilesAreReadableByOwnerOnly(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d := must.Value(db.OpenSQLite(filepath.Join(dir, "test.db"), 2))(t)
	defer d.Close()
	setup(t, d)
	files := must.Value(os.ReadDir(dir))(t)
	got := map[string]string{}
	for _, f := range files {
		info := must.Value(f.Info())(t)
		got[f.Name()] = info.Mode().String()
	}
	want := map[string]string{"test.db": "-rw-------", "test.db-shm": "-rw-------", "test.db-wal": "-rw-------"}
	wanttest.Equal(t, want, got, "files")
}

func TestOpen_SQLiteNeedsAFolder(t *testing.T) {
	t.Parallel()
	if d, err := db.OpenSQLite(filepath.Join(t.TempDir(), "missing", "test.db"), 2); err == nil || d != nil {
		t.Errorf("opened a file in a folder that is not there: %v", err)
	}
}

func TestOpen_SQLiteSettings(t *testing.T) {
	t.Parallel()
	d := dbtest.SQLite(t)
	setup(t, d)
	reader := func(pragma string) (value string) {
		t.Helper()
		// A SELECT of bun's goes to the readers.
		must.NoError(t, d.NewSelect().TableExpr("pragma_"+pragma).ColumnExpr("*").
			Scan(db.AsOwner(t.Context()), &value))
		return value
	}
	writer := func(pragma string) (value string) {
		t.Helper()
		must.NoError(t, d.QueryRowContext(db.AsOwner(t.Context()), "PRAGMA "+pragma).Scan(&value))
		return value
	}
	want := map[string]string{
		"reader query_only": "1", "reader busy_timeout": "10000", "reader journal_mode": "wal",
		"writer query_only": "0", "writer busy_timeout": "10000", "writer journal_mode": "wal",
		"writer synchronous": "2", "writer foreign_keys": "1",
		"reader cache_size": "-2048", "writer cache_size": "-65536",
	}
	got := map[string]string{}
	for setting := range want {
		who, pragma, _ := strings.Cut(setting, " ")
		ask := map[string]func(string) string{"reader": reader, "writer": writer}[who]
		got[setting] = ask(pragma)
	}
	wanttest.Equal(t, want, got, "settings")
	if n := d.DB.DB.Stats().MaxOpenConnections; n != 1 { // writers queue here, not in SQLite's busy handler
		t.Errorf("%d connections may write, want 1", n)
	}
}

func TestReaders_DoNotWaitForTheWriter(t *testing.T) {
	dbtest.EachParallel(t, func(t *testing.T, d *db.DB) {
		setup(t, d)
		err := d.Tx(db.AsOwner(t.Context()), func(ctx context.Context, tx bun.Tx) error {
			if err := insert(ctx, tx, "second"); err != nil {
				return err
			}
			var inside []thing
			if err := tx.NewSelect().Model(&inside).Scan(ctx); err != nil || len(inside) != 2 {
				t.Errorf("the transaction does not see its own writing: %v, %v", inside, err)
			}
			if outside := things(t, d); len(outside) != 1 {
				t.Errorf("others see what is not committed: %v", outside)
			}
			return nil
		})
		if after := things(t, d); err != nil || len(after) != 2 {
			t.Errorf("after the commit: %v, %v", after, err)
		}
	})
}

// event is a row with a time.
type event struct {
	bun.BaseModel `bun:"table:events"`

	ID string `bun:",pk"`
	At time.Time
}

func TestInstant_RoundTrips(t *testing.T) {
	dbtest.EachParallel(t, func(t *testing.T, d *db.DB) {
		column := map[db.Kind]string{db.Postgres: "TIMESTAMPTZ", db.SQLite: "TEXT"}[d.Kind]
		must.Value(d.ExecContext(db.AsOwner(t.Context()),
			"CREATE TABLE events (id TEXT PRIMARY KEY, at "+column+" NOT NULL)"))(t)
		east := time.FixedZone("east", 5*3600+1800)
		for text, given := range map[string]time.Time{
			"2026-11-20T06:30:00Z":        time.Date(2026, 11, 20, 12, 0, 0, 0, east),
			"2026-11-20T12:00:00.123456Z": time.Date(2026, 11, 20, 12, 0, 0, 123456789, time.UTC),
			"2026-12-31T23:59:59.999999Z": time.Date(2026, 12, 31, 23, 59, 59, 999999999, time.UTC),
			"2000-01-01T00:00:00Z":        time.Date(2000, 1, 1, 0, 0, 0, 999, time.UTC),
		} {
			kept := event{ID: text, At: db.Instant(given)}
			if got := kept.At.Format(time.RFC3339Nano); got != text {
				t.Errorf("%s: %s becomes %s", text, given, got)
			}
			must.Value(d.NewInsert().Model(&kept).Exec(db.AsOwner(t.Context())))(t)
			back := event{ID: text}
			if err := d.NewSelect().Model(&back).WherePK().Scan(db.AsOwner(t.Context())); err != nil ||
				!back.At.Equal(kept.At) {
				t.Errorf("%s: %s came back as %s: %v", text, kept.At, back.At, err)
			}
			// Comparing in SQL is comparing instants.
			n, err := d.NewSelect().Model((*event)(nil)).Where("id = ?", text).Where("at >= ?", kept.At).
				Where("at < ?", kept.At.Add(time.Microsecond)).Count(db.AsOwner(t.Context()))
			if err != nil || n != 1 {
				t.Errorf("%s is not where it is looked for: %v", text, err)
			}
		}
	})
}

// hostile is text that would end a literal, or stand for something else, if it were not escaped.
var hostile = []string{
	`'`, `''`, `\`, `\'`, `\\'; DROP TABLE things; --`, `'; DROP TABLE things; --`, `"`, "`", `?`, `?0`, `$1`, `:id`,
	`%s`,
	`$$`, `E'\n'`,
	"two\nlines", "/* a comment", "\u2028", "👩‍🚀", strings.Repeat("'", 1000),
}

func TestText_RoundTrips(t *testing.T) {
	dbtest.EachParallel(t, roundTrip)
	t.Run("postgres of old habits", func(t *testing.T) {
		t.Parallel()
		d := must.Value(db.OpenPostgres(dbtest.PostgresURL(t)+"&standard_conforming_strings=off", 2))(t)
		t.Cleanup(func() { d.Close() })
		roundTrip(t, d)
	})
}

func roundTrip(t *testing.T, d *db.DB) {
	setup(t, d)
	want := map[string]int64{"first": 0}
	for i, text := range hostile {
		must.Value(d.NewInsert().Model(&thing{ID: text, Count: int64(i)}).Exec(db.AsOwner(t.Context())))(t)
		var kept string
		err := d.NewSelect().Model((*thing)(nil)).Column("id").Where("id = ?", text).Scan(db.AsOwner(t.Context()),
			&kept)
		if err != nil || kept != text {
			t.Errorf("%q came back as %q: %v", text, kept, err)
		}
		want[text] = int64(i)
	}
	wanttest.Equal(t, want, things(t, d), "things")
}

func TestOpen_HidesABadURL(t *testing.T) {
	t.Parallel()
	for _, u := range []string{"postgres://u:hunter2@host:port/name", "postgres://u:hunter2@host/%zz",
		"password=hunter2 port=none"} {
		if d, err := db.OpenPostgres(u, 2); err == nil || d != nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", u, err)
		}
	}
}
