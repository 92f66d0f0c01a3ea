package migrate_test

import (
	"context"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/db/migrate"
	"github.com/linkforge/linkforge/internal/platform/id"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/wanttest"
	"github.com/linkforge/linkforge/migrations"
)

var noon = dbtest.Noon

// scripts are the files of some migrations, the same for either dialect.
func scripts(byName map[string]string) fstest.MapFS {
	files := fstest.MapFS{}
	for name, script := range byName {
		for _, kind := range []db.Kind{db.Postgres, db.SQLite} {
			files[string(kind)+"/"+name+".sql"] = &fstest.MapFile{Data: []byte(script)}
		}
	}
	return files
}

// bare runs the test on an empty database of either kind.
func bare(t *testing.T, test func(t *testing.T, d *db.DB)) {
	t.Helper()
	for name, open := range map[string]func(testing.TB) *db.DB{"sqlite": dbtest.SQLite, "postgres": dbtest.Postgres} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, open(t))
		})
	}
}

func up(t *testing.T, d *db.DB, files fstest.MapFS, want ...string) {
	t.Helper()
	applied, err := migrate.Up(db.AsOwner(t.Context()), d, files, noon)
	if diff := cmp.Diff(want, applied); diff != "" || err != nil {
		t.Fatalf("%v; applied (-want +got):\n%s", err, diff)
	}
}

// tables are all tables, the one that records migrations among them.
func tables(t *testing.T, d *db.DB) []string {
	t.Helper()
	query := "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name"
	if d.Kind == db.Postgres {
		query = "SELECT table_name FROM information_schema.tables WHERE table_schema = 'public' ORDER BY table_name"
	}
	var names []string
	must.NoError(t, d.NewRaw(query).Scan(db.AsOwner(t.Context()), &names))
	return names
}

// taken says which steps are recorded, in order, and which are pending.
func taken(t *testing.T, d *db.DB, files fstest.MapFS) (list []string) {
	t.Helper()
	steps := must.Value(migrate.List(db.AsOwner(t.Context()), d, files))(t)
	for _, step := range steps {
		state := "pending"
		if !step.AppliedAt.IsZero() {
			state = step.AppliedAt.Format(time.RFC3339)
		}
		list = append(list, step.Name+" "+state)
	}
	return list
}

func TestMigrate_UpAndDown(t *testing.T) {
	t.Parallel()
	bare(t, func(t *testing.T, d *db.DB) {
		files := scripts(map[string]string{
			"0001_one.up":   "CREATE TABLE one (id TEXT); INSERT INTO one VALUES ('?'), ('?0');",
			"0001_one.down": "DROP TABLE one;",
			"0002_two.up":   "CREATE TABLE two (id TEXT);", "0002_two.down": "DROP TABLE two;",
			"0010_ten.up": "CREATE TABLE ten (id TEXT);", "0010_ten.down": "DROP TABLE ten;",
		})
		pending := []string{"0001_one pending", "0002_two pending", "0010_ten pending"}
		wanttest.Equal(t, pending, taken(t, d, files), "before the first")
		for range 2 { // and up again after all the way down
			up(t, d, files, "0001_one", "0002_two", "0010_ten")
			up(t, d, files)
			done := strings.ReplaceAll(strings.Join(pending, "\n"), "pending", "2026-11-20T12:00:00Z")
			wanttest.Equal(t, done, strings.Join(taken(t, d, files), "\n"), "after the last")
			var ids []string
			if err := d.NewSelect().Table("one").Column("id").Order("id").Scan(db.AsOwner(t.Context()),
				&ids); err != nil ||
				!cmp.Equal(ids, []string{"?", "?0"}) {
				t.Errorf("the script's question marks are %v: %v", ids, err)
			}
			for _, want := range []string{"0010_ten", "0002_two", "0001_one", ""} {
				if undone, err := migrate.Down(db.AsOwner(t.Context()), d, files); err != nil || undone != want {
					t.Errorf("undone %q, want %q: %v", undone, want, err)
				}
			}
			wanttest.Equal(t, []string{"migrations"}, tables(t, d), "left over")
		}
	})
}

