package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pquerna/otp/totp"

	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/poll/polltest"
	"github.com/linkforge/linkforge/internal/platform/proctest"
	"github.com/linkforge/linkforge/internal/tenant/sso/ssotest"
)

// tutorial has the README and the pages of the guide in reading order: later pages use objects that
// earlier ones create.
var tutorial = []string{"README.md", "getting-started.md", "command-line.md", "links.md", "routing.md", "history.md",
	"authentication.md", "domains.md", "limits.md", "analytics.md", "what-if.md", "graphql-api.md",
	"persisted-documents.md", "subscriptions.md", "events.md", "webhooks.md", "imports.md", "archives.md", recipePage}

var (
	fencedBlock = regexp.MustCompile("(?ms)^```([a-z]*)\n(.*?)^```$")
	// notRunnable are commands that need a registry, install packages or run the tests themselves.
	notRunnable = regexp.MustCompile(`(?m)^(\$ )?(docker |make |go run \./server( *#.*)?$|cd examples|` +
		`export LINKFORGE=https)`)
	// assigned are printed values that differ between instances: identifiers, tokens, codes,
	// short URLs and times.
	assigned = regexp.MustCompile(`^(ws|lnk|key|inv|dom|clk|rul|tgt|utm|evt|opn|fld|usr|whk|tsk|sch)_|` +
		`^(eyJ|claim_|lf[kp]_|invite_|challenge_|whsec_|linkforge-verification=)|` +
		`^http://localhost:8080/\w|^\w{7,12}$|^[A-Z2-7]{32}$|^\d{4}-\d\d-\d\dT`)
	// measured are fields with a number that depends on time and traffic.
	measured = map[string]bool{"clickCount": true, "clicks": true, "averageRedirectMs": true, "used": true,
		"remaining": true, "totalLinks": true, "cost": true, "durationMs": true, "waiting": true, "bytes": true,
		"done": true, "records": true}
	portOfDemo = regexp.MustCompile(`http://127\.0\.0\.1:\d+/?\w*|ws_\w{26}|[\d.]+ ms`)
)

// TestDocs_ExamplesRun runs the examples of the README and the guide as printed, in the order of
// the pages on one instance, and compares the printed answers with the real ones. Only commands of
// Docker, make and npm, and the start of the server itself, are left out.
func TestDocs_ExamplesRun(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("the examples use curl")
	}
	r := newReader(t)
	for _, page := range tutorial {
		path := filepath.Join("..", "docs", "guide", page)
		if page == "README.md" {
			path = filepath.Join("..", page)
		}
		if page == recipePage && !hasRecipePrograms() {
			continue
		}
		r.read(page, readFile(t, path))
	}
	if r.ran < 20 {
		t.Errorf("only %d examples ran", r.ran)
	}
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	return string(must.Value(os.ReadFile(path))(t))
}

// reader runs the examples of the documentation. It records the value that the instance returned in
// place of each printed value, and inserts it into later examples.
type reader struct {
	t *testing.T
	client
	folder string
	values map[string]string
	ran    int
	// terminal runs all commands, as a terminal of the reader: functions and variables stay.
	terminal io.Writer
	output   *bufio.Reader
}

func newReader(t *testing.T) *reader {
	t.Helper()
	folder := t.TempDir()
	documents := filepath.Join(folder, "persisted-documents.json")
	page := readFile(t, filepath.Join("..", "docs", "guide", "persisted-documents.md"))
	printed := regexp.MustCompile(`(?m)^\$ cat persisted-documents.json\n(.*)$`).FindStringSubmatch(page)
	if printed == nil {
		t.Fatal("persisted-documents.md prints no file")
	}
	must.NoError(t, os.WriteFile(documents, []byte(printed[1]+"\n"), 0o600))
	proctest.SkipShort(t)
	s := start(t, embedded(t), append(ssoSettings(ssotest.Open(t)), "LINKFORGE_RATE_LIMITS=on",
		"LINKFORGE_SSO_REDIRECTS=https://app.example.com/sso", "LINKFORGE_DOCUMENTS="+documents)...)
	program := programIn(t, folder)
	r := &reader{t: t, client: client{server: s}, folder: folder, values: map[string]string{
		"localhost:8080": s.address, "go run ./server": program}}
	r.openTerminal()
	return r
}

