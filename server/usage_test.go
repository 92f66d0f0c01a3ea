package main

import (
	"strings"
	"testing"
)

// TestUsage_ExplainsCommands: help and version in every spelling, and a hint for a misspelt command.
func TestUsage_ExplainsCommands(t *testing.T) {
	t.Parallel()
	for line, c := range map[string]struct {
		status        int
		says, saysNot string
	}{
		"help":              {0, "users list", ""},
		"help serve":        {0, "LINKFORGE_PUBLIC_URL", ""},
		"help users list":   {0, "--email", "LINKFORGE_PUBLIC_URL"},
		"users list --help": {0, "linkforge help serve", "LINKFORGE_PUBLIC_URL"},
		"users --help":      {0, "users logout", "LINKFORGE_PUBLIC_URL"},
		"--version":         {0, "linkforge ", ""},
		"usres list":        {1, "unknown command \"usres\": did you mean users? (linkforge help lists", ""},
		"migarte up":        {1, "did you mean migrate?", ""},
		"nonsense":          {1, "unknown command \"nonsense\" (linkforge help lists", "did you mean"},
		"help nonsense":     {1, "unknown command \"nonsense\"", ""},
		"users lst":         {1, "list", "unknown command"},
		"serve now":         {1, "now", "unknown command"},
	} {
		out, stderr, status := command(t, nil, "", strings.Fields(line)...)
		if said := out + stderr; status != c.status || !strings.Contains(said, c.says) ||
			c.saysNot != "" && strings.Contains(said, c.saysNot) {
			t.Errorf("%s: exit status %d, want %d and %q:\n%s", line, status, c.status, c.says, said)
		}
	}
}

// TestCommands_CheckConnectionFirst: every command that opens the database explains why it cannot.
func TestCommands_CheckConnectionFirst(t *testing.T) {
	t.Parallel()
	const databaseURL = "LINKFORGE_DATABASE_URL=postgres://me:" + marker + "@127.0.0.1:1/name"
	for _, line := range []string{"serve", "migrate up", "migrate status", "users list", "links verify", "after-restore"} {
		_, stderr, status := command(t, []string{databaseURL, "LINKFORGE_JWT_SECRET=" + jwtSecret,
			"LINKFORGE_CODE_SECRET=" + codeSecret, "LINKFORGE_DATA_DIR=" + t.TempDir()}, "", strings.Fields(line)...)
		if status != 1 || !strings.Contains(stderr, "linkforge: PostgreSQL is not reachable: ") || strings.Contains(stderr, marker) {
			t.Errorf("%s: exit status %d, %s", line, status, stderr)
		}
	}
}

// TestLog_TellsOperators: stopping and stopped, and what is misconfigured around the server.
func TestLog_TellsOperators(t *testing.T) {
	t.Parallel()
	eachBackend(t, func(t *testing.T, b backend) {
		s := start(t, b.alone(t))
		for _, path := range []string{"/unknown", "/readyz", "/unknown"} { // without and with net/http
			if _, err := s.get(path, "X-Forwarded-For", "198.51.100.7"); err != nil {
				t.Error(err)
			}
		}
		s.stop()
		said := content(t, s.err)
		for _, line := range []string{"X-Forwarded-For ignored", "msg=stopping", "msg=stopped"} {
			if strings.Count(said, line) != 1 {
				t.Errorf("%q is not logged once:\n%s", line, said)
			}
		}
		if strings.Index(said, "msg=stopping") > strings.Index(said, "msg=stopped") || strings.Contains(said, "198.51.100.7") {
			t.Errorf("the log:\n%s", said)
		}
	})
}
