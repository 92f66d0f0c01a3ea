package clicksql_test

import (
	"testing"
	"time"

	"github.com/linkforge/linkforge/internal/click/clicksql"
	"github.com/linkforge/linkforge/internal/click/clickstore"
	"github.com/linkforge/linkforge/internal/click/clickstore/clickstoretest"
	"github.com/linkforge/linkforge/internal/platform/db"
)

// TestStats_AddUpForEveryQuery runs the contract of stores, which compares random queries with the
// written clicks.
func TestStats_AddUpForEveryQuery(t *testing.T) {
	t.Parallel()
	clickstoretest.Run(t, false, func(_ *testing.T, d *db.DB, now func() time.Time) clickstore.Store {
		return &clicksql.Store{DB: d, Now: now}
	})
}
