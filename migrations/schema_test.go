package migrations_test

import (
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/migrations"
)

// facts are queries that describe a schema, one sentence per row. They omit the table of
// migrations, which Migrate creates.
var facts = map[db.Kind][]string{
	db.Postgres: {
		// Columns. Time has a type of its own.
		`SELECT table_name || '.' || column_name || ' ' || CASE data_type
			WHEN 'text' THEN 'TEXT' WHEN 'bigint' THEN 'INTEGER' WHEN 'integer' THEN 'INTEGER' WHEN 'double precision'
				THEN 'REAL'
			WHEN 'boolean' THEN 'INTEGER'
			WHEN 'bytea' THEN 'BLOB' WHEN 'jsonb' THEN 'TEXT'
			WHEN 'timestamp with time zone' THEN 'INSTANT' ELSE data_type END ||
			CASE is_nullable WHEN 'NO' THEN ' NOT NULL' ELSE '' END || coalesce(' DEFAULT ' || column_default, '')
		FROM information_schema.columns WHERE table_schema = 'public' AND table_name <> 'migrations'`,
		// Primary keys, unique constraints, foreign keys.
		`SELECT conrelid::regclass || ' ' || pg_get_constraintdef(oid)
		FROM pg_constraint WHERE contype IN ('p', 'u', 'f') AND conrelid::regclass::text <> 'migrations'
			AND connamespace = 'public'::regnamespace`,
		// Indexes that are not a constraint's.
		`SELECT indexdef FROM pg_indexes WHERE schemaname = 'public'
			AND indexname NOT IN (SELECT conname FROM pg_constraint WHERE connamespace = 'public'::regnamespace)`,
		// How many checks a table has: their texts differ.
		`SELECT conrelid::regclass || ' has checks: ' || count(*)
		FROM pg_constraint WHERE contype = 'c' AND connamespace = 'public'::regnamespace GROUP BY conrelid`,
	},
	db.SQLite: {
		// Columns. Time is text, recognized by the column's name.
		`SELECT m.name || '.' || c.name || ' ' || CASE WHEN c.type = 'TEXT' AND (c.name LIKE '%@_at' ESCAPE '@'
			OR c.name LIKE '%@_until' ESCAPE '@' OR c.name LIKE '%@_since' ESCAPE '@') THEN 'INSTANT' ELSE c.type END ||
			CASE c."notnull" WHEN 1 THEN ' NOT NULL' ELSE '' END || coalesce(' DEFAULT ' || c.dflt_value, '')
		FROM sqlite_master m, pragma_table_info(m.name) c WHERE m.type IN ('table', 'view') AND m.name <> 'migrations'`,
		`SELECT m.name || ' PRIMARY KEY (' || group_concat(c.name, ', ' ORDER BY c.pk) || ')'
		FROM sqlite_master m, pragma_table_info(m.name) c WHERE c.pk > 0 AND m.name <> 'migrations' GROUP BY m.name`,
		`SELECT m.name || ' UNIQUE (' || group_concat(c.name, ', ' ORDER BY c.seqno) || ')'
		FROM sqlite_master m, pragma_index_list(m.name) i, pragma_index_info(i.name) c
			WHERE i.origin = 'u' GROUP BY m.name, i.name`,
		`SELECT m.name || ' FOREIGN KEY (' || group_concat(f."from", ', ' ORDER BY f.seq) || ') REFERENCES ' ||
			f."table" || '(' || group_concat(f."to", ', ' ORDER BY f.seq) || ')' ||
			CASE f.on_update WHEN 'NO ACTION' THEN '' ELSE ' ON UPDATE ' || f.on_update END ||
			CASE f.on_delete WHEN 'NO ACTION' THEN '' ELSE ' ON DELETE ' || f.on_delete END
		FROM sqlite_master m, pragma_foreign_key_list(m.name) f GROUP BY m.name, f.id`,
		`SELECT sql FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL`,
		`SELECT name || ' has checks: ' || ((length(sql) - length(replace(sql, 'CHECK (', ''))) / length('CHECK ('))
		FROM sqlite_master WHERE type = 'table' AND sql LIKE '%CHECK (%'`,
	},
}

// selectColumn returns the only column of a query result.
func selectColumn(t *testing.T, d *db.DB, query string) (answers []string) {
	t.Helper()
	if err := d.NewRaw(query).Scan(db.AsOwner(t.Context()), &answers); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return answers
}

// apart are facts of one dialect only. Text search differs: PostgreSQL has a GIN index of trigrams;
// SQLite has a virtual table, the tables of FTS5 behind it, and row numbers of links. Only
// PostgreSQL commits in another order than that of IDs.
var apart = map[db.Kind]*regexp.Regexp{
	db.Postgres: regexp.MustCompile(`^(link_texts|link_text_queue)[ .]|^CREATE INDEX link_text\w+ |` +
		`^CREATE INDEX (changes|click_batches)_by_xid |^(changes|click_batches).xid |` + eventOrder),
	db.SQLite: regexp.MustCompile(`^(link_numbers|link_text_queue|link_search(_config|_data|_docsize|_idx)?)[ .]|` +
		`^CREATE INDEX link_text\w+ |` + eventOrder),
}

// eventOrder is what orders events: by transactions and a sequence, or by a table with the last number.
const eventOrder = `^event_numbers[ .]|^CREATE (UNIQUE )?INDEX audit_events_(in_order|seq|by_commit) |` +
	`^audit_events.(xid|seq) `

