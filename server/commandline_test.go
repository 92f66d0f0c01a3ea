package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"image/png"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/poll/polltest"
)

// shell is the command line of a person with an API key of a server.
type shell struct {
	*server
	secret string
}

// newKey creates an API key as the operator, and returns its secret.
func (s *server) newKey(t *testing.T, slug, scopes string) shell {
	t.Helper()
	out := succeed(t, s.env, "keys", "create", slug, "--scopes", scopes)
	return shell{s, strings.TrimSuffix(out, "\n")}
}

// run runs a command of a client, which must end with a status, and returns its output.
func (s shell) run(t *testing.T, status int, stdin, line string) (stdout, stderr string) {
	t.Helper()
	stdout, stderr, got := command(t, []string{"LINKFORGE_API_KEY=" + s.secret}, stdin,
		append(strings.Fields(line), "--server", "http://"+s.address)...)
	if got != status {
		t.Errorf("%s: exit status %d, want %d:\n%.2000s%.2000s", line, got, status, stdout, stderr)
	}
	if s.secret != "" && strings.Contains(stdout+stderr, s.secret) {
		t.Errorf("%s prints the secret", line)
	}
	return stdout, stderr
}

// TestCommandLine_FromNothingToALink runs the commands that lead from an empty database to a link, its clicks and its
// deletion.
func TestCommandLine_FromNothingToALink(t *testing.T) {
	t.Parallel()
	eachBackend(t, func(t *testing.T, b backend) {
		s := start(t, b)
		succeed(t, s.env, "users", "create", "ada@example.com")
		out := succeed(t, s.env, "workspaces", "create", "team", "--owner", "ADA@example.com")
		if !regexp.MustCompile(`^created team \(ws_\w{26}\), owned by "ada@example.com"\n$`).MatchString(out) {
			t.Errorf("workspaces create: %q", out)
		}
		secret, said, _ := command(t, s.env, "", "keys", "create", "team", "--scopes", "LINKS_READ,links_create",
			"--expires", "90d", "--name", "shell")
		if !regexp.MustCompile(`^lfk_\w{26}\n$`).MatchString(secret) ||
			strings.Contains(said, strings.TrimSpace(secret)) ||
			!strings.Contains(said, " of team with LINKS_CREATE,LINKS_READ, expires: 20") {
			t.Errorf("keys create: %q, %q", secret, said)
		}
		c := shell{s, strings.TrimSpace(secret)}
		code := filepath.Join(t.TempDir(), "sale.png")
		out, _ = c.run(t, 0, "", "links create https://example.com/a/long/url --code sale --tag spring --tag web "+
			"--expires 2127-01-01 --title Sale --qr "+code)
		same(t, "the short URL", out, s.public+"/team/sale\n")
		s.expect(t, http.StatusFound, http.MethodGet, "/team/sale")
		must.Value(png.Decode(bytes.NewReader([]byte(readFile(t, code)))))(t)
		out, said = c.run(t, 0, "", "links create https://example.com/a/long/url --code sale --title Other "+
			"--expires 2127-01-01")
		if out != s.public+"/team/sale\n" || !strings.Contains(said, `keeps its "title"`) {
			t.Errorf("an existing link: %q, %q", out, said)
		}
		out, _ = c.run(t, 0, "https://example.com\n", "links create -")
		plain := strings.TrimSuffix(out, "\n")
		s.expect(t, http.StatusFound, http.MethodGet, strings.TrimPrefix(plain, s.public))

		out, _ = c.run(t, 0, "", "links list")
		rows := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
		if len(rows) != 2 || !strings.HasPrefix(rows[0], plain+"\tACTIVE\t20") ||
			!strings.HasSuffix(rows[1], "\tSale\thttps://example.com/a/long/url") {
			t.Errorf("links list: %q", rows)
		}
		out, said = c.run(t, 0, "", "links list --limit 1")
		next := regexp.MustCompile(`--after \S+`).FindString(said)
		rest, _ := c.run(t, 0, "", "links list "+next)
		same(t, "two pages", out+rest, strings.Join(rows, "\n")+"\n")
		out, _ = c.run(t, 0, "", "links list --search sale --tag web --json")
		var listed map[string]any
		must.NoError(t, json.Unmarshal([]byte(out), &listed))
		if listed["shortUrl"] != s.public+"/team/sale" || listed["expiresAt"] != "2127-01-01T00:00:00Z" {
			t.Errorf("links list --json: %v", listed)
		}
		out, _ = c.run(t, 0, "", "links show "+strings.TrimPrefix(s.public, "http://")+"/team/sale")
		hasTexts(t, "links show", out, "short URL\t"+s.public+"/team/sale\n", "status\tACTIVE\n",
			"tags\t\"spring\", \"web\"\n")

		_, said = c.run(t, 1, "", "links stats "+plain)
		hasTexts(t, "a key without the scope", said, "requires an API key with the scope STATS_READ")
		_, said = c.run(t, 1, "", "links delete "+plain)
		hasTexts(t, "a key without the scope", said, "requires an API key with the scope LINKS_WRITE")
		full := s.newKey(t, "team", "LINKS_WRITE,STATS_READ")
		countsClicks(t, full, plain)
		out, _ = full.run(t, 0, "", "links delete "+plain)
		s.expect(t, http.StatusNotFound, http.MethodGet, strings.TrimPrefix(plain, s.public))
		undo := regexp.MustCompile(`links undo opn_\w{26}`).FindString(out)
		full.run(t, 0, "", undo)
		s.expect(t, http.StatusFound, http.MethodGet, strings.TrimPrefix(plain, s.public))

		for _, log := range []string{content(t, s.err), content(t, s.out)} {
			if strings.Contains(log, c.secret) || strings.Contains(log, full.secret) {
				t.Error("the server has logged the secret of a key")
			}
		}
	})
}

