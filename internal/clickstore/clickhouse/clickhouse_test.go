package clickhouse_test

import (
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/linkforge/linkforge/internal/clickstore"
	"github.com/linkforge/linkforge/internal/clickstore/clickhouse"
	"github.com/linkforge/linkforge/internal/clickstore/clickstoretest"
	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/id"
	"github.com/linkforge/linkforge/internal/must"
)

// database returns the URL of an empty database; without ClickHouse the test is skipped.
func database(t *testing.T) *url.URL {
	t.Helper()
	server := os.Getenv("LINKFORGE_TEST_CLICKHOUSE_URL")
	if server == "" {
		t.Skip("runs by make test-clickhouse")
	}
	u := must.Value(url.Parse(server))(t)
	u.Path = "/test_" + strings.TrimPrefix(id.New(id.Log), string(id.Log))
	statement(t, server, "CREATE DATABASE "+u.Path[1:])
	t.Cleanup(func() { statement(t, server, "DROP DATABASE "+u.Path[1:]) })
	return u
}

func statement(t *testing.T, server, text string) {
	t.Helper()
	answer := must.Value(http.Post(server+"/", "text/plain", strings.NewReader(text)))(t)
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		t.Errorf("%s: %s", text, answer.Status)
	}
}

func TestStore_Contract(t *testing.T) {
	t.Parallel()
	clickstoretest.Run(t, true, func(t *testing.T, d *db.DB, now func() time.Time) clickstore.Store {
		return clickhouse.New(clickhouse.Config{DB: d, URL: database(t), Now: now})
	})
}
