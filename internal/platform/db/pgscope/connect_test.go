package pgscope_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/must"
)

// changed returns a URL with a change.
func changed(t *testing.T, where string, change func(u *url.URL)) string {
	t.Helper()
	u := must.Value(url.Parse(where))(t)
	change(u)
	return u.String()
}

// TestCheckConnection_TellsProblemsApart: the error names the problem, and no password.
func TestCheckConnection_TellsProblemsApart(t *testing.T) {
	t.Parallel()
	where := dbtest.PostgresURL(t)
	secret, _ := must.Value(url.Parse(where))(t).User.Password()
	for name, c := range map[string]struct {
		change func(u *url.URL)
		want   string
	}{
		"a wrong password": {func(u *url.URL) { u.User = url.UserPassword(u.User.Username(), "hunter2") },
			"refuses the log-in"},
		"an unknown user": {func(u *url.URL) { u.User = url.UserPassword("nobody", "hunter2") },
			"refuses the log-in"},
		"an unknown database":  {func(u *url.URL) { u.Path = "/missing" }, "does not have the database"},
		"a server without TLS": {func(u *url.URL) { u.RawQuery = "sslmode=require" }, "has no certificate"},
		"a missing certificate": {func(u *url.URL) { u.RawQuery = "sslmode=verify-full&sslrootcert=/missing.pem" },
			"/missing.pem"},
		"no server":         {func(u *url.URL) { u.Host = "127.0.0.1:1" }, "is not reachable: check"},
		"an unknown host":   {func(u *url.URL) { u.Host = "missing.invalid" }, "is not reachable"},
		"a wrong parameter": {func(u *url.URL) { u.RawQuery = "sslmode=maybe" }, "cannot be read"},
	} {
		d, err := db.OpenPostgres(changed(t, where, c.change), 2)
		if err == nil {
			err = d.CheckConnection(t.Context())
			must.NoError(t, d.Close())
		}
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "hunter2") ||
			strings.Contains(err.Error(), secret) || strings.Contains(err.Error(), "Try again") {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}