func TestUp_FailedMigrationLeavesNothing(t *testing.T) {
	t.Parallel()
	bare(t, func(t *testing.T, d *db.DB) {
		steps := map[string]string{
			"0001_good.up": "CREATE TABLE good (id TEXT)",
			"0002_bad.up": "CREATE TABLE half (id TEXT); INSERT INTO half VALUES ('a'); INSERT INTO nowhere VALUES " +
				"('b');",
			"0003_later.up": "CREATE TABLE later (id TEXT)",
		}
		files := scripts(steps)
		applied, err := migrate.Up(db.AsOwner(t.Context()), d, files, noon)
		if diff := cmp.Diff([]string{"0001_good"}, applied); diff != "" || err == nil ||
			!strings.Contains(err.Error(), "0002_bad") {
			t.Errorf("%v; applied (-want +got):\n%s", err, diff)
		}
		wanttest.Equal(t, []string{"good", "migrations"}, tables(t, d), "tables")
		want := []string{"0001_good 2026-11-20T12:00:00Z", "0002_bad pending", "0003_later pending"}
		wanttest.Equal(t, want, taken(t, d, files), "steps")
		steps["0002_bad.up"] = "CREATE TABLE half (id TEXT)"
		up(t, d, scripts(steps), "0002_bad", "0003_later")
	})
}

func TestDown_FailureKeepsMigration(t *testing.T) {
	t.Parallel()
	bare(t, func(t *testing.T, d *db.DB) {
		steps := map[string]string{"0001_one.up": "CREATE TABLE one (id TEXT)"}
		up(t, d, scripts(steps), "0001_one")
		for _, down := range []string{"", "DROP TABLE one; DROP TABLE nowhere;"} {
			if down != "" { // at first there is no such file
				steps["0001_one.down"] = down
			}
			if undone, err := migrate.Down(db.AsOwner(t.Context()), d, scripts(steps)); err == nil || undone != "" {
				t.Errorf("%q undid %q: %v", down, undone, err)
			}
		}
		wanttest.Equal(t, []string{"0001_one 2026-11-20T12:00:00Z"}, taken(t, d, scripts(steps)), "steps")
		wanttest.Equal(t, []string{"migrations", "one"}, tables(t, d), "tables")
	})
}

// TestMigrate_IsSerialized starts many nodes at once, each with a pool of its own. A step that two
// of them took would fail or count twice.
func TestUp_IsSerialized(t *testing.T) {
	t.Parallel()
	for name, opener := range map[string]func(t *testing.T) func() (*db.DB, error){
		"sqlite": func(t *testing.T) func() (*db.DB, error) {
			path := filepath.Join(t.TempDir(), "test.db")
			return func() (*db.DB, error) { return db.OpenSQLite(path, 2) }
		},
		"postgres": func(t *testing.T) func() (*db.DB, error) {
			databaseURL := dbtest.PostgresURL(t)
			return func() (*db.DB, error) { return db.OpenPostgres(databaseURL, 2) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			open := opener(t)
			steps := map[string]string{"0001_counted.up": "CREATE TABLE counted (step INTEGER NOT NULL)"}
			want := map[string]int{"0001_counted": 1}
			for i := 2; i <= 6; i++ {
				steps[fmt.Sprintf("%04d_count.up", i)] = fmt.Sprintf("INSERT INTO counted VALUES (%d)", i)
				want[fmt.Sprintf("%04d_count", i)] = 1
			}
			wanttest.Equal(t, want, start(t, 8, open, scripts(steps)), "how often each step was taken")
			d := must.Value(open())(t)
			defer d.Close()
			var counted []int
			must.NoError(t, d.NewSelect().Table("counted").Column("step").Order("step").
				Scan(db.AsOwner(t.Context()), &counted))
			wanttest.Equal(t, []int{2, 3, 4, 5, 6}, counted, "what the steps wrote")
		})
	}
}

// start lets n nodes migrate at once and counts who took which step.
func start(t *testing.T, n int, open func() (*db.DB, error), files fstest.MapFS) map[string]int {
	t.Helper()
	var mu sync.Mutex
	took := map[string]int{}
	var ready, all sync.WaitGroup
	ready.Add(n)
	for range n {
		all.Go(func() {
			d, err := open()
			ready.Done()
			if err != nil {
				t.Error(err)
				return
			}
			defer d.Close()
			ready.Wait()
			for range 20 { // as a server does before it migrates, also while another one creates the table
				if _, err := migrate.Breaking(db.AsOwner(t.Context()), d, files); err != nil {
					t.Error("looking for migrations:", err)
				}
			}
			applied, err := migrate.Up(db.AsOwner(t.Context()), d, files, noon)
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			for _, name := range applied {
				took[name]++
			}
		})
	}
	all.Wait()
	return took
}