// countsClicks waits until the stats have the click of a link, which has had one today.
func countsClicks(t *testing.T, c shell, shortURL string) {
	t.Helper()
	polltest.Until(t, "the click is counted", func() bool {
		_, said := c.run(t, 0, "", "links stats "+shortURL+" --days 2")
		return strings.HasPrefix(said, "1 clicks, ")
	})
	out, _ := c.run(t, 0, "", "links stats "+shortURL+" --days 2")
	if rows := strings.Split(out, "\n"); len(rows) != 3 || !strings.Contains(out, "\t1\t") {
		t.Errorf("links stats: %q", out)
	}
	out, _ = c.run(t, 0, "", "links stats "+shortURL+" --from 7d --by country")
	same(t, "links stats --by", out, "unknown\t1\t0\t1\n")
	out, _ = c.run(t, 0, "", "links stats "+shortURL+" --days 1 --json")
	hasTexts(t, "links stats --json", out, `"clicks":1,"visitors":0,"bots":1,"series":[{"start":"20`)
}

// TestKeys_OfOperators have an owner as their creator, no actor in the audit log, and the rules of all keys.
func TestKeys_OfOperators(t *testing.T) {
	t.Parallel()
	eachBackend(t, func(t *testing.T, b backend) {
		s := start(t, b, "LINKFORGE_MAX_WORKSPACES=2", "LINKFORGE_MAX_API_KEYS=2")
		who := s.tenant(t, "ada")
		rows := rowsOf(t, s.env, "workspaces", "create", "team", "--owner", who.email, "--name", "The Team")
		who.workspaceID = rows[0]["id"].(string)
		first := rowsOf(t, s.env, "keys", "create", "team", "--scopes", "LINKS_WRITE")[0]
		folder := who.ask(t, `mutation ($w: ID!) {
			createFolder(input: {workspaceId: $w, name: "f"}) { folder { id } } }`,
			map[string]any{"w": who.workspaceID}).text("createFolder.folder.id")
		second := rowsOf(t, s.env, "keys", "create", "team", "--scopes", "LINKS_CREATE", "--folder", folder,
			"--host", "example.com")[0]
		if !strings.HasPrefix(second["secret"].(string), "lfp_") {
			t.Errorf("a publishable key: %v", second)
		}
		declined(t, s.env, "2 active API keys, the maximum", "keys", "create", "team", "--scopes", "LINKS_READ")
		wantTable(t, s.env, "keys list team", "ID PREFIX NAME SCOPES FOLDERS CREATED EXPIRES LAST USED", folder)
		for _, row := range rowsOf(t, s.env, "keys", "list", who.workspaceID) {
			if row["secret"] != nil {
				t.Errorf("a list has a secret: %v", row)
			}
		}
		succeed(t, s.env, "keys", "revoke", "team", first["id"].(string))
		same(t, "the keys", len(rowsOf(t, s.env, "keys", "list", "team")), 1)
		shell{s, first["secret"].(string)}.run(t, 1, "", "links list")
		out, _ := shell{s, second["secret"].(string)}.run(t, 0, "",
			"links create https://example.com/published --workspace "+who.workspaceID)
		s.expect(t, http.StatusFound, http.MethodGet, strings.TrimSpace(strings.TrimPrefix(out, s.public)))
		same(t, "the audit log", who.operatorEvents(t), []string{
			"API_KEY_REVOKED {}", `API_KEY_CREATED {"destinationHosts":["example.com"],"folders":["` + folder +
				`"],"requestsPerMinute":"60","scopes":["LINKS_CREATE"]}`,
			`API_KEY_CREATED {"scopes":["LINKS_WRITE"]}`, `WORKSPACE_CREATED {"slug":"team"}`,
		})
		keys := who.ask(t, `query ($w: ID!) { workspace(by: {id: $w}) { apiKeys { nodes { createdBy { id } } } } }`,
			map[string]any{"w": who.workspaceID})
		same(t, "the creator", keys.text("workspace.apiKeys.nodes.0.createdBy.id"), who.id)

		if a := must.Value(who.run(`{ workspace { id } }`, nil))(t); a.code() != "INVALID_INPUT" {
			t.Errorf("the workspace of a user who names none: %s", a.body)
		}

		for line, says := range map[string]string{
			"workspaces create team --owner " + who.email:               "The slug is taken",
			"workspaces create x --owner " + who.email:                  "3 to 48 characters",
			"workspaces create third --owner " + who.email:              "owns 2 workspaces, the maximum",
			"workspaces create third --owner nobody@example.com":        "users list --email",
			"workspaces create third":                                   "--owner",
			"keys create nobody --scopes LINKS_READ":                    "workspaces list",
			"keys create team":                                          "--scopes",
			"keys create team --scopes SETTINGS_WRITE":                  `"SETTINGS_WRITE" is no scope`,
			"keys create team --scopes LINKS_READ --folder fld_x":       "no folder",
			"keys create team --scopes LINKS_READ --expires 90":         "--expires must be a date as 2027-01-01",
			"keys create team --scopes LINKS_READ --expires 2020-01-01": "--expires must be in the future",
			"keys revoke team key_00000000000000000000000000":           "no such API key",
		} {
			declined(t, s.env, says, strings.Fields(line)...)
		}
		succeed(t, s.env, "users", "disable", who.email)
		declined(t, s.env, "users enable", "workspaces", "create", "third", "--owner", who.email)
		succeed(t, s.env, "workspaces", "delete", "team", "--yes")
		declined(t, s.env, "restore it first", "keys", "create", "team", "--scopes", "LINKS_READ")
	})
}

