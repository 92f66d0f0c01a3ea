package main

import (
	"regexp"
	"strings"
	"testing"

	"github.com/linkforge/linkforge/internal/platform/must"
)

// TestUsage_ExplainsCommands: help and version in every spelling, a hint for a misspelt command, and why arguments that
// mean nothing are declined.
func TestUsage_ExplainsCommands(t *testing.T) {
	t.Parallel()
	env := embedded(t).env
	for line, c := range map[string]struct{ says, saysNot string }{
		"help":              {"links create", "users list"},
		"help --all":        {"users list", "LINKFORGE_PUBLIC_URL"},
		"help settings":     {"LINKFORGE_PUBLIC_URL", ""},
		"help users list":   {"--email", "LINKFORGE_PUBLIC_URL"},
		"users list --help": {"linkforge help settings", "LINKFORGE_PUBLIC_URL"},
		"users --help":      {"users logout", "LINKFORGE_PUBLIC_URL"},
		"--version":         {"linkforge ", ""},
	} {
		out := succeed(t, nil, strings.Fields(line)...)
		if !strings.Contains(out, c.says) || c.saysNot != "" && strings.Contains(out, c.saysNot) {
			t.Errorf("%s:\n%s", line, out)
		}
	}
	for line, says := range map[string]string{
		"usres list":                   "unknown command \"usres\": did you mean users? (linkforge help --all lists",
		"nonsense":                     "unknown command \"nonsense\" (linkforge help --all lists",
		"help nonsense":                "unknown command \"nonsense\"",
		"users lst":                    "linkforge: unexpected argument lst, did you mean \"list\"?",
		"serve now":                    "linkforge: unexpected argument now",
		"users":                        "expected one of",
		"users list --limit 0":         "--limit must be from",
		"users logout":                 "<email>",
		"users logout nobody@x.co":     "users list --email",
		"workspaces limits a":          "set --hits",
		"workspaces limits a --hits=x": "--hits is a whole number",
		"workspaces limits a --hits 1": "workspaces list",
		"workspaces delete nobody":     "workspaces list",
		"links find":                   "<what>",
		"links codes --workspace ws_x": "<url>",
		"links codes https://x.co/":    "--workspace",
		"links codes --workspace none https://x.co/":  "workspaces list",
		"links disable promo":                         "links find",
		"links enable lnk_00000000000000000000000000": "links find",
		"jobs run nothing of the kind":                "clean-up, sessions",
		"backup":                                      "<file>",
		"--nonsense":                                  "linkforge: ",
		"migrate sideways":                            "linkforge: ",
	} {
		declined(t, env, says, strings.Fields(line)...)
	}
	declined(t, env, "must have from 1", "links", "find", "")
	if help := succeed(t, env, "--help"); len(regexp.MustCompile(`(?m)^  [a-z]`).FindAllString(help, -1)) != 10 {
		t.Errorf("not ten commands: %s", help)
	}
	hasTexts(t, "the help", succeed(t, env, "help", "--all"), "serve", "migrate up",
		"code", "qr", "demo", "version", "schema", "healthcheck",
		"help settings", "users list", "workspaces limits", "links codes", "links disable", "jobs run",
		"clicks adopt", "backup", "after-restore")
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
			must.Value(s.get(path, "X-Forwarded-For", "198.51.100.7"))(t)
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