// TestUp_OnlineIsSerialized: nodes that wait for another node do not block its CREATE INDEX
// CONCURRENTLY, which waits for all statements that run.
func TestUp_OnlineIsSerialized(t *testing.T) {
	t.Parallel()
	databaseURL := dbtest.PostgresURL(t)
	steps := map[string]string{
		"0001_table.up": "CREATE TABLE one (id TEXT)",
		"0002_index.up": "-- online\nINSERT INTO one VALUES ('a')\n-- next\nCREATE INDEX CONCURRENTLY ones ON one " +
			"(id);\n",
	}
	open := func() (*db.DB, error) { return db.OpenPostgres(databaseURL, 2) }
	want := map[string]int{"0001_table": 1, "0002_index": 1}
	wanttest.Equal(t, want, start(t, 8, open, scripts(steps)), "how often each step was taken")
}

// TestUp_OnlineHoldsNothingUp: meanwhile the lock of other migrations is free, which starting nodes
// need. No transaction that has written is open: readers of events would wait for it. The timeout
// of the database does not end it.
func TestUp_OnlineHoldsNothingUp(t *testing.T) {
	t.Parallel()
	databaseURL := dbtest.PostgresURL(t)
	d := must.Value(db.OpenPostgres(databaseURL, 2))(t)
	const migrationLock = 0x6c696e6b666f7267
	up(t, d, scripts(map[string]string{
		"0001_table.up": `CREATE TABLE one (id TEXT);
DO $$ BEGIN EXECUTE 'ALTER DATABASE ' || current_database() || ' SET statement_timeout = 1000'; END $$`,
	}), "0001_table")
	must.NoError(t, d.Close())
	d = must.Value(db.OpenPostgres(databaseURL, 2))(t) // its sessions have the timeout
	t.Cleanup(func() { d.Close() })
	up(t, d, scripts(map[string]string{
		"0001_table.up": "",
		"0002_checks.up": fmt.Sprintf(`-- online
SELECT pg_sleep(1.2)
-- next
DO $$ BEGIN ASSERT pg_try_advisory_xact_lock(%d), 'the lock is held'; END $$
-- next
DO $$ BEGIN
	ASSERT NOT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()
		AND backend_xid IS NOT NULL), 'a transaction has written';
END $$`, migrationLock),
	}), "0002_checks")
}

// TestMigrate_RepeatsInterruptedOnlineMigration: the statements before the failed one have effect,
// and the remains of the failed one are removed.
func TestUp_RepeatsInterruptedOnlineMigration(t *testing.T) {
	t.Parallel()
	d := dbtest.Postgres(t)
	ctx := db.AsOwner(t.Context())
	files := scripts(map[string]string{
		"0001_table.up": "CREATE TABLE one (id TEXT)",
		"0002_index.up": "-- online\nINSERT INTO one VALUES ('a')\n-- next\n" +
			"CREATE UNIQUE INDEX CONCURRENTLY IF NOT EXISTS ones ON one (id)",
		"0003_later.up": "CREATE TABLE later (id TEXT)",
	})
	up(t, d, scripts(map[string]string{"0001_table.up": "CREATE TABLE one (id TEXT)"}), "0001_table")
	write := func(statement string) {
		t.Helper()
		must.Value(d.ExecContext(ctx, statement))(t)
	}
	write("INSERT INTO one VALUES ('a')")
	applied, err := migrate.Up(ctx, d, files, noon)
	if len(applied) > 0 || err == nil || !strings.Contains(err.Error(), "0002_index") {
		t.Fatalf("with a duplicate: applied %v, %v", applied, err)
	}
	write("DELETE FROM one")
	up(t, d, files, "0002_index", "0003_later")
	var valid []bool
	must.NoError(t, d.NewRaw("SELECT indisvalid FROM pg_index WHERE indexrelid = 'ones'::regclass").Scan(ctx, &valid))
	wanttest.Equal(t, []bool{true}, valid, "the index is valid")
}