// TestCommandLine_CreatesManyLinks: each line of the output belongs to that line of the input, and the exit status says
// whether all, some or no links were created.
func TestCommandLine_CreatesManyLinks(t *testing.T) {
	t.Parallel()
	eachBackend(t, func(t *testing.T, b backend) {
		s := start(t, b, "LINKFORGE_LINK_QUOTA=20000")
		s.tenant(t, "ada")
		c := s.newKey(t, "ada", "LINKS_CREATE,LINKS_READ")
		input := "\ufeffhttps://example.com/1\r\n\n  https://example.com/2\t\nftp://example.com/\n" +
			"https://example.com/\xff\nhttps://example.com/1"
		out, said := c.run(t, 2, input, "links create - --tag many")
		rows := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
		if len(rows) != 6 || rows[0] == "" || rows[1] != "" || rows[2] == "" || rows[3] != "" || rows[4] != "" ||
			rows[5] != rows[0] {
			t.Errorf("the short URLs: %q", rows)
		}
		hasTexts(t, "the errors", said, "line 4: url: The URL must", "line 5: The URL must be UTF-8.")
		same(t, "the errors", strings.Count(said, "\n"), 2)
		out, _ = c.run(t, 2, input, "links create - --json")
		if lines := strings.Split(strings.TrimSuffix(out, "\n"), "\n"); len(lines) != 5 ||
			!strings.HasPrefix(lines[2], `{"line":4,"url":"ftp://example.com/","shortUrl":null,`) {
			t.Errorf("as JSON: %q", lines)
		}
		out, _ = c.run(t, 1, "no URL\n", "links create -")
		same(t, "refused lines alone", out, "\n")
		out, _ = c.run(t, 0, "", "links create -")
		same(t, "no lines", out, "")

		size := 10_000
		var urls strings.Builder
		for i := range size {
			fmt.Fprintf(&urls, "https://example.com/many/%d\n", i)
		}
		began := time.Now()
		out, _ = c.run(t, 0, urls.String(), "links create -")
		t.Logf("%d links in %s", size, time.Since(began))
		short := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
		same(t, "the short URLs", len(short), size)
		for _, i := range []int{0, 999, 1000, 5432, size - 1} {
			a := s.expect(t, http.StatusFound, http.MethodGet, strings.TrimPrefix(short[i], s.public))
			same(t, "the destination", a.header.Get("Location"), fmt.Sprint("https://example.com/many/", i))
		}
		slices.Sort(short)
		same(t, "different short URLs", len(slices.Compact(short)), size)
	})
}

