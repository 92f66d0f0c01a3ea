package migrate_test

import (
	"errors"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/db/migrate"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/wanttest"
)

// earlier are the migrations before a base.
var earlier = map[string]string{
	"0001_one.up": "CREATE TABLE one (id TEXT); INSERT INTO one VALUES ('kept')",
	"0002_two.up": "CREATE TABLE two (id TEXT)",
}

// basis are the files of a base that replaces the earlier migrations.
func basis(script string) fstest.MapFS {
	files := scripts(map[string]string{
		"0001_base.up": script, "0003_three.up": "CREATE TABLE three (id TEXT)", "0003_three.down": "DROP TABLE three",
		"adopt": "ALTER TABLE two RENAME TO deux",
	})
	files["adopted.txt"] = &fstest.MapFile{Data: []byte("0001_one\n0002_two\n")}
	return files
}

const schema = "CREATE TABLE one (id TEXT); -- why\nCREATE TABLE deux (id TEXT)"

// names returns the recorded migrations.
func names(t *testing.T, d *db.DB) (recorded []string) {
	t.Helper()
	must.NoError(t, d.NewRaw("SELECT name FROM migrations ORDER BY name").Scan(db.AsOwner(t.Context()), &recorded))
	return recorded
}

func TestUp_AdoptsDatabaseOfEarlierMigrations(t *testing.T) {
	t.Parallel()
	bare(t, func(t *testing.T, d *db.DB) {
		up(t, d, scripts(earlier), "0001_one", "0002_two")
		files := basis(schema)
		if err := migrate.Check(t.Context(), d, files); err == nil || !strings.Contains(err.Error(), "migrate up") {
			t.Errorf("Check before: %v", err)
		}
		if _, err := migrate.Down(t.Context(), d, files); !errors.Is(err, migrate.ErrBase) {
			t.Errorf("Down before: %v", err)
		}
		applied := must.Value(migrate.Up(t.Context(), d, files, noon))(t)
		if diff := cmp.Diff(applied, names(t, d)); diff != "" || len(applied) != 2 ||
			!strings.HasPrefix(applied[0], "0001_base@") {
			t.Errorf("recorded (-applied +recorded):\n%s", diff)
		}
		wanttest.Equal(t, []string{"deux", "migrations", "one", "three"}, tables(t, d), "tables")
		var ids []string
		must.NoError(t, d.NewSelect().Table("one").Column("id").Scan(db.AsOwner(t.Context()), &ids))
		wanttest.Equal(t, []string{"kept"}, ids, "rows")
		up(t, d, files)
		must.NoError(t, migrate.Check(t.Context(), d, files))
	})
}

// TestUp_RefusesOtherSchemas: a database of another schema is unchanged by each operation that
// refuses it.
func TestUp_RefusesOtherSchemas(t *testing.T) {
	t.Parallel()
	later := map[string]string{"0004_four.up": "CREATE TABLE four (id TEXT)"}
	for step, script := range earlier {
		later[step] = script
	}
	newer := basis(schema)
	for file, script := range scripts(map[string]string{"0004_four.up": later["0004_four.up"]}) {
		newer[file] = script
	}
	for name, c := range map[string]struct {
		before fstest.MapFS
		want   string
	}{
		"a step is missing": {scripts(map[string]string{"0001_one.up": earlier["0001_one.up"]}), "of version 35412b6f"},
		"an unknown step":   {scripts(later), "of version 35412b6f"},
		"another base":      {basis("CREATE TABLE one (id TEXT)"), "create the database again"},
		"a newer version":   {newer, "it has the migration 0004_four, and the last one of this version is 0003_three"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bare(t, func(t *testing.T, d *db.DB) {
				must.Value(migrate.Up(t.Context(), d, c.before, noon))(t)
				recorded, existing := names(t, d), tables(t, d)
				files := basis(schema)
				_, err := migrate.Up(t.Context(), d, files, noon)
				_, downErr := migrate.Down(t.Context(), d, files)
				_, lastErr := migrate.Last(t.Context(), d, files)
				_, breakingErr := migrate.Breaking(t.Context(), d, files)
				list, listErr := migrate.List(t.Context(), d, files)
				for operation, err := range map[string]error{
					"Up": err, "Down": downErr, "Last": lastErr, "Breaking": breakingErr, "List": listErr,
					"Check": migrate.Check(t.Context(), d, files),
				} {
					if err == nil || !strings.Contains(err.Error(), c.want) {
						t.Errorf("%s: %v", operation, err)
					}
				}
				if diff := cmp.Diff(recorded, names(t, d)); diff != "" || len(list) < len(recorded) {
					t.Errorf("listed %v; recorded (-before +after):\n%s", list, diff)
				}
				wanttest.Equal(t, existing, tables(t, d), "tables")
			})
		})
	}
}

