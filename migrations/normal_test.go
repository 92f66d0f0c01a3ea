package migrations_test

import (
	"fmt"
	"testing"

	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
)

// TestNormalText_CompletesWithEqualTexts: texts that become equal do not fail the migration.
func TestNormalText_CompletesWithEqualTexts(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		rollBackTo(t, d, "0039_normal_text")
		exec(t, d, "INSERT INTO workspaces (id, slug, name, created_at, updated_at) VALUES ('ws_a', 'a', 'Cafe\u0301', ?0, ?0)",
			instant)
		exec(t, d, "INSERT INTO accounts (id, email, name, password_hash, created_at, updated_at) "+
			"VALUES ('usr_a', 'a@example.com', 'Ame\u0301lie', '', ?0, ?0)", instant)
		exec(t, d, "INSERT INTO api_keys (id, workspace_id, name, hash, prefix, scopes, created_by, created_at) "+
			"VALUES ('key_a', 'ws_a', 'Cle\u0301', ?1, '', '', 'usr_a', ?0)", instant, []byte{1})
		for i, externalID := range []string{"e\u0301", "e\u0301", "o\u0302\u0301", "o\u0301\u0302", "\u00f4\u0301", "plain", "a\u0308"} {
			linkID := fmt.Sprint("link_", i)
			addLink(t, d, linkID, "ws_a", "", nil)
			workspace := map[bool]string{true: public, false: "ws_a"}[i == 1]
			exec(t, d, `UPDATE links SET workspace_id = ?1, external_id = ?2, title = 'Cafe`+"\u0301"+`', note = 'ü',
				metadata = ?3, search = ?4, title_key = ?4 WHERE id = ?0`, linkID, workspace, externalID,
				"[{\"key\":\"k\",\"value\":\"u\u0308\"}]", "\u1f41\u03b4\u03cc\u03c2 stra\u00dfe \u0131i\u0307 cafe\u0301")
			exec(t, d, "INSERT INTO link_metadata (link_id, key, workspace_id, value) VALUES (?0, 'k', ?1, ?2)", linkID, workspace,
				"u\u0308")
			for _, tag := range []string{"u\u0308", "\u00fc", "a\u0308"} {
				exec(t, d, "INSERT INTO link_tags (workspace_id, tag, link_id) VALUES (?0, ?1, ?2)", workspace, tag, linkID)
			}
		}
		for i, name := range []string{"e\u0301", "\u00e9", "o\u0301", "o\u0302\u0301", "\u00f4\u0301"} {
			exec(t, d, "INSERT INTO utm_templates (id, workspace_id, name, name_key, utm, created_at, updated_at) "+
				"VALUES (?0, 'ws_a', ?1, ?1, '{}', ?2, ?2)", fmt.Sprint("utm_", i), name, instant)
		}
		up(t, d)
		expect(t, "external ids", selectColumn(t, d, "SELECT external_id FROM links ORDER BY id"),
			"\u00e9", "\u00e9", "\u1ed1", "\u00f3\u0302", "\u00f4\u0301", "plain", "\u00e4")
		expect(t, "titles and metadata", selectColumn(t, d, "SELECT DISTINCT title || note || metadata FROM links"),
			"Caf\u00e9ü[{\"key\":\"k\",\"value\":\"\u00fc\"}]")
		expect(t, "texts", selectColumn(t, d, "SELECT DISTINCT search || title_key FROM links"),
			"\u1f41\u03b4\u03cc\u03c3 strasse ii caf\u00e9\u1f41\u03b4\u03cc\u03c3 strasse ii caf\u00e9")
		expect(t, "tags", selectColumn(t, d, "SELECT DISTINCT tag FROM link_tags ORDER BY tag"), "\u00e4", "\u00fc")
		expect(t, "pairs", selectColumn(t, d, "SELECT DISTINCT value FROM link_metadata"), "\u00fc")
		expect(t, "templates", selectColumn(t, d, "SELECT name FROM utm_templates ORDER BY id"),
			"e\u0301", "\u00e9", "\u00f3", "\u1ed1", "\u00f4\u0301")
		expect(t, "names", selectColumn(t, d, "SELECT name FROM workspaces WHERE id = 'ws_a' UNION ALL "+
			"SELECT name FROM accounts UNION ALL SELECT name FROM api_keys"), "Caf\u00e9", "Am\u00e9lie", "Cl\u00e9")
	})
}
