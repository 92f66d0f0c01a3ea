package dbtest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/platform/db"
)

// lockedDeadline bounds what tests do while a row is locked.
const lockedDeadline = 10 * time.Second

// WhileLocked calls f while another transaction locks the one row of a PostgreSQL table that
// matches the condition. The context ends after lockedDeadline, so that what waits for the row
// fails.
func WhileLocked(t testing.TB, d *db.DB, table, condition string, f func(ctx context.Context)) {
	t.Helper()
	err := d.Tx(db.AsSystem(t.Context()), func(ctx context.Context, tx bun.Tx) error {
		locked, err := db.Affected(tx.NewRaw("SELECT FROM ? WHERE "+condition+" FOR UPDATE", bun.Ident(table)).
			Exec(ctx))
		if err == nil && locked != 1 {
			err = fmt.Errorf("%d rows are locked, want 1", locked)
		}
		if err == nil {
			ctx, cancel := context.WithTimeout(t.Context(), lockedDeadline)
			defer cancel()
			f(ctx)
		}
		return err
	})
	if err != nil {
		t.Fatalf("locking a row of %s: %v", table, err)
	}
}
