package main

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/poll/polltest"
)

// imported is a task as tests read it.
type imported struct {
	ID, Status  string
	Done, Total int64
	Failure     *struct{ Code, Message string }
	Report      struct {
		DryRun      bool
		OperationID *string
		Counts      []struct {
			Outcome string
			Rows    int64
		}
		Losses []struct{ Field, Reason string }
		Rows   struct {
			Nodes []struct {
				Line    int64
				Outcome string
				Code    *string
				Link    *struct {
					ShortURL string
					Origins  []struct{ SourceID string }
				}
				Errors []struct{ Code string }
			}
		}
	}
}

const importedFields = `id status done total failure { code message } report { ... on ImportReport { dryRun operationId
	counts { outcome rows } losses { field reason } rows { nodes { line outcome code link { shortUrl origins {
	sourceId } }
	errors { code } } } } }`

// createImport creates an import with an input, and returns its id and the URL for its file.
func (c client) createImport(t *testing.T, in map[string]any) (taskID, uploadURL string) {
	t.Helper()
	got := c.ask(t, `mutation ($in: CreateImportInput!) { createImport(input: $in) { task { id status } uploadUrl
		errors { message code } } }`, map[string]any{"in": in})
	if status := got.text("createImport.task.status"); status != "WAITING_FOR_UPLOAD" && status != "QUEUED" {
		t.Fatalf("%v", got)
	}
	return got.text("createImport.task.id"), got.text("createImport.uploadUrl")
}

// importByAPI creates an import from an API of Kutt, and returns the id of its task.
func (w tenant) importByAPI(t *testing.T, baseURL, token string) (taskID string) {
	t.Helper()
	taskID, _ = w.createImport(t, map[string]any{"workspaceId": w.workspaceID, "source": "KUTT",
		"api": map[string]any{"baseUrl": baseURL, "token": token}})
	return taskID
}

// importCSV imports a file with further fields of the input, and returns the task when it has ended.
func (w tenant) importCSV(t *testing.T, fields map[string]any, file string) imported {
	t.Helper()
	fields["workspaceId"], fields["source"] = w.workspaceID, "CSV"
	taskID, url := w.createImport(t, fields)
	if status := w.upload(t, url, []byte(file)); status != http.StatusCreated {
		t.Fatalf("the upload answers %d", status)
	}
	return w.ended(t, taskID)
}

// upload sends a file to the URL of an import, and returns the status.
func (s *server) upload(t *testing.T, uploadURL string, file []byte) int {
	t.Helper()
	r := must.Value(http.NewRequestWithContext(t.Context(), http.MethodPut, s.here(uploadURL),
		bytes.NewReader(file)))(t)
	response := must.Value(http.DefaultClient.Do(r))(t)
	response.Body.Close()
	return response.StatusCode
}

// here replaces the public URL by the address of the server.
func (s *server) here(public string) string {
	return "http://" + s.address + strings.TrimPrefix(public, s.public)
}

// ended waits for the end of a task.
func (c client) ended(t *testing.T, taskID string) (it imported) {
	t.Helper()
	polltest.Until(t, "the task has ended", func() bool {
		var got struct{ Node imported }
		c.must(t, &got, `query ($id: ID!) { node(id: $id) { ... on Task { `+importedFields+` } } }`,
			map[string]any{"id": taskID})
		it = got.Node
		return it.Status != "WAITING_FOR_UPLOAD" && it.Status != "QUEUED" && it.Status != "RUNNING"
	})
	return it
}

// applied imports the file of a dry run, and waits for the end.
func (c client) applied(t *testing.T, taskID string) imported {
	t.Helper()
	got := c.ask(t, `mutation ($id: ID!) { applyImport(input: {taskId: $id}) { task { id } errors { message } } }`,
		map[string]any{"id": taskID})
	return c.ended(t, got.text("applyImport.task.id"))
}

func outcomes(it imported) string {
	var counts []string
	for _, c := range it.Report.Counts {
		counts = append(counts, fmt.Sprint(c.Outcome, " ", c.Rows))
	}
	return fmt.Sprintf("%s %d of %d: %s", it.Status, it.Done, it.Total, strings.Join(counts, ", "))
}

