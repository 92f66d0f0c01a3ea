package db_test

import (
	"net/url"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/dbtest"
	"github.com/linkforge/linkforge/internal/id"
	"github.com/linkforge/linkforge/internal/must"
)

// changed returns a URL with a change.
func changed(t *testing.T, where string, change func(u *url.URL)) string {
	t.Helper()
	u := must.Value(url.Parse(where))(t)
	change(u)
	return u.String()
}

// TestCheckConnection_TellsProblemsApart: the error names what is wrong, and no password.
func TestCheckConnection_TellsProblemsApart(t *testing.T) {
	t.Parallel()
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		where := dbtest.PostgresURL(t)
		secret, _ := must.Value(url.Parse(where))(t).User.Password()
		for name, c := range map[string]struct {
			change func(u *url.URL)
			want   string
		}{
			"a wrong password":      {func(u *url.URL) { u.User = url.UserPassword(u.User.Username(), "hunter2") }, "refuses the log-in"},
			"an unknown user":       {func(u *url.URL) { u.User = url.UserPassword("nobody", "hunter2") }, "refuses the log-in"},
			"an unknown database":   {func(u *url.URL) { u.Path = "/missing" }, "does not have the database"},
			"a server without TLS":  {func(u *url.URL) { u.RawQuery = "sslmode=require" }, "has no certificate"},
			"a missing certificate": {func(u *url.URL) { u.RawQuery = "sslmode=verify-full&sslrootcert=/missing.pem" }, "/missing.pem"},
			"no server":             {func(u *url.URL) { u.Host = "127.0.0.1:1" }, "is not reachable: check"},
			"an unknown host":       {func(u *url.URL) { u.Host = "missing.invalid" }, "is not reachable"},
			"a wrong parameter":     {func(u *url.URL) { u.RawQuery = "sslmode=maybe" }, "cannot be read"},
		} {
			d, err := db.OpenPostgres(changed(t, where, c.change), 2)
			if err == nil {
				err = d.CheckConnection(t.Context())
				must.NoError(t, d.Close())
			}
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "hunter2") ||
				strings.Contains(err.Error(), secret) {
				t.Errorf("%s: %v, want %q", name, err, c.want)
			}
		}
	})
}

// TestMigrate_RequiresRoles: a role that can neither create nor use the roles of the scopes is refused before the first
// migration, with what an administrator has to run.
func TestMigrate_RequiresRoles(t *testing.T) {
	t.Parallel()
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		dbtest.MigratedPostgres(t) // so that the roles exist
		where := dbtest.PostgresURL(t)
		owner := dbtest.Open(t, db.Postgres, where)
		role := "plain_" + strings.TrimPrefix(id.New(id.Log), string(id.Log))
		run := func(statement string) {
			t.Helper()
			must.Value(owner.ExecContext(db.AsOwner(t.Context()), statement))(t)
		}
		run("CREATE ROLE " + role + " LOGIN PASSWORD 'plain'")
		run("GRANT CREATE ON SCHEMA public TO " + role)
		d := dbtest.Open(t, db.Postgres, changed(t, where, func(u *url.URL) { u.User = url.UserPassword(role, "plain") }))
		step := fstest.MapFS{"postgres/0001_t.up.sql": {Data: []byte("CREATE TABLE t ()")}, "postgres/0001_t.down.sql": {}}
		applied, err := d.Migrate(t.Context(), step, time.Now())
		if err == nil || len(applied) > 0 || !strings.Contains(err.Error(), "CREATEROLE") ||
			!strings.Contains(err.Error(), "GRANT linkforge_tenant, linkforge_creator, linkforge_resolver, linkforge_system TO ") {
			t.Fatalf("applied %q, %v, want an error about CREATEROLE", applied, err)
		}
		run("GRANT linkforge_tenant, linkforge_creator, linkforge_resolver, linkforge_system TO " + role)
		if applied, err := d.Migrate(t.Context(), step, time.Now()); err != nil || len(applied) != 1 {
			t.Errorf("with the roles: applied %q, %v", applied, err)
		}
	})
}
