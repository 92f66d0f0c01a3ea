package main

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/vektah/gqlparser/v2"
	"github.com/vektah/gqlparser/v2/ast"

	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/must"
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
	out := succeed(t, nil, "schema")
	if out != readFile(t, "../schema.graphql") {
		t.Errorf("%d bytes are not those of schema.graphql", len(out))
	}
	if _, err := gqlparser.LoadSchema(&ast.Source{Input: out}); err != nil {
		t.Errorf("the schema does not parse: %v", err)
	}
	if out := succeed(t, nil, "schema", "--subgraph"); out != readFile(t, "../graph/gen/subgraph.graphql") {
		t.Errorf("%d bytes are not those of the subgraph", len(out))
	}
}

func TestHealthcheckCommand_ReportsReadiness(t *testing.T) {
	t.Parallel()
	s := start(t, embedded(t))
	same(t, "of a ready server", succeed(t, s.env, "healthcheck"), "ready\n")
	s.stop()
	declined(t, s.env, "does not respond", "healthcheck")
}

func TestMigrateCommand_MovesTheSchema(t *testing.T) {
	t.Parallel()
	eachEmptyBackend(t, func(t *testing.T, b backend) {
		env := b.env[:1] // where the database is, and no secrets
		same(t, "down of an empty database", succeed(t, env, "migrate", "down"), "nothing to undo\n")
		pending := succeed(t, env, "migrate", "status")
		steps := strings.Count(pending, "\n")
		if steps == 0 || strings.Count(pending, "\tpending\n") != steps {
			t.Fatalf("of an empty database: %s", pending)
		}
		if out := succeed(t, env, "migrate", "up"); strings.Count(out, "applied ") != steps {
			t.Errorf("up: %s, before: %s", out, pending)
		}
		same(t, "up again", succeed(t, env, "migrate", "up"), "up to date\n")
		out := succeed(t, env, "migrate", "status")
		if strings.Contains(out, "pending") || strings.Count(out, "\n") != steps {
			t.Errorf("status after up: %s", out)
		}
		declined(t, env, "base schema", "migrate", "down")
		start(t, b).tenant(t, "moved-in")
	})
}

// TestStart_RefusesOtherSchemas: servers and commands refuse a database of an earlier or a later version, and name
// what it has.
func TestStart_RefusesOtherSchemas(t *testing.T) {
	t.Parallel()
	eachEmptyBackend(t, func(t *testing.T, b backend) {
		succeed(t, b.env, "migrate", "up")
		d := must.Value(b.open())(t)
		defer d.Close()
		const later = "it has the migration 0002_later, and the last one of this version is 0001_base@"
		for i, want := range []string{later, "run linkforge migrate up of version 35412b6f"} {
			for _, statement := range [][]string{
				{"INSERT INTO migrations VALUES ('0002_later', '2026-11-20 12:00:00+00:00')"},
				{"DELETE FROM migrations WHERE name = '0002_later'", "UPDATE migrations SET name = '0001_foundation'"},
			}[i] {
				must.Value(d.ExecContext(db.AsOwner(t.Context()), statement))(t)
			}
			for _, migrates := range []string{"on", "off"} {
				env := append(slices.Clone(b.env), "LINKFORGE_MIGRATE="+migrates,
					"LINKFORGE_LISTEN="+proctest.FreeAddress())
				if out := failing(t, env...); !strings.Contains(out, want) {
					t.Errorf("serve with LINKFORGE_MIGRATE=%s: %s", migrates, out)
				}
			}
			for _, line := range []string{"migrate up", "migrate up --yes", "migrate down --yes", "migrate status",
				"jobs list", "stats verify"} {
				declined(t, b.env, want, strings.Fields(line)...)
			}
		}
	})
}

// TestDemoCommand_CreatesData runs the demo, which prints each step, with URLs of its own and with others.
func TestDemoCommand_CreatesData(t *testing.T) {
	t.Parallel()
	if out := succeed(t, nil, "demo"); !strings.HasSuffix(out, "Every step succeeded.\n") {
		t.Errorf("%s", out)
	}
	const good = "HTTP://Example.COM:80/a//b/?z=1&a=2#x"
	out, stderr, status := command(t, nil, "", "demo", good, "https://example.com/a", "https://EXAMPLE.com/a/",
		"ftp://example.com/")
	hasTexts(t, "the demo", out, "\n"+good+"\n", "is the same page as one before")
	if status != 1 || !strings.Contains(stderr, "ftp://example.com/: ") ||
		strings.Contains(out, "Every step succeeded") {
		t.Errorf("a URL that is refused: exit status %d, %q\n%s", status, stderr, out)
	}
}
