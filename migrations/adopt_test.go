package migrations_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/db/migrate"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/migrations"
)

// withoutOutages removes what nodes know of each other.
const withoutOutages = `DROP INDEX click_logs_by_report; ALTER TABLE click_logs DROP COLUMN _alive_at;
	ALTER TABLE click_logs DROP COLUMN _has_redis; ALTER TABLE click_totals DROP COLUMN _outage;`

// withSelections gives webhooks selections of their data.
const withSelections = `ALTER TABLE webhooks ADD COLUMN selection TEXT;
	ALTER TABLE webhooks ADD COLUMN selection_error TEXT; ALTER TABLE webhooks ADD COLUMN needs_stats INTEGER;`

// withDetails has the table of clicks by column.
const withDetails = `CREATE TABLE click_details (subject_id TEXT);
	ALTER TABLE click_totals ADD COLUMN detailed_at TEXT;`

// withOneError gives rows of imports one error.
const withOneError = `ALTER TABLE import_rows DROP COLUMN errors; ALTER TABLE import_rows ADD COLUMN error_code TEXT;
	ALTER TABLE import_rows ADD COLUMN error TEXT; ALTER TABLE import_rows ADD COLUMN error_field TEXT;`

// withOldLeases gives leases their earlier columns, and one that a node has.
const withOldLeases = `INSERT INTO leases (name, lease_holder, lease_until, due_at)
		VALUES ('tidy', 'run_1', '2026-11-20', '2026-11-20');
	ALTER TABLE leases RENAME COLUMN lease_holder TO holder; ALTER TABLE leases RENAME COLUMN lease_until TO free_at;
	ALTER TABLE leases ADD COLUMN dead_at TIMESTAMPTZ; ALTER TABLE webhook_readers DROP COLUMN lease_holder;
	ALTER TABLE webhook_readers RENAME COLUMN lease_until TO claimed_until;`

// reverted are the statements that bring the base back to the migrations in adopted.txt.
var reverted = map[db.Kind]string{
	db.SQLite: `ALTER TABLE link_origins DROP COLUMN operation_id; ALTER TABLE link_origins DROP COLUMN previous_hash;
		ALTER TABLE link_origins DROP COLUMN root_proof;
		ALTER TABLE unmatched RENAME TO orphans; DROP TABLE disabled_links; DROP TABLE acme_files;
		DROP TRIGGER session_methods_changed; DROP INDEX sessions_changed;
		ALTER TABLE sessions DROP COLUMN methods_changed_at;
		DROP INDEX tasks_stored; ALTER TABLE tasks DROP COLUMN outside; ALTER TABLE tasks DROP COLUMN file_bytes;
		ALTER TABLE tasks DROP COLUMN stored_rows;
		DROP TABLE key_usage; ALTER TABLE api_keys DROP COLUMN links_per_day;` +
		withArchivedAt("TEXT") + withoutOutages + withSelections + withDetails + withOneError +
		strings.Replace(withOldLeases, "TIMESTAMPTZ", "TEXT", 1) + withLastStep,
	db.Postgres: "REVOKE SELECT (workspace_id, host) ON domains FROM linkforge_creator; " +
		"DROP POLICY of_workspaces ON domains; " + withArchivedAt("TIMESTAMPTZ") + withoutOutages +
		withSelections + withDetails + withOneError +
		withOldLeases + `ALTER TABLE leases ALTER holder SET NOT NULL, ALTER free_at SET NOT NULL;
		DROP FUNCTION forget_months;
		CREATE FUNCTION forget_months(TEXT, TIMESTAMPTZ) RETURNS INTEGER LANGUAGE sql AS 'SELECT 1';
		ALTER TABLE link_origins DROP COLUMN operation_id;
		ALTER TABLE link_origins DROP COLUMN previous_hash;
		DROP INDEX tasks_stored; ALTER TABLE tasks DROP COLUMN outside; ALTER TABLE tasks DROP COLUMN file_bytes;
		ALTER TABLE tasks DROP COLUMN stored_rows;
		DROP TABLE key_usage; ALTER TABLE api_keys DROP COLUMN links_per_day;
		ALTER TABLE unmatched RENAME TO orphans;
		ALTER TABLE orphans RENAME CONSTRAINT unmatched_pkey TO orphans_pkey;
		CREATE FUNCTION host_key_of(url TEXT) RETURNS TEXT LANGUAGE sql AS 'SELECT url';
		CREATE FUNCTION set_host_key() RETURNS TRIGGER LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';
		CREATE TRIGGER link_inserted_without_host_key BEFORE INSERT ON links EXECUTE FUNCTION set_host_key();
		CREATE TRIGGER link_updated_without_host_key BEFORE INSERT ON links EXECUTE FUNCTION set_host_key();
		CREATE TABLE link_text_backfill (after_id TEXT COLLATE "C" NOT NULL PRIMARY KEY);
		GRANT SELECT ON link_text_backfill TO linkforge_system;
		INSERT INTO link_text_backfill VALUES ('lnk_1'); DELETE FROM link_text_queue;
		DROP TABLE disabled_links; DROP TABLE acme_files;
		DROP TRIGGER session_methods_changed ON sessions; DROP FUNCTION session_methods_changed;
		ALTER TABLE sessions DROP COLUMN methods_changed_at;
		ALTER TABLE link_origins DROP COLUMN root_proof; ` + withLastStep,
}

