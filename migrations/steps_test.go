package migrations_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/dbtest"
	"github.com/linkforge/linkforge/migrations"
)

// at is some instant, as both dialects read it.
const at = "2026-11-20 12:00:00+00:00"

// public is the workspace that a step makes.
const public = "ws_00000000000000000000000000"

func write(t *testing.T, d *db.DB, statement string, args ...any) {
	t.Helper()
	if _, err := d.ExecContext(db.AsOwner(t.Context()), statement, args...); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

func up(t *testing.T, d *db.DB) {
	t.Helper()
	if _, err := d.Migrate(db.AsOwner(t.Context()), migrations.Files, time.Now()); err != nil {
		t.Fatal(err)
	}
}

// back undoes steps, the given one last; all of them when it is empty.
func back(t *testing.T, d *db.DB, last string) {
	t.Helper()
	for {
		undone, err := d.Rollback(db.AsOwner(t.Context()), migrations.Files)
		if err != nil {
			t.Fatal(err)
		}
		if undone == last {
			return
		}
	}
}

// addLink writes a link with what every version of the table has.
func addLink(t *testing.T, d *db.DB, id, workspaceID, title string, deletedAt any) {
	t.Helper()
	write(t, d, `INSERT INTO links (id, workspace_id, code, root_code, strategy, original_url, canonical_url,
		canonical_hash, title,
			redirect_status, created_at, updated_at, deleted_at)
		VALUES (?0, ?1, ?0, ?0, 'RANDOM', ?2, ?2, ?3, nullif(?4, ''), 302, ?5, ?5, ?6)`,
		id, workspaceID, "https://Example.com/"+id, []byte{0, 1}, title, at, deletedAt)
}

// tell describes the links by the columns that every version of the table has.
func tell(t *testing.T, d *db.DB) []string {
	t.Helper()
	return ask(t, d, `SELECT id || ' ' || code || ' ' || root_code || ' ' || original_url || ' ' || coalesce(title,
		'without a title') ||
		CASE WHEN deleted_at IS NULL THEN '' ELSE ' deleted' END FROM links ORDER BY id`)
}

// find searches the links.
func find(t *testing.T, d *db.DB, text string) []string {
	t.Helper()
	if d.Kind == db.Postgres {
		return ask(t, d, `SELECT id FROM links WHERE search LIKE '%`+text+`%' ORDER BY id`)
	}
	return ask(t, d, `SELECT n.link_id FROM link_search AS s JOIN link_numbers AS n ON n.number = s.rowid
		WHERE link_search MATCH '"`+text+`"' ORDER BY n.link_id`)
}

func expect(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// TestMigrate_RoundTripKeepsLinks takes the third step with links there already, and goes back with
// everything there that it brought.
func TestMigrate_RoundTripKeepsLinks(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(testing.TB) *db.DB{"sqlite": dbtest.SQLite, "postgres": dbtest.Postgres} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := dbtest.Migrated(t, open(t))
			back(t, d, "0003_links_in_full")
			write(t, d, "INSERT INTO workspaces (id, slug, name, created_at, updated_at) VALUES ('ws_a', 'a', 'A', ?0, ?0)", at)
			addLink(t, d, "Live", "ws_a", "The Report", nil)
			addLink(t, d, "Gone", "ws_a", "", at)
			before := tell(t, d)
			for range 2 {
				up(t, d)
				expect(t, "links after the step", tell(t, d), before...)
				checkFilledIn(t, d)
				addMore(t, d)
				back(t, d, "0003_links_in_full")
				expect(t, "links after the way back", tell(t, d),
					append(before, "More More More https://Example.com/More New Report")...)
				write(t, d, "DELETE FROM links WHERE id = 'More'")
			}
			up(t, d)
			addMore(t, d)
			back(t, d, "")
			up(t, d)
			expect(t, "links after the whole way", tell(t, d))
		})
	}
}

// checkFilledIn checks the properties that the migration adds to existing links.
func checkFilledIn(t *testing.T, d *db.DB) {
	t.Helper()
	expect(t, "title keys", ask(t, d, "SELECT title_key FROM links ORDER BY id"), "", "the report")
	expect(t, "searched text", ask(t, d, "SELECT search FROM links ORDER BY id"),
		"\n\nhttps://example.com/gone\ngone", "the report\n\nhttps://example.com/live\nlive")
	expect(t, "links to check", ask(t, d, "SELECT id FROM links WHERE check_at = created_at ORDER BY id"), "Live")
	expect(t, "ended links", ask(t, d, "SELECT id FROM links WHERE ended_at IS NOT NULL AND ended_at = deleted_at"),
		"Gone")
	expect(t, "links by their title", find(t, d, "repor"), "Live")
	expect(t, "links by their URL", find(t, d, "example.com"), "Gone", "Live")
}

// addMore writes what only the step made room for.
func addMore(t *testing.T, d *db.DB) {
	t.Helper()
	for id, workspaceID := range map[string]string{"More": "ws_a", "Nobodys": public} {
		addLink(t, d, id, workspaceID, "New Report", nil)
		write(t, d, `UPDATE links SET search = 'new report', note = 'a note', max_clicks = 3, claim_hash = ?0,
			archived_at = ?1, check_at = ?1
			WHERE id = ?2`, []byte(id), at, id)
		write(t, d, "INSERT INTO link_tags (workspace_id, tag, link_id) VALUES (?, 'news', ?)", workspaceID, id)
		write(t, d, "INSERT INTO idempotency_keys (workspace_id, actor_id, name, input_hash, answer, created_at) VALUES "+
			"(?, 'usr_a', 'key', ?, '{}', ?)",
			workspaceID, []byte{1}, at)
		write(t, d, "INSERT INTO reports (id, link_id, reason, created_at) VALUES (?0, ?0, 'SPAM', ?1)", id, at)
		write(t, d, "INSERT INTO leases (name, holder, free_at, due_at) VALUES (?0, '', ?1, ?1)", id, at)
		write(t, d, "INSERT INTO blocked_hosts (host, reason, created_at) VALUES (?, 'bad', ?)", id, at)
	}
	found := find(t, d, "new rep")
	expect(t, "new links by their title", found, "More", "Nobodys")
}
