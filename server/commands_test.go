package main

import (
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/vektah/gqlparser/v2"
	"github.com/vektah/gqlparser/v2/ast"

	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/poll/polltest"
	"github.com/linkforge/linkforge/internal/platform/proctest"
)

func TestVersionCommand_PrintsVersion(t *testing.T) {
	t.Parallel()
	out, stderr, status := command(t, nil, "", "version")
	if !regexp.MustCompile(`^linkforge [A-Za-z0-9.+-]+\n$`).MatchString(out) || stderr != "" || status != 0 {
		t.Errorf("exit status %d, %q, %q", status, out, stderr)
	}
}

func TestSchemaCommand_PrintsSchema(t *testing.T) {
	t.Parallel()
	out, stderr, status := command(t, nil, "", "schema")
	want, err := os.ReadFile("../schema.graphql")
	if err != nil || out != string(want) || stderr != "" || status != 0 {
		t.Errorf("exit status %d, %d bytes of the schema's %d, %q: %v", status, len(out), len(want), stderr, err)
	}
	if _, err := gqlparser.LoadSchema(&ast.Source{Input: out}); err != nil {
		t.Errorf("the schema does not parse: %v", err)
	}
}

func TestHealthcheckCommand_ReportsReadiness(t *testing.T) {
	t.Parallel()
	s := start(t, embedded(t))
	if out, stderr, status := command(t, s.env, "", "healthcheck"); status != 0 || out != "ready\n" || stderr != "" {
		t.Errorf("of a ready server: exit status %d, %q, %q", status, out, stderr)
	}
	s.stop()
	if out, stderr, status := command(t, s.env, "", "healthcheck"); status != 1 || out != "" ||
		!strings.Contains(stderr, "does not respond") {
		t.Errorf("of no server: exit status %d, %q, %q", status, out, stderr)
	}
}

// TestReadiness_FailsWithoutDatabase stops the database of a running server, and starts it again: the
// server continues, and reports the problem.
func TestReadiness_FailsWithoutDatabase(t *testing.T) {
	t.Parallel()
	b := production(t)
	b.fails = true
	s := start(t, b)
	d := must.Value(b.open())(t)
	var name string
	must.NoError(t, d.NewSelect().ColumnExpr("current_database()").Scan(t.Context(), &name))
	d.Close()
	outside := must.Value(db.OpenPostgres(os.Getenv(dbtest.DatabaseURL), 1))(t)
	defer outside.Close()
	run := func(statement string) {
		t.Helper()
		must.Value(outside.ExecContext(db.AsOwner(t.Context()), statement))(t)
	}
	run("ALTER DATABASE " + name + " ALLOW_CONNECTIONS false")
	run("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '" + name + "'")
	for range 3 { // links in memory keep redirecting, so the node must stay in the proxy's pool
		if a := s.expect(t, http.StatusOK, http.MethodGet,
			"/readyz"); a.body != "ready; the database does not answer\n" {
			t.Errorf("readyz: %s", a.body)
		}
		s.expect(t, http.StatusOK, http.MethodGet, "/livez")
	}
	if _, stderr, status := command(t, s.env, "", "healthcheck"); status != 0 {
		t.Errorf("healthcheck: exit status %d, %q", status, stderr)
	}
	run("ALTER DATABASE " + name + " ALLOW_CONNECTIONS true")
	polltest.Until(t, "the database answers", func() bool {
		a, err := s.get("/readyz")
		return err == nil && a.body == "ready\n"
	})
}

func TestMigrateCommand_MovesTheSchema(t *testing.T) {
	t.Parallel()
	eachEmptyBackend(t, func(t *testing.T, b backend) {
		migrate := func(what string) string {
			t.Helper()
			out, stderr, status := command(t, b.env[:1], "", "migrate", what) // where the database is, and no secrets
			if status != 0 || stderr != "" {
				t.Fatalf("migrate %s: exit status %d, %q, %q", what, status, out, stderr)
			}
			return out
		}
		if out := migrate("down"); out != "nothing to undo\n" {
			t.Errorf("down of an empty database: %s", out)
		}
		pending := migrate("status")
		steps := strings.Count(pending, "\n")
		if steps == 0 || strings.Count(pending, " pending\n") != steps {
			t.Fatalf("of an empty database: %s", pending)
		}
		if out := migrate("up"); strings.Count(out, "applied ") != steps {
			t.Errorf("up: %s, before: %s", out, pending)
		}
		if out := migrate("up"); out != "up to date\n" {
			t.Errorf("up again: %s", out)
		}
		if out := migrate("status"); strings.Contains(out, "pending") || strings.Count(out, "\n") != steps {
			t.Errorf("status after up: %s", out)
		}
		_, stderr, status := command(t, b.env[:1], "", "migrate", "down")
		if status == 0 || !strings.Contains(stderr, "base schema") {
			t.Errorf("down of the base: exit status %d, %s", status, stderr)
		}
		start(t, b).tenant(t, "moved-in")
	})
}

