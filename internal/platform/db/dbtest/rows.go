package dbtest

import (
	"strings"
	"testing"
	"time"

	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/id"
)

// Noon is the instant at which tests with a fixed clock begin.
var Noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// Account inserts an account without a password and returns its ID. Its address is unique.
func Account(t testing.TB, d *db.DB) string {
	t.Helper()
	accountID := id.New(id.Account)
	_, err := d.NewRaw("INSERT INTO accounts (id, email, name, password_hash, created_at, updated_at) VALUES (?, ?, "+
		"'Test', '', ?, ?)",
		accountID, strings.TrimPrefix(accountID, "usr_")+"@example.com", Noon, Noon).Exec(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return accountID
}
