package main

import (
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/linkforge/linkforge/internal/platform/proctest"
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

// TestConfig_RefusesMisspeltVariables runs commands in processes, whose environment is that of an operator.
func TestConfig_RefusesMisspeltVariables(t *testing.T) {
	t.Parallel()
	for _, line := range []string{"serve", "backup b.tar.gz"} {
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

// TestStart_RefusesWhatOthersUse: a port and a folder of another server, and a database of another code secret or cell.
func TestStart_RefusesWhatOthersUse(t *testing.T) {
	t.Parallel()
	eachBackend(t, func(t *testing.T, b backend) {
		s := start(t, b)
		if b.nodes == 1 {
			said := failing(t, append(slices.Clone(s.env), embedded(t).env...)...)
			if !strings.Contains(said, s.address) || !strings.Contains(said, "in use") {
				t.Errorf("a port in use: %s", said)
			}
			env := append(slices.Clone(s.env), "LINKFORGE_LISTEN="+proctest.FreeAddress())
			says := folderOf(s.env) + " is in use by another server"
			declined(t, env, says, "migrate", "down")
			if said := failing(t, env...); !strings.Contains(said, says) ||
				!strings.Contains(said, "LINKFORGE_DATA_DIR") {
				t.Errorf("a folder in use: %s", said)
			}
		}
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

// TestStart_PrintsBanner checks that the banner has the important facts, and no secrets.
func TestStart_PrintsBanner(t *testing.T) {
	t.Parallel()
	eachBackend(t, func(t *testing.T, b backend) {
		s := start(t, b)
		said := content(t, s.out)
		want := []string{"/app\n", "/playground\n", s.public + "/graphql\n", s.public + "/{code}\n", s.address, "ready"}
		if b.nodes == 1 {
			folder := strings.TrimPrefix(b.env[0], "LINKFORGE_DATA_DIR=")
			want = append(want, "SQLite, "+filepath.Join(folder, "linkforge.db"), " "+folder+"\n", "in-process")
		} else {
			want = append(want, "PostgreSQL, 127.0.0.1:", "Redis       127.0.0.1:")
		}
		hasTexts(t, "the banner", said, want...)
		for _, variable := range b.env {
			name, value, _ := strings.Cut(variable, "=")
			if name != "LINKFORGE_DATA_DIR" && name != "LINKFORGE_DATABASE_POOL" && value != "sqlite" &&
				strings.Contains(said, value) || strings.Contains(said, "@") {
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
	for _, query := range []string{`{ __schema { types { name } } }`, `{ platformStat { totalLinks } }`} {
		a, err := client{server: s}.run(query, nil)
		if err != nil || a.code() == "" || strings.Contains(a.body, `"name"`) ||
			strings.Contains(a.body, "Did you mean") {
			t.Errorf("%s: status %d: %s: %v", query, a.status, a.body, err)
		}
	}
	said := content(t, s.err)
	if said == "" || !strings.HasPrefix(said, "{") {
		t.Errorf("the log is not JSON: %s", said)
	}
}

// TestStart_RefusesOldSchemaWhenMigrateIsOff starts a server that must not migrate: it fails on an empty
// database, and starts on a migrated one.
func TestStart_RefusesOldSchemaWhenMigrateIsOff(t *testing.T) {
	t.Parallel()
	eachEmptyBackend(t, func(t *testing.T, b backend) {
		env := append(slices.Clone(b.env), "LINKFORGE_MIGRATE=off", "LINKFORGE_LISTEN="+proctest.FreeAddress())
		if said := failing(t, env...); !strings.Contains(said, "run linkforge migrate up") {
			t.Errorf("without tables: %s", said)
		}
		succeed(t, b.env, "migrate", "up")
		start(t, b, "LINKFORGE_MIGRATE=off").stop()
	})
}