func TestUp_AppliesBase(t *testing.T) {
	t.Parallel()
	bare(t, func(t *testing.T, d *db.DB) {
		for n := range 2 {
			applied, err := migrate.Up(t.Context(), d, migrations.Files, noon)
			if err != nil || len(applied) != 1-n || len(tables(t, d)) < 50 {
				t.Errorf("applied %v, tables %v: %v", applied, tables(t, d), err)
			}
		}
	})
}

// TestMigrate_YieldsToTraffic: while a migration waits for a table that is being read, later
// readers do not wait.
func TestUp_YieldsToTraffic(t *testing.T) {
	t.Parallel()
	d := dbtest.Postgres(t)
	steps := map[string]string{"0001_one.up": "CREATE TABLE one (id TEXT)"}
	up(t, d, scripts(steps), "0001_one")
	steps["0002_two.up"], steps["0002_two.down"] = "ALTER TABLE one ADD two TEXT", "ALTER TABLE one DROP two"
	givesWay(t, d, func(ctx context.Context) error {
		applied, err := migrate.Up(ctx, d, scripts(steps), noon)
		wanttest.Equal(t, []string{"0002_two"}, applied, "applied")
		return err
	})
	givesWay(t, d, func(ctx context.Context) error {
		undone, err := migrate.Down(ctx, d, scripts(steps))
		if undone != "0002_two" {
			t.Errorf("undone: %q", undone)
		}
		return err
	})
}

// givesWay runs a migration that waits for a table with a long reader, and checks that later
// readers do not wait for it.
func givesWay(t *testing.T, d *db.DB, step func(ctx context.Context) error) {
	t.Helper()
	ctx := db.AsOwner(t.Context())
	dump := must.Value(d.DB.DB.BeginTx(ctx, nil))(t)
	defer func() { _ = dump.Rollback() }() // it has ended, unless the test failed
	must.Value(dump.ExecContext(ctx, "LOCK TABLE one IN ACCESS SHARE MODE"))(t)
	migrated := make(chan error, 1)
	go func() { migrated <- step(ctx) }()
	const waiting = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = " +
		"'Lock'"
	for n := 0; n == 0; {
		must.NoError(t, d.NewRaw(waiting).Scan(ctx, &n))
	}
	late, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	must.Value(d.ExecContext(late, "SELECT * FROM one"))(t) // a statement waits for a step that waits
	must.NoError(t, dump.Rollback())
	must.NoError(t, <-migrated)
}

// TestUp_RequiresRoles: a role that can neither create nor use the roles of the scopes is refused
// before the first migration. The error has the statements that an administrator has to run.
func TestUp_RequiresRoles(t *testing.T) {
	t.Parallel()
	dbtest.MigratedPostgres(t) // so that the roles exist
	where := dbtest.PostgresURL(t)
	owner := dbtest.Open(t, db.Postgres, where)
	role := "plain_" + strings.TrimPrefix(id.New(id.Log), string(id.Log))
	run := func(statement string) {
		t.Helper()
		must.Value(owner.ExecContext(db.AsOwner(t.Context()), statement))(t)
	}
	run("CREATE ROLE " + role + " LOGIN PASSWORD 'plain'")
	run("GRANT CREATE ON SCHEMA public TO " + role)
	u := must.Value(url.Parse(where))(t)
	u.User = url.UserPassword(role, "plain")
	d := dbtest.Open(t, db.Postgres, u.String())
	step := fstest.MapFS{"postgres/0001_t.up.sql": {Data: []byte("CREATE TABLE t ()")}, "postgres/0001_t.down.sql": {}}
	applied, err := migrate.Up(t.Context(), d, step, time.Now())
	if err == nil || len(applied) > 0 || !strings.Contains(err.Error(), "CREATEROLE") || !strings.Contains(err.Error(),
		"GRANT linkforge_tenant, linkforge_creator, linkforge_resolver, linkforge_system TO ") {
		t.Fatalf("applied %q, %v, want an error about CREATEROLE", applied, err)
	}
	run("GRANT linkforge_tenant, linkforge_creator, linkforge_resolver, linkforge_system TO " + role)
	if applied, err := migrate.Up(t.Context(), d, step, time.Now()); err != nil || len(applied) != 1 {
		t.Errorf("with the roles: applied %q, %v", applied, err)
	}
}