// TestStart_RefusesEarlierSchema: servers and commands refuse a database of an earlier migration.
func TestStart_RefusesEarlierSchema(t *testing.T) {
	t.Parallel()
	eachEmptyBackend(t, func(t *testing.T, b backend) {
		succeed(t, b.env, "migrate", "up")
		k := newKiller(t, b, b.env)
		must.Value(k.d.ExecContext(db.AsOwner(t.Context()), "UPDATE migrations SET name = '0001_foundation'"))(t)
		const want = "run linkforge migrate up of version 35412b6f"
		for _, migrates := range []string{"on", "off"} {
			env := append(slices.Clone(b.env), "LINKFORGE_MIGRATE="+migrates,
				"LINKFORGE_LISTEN="+proctest.FreeAddress())
			if out := failing(t, env...); !strings.Contains(out, want) {
				t.Errorf("serve with LINKFORGE_MIGRATE=%s: %s", migrates, out)
			}
		}
		for _, args := range [][]string{
			{"migrate", "up"}, {"migrate", "down"}, {"migrate", "status"}, {"jobs", "list"}, {"stats", "verify"},
		} {
			if _, stderr, status := command(t, b.env, "", args...); status == 0 || !strings.Contains(stderr, want) {
				t.Errorf("%v: exit status %d, %s", args, status, stderr)
			}
		}
	})
}

// TestStart_RefusesNewerSchema: servers and commands refuse a database of a later version, and name
// both. A migration that a node which serves does not know needs --yes.
func TestStart_RefusesNewerSchema(t *testing.T) {
	t.Parallel()
	eachEmptyBackend(t, func(t *testing.T, b backend) {
		succeed(t, b.env, "migrate", "up")
		k := newKiller(t, b, b.env)
		write := func(statement string) {
			t.Helper()
			must.Value(k.d.ExecContext(db.AsOwner(t.Context()), statement))(t)
		}
		write("INSERT INTO migrations VALUES ('0002_later', '2026-11-20 12:00:00+00:00')")
		const want = "it has the migration 0002_later, and the last one of this version is 0001_base@"
		if out := failing(t, append(slices.Clone(b.env), "LINKFORGE_LISTEN="+proctest.FreeAddress())...); !strings.
			Contains(out, want) {
			t.Errorf("serve: %s", out)
		}
		for _, args := range [][]string{
			{"migrate", "up", "--yes"}, {"migrate", "down", "--yes"}, {"migrate", "status"}, {"jobs", "list"},
		} {
			declined(t, b.env, want, args...)
		}
	})
}

// TestDemoCommand_CreatesData runs the demo, which prints each step, with URLs of its own and with others.
func TestDemoCommand_CreatesData(t *testing.T) {
	t.Parallel()
	out, stderr, status := command(t, nil, "", "demo")
	if status != 0 || stderr != "" || !strings.HasSuffix(out, "Every step succeeded.\n") {
		t.Errorf("exit status %d, %q\n%s", status, stderr, out)
	}
	urls := []string{"HTTP://Example.COM:80/a//b/?z=1&a=2#x", "https://example.com/a", "https://EXAMPLE.com/a/"}
	out, stderr, status = command(t, nil, "", append(append([]string{"demo"}, urls...), "ftp://example.com/")...)
	for _, u := range urls {
		if !slices.Contains(strings.Split(out, "\n"), u) {
			t.Errorf("%s is not printed:\n%s", u, out)
		}
	}
	if status != 1 || !strings.Contains(stderr, "ftp://example.com/: ") ||
		strings.Contains(out, "Every step succeeded") {
		t.Errorf("a URL that is refused: exit status %d, %q\n%s", status, stderr, out)
	}
}