// TestUpload_Refuses uploads that are not the file of a waiting task.
func TestUpload_Refuses(t *testing.T) {
	t.Parallel()
	eachBackend(t, func(t *testing.T, b backend) {
		s := start(t, b, "LINKFORGE_IMPORT_BYTES=1024")
		c := s.tenant(t, "ada")
		taskID, url := c.createImport(t, map[string]any{"workspaceId": c.workspaceID, "source": "CSV"})
		put := func(url string, size int, headers ...string) answer {
			return must.Value(s.request(http.MethodPut, strings.TrimPrefix(url, s.public), strings.Repeat("x", size),
				headers...))(t)
		}
		wantStatus(t, "an unknown token", put("/import/x.y", 1), http.StatusNotFound)
		wantStatus(t, "another signature", put(url[:len(url)-2]+"AA", 1), http.StatusNotFound)
		wantStatus(t, "a large file", put(url, 1025), http.StatusRequestEntityTooLarge)
		wantStatus(t, "a compressed file", put(url, 1, "Content-Encoding", "gzip"), http.StatusUnsupportedMediaType)
		page := put(url+"x", 1, "Origin", "https://app.example")
		wantStatus(t, "a page of any host", page, http.StatusNotFound)
		if page.header.Get("Access-Control-Allow-Origin") != "*" {
			t.Errorf("the page cannot read the response: %v", page.header)
		}
		r := must.Value(s.newRequest(http.MethodPut, strings.TrimPrefix(url, s.public), "x"))(t)
		r.ContentLength = -1
		wantStatus(t, "no size", must.Value(s.send(r))(t), http.StatusLengthRequired)
		c.do(t, "cancelTask", map[string]any{"id": taskID})
		wantStatus(t, "a canceled task", put(url, 1), http.StatusConflict)
		_, url = c.createImport(t, map[string]any{"workspaceId": c.workspaceID, "source": "CSV"})
		c.do(t, "logout", map[string]any{})
		wantStatus(t, "after the log-out", put(url, 1), http.StatusGone)
	})
}

// clientOf returns a function that runs a command of a client with a key, which must end with a status and print texts.
func (s *server) clientOf(t *testing.T, key client) func(status int, stdin, line string, texts ...string) string {
	t.Helper()
	return func(status int, stdin, line string, texts ...string) string {
		t.Helper()
		args := append(strings.Fields(line), "--server", "http://"+s.address)
		out, stderr, got := command(t, []string{"LINKFORGE_API_KEY=" + key.token}, stdin, args...)
		for _, text := range texts {
			if got != status || !strings.Contains(out+stderr, text) {
				t.Errorf("%s: exit status %d, want %d and %q:\n%s%s", line, got, status, text, out, stderr)
			}
		}
		return out
	}
}

// TestCommands_ImportAsClients: the command imports a file with an API key alone, and says what became of its rows.
func TestCommands_ImportAsClients(t *testing.T) {
	t.Parallel()
	eachBackend(t, func(t *testing.T, b backend) {
		s := start(t, b)
		key, _ := s.tenant(t, "ada").key(t, "LINKS_WRITE")
		run := s.clientOf(t, key)
		folder := t.TempDir()
		file, ended := filepath.Join(folder, "links.csv"), filepath.Join(folder, "ended.csv")
		keepFile(t, file, []byte("code,url,title\nfrom-a,https://example.com/a,A\nfrom-b,no url,B\n"))
		keepFile(t, ended, []byte("code,url,expiresAt\nend,https://example.com/e,2020-01-01\n"))
		run(2, "", "links import csv "+file+" --wait",
			"SUCCEEDED: 2 of 2", "1 CREATED", "1 FAILED", "line 2", "nothing was changed")
		run(2, "", "links import CSV "+file+" --apply --wait",
			"1 CREATED", "undo it with revertOperation: opn_", "linkforge links undo opn_")
		run(2, "", "links import CSV "+file+" --apply --wait", "1 UNCHANGED", "\nnothing was changed\n")
		run(0, "", "links import CSV "+ended+" --apply --wait", "1 of these links have ended")
		run(1, "", "links undo opn_00000000000000000000000000", "no such operation")
		run(1, "", "links import CSV "+file+" --host a.example=b.example", "DOMAINS_READ")
		run(1, "", "links import CSV "+file+" --failures f", "needs --wait")
		run(0, "", "tasks list", "IMPORT", "SUCCEEDED", "2 of 2")
		run(0, "", "tasks list --json --limit 1", `"total":1,"createdAt":"`, "Z\"}\n")
		run(0, "", "links import --help", "LINKFORGE, CSV")
		run(1, "", "links import NOTHING "+file, "CSV, JSON_LINES")
		run(1, "", "links import KUTT", "LINKFORGE_SOURCE_TOKEN")
		run(0, "", "links parity", "linkforge tasks watch tsk_")
		run(1, "", "tasks watch tsk_none", "there is no task")
		s.expect(t, http.StatusFound, http.MethodGet, "/ada/from-a")
		taskID, _, _ := strings.Cut(run(0, "", "links import CSV "+file, ""), "\n")
		run(0, "", "tasks cancel "+taskID, taskID+" is ")
	})
}

