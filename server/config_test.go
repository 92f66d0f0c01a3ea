package main

import (
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/linkforge/linkforge/internal/must"
	"github.com/linkforge/linkforge/internal/polltest"
	"github.com/linkforge/linkforge/internal/proctest"
)

// failing runs serve with an environment that must be refused, and returns its output.
func failing(t *testing.T, env ...string) (output string) {
	t.Helper()
	stdout, stderr, status := command(t, env, "", "serve")
	// Log lines of earlier steps may precede the errors.
	_, output, ok := strings.Cut("\n"+stderr, "\nlinkforge: ")
	if status != 1 || stdout != "" || !ok {
		t.Errorf("exit status %d, stdout %q, stderr %q", status, stdout, stderr)
	}
	return output
}

func TestConfig_ReportsEveryProblem(t *testing.T) {
	t.Parallel()
	env := []string{
		"LINKFORGE_LISTEN=nowhere", "LINKFORGE_PUBLIC_URL=ftp://example.com", "LINKFORGE_DATABASE_URL=mysql://me:" + marker +
			"@host/name",
		"LINKFORGE_DATABASE_POOL=1", "LINKFORGE_REDIS_URL=" + marker, "LINKFORGE_REDIS_POOL=none",
		"LINKFORGE_MIGRATE=perhaps",
		"LINKFORGE_JWT_SECRET=" + marker, "LINKFORGE_CODE_SECRET=" + marker, "LINKFORGE_TOKEN_TTL=1s",
		"LINKFORGE_HIT_QUOTA=-1",
		"LINKFORGE_LINK_QUOTA=many", "LINKFORGE_RATE_LIMITS=sometimes", "LINKFORGE_ENV=staging", "LINKFORGE_PLAYGROUND=x",
		"LINKFORGE_INTROSPECTION=x", "LINKFORGE_LOG_FORMAT=xml", "LINKFORGE_LOG_LEVEL=loud",
	}
	said := failing(t, env...) // a line that announces them, then one each
	for _, variable := range env {
		name, _, _ := strings.Cut(variable, "=")
		if strings.Count(said, "\n"+name+": ") != 1 {
			t.Errorf("%s is not named once", name)
		}
	}
	if strings.Contains(said, marker) || strings.Count(said, "\n") != len(env)+1 {
		t.Errorf("a problem a line, and no value repeated:\n%s", said)
	}
}

// TestConfig_RefusesMisspeltVariables runs commands in processes, whose environment is that of an operator.
func TestConfig_RefusesMisspeltVariables(t *testing.T) {
	t.Parallel()
	for _, line := range []string{"serve", "migrate up", "users list", "backup b.tar.gz", "restore /dev/null", "healthcheck"} {
		folder := t.TempDir()
		p := program(t.Context(), t, []string{"LINKFORGE_DATBASE_URL=postgres://me:" + marker + "@host/name",
			"LINKFORGE_DATA_DIR=" + folder}, strings.Fields(line)...)
		out, err := p.CombinedOutput()
		if err == nil || !strings.Contains(string(out), "LINKFORGE_DATBASE_URL: is not a setting; the nearest is "+
			"LINKFORGE_DATABASE_URL.") || strings.Contains(string(out), marker) {
			t.Errorf("%s: %v, %s", line, err, out)
		}
		if left := filesIn(t, folder); len(left) > 0 {
			t.Errorf("%s wrote %q", line, left)
		}
	}
}

func TestConfig_RequiresSecretsInProduction(t *testing.T) {
	t.Parallel()
	const databaseURL = "LINKFORGE_DATABASE_URL=postgres://me:" + marker + "@127.0.0.1:1/name"
	said := failing(t, databaseURL)
	if !strings.Contains(said, "LINKFORGE_JWT_SECRET: ") || !strings.Contains(said, "LINKFORGE_CODE_SECRET: ") ||
		strings.Contains(said, marker) {
		t.Errorf("without secrets: %s", said)
	}
	said = failing(t, databaseURL, "LINKFORGE_JWT_SECRET="+jwtSecret, "LINKFORGE_CODE_SECRET=short")
	if strings.Contains(said, "LINKFORGE_JWT_SECRET: ") || !strings.Contains(said, "LINKFORGE_CODE_SECRET: ") {
		t.Errorf("with one of two secrets: %s", said)
	}
	// With both the configuration is valid, and the database is missing.
	said = failing(t, databaseURL, "LINKFORGE_JWT_SECRET="+jwtSecret, "LINKFORGE_CODE_SECRET="+codeSecret)
	if strings.Contains(said, "LINKFORGE_") || strings.Contains(said, marker) {
		t.Errorf("with both secrets: %s", said)
	}
}