// TestBreaking_ListsWhatNodesDoNotKnow: any migration does, unless its file says otherwise, and the
// first one of a database, which no node serves.
func TestBreaking_ListsWhatNodesDoNotKnow(t *testing.T) {
	t.Parallel()
	next := basis(schema)
	for file, script := range scripts(map[string]string{
		"0004_four.up": "-- compatible\nCREATE TABLE four (id TEXT)", "0005_five.up": "-- online\nSELECT 1",
		"0006_six.up": "DROP TABLE one", "0007_seven.up": "-- other words\nDROP TABLE three",
	}) {
		next[file] = script
	}
	adopting := []string{must.Value(migrate.List(t.Context(), dbtest.SQLite(t), next))(t)[0].Name, "0003_three"}
	for name, c := range map[string]struct {
		before, after fstest.MapFS
		want          []string
	}{
		"an empty database":  {nil, next, nil},
		"nothing is pending": {next, next, nil},
		"the adoption":       {scripts(earlier), basis(schema), adopting},
		"what is not marked": {basis(schema), next, []string{"0006_six", "0007_seven"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bare(t, func(t *testing.T, d *db.DB) {
				if c.before != nil {
					must.Value(migrate.Up(t.Context(), d, c.before, noon))(t)
				}
				got, err := migrate.Breaking(t.Context(), d, c.after)
				must.NoError(t, err)
				wanttest.Equal(t, c.want, got, "result")
				pending := c.before == nil || len(c.before) < len(c.after)
				if err := migrate.Check(t.Context(), d, c.after); (err != nil) != pending {
					t.Errorf("Check: %v", err)
				}
			})
		})
	}
}

// TestUp_FailedAdoptionLeavesDatabase: the adoption is one transaction.
func TestUp_FailedAdoptionLeavesDatabase(t *testing.T) {
	t.Parallel()
	bare(t, func(t *testing.T, d *db.DB) {
		up(t, d, scripts(earlier), "0001_one", "0002_two")
		files := basis(schema)
		for _, kind := range []db.Kind{db.Postgres, db.SQLite} {
			files[string(kind)+"/adopt.sql"] = &fstest.MapFile{Data: []byte("DROP TABLE one; DROP TABLE nowhere")}
		}
		if applied, err := migrate.Up(t.Context(), d, files, noon); err == nil || len(applied) > 0 {
			t.Errorf("applied %v, %v", applied, err)
		}
		wanttest.Equal(t, []string{"0001_one", "0002_two"}, names(t, d), "recorded")
		if applied := must.Value(migrate.Up(t.Context(), d, basis(schema), noon))(t); len(applied) != 2 {
			t.Errorf("the next run applied %v", applied)
		}
	})
}

// TestDown_KeepsBase: the base stays, later migrations are reverted, and comments of the base do
// not matter.
func TestDown_KeepsBase(t *testing.T) {
	t.Parallel()
	bare(t, func(t *testing.T, d *db.DB) {
		must.Value(migrate.Up(t.Context(), d, basis(schema), noon))(t)
		files := basis("-- other words\n" + strings.ReplaceAll(schema, " (", "\n("))
		must.NoError(t, migrate.Check(t.Context(), d, files))
		if last, err := migrate.Last(t.Context(), d, files); last != "0003_three" || err != nil {
			t.Errorf("last %q, %v", last, err)
		}
		if undone, err := migrate.Down(t.Context(), d, files); undone != "0003_three" || err != nil {
			t.Errorf("undone %q, %v", undone, err)
		}
		if undone, err := migrate.Down(t.Context(), d, files); undone != "" || !errors.Is(err, migrate.ErrBase) {
			t.Errorf("undone %q, %v", undone, err)
		}
		wanttest.Equal(t, []string{"deux", "migrations", "one"}, tables(t, d), "tables")
	})
}
