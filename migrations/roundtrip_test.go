package migrations_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/db/migrate"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/migrations"
)

// instant is a timestamp in a format that both dialects accept.
const instant = "2026-11-20 12:00:00+00:00"

// public is the workspace that a migration creates.
const public = "ws_00000000000000000000000000"

func exec(t *testing.T, d *db.DB, statement string, args ...any) {
	t.Helper()
	if _, err := d.ExecContext(db.AsOwner(t.Context()), statement, args...); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

func up(t *testing.T, d *db.DB) {
	t.Helper()
	must.Value(migrate.Up(db.AsOwner(t.Context()), d, migrations.Files, time.Now()))(t)
}

// rollBackTo rolls back migrations up to and including the given one; all if it is empty.
func rollBackTo(t *testing.T, d *db.DB, last string) {
	t.Helper()
	for {
		undone := must.Value(migrate.Down(db.AsOwner(t.Context()), d, migrations.Files))(t)
		if undone == last {
			return
		}
	}
}

// addLink inserts a link with the columns that every version of the table has.
func addLink(t *testing.T, d *db.DB, id, workspaceID, title string, deletedAt any) {
	t.Helper()
	exec(t, d, `INSERT INTO links (id, workspace_id, code, root_code, strategy, original_url, canonical_url,
		canonical_hash, title,
			redirect_status, created_at, updated_at, deleted_at)
		VALUES (?0, ?1, ?0, ?0, 'RANDOM', ?2, ?2, ?3, nullif(?4, ''), 302, ?5, ?5, ?6)`,
		id, workspaceID, "https://Example.com/"+id, []byte{0, 1}, title, instant, deletedAt)
}

// describeLinks describes the links by the columns that every version of the table has.
func describeLinks(t *testing.T, d *db.DB) []string {
	t.Helper()
	return selectColumn(t, d, `SELECT id || ' ' || code || ' ' || root_code || ' ' || original_url || ' ' ||
		coalesce(title, 'without a title') ||
		CASE WHEN deleted_at IS NULL THEN '' ELSE ' deleted' END FROM links ORDER BY id`)
}

// find returns the IDs of the links that match the text.
func find(t *testing.T, d *db.DB, text string) []string {
	t.Helper()
	if d.Kind == db.Postgres {
		return selectColumn(t, d, `SELECT id FROM links WHERE search LIKE '%`+text+`%' ORDER BY id`)
	}
	return selectColumn(t, d, `SELECT n.link_id FROM link_search AS s JOIN link_numbers AS n ON n.number = s.rowid
		WHERE link_search MATCH '"`+text+`"' ORDER BY n.link_id`)
}

func expect(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// TestMigrate_RoundTripKeepsLinks applies the third migration to a database with links, and rolls
// it back with rows in all its tables and columns.
func TestMigrate_RoundTripKeepsLinks(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(testing.TB) *db.DB{"sqlite": dbtest.SQLite, "postgres": dbtest.Postgres} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := dbtest.Migrated(t, open(t))
			rollBackTo(t, d, "0003_links_in_full")
			exec(t, d, "INSERT INTO workspaces (id, slug, name, created_at, updated_at) VALUES ('ws_a', 'a', 'A', ?0, ?0)",
				instant)
			addLink(t, d, "Live", "ws_a", "The Report", nil)
			addLink(t, d, "Gone", "ws_a", "", instant)
			before := describeLinks(t, d)
			for range 2 {
				up(t, d)
				expect(t, "links after the migration", describeLinks(t, d), before...)
				checkFilledIn(t, d)
				addMore(t, d)
				rollBackTo(t, d, "0014_sqlite_text_queue") // indexes the texts that wait
				expect(t, "new links by their title", find(t, d, "new rep"), "More", "Nobodys")
				rollBackTo(t, d, "0003_links_in_full")
				expect(t, "links after the down migration", describeLinks(t, d),
					append(before, "More More More https://Example.com/More New Report")...)
				exec(t, d, "DELETE FROM links WHERE id = 'More'")
			}
			up(t, d)
			addMore(t, d)
			rollBackTo(t, d, "")
			up(t, d)
			expect(t, "links after all migrations", describeLinks(t, d))
		})
	}
}

// checkFilledIn checks the properties that the migration adds to existing links.
func checkFilledIn(t *testing.T, d *db.DB) {
	t.Helper()
	expect(t, "title keys", selectColumn(t, d, "SELECT title_key FROM links ORDER BY id"), "", "the report")
	expect(t, "searched text", selectColumn(t, d, "SELECT search FROM links ORDER BY id"),
		"\n\nhttps://example.com/gone\ngone", "the report\n\nhttps://example.com/live\nlive")
	expect(t, "links to check", selectColumn(t, d, "SELECT id FROM links WHERE check_at = created_at ORDER BY id"), "Live")
	expect(t, "ended links",
		selectColumn(t, d, "SELECT id FROM links WHERE ended_at IS NOT NULL AND ended_at = deleted_at"), "Gone")
	expect(t, "links by their title", find(t, d, "repor"), "Live")
	expect(t, "links by their URL", find(t, d, "example.com"), "Gone", "Live")
}

// addMore inserts rows and values that require the migration.
func addMore(t *testing.T, d *db.DB) {
	t.Helper()
	for id, workspaceID := range map[string]string{"More": "ws_a", "Nobodys": public} {
		addLink(t, d, id, workspaceID, "New Report", nil)
		exec(t, d, `UPDATE links SET search = 'new report', note = 'a note', max_clicks = 3, claim_hash = ?0,
			archived_at = ?1, check_at = ?1
			WHERE id = ?2`, []byte(id), instant, id)
		exec(t, d, "INSERT INTO link_tags (workspace_id, tag, link_id) VALUES (?, 'news', ?)", workspaceID, id)
		exec(t, d, "INSERT INTO idempotency_keys (workspace_id, actor_id, name, input_hash, answer, created_at) VALUES "+
			"(?, 'usr_a', 'key', ?, '{}', ?)",
			workspaceID, []byte{1}, instant)
		exec(t, d, "INSERT INTO reports (id, link_id, reason, created_at) VALUES (?0, ?0, 'SPAM', ?1)", id, instant)
		exec(t, d, "INSERT INTO leases (name, holder, free_at, due_at) VALUES (?0, '', ?1, ?1)", id, instant)
		exec(t, d, "INSERT INTO blocked_hosts (host, reason, created_at) VALUES (?, 'bad', ?)", id, instant)
	}
}