func TestStart_RefusesAnotherCodeSecretOrCell(t *testing.T) {
	t.Parallel()
	eachBackend(t, func(t *testing.T, b backend) {
		s := start(t, b)
		s.stop()
		const other = "another code secret, which is long enough too"
		said := failing(t, append(slices.Clone(s.env), "LINKFORGE_CODE_SECRET="+other)...)
		if !strings.Contains(said, "LINKFORGE_CODE_SECRET") || strings.Contains(said, other) ||
			strings.Contains(said, codeSecret) {
			t.Errorf("another code secret: %s", said)
		}
		said = failing(t, append(slices.Clone(s.env), "LINKFORGE_CELL=1")...)
		if !strings.Contains(said, "LINKFORGE_CELL is 1, and this database is that of cell 0") {
			t.Errorf("another cell: %s", said)
		}
		s.again()
	})
}

// TestCodeSecret_IsReplacedNodeByNode replaces the code secret as docs/OPERATIONS.md describes it:
// existing short URLs keep working, and while some nodes have the new secret and others do not, all
// create links.
func TestCodeSecret_IsReplacedNodeByNode(t *testing.T) {
	t.Parallel()
	eachBackend(t, func(t *testing.T, b backend) {
		const newSecret = "the second code secret of these tests which is long enough"
		nodes := startAll(t, b, b.nodes)
		who := nodes[0].tenant(t, "rotating")
		paths := map[string]bool{}
		shorten := func() {
			t.Helper()
			for _, node := range nodes {
				for n := range 10 {
					l := who.onServer(node).shorten(t, fmt.Sprintf("https://example.com/%d", n), "strategy", "COUNTER").Link
					paths[l.path(node)] = true
				}
			}
		}
		shorten()
		for _, node := range nodes {
			node.stop()
			previous, separator := codeSecret, "\n" // it has a comma
			if b.nodes == 1 {
				file := must.Value(os.ReadFile(filepath.Join(folderOf(node.env), "code.secret")))(t)
				previous, separator = string(file), ","
			}
			node.env = append(slices.Clone(node.env), "LINKFORGE_CODE_SECRET="+newSecret+separator+previous)
			node.again()
			shorten()
		}
		if want := 10 * b.nodes * (b.nodes + 1); len(paths) != want {
			t.Errorf("%d short URLs for %d links", len(paths), want)
		}
		for path := range paths {
			for _, node := range nodes { // a busy machine answers 503 at first
				polltest.Until(t, path+" is redirected", func() bool {
					a, err := node.get(path)
					return err == nil && a.status == http.StatusFound
				})
			}
		}
		nodes[0].stop()
		said := failing(t, append(slices.Clone(nodes[0].env), "LINKFORGE_CODE_SECRET="+newSecret)...)
		if !strings.Contains(said, "LINKFORGE_CODE_SECRET") || strings.Contains(said, newSecret) {
			t.Errorf("without the previous secret: %s", said)
		}
		nodes[0].again()
	})
}

func TestStart_UsesDataFolder(t *testing.T) {
	t.Parallel()
	s := start(t, embedded(t))
	folder := strings.TrimPrefix(s.env[0], "LINKFORGE_DATA_DIR=")
	for _, args := range [][]string{{"serve"}, {"migrate", "down"}} {
		env := append(slices.Clone(s.env), "LINKFORGE_LISTEN="+proctest.FreeAddress())
		stdout, stderr, status := command(t, env, "", args...)
		if status != 1 || stdout != "" || !strings.Contains(stderr, folder+" is in use by another server") ||
			!strings.Contains(stderr, "LINKFORGE_DATA_DIR") {
			t.Errorf("%v in a folder in use: exit status %d, %q, %q", args, status, stdout, stderr)
		}
	}
	modes := map[string]fs.FileMode{".": 0o700, "jwt.secret": 0o600, "code.secret": 0o600}
	before := map[string]string{}
	for name, want := range modes {
		info, err := os.Stat(filepath.Join(folder, name))
		if err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v: %v, want mode %o", name, info, err, want)
		}
		if text, err := os.ReadFile(filepath.Join(folder, name)); err == nil {
			before[name] = string(text)
		}
	}
	if before["jwt.secret"] == before["code.secret"] || len(before["jwt.secret"]) < 32 || len(before["code.secret"]) < 32 {
		t.Error("the two secrets are not two of 32 bytes")
	}
	s.stop()
	s.again()
	for name, want := range before {
		if text, err := os.ReadFile(filepath.Join(folder, name)); err != nil || string(text) != want {
			t.Errorf("%s is another one after a restart: %v", name, err)
		}
	}
	for name, secret := range before {
		if strings.Contains(content(t, s.out)+content(t, s.err), secret) {
			t.Errorf("%s is shown", name)
		}
	}
}

func TestStart_ReportsPortInUse(t *testing.T) {
	t.Parallel()
	s := start(t, embedded(t))
	said := failing(t, append(slices.Clone(s.env), embedded(t).env...)...)
	if !strings.Contains(said, s.address) || !strings.Contains(said, "in use") {
		t.Errorf("a port in use: %s", said)
	}
}