// withArchivedAt gives links the time at which they were archived.
func withArchivedAt(instant string) string {
	return "DROP INDEX links_of_workspace; ALTER TABLE links DROP COLUMN archived; " +
		"ALTER TABLE links ADD COLUMN archived_at " + instant + " DEFAULT '2026-11-20'; " +
		"CREATE INDEX links_of_workspace ON links (archived_at); "
}

const withLastStep = `ALTER TABLE totp DROP COLUMN used_steps;
	ALTER TABLE totp ADD COLUMN last_step INTEGER NOT NULL DEFAULT 0; UPDATE totp SET last_step = 59000000`

// replaced returns a database of the migrations that the base replaces. It has links (the index of
// texts lacks one), a click, an API key, a session and a webhook, whose secret is the argument.
func replaced(t *testing.T, d *db.DB, secret string) {
	t.Helper()
	system := db.AsSystem(t.Context())
	execute := func(statement string, args ...any) {
		t.Helper()
		must.Value(d.ExecContext(system, statement, args...))(t)
	}
	execute("INSERT INTO workspaces (id, slug, name, created_at, updated_at) VALUES ('ws_a', 'a', 'A', ?0, ?0)",
		dbtest.Noon)
	execute(`INSERT INTO accounts (id, email, name, password_hash, created_at, updated_at)
		VALUES ('usr_a', 'a', 'A', 'h', ?0, ?0)`, dbtest.Noon)
	for _, id := range []string{"lnk_1", "lnk_2"} {
		execute(`INSERT INTO links (id, workspace_id, code, strategy, original_url, canonical_url, canonical_hash,
			redirect_status, created_at, updated_at) VALUES (?0, 'ws_a', ?0, 'RANDOM', ?0, ?0, ?2, 302, ?1, ?1)`,
			id, dbtest.Noon, []byte(id))
	}
	execute("UPDATE links SET disabled_at = ? WHERE id = 'lnk_2'", dbtest.Noon)
	const routed = `{"rules":[{"id":"rul_a","targets":[{"id":"tgt_a"}]}]}`
	execute("UPDATE links SET routing = ? WHERE id = 'lnk_1'", routed)
	execute(`INSERT INTO link_versions (link_id, number, workspace_id, starts_at, ends_at, cause, actor_id, snapshot)
		VALUES ('lnk_1', 1, 'ws_a', ?0, ?0, 'CREATED', '', ?1)`, dbtest.Noon, routed)
	execute(`INSERT INTO scheduled_changes (id, link_id, workspace_id, due_at, patch, actor_id, created_at)
		VALUES ('sch_a', 'lnk_1', 'ws_a', ?0, ?1, '', ?0)`, dbtest.Noon, routed)
	execute(`INSERT INTO clicks (id, workspace_id, link_id, clicked_at, latency_ms, visit, bot, status)
		VALUES (1, 'ws_a', 'lnk_1', ?, 1, TRUE, FALSE, 302)`, dbtest.Noon)
	execute("INSERT INTO api_keys (id, workspace_id, name, prefix, hash, scopes, created_by, created_at) "+
		"VALUES ('key_a', 'ws_a', 'n', 'p', ?1, 's', 'usr_a', ?0)", dbtest.Noon, []byte{1})
	execute(`INSERT INTO sessions (id, account_id, agent, created_at, used_at, expires_at)
		VALUES ('ses_a', 'usr_a', 'b', ?0, ?0, ?0)`, dbtest.Noon)
	execute(`INSERT INTO totp (account_id, secret, created_at, used_steps)
		VALUES ('usr_a', ?1, ?0, '59000000')`, dbtest.Noon, []byte(secret))
	execute(`INSERT INTO unmatched (workspace_id, day, code, status, requests, last_at)
		VALUES ('ws_a', 1, 'c', 404, 2, ?)`, dbtest.Noon)
	execute(`INSERT INTO webhooks (id, workspace_id, name, url, host, status, secret, xid, seq, created_at, created_by)
		VALUES ('whk_a', 'ws_a', 'n', 'u', 'h', 'ACTIVE', ?1, 0, 0, ?0, 'usr_a')`, dbtest.Noon, []byte(secret))
	statements := []string{reverted[d.Kind], "DELETE FROM migrations"}
	for _, name := range strings.Fields(string(must.Value(migrations.Files.ReadFile("adopted.txt"))(t))) {
		statements = append(statements, "INSERT INTO migrations VALUES ('"+name+"', '2026-11-20 12:00:00+00:00')")
	}
	_, err := d.DB.DB.ExecContext(db.AsOwner(t.Context()), strings.Join(statements, ";"))
	must.NoError(t, err)
}