// TestCommandLine_RefusesAndExplains: an error names the flag or the variable, and the remedy.
func TestCommandLine_RefusesAndExplains(t *testing.T) {
	t.Parallel()
	s := start(t, embedded(t))
	who := s.tenant(t, "ada")
	c := s.newKey(t, "ada", "LINKS_CREATE,LINKS_READ")
	for line, says := range map[string]string{
		"links create no-url":                                     "url: The URL must",
		"links create - --code x":                                 "--code and --qr are for one URL",
		"links create https://example.com --qr x.gif":             "--qr must be the name of a file that ends in .png",
		"links create https://example.com --expires tomorrow":     "--expires must be a date as 2027-01-01",
		"links create https://example.com --expires 2001-01-01":   "--expires must be in the future",
		"links create https://example.com --expires 99999999999d": "at most 36500d",
		"links create https://example.com --key x":                "unknown flag --key",
		"links import KUTT --token x":                             "unknown flag --token",
		"links import KUTT":                                       "LINKFORGE_SOURCE_TOKEN",
		"links list --limit 0":                                    "--limit must be from",
		"links list --workspace other":                            `no workspace "other", or the key is not of it`,
		"links show http://example.com/nothing":                   "there is no link",
		"links stats x --days 0":                                  "--days must be from",
		"links stats x --from 2999-01-01":                         "--from must be in the past",
		"links stats x --timezone Mars/Olympus":                   "--timezone must be",
		"links list --api-key-file /nonexistent":                  "--api-key-file",
	} {
		_, said := c.run(t, 1, "", line)
		hasTexts(t, line, said, says)
	}
	_, said, status := command(t, []string{"LINKFORGE_API_KEY=" + c.secret}, "", "links", "create", "")
	if status != 1 || !strings.Contains(said, "name the URL") {
		t.Errorf("no URL: exit status %d, %s", status, said)
	}
	for line, says := range map[string]string{
		"links list": "set LINKFORGE_API_KEY", "links show x": "--api-key-file", "links create -": "keys create",
	} {
		_, said := shell{s, ""}.run(t, 1, "", line)
		hasTexts(t, line, said, says)
	}
	for _, server := range []string{"go.example.com", "http://127.0.0.1:1", "::"} {
		_, said, status := command(t, []string{"LINKFORGE_API_KEY=x"}, "", "links", "list", "--server", server)
		if status != 1 || !strings.Contains(said, "LINKFORGE or --server") {
			t.Errorf("%s: exit status %d, %s", server, status, said)
		}
	}
	file := filepath.Join(t.TempDir(), "key")
	must.NoError(t, os.WriteFile(file, []byte(c.secret+"\n"), 0o600))
	shell{s, ""}.run(t, 0, "", "links list --api-key-file "+file)

	const hostile = "\x1b[31mred\u202e\u009b"
	who.shorten(t, "https://example.com/\u202etxt.exe", "customCode", "turned", "note", "two\nlines\tof text")
	for _, line := range []string{"links list", "links list --json", "links show " + s.public + "/ada/turned"} {
		if out, _ := c.run(t, 0, "", line); strings.ContainsAny(out, "\x1b\u202e\u009b") ||
			!strings.Contains(out, "\\u202etxt.exe") || strings.Contains(out, "lines\t") {
			t.Errorf("%s controls the terminal: %q", line, out)
		}
	}
	_, said = c.run(t, 2, "https://example.com/ok\nhttps://"+hostile+"/\n", "links create -")
	out, _ := c.run(t, 1, "https://"+hostile+"/\n", "links create - --json")
	if strings.ContainsAny(said+out, "\x1b\u202e\u009b") {
		t.Errorf("a refused URL controls the terminal: %q, %q", said, out)
	}
}

