package db

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/linkforge/linkforge/internal/platform/must"
)

func TestIsConflict_Postgres(t *testing.T) {
	t.Parallel()
	for err, want := range map[error]bool{
		&pgconn.PgError{Code: "40001"}: true,  // serialization failure
		&pgconn.PgError{Code: "40P01"}: true,  // deadlock
		&pgconn.PgError{Code: "23505"}: false, // unique violation
		&pgconn.PgError{Code: "40002"}: false, // integrity constraint violation at the commit
		&pgconn.PgError{Code: "55P03"}: false, // lock not available
		sql.ErrNoRows:                  false, context.DeadlineExceeded: false,
		errors.New("SQLSTATE 40001, database is locked"): false,
	} {
		if got := isConflict(fmt.Errorf("keeping: %w", err)); got != want {
			t.Errorf("%v is a conflict: %t", err, got)
		}
	}
}

// TestIsConflict_SQLite makes real ones, with connections that do not wait for each other.
func TestIsConflict_SQLite(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "test.db")
	var conns [2]*sql.DB
	for i := range conns {
		conn := must.Value(sql.Open("sqlite", sqliteDSN(path)))(t)
		t.Cleanup(func() { conn.Close() })
		conns[i] = conn
	}
	must.Value(conns[0].ExecContext(t.Context(), "CREATE TABLE things (id TEXT PRIMARY KEY)"))(t)
	tx, err := conns[0].BeginTx(t.Context(), nil)
	must.NoError(t, err)
	if _, err := conns[1].BeginTx(t.Context(), nil); !isConflict(err) {
		t.Errorf("two writers: %v is no conflict", err)
	}
	for want := range 2 {
		_, err = tx.ExecContext(t.Context(), "INSERT INTO things VALUES ('a')")
		if (err != nil) != (want == 1) {
			t.Fatalf("insert %d: %v", want, err)
		}
	}
	if isConflict(err) {
		t.Errorf("a unique violation is a conflict: %v", err)
	}
	must.NoError(t, tx.Rollback())
}
