package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/linkforge/linkforge/internal/platform/must"
)

// TestCodeCommand_PrintsCodes compares with the golden codes of a URL, from arguments and from standard input.
func TestCodeCommand_PrintsCodes(t *testing.T) {
	t.Parallel()
	var golden struct {
		Salts struct {
			Canonical   string
			WorkspaceID string `json:"workspace_id"`
			Codes       []string
		} `json:"salt_sequence"`
	}
	const file = "../internal/platform/urlnorm/testdata/lf1.json"
	must.NoError(t, json.Unmarshal([]byte(readFile(t, file)), &golden))
	url, codes := golden.Salts.Canonical, golden.Salts.Codes
	line := func(raw string, salts int) string {
		return fmt.Sprintf(`{"url":"%s","canonical":"%s","codes":["%s"]}`, raw, url,
			strings.Join(codes[:salts], `","`)) + "\n"
	}
	mixed := strings.Replace(url, "https", "HTTPS", 1) + "#<&>"
	for name, c := range map[string]struct {
		args        []string
		stdin, want string
	}{
		"all salts": {[]string{url}, "", line(url, 10)},
		"one salt":  {[]string{"--salts=1", url}, "", line(url, 1)},
		"two URLs":  {[]string{"--salts", "3", "--", url, mixed}, "", line(url, 3) + line(mixed, 3)},
		"lines": {[]string{"--salts=10"}, mixed + "\n\"" + url + "\"",
			line(mixed, 10) + line(url, 10)},
		"no lines": {nil, "", ""},
	} {
		args := append([]string{"code", "--workspace", golden.Salts.WorkspaceID}, c.args...)
		if out, stderr, status := command(t, nil, c.stdin, args...); out != c.want || status != 0 || stderr != "" {
			t.Errorf("%s: exit status %d, %q\n%swant\n%s", name, status, stderr, out, c.want)
		}
	}
}

// TestCodeCommand_NamesBadURLs beside a good one: the exit status says that not all have codes.
func TestCodeCommand_NamesBadURLs(t *testing.T) {
	t.Parallel()
	const good = "https://example.com/good"
	bad := []string{"ftp://example.com/", "https://example.com/\x00a", `"https://example.com/`,
		`"https://example.com/" "more"`, `"\ud8zz"`, "\xff", "no URL"}
	for name, c := range map[string]struct {
		args  []string
		stdin string
		lines int
	}{
		"arguments": {append([]string{"--", good}, bad[:2]...), "", 3},
		"lines":     {nil, good + "\n" + strings.Join(bad, "\n") + "\n\n", len(bad) + 2},
	} {
		out, stderr, status := command(t, nil, c.stdin, append([]string{"code", "--workspace=w"}, c.args...)...)
		got := strings.Split(out, "\n")
		if status != 1 || stderr != "" || len(got) != c.lines+1 || !strings.Contains(got[0], `"codes":["`) {
			t.Errorf("%s: exit status %d, %q\n%s", name, status, stderr, out)
		}
		for _, line := range got[1:c.lines] {
			if !strings.HasPrefix(line, `{"url":`) || !strings.Contains(line, `,"error":"`) {
				t.Errorf("%s: %s", name, line)
			}
		}
	}
	for _, wrong := range []string{"--workspace=w --salts=0", "--workspace=w --salts=11", "--workspace=w --salts=many",
		"", "--workspace="} {
		args := append([]string{"code", good}, strings.Fields(wrong)...)
		if out, stderr, status := command(t, nil, "", args...); status == 0 || out != "" ||
			!strings.HasPrefix(stderr, "linkforge: ") {
			t.Errorf("%q: exit status %d, stdout %q, stderr %q", wrong, status, out, stderr)
		}
	}
}