func (r *reader) openTerminal() {
	r.t.Helper()
	process := exec.CommandContext(r.t.Context(), "sh")
	process.Dir = r.folder
	process.Env = slices.Concat(os.Environ(), r.env, []string{"PATH=" + r.folder + ":" + os.Getenv("PATH")})
	r.terminal = must.Value(process.StdinPipe())(r.t)
	output, input, err := os.Pipe()
	must.NoError(r.t, err)
	process.Stdout, process.Stderr = input, input
	must.NoError(r.t, process.Start())
	input.Close()
	r.output = bufio.NewReader(output)
	r.t.Cleanup(func() {
		_ = process.Process.Kill()
		_ = process.Wait()
		output.Close()
	})
}

// read runs the examples of a page. A JSON block is the answer of the block before it; a block of text or HTTP has
// lines of it.
func (r *reader) read(page, text string) {
	r.t.Helper()
	blocks := fencedBlock.FindAllStringSubmatchIndex(text, -1)
	for i, b := range blocks {
		language, content := text[b[2]:b[3]], text[b[4]:b[5]]
		want, lines := "", ""
		if i+1 < len(blocks) && strings.TrimSpace(text[b[1]:blocks[i+1][0]]) == "" {
			next := blocks[i+1]
			switch text[next[2]:next[3]] {
			case "json":
				want = text[next[4]:next[5]]
			case "text", "http":
				lines = strings.TrimSpace(text[next[4]:next[5]])
			}
		}
		where := fmt.Sprintf("%s, line %d", page, 1+strings.Count(text[:b[0]], "\n"))
		switch {
		case notRunnable.MatchString(content):
		case page == recipePage && language != "graphql" && language != "sh":
			r.recipe(where, r.fill(content))
		case language == "graphql":
			r.operation(where, content, want)
		case strings.HasPrefix(content, "curl -N"):
			r.stream(where, content)
		case language == "sh":
			out := r.shell(where, content, 0)
			r.contain(where, lines, out)
			printed := strings.Split(strings.TrimSpace(out), "\n")
			for n, line := range strings.Split(strings.TrimSpace(want), "\n") {
				r.compare(where, line, printed[min(n, len(printed)-1)])
			}
		case strings.HasPrefix(content, "$ "):
			r.session(where, content)
		}
	}
}

// fill replaces printed values by those of this instance.
func (r *reader) fill(text string) string {
	for printed, value := range r.values {
		text = strings.ReplaceAll(text, printed, value)
	}
	return text
}

// operation runs a GraphQL operation once for each printed answer.
func (r *reader) operation(where, query, want string) {
	r.t.Helper()
	for line := range strings.SplitSeq(strings.TrimSpace(want), "\n") {
		a, err := r.run(r.fill(query), nil)
		if strings.Contains(want, `"status":"SUCCEEDED"`) {
			polltest.Until(r.t, where+": the task ends", func() bool {
				a, err = r.run(r.fill(query), nil)
				return err != nil || !strings.Contains(a.body, `"QUEUED"`) && !strings.Contains(a.body, `"RUNNING"`)
			})
		}
		if err != nil || a.status != 200 || len(a.problems()) > 0 {
			r.t.Errorf("%s: status %d, %v: %s", where, a.status, err, a.body)
			return
		}
		r.compare(where, line, a.body)
	}
}

// shell runs a command in the terminal as printed, and returns its output.
func (r *reader) shell(where, command string, wantStatus int) string {
	r.t.Helper()
	const end = "end of the command: "
	must.Value(fmt.Fprintf(r.terminal, "%s\necho \"%s$?\"\n", strings.TrimSpace(r.fill(command)), end))(r.t)
	var out strings.Builder
	for {
		line, err := r.output.ReadString('\n')
		must.NoError(r.t, err)
		printed, status, ended := strings.Cut(line, end)
		out.WriteString(printed)
		if !ended {
			continue
		}
		if status = strings.TrimSpace(status); status != "0" && status != strconv.Itoa(wantStatus) {
			r.t.Errorf("%s: status %s: %s", where, status, out.String())
		}
		return out.String()
	}
}

// contain expects lines in the output of a command.
func (r *reader) contain(where, lines, out string) {
	r.t.Helper()
	out = portOfDemo.ReplaceAllString(strings.ReplaceAll(out, "\r", ""), "…")
	for line := range strings.SplitSeq(r.fill(lines), "\n") {
		if line = portOfDemo.ReplaceAllString(line, "…"); !strings.Contains(out, line) {
			r.t.Errorf("%s: no line %q:\n%s", where, line, out)
		}
	}
}

