package migrations_test

import (
	"testing"

	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
)

// TestOperations_MarksPassedTransitions: those of before the migration are not recorded afterwards, and
// those to come are.
func TestOperations_MarksPassedTransitions(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(testing.TB) *db.DB{"sqlite": dbtest.SQLite, "postgres": dbtest.Postgres} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := dbtest.Migrated(t, open(t))
			rollBackTo(t, d, "0021_operations")
			const past, future = "2020-01-01 00:00:00+00:00", "2120-01-01 00:00:00+00:00"
			exec(t, d, "INSERT INTO workspaces (id, slug, name, created_at, updated_at) VALUES ('ws_a', 'a', 'A', ?0, ?0)", past)
			for id, changes := range map[string]string{
				"Started": "starts_at = ?0, expires_at = ?1", "Expired": "expires_at = ?0, starts_at = ?1",
				"Exhausted": "max_clicks = 3, granted = 3", "Limited": "max_clicks = 3, granted = 2",
				"Ended": "expires_at = ?0, ended_at = ?1, starts_at = ?0", "Plain": "title = NULL",
			} {
				addLink(t, d, id, "ws_a", "", nil)
				exec(t, d, "UPDATE links SET "+changes+" WHERE id = ?2", past, future, id)
			}
			up(t, d)
			for where, want := range map[string][]string{
				"started_at = starts_at": {"Ended", "Started"}, "started_at IS NOT NULL": {"Ended", "Started"},
				"expired_at = expires_at": {"Ended", "Expired"}, "expired_at IS NOT NULL": {"Ended", "Expired"},
				"ended_at = expires_at": {"Expired"}, "ended_at <> expires_at": {"Ended"},
			} {
				expect(t, where, selectColumn(t, d, "SELECT id FROM links WHERE "+where+" ORDER BY id"), want...)
			}
			expect(t, "exhausted", selectColumn(t, d, "SELECT subject_id FROM grants WHERE exhausted_at IS NOT NULL"), "Exhausted")
		})
	}
}

// TestGrants_KeepTheirCounts: migration 0047 and its reverse keep what links and targets have granted, and which links
// are recorded as exhausted. Links without a maximum have no row.
func TestGrants_KeepTheirCounts(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(testing.TB) *db.DB{"sqlite": dbtest.SQLite, "postgres": dbtest.Postgres} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := dbtest.Migrated(t, open(t))
			rollBackTo(t, d, "0047_grants")
			for id, changes := range map[string]string{
				"Exhausted": "max_clicks = 3, granted = 3, exhausted_at = ?0", "Limited": "max_clicks = 3, granted = 2",
				"Plain": "granted = 4",
			} {
				addLink(t, d, id, public, "", nil)
				exec(t, d, "UPDATE links SET "+changes+" WHERE id = ?1", instant, id)
			}
			exec(t, d, `INSERT INTO target_grants (target_id, link_id, workspace_id, max_clicks, granted)
				VALUES ('a', 'Plain', ?0, 5, 1), ('b', 'Limited', ?0, NULL, 6)`, public)
			links := func() []string {
				return selectColumn(t, d, `SELECT id || ' ' || granted || ' of ' || max_clicks ||
					CASE WHEN exhausted_at IS NULL THEN '' ELSE ', recorded' END FROM links WHERE max_clicks IS NOT NULL ORDER BY id`)
			}
			targets := func() []string {
				return selectColumn(t, d, `SELECT target_id || ' of ' || link_id || ' in ' || workspace_id || ': ' || granted || ' of ' ||
					coalesce(max_clicks, 0) FROM target_grants ORDER BY target_id`)
			}
			linksBefore, targetsBefore := links(), targets()
			up(t, d)
			expect(t, "grants", selectColumn(t, d, `SELECT subject_id || ' of ' || link_id || ': ' || granted || ' of ' ||
				coalesce(max_clicks, 0) || CASE WHEN exhausted_at IS NULL THEN '' ELSE ', recorded' END
				FROM grants WHERE workspace_id = '`+public+`' ORDER BY subject_id`),
				"Exhausted of Exhausted: 3 of 3, recorded", "Limited of Limited: 2 of 3", "a of Plain: 1 of 5", "b of Limited: 6 of 0")
			rollBackTo(t, d, "0047_grants")
			expect(t, "links afterwards", links(), linksBefore...)
			expect(t, "targets afterwards", targets(), targetsBefore...)
			if len(linksBefore) != 2 || len(targetsBefore) != 2 {
				t.Errorf("before: %s, %s", linksBefore, targetsBefore)
			}
		})
	}
}