// TestStart_PrintsBanner checks that the banner has the important facts, and no secrets.
func TestStart_PrintsBanner(t *testing.T) {
	t.Parallel()
	eachBackend(t, func(t *testing.T, b backend) {
		s := start(t, b)
		said := content(t, s.out)
		want := []string{"/playground\n", s.public + "/graphql\n", s.public + "/{code}\n", s.address, "ready"}
		if b.nodes == 1 {
			folder := strings.TrimPrefix(b.env[0], "LINKFORGE_DATA_DIR=")
			want = append(want, "SQLite, "+filepath.Join(folder, "linkforge.db"), " "+folder+"\n", "in-process")
		} else {
			want = append(want, "PostgreSQL, 127.0.0.1:", "Redis       127.0.0.1:")
		}
		for _, words := range want {
			if !strings.Contains(said, words) {
				t.Errorf("the banner does not hold %q:\n%s", words, said)
			}
		}
		for _, variable := range b.env {
			name, value, _ := strings.Cut(variable, "=")
			if name != "LINKFORGE_DATA_DIR" && name != "LINKFORGE_DATABASE_POOL" && value != "sqlite" && strings.Contains(said, value) || strings.Contains(said, "@") {
				t.Errorf("the banner shows %s:\n%s", name, said)
			}
		}
	})
}

func TestProduction_HidesDevelopmentTools(t *testing.T) {
	t.Parallel()
	s := start(t, embedded(t), "LINKFORGE_ENV=production")
	if said := content(t, s.out); strings.Contains(said, "playground") {
		t.Errorf("the banner shows the playground:\n%s", said)
	}
	s.expect(t, http.StatusNotFound, http.MethodGet, "/playground")
	if home := s.expect(t, http.StatusNotFound, http.MethodGet, "/"); home.header.Get("Location") != "" {
		t.Errorf("/ leads to %s", home.header.Get("Location"))
	}
	anonymousClient := client{server: s}
	for name, query := range map[string]string{
		"schema": `{ __schema { types { name } } }`, "type": `{ __type(name: "User") { fields { name } } }`,
		"beside others": `{ platformStats { totalLinks } s: __schema { queryType { name } } }`,
		"in a fragment": `{ ...f } fragment f on Query { __schema { queryType { name } } }`,
	} {
		t.Run(name, func(t *testing.T) {
			a, err := anonymousClient.run(query, nil)
			if err != nil || a.code() == "" || strings.Contains(a.body, `"name"`) || a.status >= 500 {
				t.Errorf("introspection, %s: status %d: %s: %v", name, a.status, a.body, err)
			}
		})
	}
	for _, query := range []string{`{ platformStat { totalLinks } }`, `{ platformStats { totalLink } }`,
		`{ nod(id: "1") { id } }`,
		`{ node(i: "1") { id } }`, `query ($x: Tim) { __typename }`, `{ ... on Use { id } }`, `{ __typename @ski(if: true) }`,
		`{ link(by: {idd: "1"}) { id } }`, `{ link(by: {id: "1"}) { stats { series(interval: DAYS) { clicks } } } }`} {
		a, err := anonymousClient.run(query, nil)
		if err != nil || a.code() != "BAD_REQUEST" || strings.Contains(a.body, "Did you mean") {
			t.Errorf("a suggestion, %s: status %d: %s: %v", query, a.status, a.body, err)
		}
	}
	if a, err := anonymousClient.run(`{ __typename }`, nil); err != nil || a.status != http.StatusOK {
		t.Errorf("__typename: status %d: %s: %v", a.status, a.body, err)
	}
	said := content(t, s.err)
	if said == "" || !strings.HasPrefix(said, "{") {
		t.Errorf("the log is not JSON: %s", said)
	}
}

// TestDevelopment_ShowsTools details, as does production if the operator enables them.
func TestDevelopment_ShowsTools(t *testing.T) {
	t.Parallel()
	for name, settings := range map[string][]string{
		"development":       nil,
		"production opt-in": {"LINKFORGE_ENV=production", "LINKFORGE_PLAYGROUND=on", "LINKFORGE_INTROSPECTION=on"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t, embedded(t), settings...)
			s.expect(t, http.StatusOK, http.MethodGet, "/playground")
			anonymousClient := client{server: s}
			anonymousClient.must(t, &struct{}{}, `{ __schema { types { name } } }`, nil)
			if a, err := anonymousClient.run(`{ platformStat { totalLinks } }`, nil); err != nil ||
				!strings.Contains(a.body, "Did you mean") {
				t.Errorf("no suggestion: %s: %v", a.body, err)
			}
		})
	}
}

// TestStart_RefusesOldSchemaWhenMigrateIsOff starts a server that must not migrate: it fails on an empty
// database, and starts on a migrated one.
func TestStart_RefusesOldSchemaWhenMigrateIsOff(t *testing.T) {
	t.Parallel()
	eachEmptyBackend(t, func(t *testing.T, b backend) {
		env := append(slices.Clone(b.env), "LINKFORGE_MIGRATE=off", "LINKFORGE_LISTEN="+proctest.FreeAddress())
		if said := failing(t, env...); strings.Contains(said, "goroutine") {
			t.Errorf("without tables: %s", said)
		}
		if _, stderr, status := command(t, b.env, "", "migrate", "up"); status != 0 {
			t.Fatalf("migrate up: %s", stderr)
		}
		start(t, b, "LINKFORGE_MIGRATE=off").stop()
	})
}
