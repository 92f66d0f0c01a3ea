package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/linkforge/linkforge/internal/link/shortcode"
	"github.com/linkforge/linkforge/internal/platform/must"
)

// golden has the vectors of the profile LF-1.
type golden struct {
	Vectors []struct {
		URL, Canonical string
		WorkspaceID    string `json:"workspace_id"`
		Code           string `json:"code_salt0"`
		NextCode       string `json:"code_salt1"`
	}
	Rejects []struct{ URL, Why string }
	Salts   struct {
		Canonical   string
		WorkspaceID string `json:"workspace_id"`
		Codes       []string
	} `json:"salt_sequence"`
}

func readGolden(t *testing.T) golden {
	t.Helper()
	text := must.Value(os.ReadFile("../internal/platform/urlnorm/testdata/lf1.json"))(t)
	var g golden
	must.NoError(t, json.Unmarshal(text, &g))
	if len(g.Vectors) < 70 || len(g.Rejects) < 21 || len(g.Salts.Codes) != shortcode.Salts {
		t.Fatalf("%d vectors, %d rejects, %d salts: some are missing", len(g.Vectors), len(g.Rejects),
			len(g.Salts.Codes))
	}
	return g
}

// jsonLine is a value as one line of JSON, nothing escaped that need not be.
func jsonLine(t *testing.T, value any) string {
	t.Helper()
	var line bytes.Buffer
	encoder := json.NewEncoder(&line)
	encoder.SetEscapeHTML(false)
	must.NoError(t, encoder.Encode(value))
	return line.String()
}

// codeOutput is a line of the code command for a URL that has codes: its fields, in this order, and
// no others.
type codeOutput struct {
	URL       string   `json:"url"`
	Canonical string   `json:"canonical"`
	Codes     []string `json:"codes"`
}

// TestCodeCommand_MatchesGoldenVectors computes every vector of a workspace in one run, as arguments and as lines of
// standard input.
func TestCodeCommand_MatchesGoldenVectors(t *testing.T) {
	t.Parallel()
	arguments, lines, want := map[string][]string{}, map[string]string{}, map[string]string{}
	for _, v := range readGolden(t).Vectors {
		arguments[v.WorkspaceID] = append(arguments[v.WorkspaceID], v.URL)
		lines[v.WorkspaceID] += jsonLine(t, v.URL)
		want[v.WorkspaceID] += jsonLine(t, codeOutput{v.URL, v.Canonical, []string{v.Code, v.NextCode}})
	}
	for workspaceID := range want {
		args := []string{"code", "--workspace", workspaceID, "--salts", "2"}
		out, stderr, status := command(t, nil, lines[workspaceID], args...)
		if diff := cmp.Diff(want[workspaceID], out); diff != "" || status != 0 || stderr != "" {
			t.Errorf("workspace %s: exit status %d, stderr %q, stdin (-want +got):\n%s", workspaceID, status, stderr,
				diff)
		}
		out, stderr, status = command(t, nil, "", append(append(args, "--"), arguments[workspaceID]...)...)
		if diff := cmp.Diff(want[workspaceID], out); diff != "" || status != 0 || stderr != "" {
			t.Errorf("workspace %s: exit status %d, stderr %q, arguments (-want +got):\n%s", workspaceID, status,
				stderr, diff)
		}
	}
}

// TestCodeCommand_RejectsBadURLs also has one good URL among the bad ones: it gets its codes, and the exit status
// says that not all did.
func TestCodeCommand_RejectsBadURLs(t *testing.T) {
	t.Parallel()
	const good = "https://example.com/good"
	urls, lines := []string{good}, jsonLine(t, good)
	for _, r := range readGolden(t).Rejects {
		urls, lines = append(urls, r.URL), lines+jsonLine(t, r.URL)
	}
	for name, stdin := range map[string]string{"arguments": "", "stdin": strings.TrimSuffix(lines, "\n")} {
		t.Run(name, func(t *testing.T) {
			args := []string{"code", "--workspace", "ws_1"}
			if stdin == "" {
				args = append(append(args, "--"), urls...)
			}
			out, stderr, status := command(t, nil, stdin, args...)
			if status != 1 || stderr != "" {
				t.Errorf("exit status %d, stderr %q", status, stderr)
			}
			got := strings.SplitAfter(out, "\n")
			if len(got) != len(urls)+1 {
				t.Fatalf("%d lines for %d URLs:\n%s", len(got)-1, len(urls), out)
			}
			if !strings.HasPrefix(got[0], `{"url":"`+good+`","canonical":"`+good+`","codes":["`) {
				t.Errorf("the good one: %s", got[0])
			}
			for i, u := range urls[1:] {
				var said struct{ Error string }
				if err := json.Unmarshal([]byte(got[i+1]), &said); err != nil || said.Error == "" {
					t.Errorf("%q: %s", u, got[i+1])
				}
				want := jsonLine(t, struct {
					URL   string `json:"url"`
					Error string `json:"error"`
				}{u, said.Error})
				if got[i+1] != want {
					t.Errorf("got %swant %s", got[i+1], want)
				}
			}
		})
	}
}

func TestCodeCommand_PrintsCandidates(t *testing.T) {
	t.Parallel()
	salts := readGolden(t).Salts
	for _, c := range []struct {
		args []string
		want int
	}{{nil, 10}, {[]string{"--salts", "10"}, 10}, {[]string{"--salts=1"}, 1}, {[]string{"--salts=3"}, 3}} {
		t.Run(fmt.Sprintf("%q", c.args), func(t *testing.T) {
			args := append([]string{"code", "--workspace", salts.WorkspaceID, salts.Canonical}, c.args...)
			out, _, status := command(t, nil, "", args...)
			want := jsonLine(t, codeOutput{salts.Canonical, salts.Canonical, salts.Codes[:c.want]})
			if diff := cmp.Diff(want, out); diff != "" || status != 0 {
				t.Errorf("%v: exit status %d (-want +got):\n%s", c.args, status, diff)
			}
		})
	}
	for _, wrong := range [][]string{
		{"--workspace", "ws_1", "--salts", "0"}, {"--workspace", "ws_1", "--salts", "11"},
		{"--workspace", "ws_1", "--salts", "many"}, {}, {"--workspace", ""},
	} {
		out, stderr, status := command(t, nil, "",
			append(append([]string{"code"}, wrong...), "https://example.com/")...)
		if status == 0 || out != "" || !strings.HasPrefix(stderr, "linkforge: ") {
			t.Errorf("%q: exit status %d, stdout %q, stderr %q", wrong, status, out, stderr)
		}
	}
}

func TestCodeCommand_ReadsInput(t *testing.T) {
	t.Parallel()
	if out, stderr, status := command(t, nil, "", "code", "--workspace=w"); out != "" || stderr != "" || status != 0 {
		t.Errorf("no lines: exit status %d, %q, %q", status, out, stderr)
	}
	for _, line := range []string{`"https://example.com/`, `"https://example.com/" "more"`, `"\ud8zz"`, "", "\xff",
		"https://example.com/\x00a"} {
		out, stderr, status := command(t, nil, line+"\n", "code", "--workspace=w")
		if status != 1 || stderr != "" || !strings.Contains(out, `"error":"`) || strings.Count(out, "\n") != 1 {
			t.Errorf("%q: exit status %d, %q, %q", line, status, out, stderr)
		}
	}
}
