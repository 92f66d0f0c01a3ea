package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/proctest"
)

// programIn writes an executable file named linkforge to a folder, and returns its path.
func programIn(t *testing.T, folder string) string {
	t.Helper()
	proctest.SkipShort(t)
	path := filepath.Join(folder, "linkforge")
	script := fmt.Sprintf("#!/bin/sh\n%s=on exec '%s' \"$@\"\n", asProgram, os.Args[0])
	if err := os.WriteFile(path, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestBackup_PrintedDumpRestores runs the commands of docs/OPERATIONS.md as printed: the first block dumps a database
// and restores it elsewhere, the second prepares the copy for its first node.
func TestBackup_PrintedDumpRestores(t *testing.T) {
	t.Parallel()
	_, section, _ := strings.Cut(readFile(t, filepath.Join("..", "docs", "OPERATIONS.md")),
		"**PostgreSQL**: use its own tools")
	blocks := fencedBlock.FindAllStringSubmatch(section, 2)
	b := production(t).alone(t)
	s := start(t, b)
	who := s.tenant(t, "dumped")
	counted := who.shorten(t, "https://example.com/a", "strategy", "COUNTER").Link
	s.expect(t, 302, "GET", counted.path(s))
	s.stop()

	folder, elsewhere := t.TempDir(), dbtest.PostgresURL(t)
	program, oldLogs := programIn(t, folder), folderOf(s.env)
	run := func(script string, env ...string) string {
		t.Helper()
		p := exec.CommandContext(t.Context(), "sh", "-euc", script)
		p.Dir = folder
		p.Env = slices.Concat(os.Environ(), s.env, []string{"ANOTHER_DATABASE_URL=" + elsewhere,
			"LINKFORGE_DATA_DIR=" + folder, "PATH=" + filepath.Dir(program) + ":" + os.Getenv("PATH")}, env)
		out, err := p.CombinedOutput()
		if strings.Contains(string(out), "server version mismatch") {
			t.Skipf("pg_dump is older than the server: %s", out)
		}
		if err != nil {
			t.Fatalf("%v: %s\n%s", err, script, out)
		}
		return readFile(t, filepath.Join(folder, "linkforge.sql"))
	}
	before := run(blocks[0][2])
	again, _, _ := strings.Cut(blocks[0][2], "psql ")
	after := run(again, "LINKFORGE_DATABASE_URL="+elsewhere)
	// pg_dump brackets a file by a random word, and conditions as deep as their first author.
	vary := regexp.MustCompile(`(?m)^\\(un)?restrict .*|[()]`)
	same(t, "a dump of the copy", vary.ReplaceAllString(after, ""), vary.ReplaceAllString(before, ""))
	run(strings.ReplaceAll(blocks[1][2], "/srv/old-node", oldLogs))

	s.env = append(s.env, "LINKFORGE_DATABASE_URL="+elsewhere)
	s.again()
	if got := who.getLink(t, counted.ID); got.ClickCount != 1 || got.Code != counted.Code {
		t.Errorf("the restored link: %+v", got)
	}
	if next := who.shorten(t, "https://example.com/b", "strategy", "COUNTER"); !next.Created ||
		next.Link.Code == counted.Code {
		t.Errorf("a new link: %+v", next)
	}
}