// addMonth creates the partitions of the month of the click.
func addMonth(t *testing.T, d *db.DB) {
	t.Helper()
	if d.Kind == db.Postgres {
		must.Value(d.ExecContext(db.AsSystem(t.Context()), "SELECT keep_month(?)", dbtest.Noon))(t)
	}
}

// contents describe the rows of replaced.
var contents = []string{
	"SELECT id || code || original_url FROM links ORDER BY id", "SELECT link_id || clicked_at FROM clicks",
	"SELECT id || scopes FROM api_keys", "SELECT id || account_id FROM sessions", "SELECT id || secret FROM webhooks",
}

func read(t *testing.T, d *db.DB, queries ...string) (rows []string) {
	t.Helper()
	for _, query := range queries {
		var some []string
		must.NoError(t, d.NewRaw(query).Scan(db.AsSystem(t.Context()), &some))
		rows = append(rows, some...)
	}
	return rows
}

// TestAdopt_KeepsRows: the adopted database has all rows and the schema of the base, and the text
// that was not indexed waits in the queue.
func TestAdopt_KeepsRows(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		addMonth(t, d)
		base := schemaOf(t, d)
		replaced(t, d, "sealed1:keykeykenonce")
		before := read(t, d,
			append(contents, "SELECT code || requests FROM orphans", "SELECT last_step FROM totp",
				"SELECT id FROM links WHERE archived_at IS NOT NULL")...)
		applied := must.Value(migrate.Up(t.Context(), d, migrations.Files, time.Now()))(t)
		expect(t, "migrations", read(t, d, "SELECT name FROM migrations"), applied...)
		expect(t, "rows", read(t, d,
			append(contents, "SELECT code || requests FROM unmatched", "SELECT used_steps FROM totp",
				"SELECT id FROM links WHERE archived")...), before...)
		if diff := cmp.Diff(base, schemaOf(t, d)); diff != "" {
			t.Errorf("schema (-base +adopted):\n%s", diff)
		}
		expect(t, "leases", read(t, d, "SELECT name FROM leases WHERE lease_holder IS NULL AND lease_until IS NULL"),
			"tidy")
		const routed = `{"rules":[{"ruleId":"rul_a","targets":[{"targetId":"tgt_a"}]}]}`
		expect(t, "routings", read(t, d, "SELECT replace(CAST(routing AS TEXT), ' ', '') FROM links WHERE id = 'lnk_1'",
			"SELECT snapshot FROM link_versions", "SELECT patch FROM scheduled_changes"), routed, routed, routed)
		expect(t, "disabled links", read(t, d, "SELECT link_id || ',' || host FROM disabled_links"), "lnk_2,")
		queue := []string{"lnk_2"}
		if d.Kind == db.SQLite { // it always had a queue
			queue = []string{"lnk_1", "lnk_2"}
		}
		expect(t, "texts to be indexed", read(t, d, "SELECT link_id FROM link_text_queue ORDER BY link_id"), queue...)
	})
}

// TestAdopt_RefusesSecretsWithoutKey: the secret stays readable for the version that can encrypt it again.
func TestAdopt_RefusesSecretsWithoutKey(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		addMonth(t, d)
		replaced(t, d, "a nonce and a text")
		rows := append(slices.Clone(contents), "SELECT code || requests FROM orphans",
			"SELECT name FROM migrations ORDER BY 1")
		before := read(t, d, rows...)
		applied, err := migrate.Up(t.Context(), d, migrations.Files, time.Now())
		if err == nil || len(applied) > 0 ||
			!strings.Contains(strings.ReplaceAll(err.Error(), "_", " "), "secrets rewrap") {
			t.Errorf("applied %v, %v", applied, err)
		}
		expect(t, "rows", read(t, d, rows...), before...)
	})
}