// TestCommandLine_DistrustsServers: no text of a server controls the terminal.
func TestCommandLine_DistrustsServers(t *testing.T) {
	t.Parallel()
	const hostile = `\u001b[31m\u202e\u009b2J`
	for name, answer := range map[string]string{
		"an error": `{"errors":[{"message":"` + hostile + `"}]}`,
		"a link": `{"data":{"workspace":{"id":"x","links":{"nodes":[{"id":"` + hostile + `","shortUrl":"` + hostile +
			`","status":"` + hostile + `","title":"` + hostile + `"}],"pageInfo":{}}}}}`,
		"a result": `{"data":{"workspace":{"id":"x"},"payload":{"results":[{"shortUrl":"` + hostile +
			`","ignored":["` + hostile + `"]}]}}}`,
		"results of nothing": `{"data":{"workspace":{"id":"x"},"payload":{"results":[{},{},{}]}}}`,
		"a payload": `{"data":{"workspace":{"id":"x"},"payload":{"results":[{"shortUrl":"` + hostile +
			`","ignored":["` + hostile + `"]}],"errors":[{"message":"` + hostile + `","field":["` + hostile +
			`"]}]}}}`,
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, answer)
		}))
		for _, line := range []string{"links list", "links list --json", "links create https://x.co"} {
			for _, terminal := range []bool{false, true} {
				out, said, _ := commandOn(t, terminal, []string{"LINKFORGE_API_KEY=x"}, "",
					append(strings.Fields(line), "--server", server.URL)...)
				if strings.ContainsAny(out+said, "\x1b\u202e\u009b") {
					t.Errorf("%s, %s: %q, %q", line, name, out, said)
				}
			}
		}
		server.Close()
	}
}

// TestCommandLine_ReadsPipes: imports and plans read standard input as files.
func TestCommandLine_ReadsPipes(t *testing.T) {
	t.Parallel()
	s := start(t, embedded(t))
	s.tenant(t, "ada")
	c := s.newKey(t, "ada", "LINKS_WRITE,DOMAINS_READ")
	out, _ := c.run(t, 0, "url,code\nhttps://example.com/piped,piped\n", "links import CSV - --apply --wait")
	hasTexts(t, "the import", out, "1 CREATED")
	s.expect(t, http.StatusFound, http.MethodGet, "/ada/piped")
	const manifest = "version: 1\nowner: site\nlinks:\n  - {key: a, url: \"https://example.com/a\"}\n"
	out, _ = c.run(t, 2, manifest, "links plan -f -")
	hasTexts(t, "the plan", out, `+ "site/a"`)
	_, said := c.run(t, 1, manifest, "links apply -f -")
	hasTexts(t, "the question", said, "--yes is needed")
	c.run(t, 0, manifest, "links apply -f - --yes")
	c.run(t, 0, manifest, "links plan -f -")
}

