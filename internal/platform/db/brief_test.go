package db_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/must"
)

// TestBriefly_EndsLongStatements: those of a list end soon, and others of the same connection do
// not.
func TestBriefly_EndsLongStatements(t *testing.T) {
	t.Parallel()
	const brief = 100 * time.Millisecond
	long := map[db.Kind]string{
		db.Postgres: "SELECT 1 FROM pg_sleep(5)",
		db.SQLite: "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000000) " +
			"SELECT count(*) FROM n",
	}
	open := map[string]func(t *testing.T) (*db.DB, error){
		"sqlite": func(t *testing.T) (*db.DB, error) {
			return db.File{Path: filepath.Join(t.TempDir(), "test.db"), Pool: 2, ListTimeout: brief}.Open()
		},
		"postgres": func(t *testing.T) (*db.DB, error) {
			return db.Server{URL: dbtest.PostgresURL(t), Pool: 1, StatementTimeout: time.Minute,
				ListTimeout: brief}.Open()
		},
	}
	for name, open := range open {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := must.Value(open(t))(t)
			defer d.Close()
			dbtest.Migrated(t, d)
			var n int64
			for range 2 {
				ctx, cancel := d.Briefly(t.Context())
				began := time.Now()
				err := d.NewRaw(long[d.Kind]).Scan(ctx, &n)
				cancel()
				if err == nil || time.Since(began) > 3*time.Second ||
					!errs.IsOutage(err) && !errs.Is(err, errs.Unavailable) {
					t.Errorf("%v after %s, want Unavailable", err, time.Since(began))
				}
			}
			if d.Kind == db.Postgres {
				must.NoError(t, d.NewRaw("SELECT 1 FROM pg_sleep(0.3)").Scan(t.Context(), &n)) // a statement of no list
			}
		})
	}
}