// TestUpload_SilentKeysKeepNobodyWaiting: eight API keys of one account begin two uploads each, and
// send nine bytes. Those of another account are received at once.
func TestUpload_SilentKeysKeepNobodyWaiting(t *testing.T) {
	t.Parallel()
	s := start(t, embedded(t))
	var receiving atomic.Int64
	silent, victim := s.tenant(t, "silent"), s.tenant(t, "victim")
	for range 8 {
		key, _ := silent.key(t, "LINKS_READ", "LINKS_WRITE")
		for range 2 {
			_, url := key.createImport(t, map[string]any{"workspaceId": silent.workspaceID, "source": "CSV"})
			c := must.Value(new(net.Dialer).DialContext(t.Context(), "tcp", s.address))(t)
			t.Cleanup(func() { c.Close() })
			must.Value(fmt.Fprintf(c, "PUT %s HTTP/1.1\r\nHost: %s\r\nContent-Length: 1048576\r\n"+
				"Expect: 100-continue\r\n\r\nurl,code\n", strings.TrimPrefix(url, s.public), s.address))(t)
			go func() { // the server says that it reads the file
				if line, _, _ := bufio.NewReader(c).ReadLine(); strings.Contains(string(line), " 100 ") {
					receiving.Add(1)
				}
			}()
		}
	}
	polltest.Until(t, "uploads are in progress", func() bool { return receiving.Load() >= 2 })
	polltest.Settled(t, "as many as may be are in progress", 300*time.Millisecond, receiving.Load)
	began := time.Now()
	_, url := victim.createImport(t, map[string]any{"workspaceId": victim.workspaceID, "source": "CSV"})
	if status := s.upload(t, url, []byte("url\nhttps://example.com/\n")); status != http.StatusCreated {
		t.Errorf("the upload of another account: %d", status)
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("it took %s", took)
	}
}

// TestCommands_ReportAnImport: the command prints where links go, what is closed, and how many rows it
// leaves out; reads a pipe; writes all failures to a file; accepts the host of a domain; and undoes the
// import, which can be repeated.
func TestCommands_ReportAnImport(t *testing.T) {
	t.Parallel()
	eachBackend(t, func(t *testing.T, b backend) {
		s := start(t, b)
		who := s.tenant(t, "ada")
		key, _ := who.key(t, "LINKS_WRITE", "DOMAINS_READ", "DOMAINS_WRITE")
		run := s.clientOf(t, key)
		who.claim(t, map[string]any{"host": "own.example", "codeSpace": "OWN"})
		file := "short url,url,password,expires\nold.example/open/,https://example.com/a,,\n" +
			"old.example/open/,https://example.com/a,,\nold.example/secret,https://example.com/b,x,\n" +
			"old.example/late,https://example.com/c,,31.12.2026\n"
		for i := range 25 {
			file += fmt.Sprintf("old.example/x.%d,https://example.com/%[1]d,,\n", i)
		}
		failures := filepath.Join(t.TempDir(), "failures.csv")
		run(2, file, "links import CSV - --wait --failures "+failures, "1 CREATED", "1 UNCHANGED", "2 CLOSED",
			"25 FAILED", `29 of "old.example" get the shared codes`, "codeSpace: OWN", "and 5 more",
			"2 links respond 404", "restoreLink", `"31.12.2026"`, "2026-12-31")
		table := must.Value(csv.NewReader(strings.NewReader(readFile(t, failures))).ReadAll())(t)
		if len(table) != 1+25+2 || table[1][3] != "FAILED" || table[26][3] != "CLOSED" {
			t.Errorf("%d failures are written: %q", len(table), table)
		}
		for range 2 {
			out := run(0, file, "links import CSV - --apply --wait --host old.example=OWN.example", "26 CREATED",
				"2 CLOSED", `get the codes of "own.example"`)
			_, operation, _ := strings.Cut(out, "linkforge links undo ")
			run(0, "", "links undo "+operation, "links are as before", "0 are not")
		}
		run(1, file, "links import CSV - --host old.example=none.example", "it has: own.example")
		run(2, "version: 1\nowner: site\nlinks:\n  - {key: a, url: \"https://example.com/\", code: abc}\n",
			"links plan -f -", "1 to create")
		declined(t, nil, "linkforge workspaces list", "code", "--workspace", "ada", "https://example.com/")
		byID := succeed(t, s.env, "links", "codes", "--workspace", who.workspaceID, "https://example.com/")
		if bySlug := succeed(t, s.env, "links", "codes", "--workspace", "ada", "https://example.com/"); bySlug != byID {
			t.Errorf("the codes of a slug:\n%s\nwant:\n%s", bySlug, byID)
		}
		declined(t, s.env, "no workspace", "links", "codes", "--workspace", "none", "https://example.com/")
	})
}