// What PostgreSQL writes out though it was left open, or in a way of its own: words, and
// parentheses around a condition and each of its terms.
var (
	wordy = strings.NewReplacer("ON public.", "ON ", "ON ONLY public.", "ON ", " USING btree", "", "::text", "",
		"\n", " ", "+00'::timestamp with time zone", "+00:00'", "DEFAULT false", "DEFAULT FALSE")
	condition = regexp.MustCompile(`^\((.*)\)$`)
	term      = regexp.MustCompile(`\(([^(),]*)\)( AND |$)`)
	list      = regexp.MustCompile(`\((\w+) <> ALL \(ARRAY\[(.*)\]\)\)`)
	spaces    = regexp.MustCompile(` +`)
)

// plain is a fact without them.
func plain(fact string) string {
	what, where, partial := strings.Cut(spaces.ReplaceAllString(wordy.Replace(fact), " "), " WHERE ")
	if !partial {
		return what
	}
	where = term.ReplaceAllString(condition.ReplaceAllString(where, "$1"), "$1$2")
	return what + " WHERE " + list.ReplaceAllString(where, "$1 NOT IN ($2)")
}

func schemaOf(t *testing.T, d *db.DB) (all []string) {
	t.Helper()
	leftOut := 0
	for _, query := range facts[d.Kind] {
		answers := selectColumn(t, d, query)
		if len(answers) == 0 {
			t.Errorf("%s has nothing to say to %s", d.Kind, query)
		}
		for _, fact := range answers {
			if fact = plain(fact); apart[d.Kind].MatchString(fact) {
				leftOut++
				continue
			}
			all = append(all, fact)
		}
	}
	if leftOut == 0 {
		t.Errorf("%s has nothing to search text with", d.Kind)
	}
	slices.Sort(all)
	return all
}

func TestSchema_IsTheSameInBothDialects(t *testing.T) {
	t.Parallel()
	postgres := schemaOf(t, dbtest.MigratedPostgres(t))
	sqlite := schemaOf(t, dbtest.MigratedSQLite(t))
	if diff := cmp.Diff(postgres, sqlite); diff != "" {
		t.Errorf("schemas (-postgres +sqlite):\n%s", diff)
	}
}

func TestSchema_SQLiteTablesAreStrict(t *testing.T) {
	t.Parallel()
	d := dbtest.MigratedSQLite(t)
	lax := selectColumn(t, d, `SELECT name FROM pragma_table_list WHERE schema = 'main' AND type = 'table'
		AND strict = 0 ORDER BY name`)
	if diff := cmp.Diff([]string{"migrations", "sqlite_schema"}, lax); diff != "" {
		t.Errorf("not STRICT (-want +got):\n%s", diff)
	}
}

// TestSchema_PostgresComparesBytes: text in lookups and orders must be compared as in SQLite, in
// any locale of the server.
func TestSchema_PostgresComparesBytes(t *testing.T) {
	t.Parallel()
	d := dbtest.MigratedPostgres(t)
	const query = `SELECT DISTINCT i.indrelid::regclass || '.' || a.attname FROM pg_index i
			JOIN pg_attribute a ON a.attrelid = i.indexrelid AND a.atttypid = 'text'::regtype
			WHERE i.indrelid::regclass::text IN (SELECT tablename FROM pg_tables WHERE schemaname = 'public')
			AND i.indrelid::regclass::text <> 'migrations' AND `
	if indexed := selectColumn(t, d, query+`a.attcollation = '"C"'::regcollation`); len(indexed) == 0 {
		t.Error("no text is indexed at all")
	}
	if others := selectColumn(t, d, query+`a.attcollation <> '"C"'::regcollation`); len(others) > 0 {
		t.Errorf("indexed in the order of some language: %v", others)
	}
}

// TestSchema_BoundsThePendingList: searches read all of it, and the transaction that fills it empties it.
func TestSchema_BoundsThePendingList(t *testing.T) {
	t.Parallel()
	d := dbtest.MigratedPostgres(t)
	options := selectColumn(t, d,
		`SELECT unnest(c.reloptions) FROM pg_class c JOIN pg_index i ON i.indexrelid = c.oid
			JOIN pg_am m ON m.oid = c.relam WHERE m.amname = 'gin'`)
	expect(t, "options of the index of text", options, "gin_pending_list_limit=4096")
}

// TestMigrations_AreTheSameInBothDialects: each migration but the base has a down file.
func TestMigrations_AreTheSameInBothDialects(t *testing.T) {
	t.Parallel()
	files := map[string][]string{}
	for _, kind := range []db.Kind{db.Postgres, db.SQLite} {
		entries := must.Value(fs.ReadDir(migrations.Files, string(kind)))(t)
		for _, e := range entries {
			step, ok := strings.CutSuffix(e.Name(), ".up.sql")
			if _, err := fs.Stat(migrations.Files, path.Join(string(kind), step+".down.sql")); ok &&
				step != "0001_base" && err != nil {
				t.Errorf("%s has no down migration: %v", e.Name(), err)
			}
			files[string(kind)] = append(files[string(kind)], e.Name())
		}
	}
	if diff := cmp.Diff(files["postgres"], files["sqlite"]); diff != "" {
		t.Errorf("files (-postgres +sqlite):\n%s", diff)
	}
}

func expect(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}