// session runs the commands of a terminal session, which follow "$ ", and expects the printed
// lines in their output.
func (r *reader) session(where, text string) {
	r.t.Helper()
	for part := range strings.SplitSeq(strings.TrimPrefix(text, "$ "), "\n$ ") {
		command, want, _ := strings.Cut(part, "\n")
		wantStatus := 0
		if strings.Contains(want, `"error":`) {
			wantStatus = 1
		}
		out := r.shell(where, command, wantStatus)
		if strings.HasPrefix(want, `{"data"`) {
			r.compare(where, want, out)
		} else {
			r.contain(where, want, out)
		}
	}
}

// stream runs a subscription, clicks and changes a link, and expects its event, also after events of other links.
func (r *reader) stream(where, command string) {
	r.t.Helper()
	r.values["$TOKEN"] = r.token
	process := exec.CommandContext(r.t.Context(), "sh", "-c", "exec "+r.fill(command))
	out := must.Value(process.StdoutPipe())(r.t)
	must.NoError(r.t, process.Start())
	code, received := r.values["K91Rp6adwq"], make(chan struct{})
	go func() {
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if strings.HasPrefix(lines.Text(), "data: {") && strings.Contains(lines.Text(), code) {
				close(received)
				break
			}
		}
	}()
	polltest.Until(r.t, where+": the subscription delivers the event", func() bool {
		r.expect(r.t, 302, "GET", "/"+code)
		r.do(r.t, "updateLink",
			map[string]any{"id": r.values["lnk_01m7y8609ret0v72x3eqegh0ne"], "note": time.Now().String()})
		select {
		case <-received:
			return true
		case <-r.t.Context().Done():
			return true
		default:
			return false
		}
	})
	_ = process.Process.Kill() // a subscription does not end by itself
	_ = process.Wait()
	r.ran++
}

// compare expects the printed response, and records the values that the instance has assigned.
func (r *reader) compare(where, want, got string) {
	r.t.Helper()
	r.ran++
	if want == "" {
		return
	}
	var printed, real any
	if err := json.Unmarshal([]byte(strings.ReplaceAll(want, "[…]", `"…"`)), &printed); err != nil {
		r.t.Fatalf("%s: %v: %s", where, err, want)
	}
	if err := json.Unmarshal([]byte(got), &real); err != nil {
		r.t.Errorf("%s: %v: %s", where, err, got)
		return
	}
	if at := r.match("", printed, real); at != "" {
		r.t.Errorf("%s: %s differs:\nprinted %sreal    %s", where, at, want, got)
	}
}

// match compares two values, and records assigned ones. It returns the path of the first
// difference.
func (r *reader) match(path string, printed, real any) string {
	switch p := printed.(type) {
	case map[string]any, []any:
		of, got := members(p), members(real)
		if len(of) != len(got) {
			return path + " (length)"
		}
		for name, value := range of {
			if at := r.match(path+"."+name, value, got[name]); at != "" {
				return at
			}
		}
		return ""
	case float64:
		if _, ok := real.(float64); ok && measured[path[strings.LastIndex(path, ".")+1:]] {
			return ""
		}
	case string:
		q, ok := real.(string)
		if ok && strings.HasSuffix(path, "register.token") {
			r.token = q
		}
		if ok && strings.HasSuffix(path, "enrollTotp.secret") {
			now := time.Now() // a code is good once, from half a minute before its time
			r.values["123456"] = must.Value(totp.GenerateCode(q, now))(r.t)
			r.values["654321"] = must.Value(totp.GenerateCode(q, now.Add(30*time.Second)))(r.t)
		}
		switch {
		case strings.Contains(p, "…"):
			return ""
		case ok && assigned.MatchString(p):
			r.recordValue(p, q)
			return ""
		}
	}
	if !reflect.DeepEqual(printed, real) {
		return path
	}
	return ""
}

// members are the fields of an object, or the elements of a list.
func members(value any) map[string]any {
	fields, _ := value.(map[string]any)
	list, isList := value.([]any)
	if isList {
		fields = map[string]any{}
	}
	for i, element := range list {
		fields[strconv.Itoa(i)] = element
	}
	return fields
}

// recordValue records the value that replaces a printed one; of a short URL only the code.
func (r *reader) recordValue(printed, value string) {
	if strings.HasPrefix(printed, "http://") {
		printed, value = printed[strings.LastIndex(printed, "/")+1:], value[strings.LastIndex(value, "/")+1:]
	}
	r.values[printed] = value
}
