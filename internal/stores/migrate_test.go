package stores_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/db/migrate"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/stores"
	"github.com/linkforge/linkforge/migrations"
)

// TestCheckAhead_FindsNodesOfEarlierVersions: a database of the version before the base is not
// migrated while a node serves, unless that node has migrated it meanwhile.
func TestCheckAhead_FindsNodesOfEarlierVersions(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		base := must.Value(migrate.List(t.Context(), d, migrations.Files))(t)[0].Name
		write := func(statement string, args ...any) {
			t.Helper()
			must.Value(d.ExecContext(db.AsOwner(t.Context()), statement, args...))(t)
		}
		earlier := func() {
			write("DELETE FROM migrations")
			for _, name := range strings.Fields(string(must.Value(migrations.Files.ReadFile("adopted.txt"))(t))) {
				write("INSERT INTO migrations VALUES (?, ?)", name, dbtest.Noon)
			}
		}
		idle := func(context.Context, time.Duration) error { return nil }
		serving := func(context.Context, time.Duration) error {
			write("DELETE FROM leases")
			write("INSERT INTO leases (name, due_at, node, began_at) VALUES ('tidy', ?, 'box/7', ?)", dbtest.Noon,
				time.Now())
			return nil
		}
		migrating := func(ctx context.Context, d time.Duration) error {
			write("DELETE FROM migrations")
			write("INSERT INTO migrations VALUES (?, ?)", base, dbtest.Noon)
			return serving(ctx, d)
		}
		check := func(when, node string, pause func(context.Context, time.Duration) error) {
			t.Helper()
			err := stores.CheckAhead(t.Context(), d, pause)
			ahead, ok := errors.AsType[*stores.AheadError](err)
			if ok != (node != "") || err != nil && !ok || ok && (ahead.Node != node || ahead.Migrations[0] != base) {
				t.Errorf("%s: %v", when, err)
			}
		}
		check("nothing is pending", "", serving)
		earlier()
		check("no node serves", "", idle)
		if d.Kind == db.Postgres { // the folder of SQLite is locked
			check("a node serves", "box/7", serving)
		}
		check("a node of this version serves", "", migrating)
	})
}
