package main

import (
	"strings"
	"testing"
)

// TestUsage_ExplainsCommands: help and version in every spelling, a hint for a misspelt command, and why arguments that
// mean nothing are declined.
func TestUsage_ExplainsCommands(t *testing.T) {
	t.Parallel()
	env := embedded(t).env
	for line, c := range map[string]struct {
		status        int
		says, saysNot string
	}{
		"help":              {0, "users list", ""},
		"help settings":     {0, "LINKFORGE_PUBLIC_URL", ""},
		"help users list":   {0, "--email", "LINKFORGE_PUBLIC_URL"},
		"users list --help": {0, "linkforge help settings", "LINKFORGE_PUBLIC_URL"},
		"users --help":      {0, "users logout", "LINKFORGE_PUBLIC_URL"},
		"--version":         {0, "linkforge ", ""},
		"usres list": {1,
			"unknown command \"usres\": did you mean users? (linkforge help lists", ""},
		"nonsense": {1, "unknown command \"nonsense\" (linkforge help lists",
			"did you mean"},
		"help nonsense":                                   {1, "unknown command \"nonsense\"", ""},
		"users lst":                                       {1, "list", "unknown command"},
		"serve now":                                       {1, "now", "unknown command"},
		"users":                                           {1, "expected one of", ""},
		"users list --limit 0":                            {1, "--limit must be from", ""},
		"users logout":                                    {1, "<email>", ""},
		"users logout nobody@example.com":                 {1, "users list --email", ""},
		"workspaces limits nobody":                        {1, "set --hits", ""},
		"workspaces limits nobody --hits=-1":              {1, "--hits is a whole number", ""},
		"workspaces limits nobody --hits 1":               {1, "workspaces list", ""},
		"workspaces delete nobody":                        {1, "workspaces list", ""},
		"links find":                                      {1, "<what>", ""},
		"links codes --workspace ws_x":                    {1, "<url>", ""},
		"links codes https://example.com/":                {1, "--workspace", ""},
		"links codes --workspace none https://x.example/": {1, "workspaces list", ""},
		"links disable promo":                             {1, "links find", ""},
		"links enable lnk_00000000000000000000000000":     {1, "links find", ""},
		"jobs run nothing of the kind":                    {1, "clean-up, sessions", ""},
		"backup":                                          {1, "<file>", ""},
		"--nonsense":                                      {1, "", ""},
		"migrate sideways":                                {1, "", ""},
		"schema --nonsense":                               {1, "", ""},
	} {
		of := env
		if c.status == 0 {
			of = nil // flags precede no --version
		}
		out, stderr, status := command(t, of, "", strings.Fields(line)...)
		isRefused := out == "" && strings.HasPrefix(stderr, "linkforge: ") && !strings.Contains(stderr, "goroutine")
		if said := out + stderr; status != c.status || !strings.Contains(said, c.says) || isRefused != (c.status > 0) ||
			c.saysNot != "" && strings.Contains(said, c.saysNot) {
			t.Errorf("%s: exit status %d, want %d and %q:\n%s", line, status, c.status, c.says, said)
		}
	}
	declined(t, env, "must have from 1", "links", "find", "")
	help := succeed(t, env, "--help")
	for _, word := range []string{"serve", "migrate up", "code", "qr", "demo", "version", "schema", "healthcheck",
		"help settings", "users list", "workspaces limits", "links codes", "links disable", "jobs run",
		"clicks adopt", "backup", "after-restore"} {
		if !strings.Contains(help, word) {
			t.Errorf("the help does not name %s", word)
		}
	}
}

// TestCommands_CheckConnectionFirst: every command that opens the database explains why it cannot.
func TestCommands_CheckConnectionFirst(t *testing.T) {
	t.Parallel()
	const databaseURL = "LINKFORGE_DATABASE_URL=postgres://me:" + marker + "@127.0.0.1:1/name"
	for _, line := range []string{"serve", "migrate up", "migrate status", "users list", "links verify",
		"after-restore"} {
		_, stderr, status := command(t, []string{databaseURL, "LINKFORGE_JWT_SECRET=" + jwtSecret,
			"LINKFORGE_CODE_SECRET=" + codeSecret, "LINKFORGE_DATA_DIR=" + t.TempDir()}, "", strings.Fields(line)...)
		if status != 1 || !strings.Contains(stderr, "linkforge: PostgreSQL is not reachable: ") ||
			strings.Contains(stderr, marker) {
			t.Errorf("%s: exit status %d, %s", line, status, stderr)
		}
	}
}

// TestLog_TellsOperators of the shutdown, and of a proxy that is not configured.
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
		if strings.Index(said, "msg=stopping") > strings.Index(said, "msg=stopped") ||
			strings.Contains(said, "198.51.100.7") {
			t.Errorf("the log:\n%s", said)
		}
	})
}