// TestCompletion_CompletesCommandLines: the scripts are the same each time, and the one of bash completes.
func TestCompletion_CompletesCommandLines(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"":                                      "serve",
		"wo":                                    "workspaces",
		"links cr":                              "create",
		"links create --ex":                     "--expires",
		"links create --server x --co":          "--code",
		"qr --format ":                          "png",
		"qr --format s":                         "svg",
		"completion f":                          "fish",
		"links create --json https://x.co --ta": "--tag",
	} {
		out := succeed(t, nil, append([]string{"candidates", "--"}, strings.Split(line, " ")...)...)
		if !regexp.MustCompile(`(?m)^`+want+`\t`).MatchString(out) ||
			regexp.MustCompile(`(?m)^(settings|candidates|--public-url)`).MatchString(out) {
			t.Errorf("%q is completed by %q", line, out)
		}
	}
	same(t, "a value of any kind", succeed(t, nil, "candidates", "--", "links", "create", "--code", ""), "")
	folder := t.TempDir()
	programIn(t, folder)
	for _, name := range []string{"bash", "zsh", "fish"} {
		script := succeed(t, nil, "completion", name)
		same(t, "the script for "+name, succeed(t, nil, "completion", name), script)
		interpreter, err := exec.LookPath(name)
		if err != nil {
			t.Logf("%s is not installed", name)
			continue
		}
		file := filepath.Join(folder, name)
		must.NoError(t, os.WriteFile(file, []byte(script), 0o600))
		p := exec.CommandContext(t.Context(), interpreter, "-n", file)
		if out, err := p.CombinedOutput(); err != nil {
			t.Errorf("%s: %v: %s", name, err, out)
		}
	}
	p := exec.CommandContext(t.Context(), "bash", "-c", `source ./bash
		COMP_WORDS=(linkforge links cr) COMP_CWORD=2; _linkforge; echo "${COMPREPLY[@]}"
		COMP_WORDS=(linkforge links create --q) COMP_CWORD=3; _linkforge; echo "${COMPREPLY[@]}"`)
	p.Dir, p.Env = folder, append(os.Environ(), "PATH="+folder+":"+os.Getenv("PATH"))
	out := must.Value(p.CombinedOutput())(t)
	same(t, "bash", string(out), "create\n--qr\n")
}

// TestMan_IsAManualPage of all commands, their flags, the variables and the exit status.
func TestMan_IsAManualPage(t *testing.T) {
	t.Parallel()
	page := succeed(t, nil, "man")
	same(t, "the page", succeed(t, nil, "man"), page)
	hasTexts(t, "the page", page, ".TH LINKFORGE 1", "linkforge links create <url> [flags]", `\-\-expires=DATE`,
		"LINKFORGE_API_KEY", "LINKFORGE_PUBLIC_URL", ".SH EXIT STATUS")
	if strings.Contains(page, "linkforge candidates") {
		t.Error("the page has a hidden command")
	}
	groff, err := exec.LookPath("groff")
	if err != nil {
		t.Skip("groff is not installed")
	}
	p := exec.CommandContext(t.Context(), groff, "-K", "utf8", "-man", "-Tutf8", "-ww", "-b")
	p.Stdin = strings.NewReader(page)
	var rendered, warnings bytes.Buffer
	p.Stdout, p.Stderr = &rendered, &warnings
	if err := p.Run(); err != nil || warnings.Len() > 0 {
		t.Errorf("groff: %v: %s", err, warnings.String())
	}
}
