package migrations_test

import (
	"testing"

	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/dbtest"
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
				"exhausted_at IS NOT NULL": {"Exhausted"},
			} {
				expect(t, where, selectColumn(t, d, "SELECT id FROM links WHERE "+where+" ORDER BY id"), want...)
			}
		})
	}
}
