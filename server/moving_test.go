package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/must"
)

// dump returns the rows of all tables, by table.
func (b backend) dump(t *testing.T) map[string][]string {
	t.Helper()
	d := must.Value(b.open())(t)
	defer d.Close()
	tables := map[string][]string{}
	for table := range tablesOf(t, d) {
		tables[table] = read(t,
			must.Value(d.NewSelect().TableExpr("?", bun.Ident(table)).Rows(db.AsSystem(t.Context())))(t))
	}
	return tables
}

// taskTables are the tables that a dry run writes, with its task and the event of its end, and the
// tables of jobs.
var taskTables = []string{
	"tasks", "task_chunks", "import_rows", "import_claims", "audit_events", "event_numbers", "sqlite_sequence",
	"leases", "link_text_queue", "link_texts", "link_numbers",
}

// TestImport_DryRunChangesTasksOnly compares the whole database before and after a dry run that
// creates, changes and refuses links.
func TestImport_DryRunChangesTasksOnly(t *testing.T) {
	t.Parallel()
	eachBackend(t, func(t *testing.T, b backend) {
		c := start(t, b, "LINKFORGE_DESTINATION_CHECKS=off").tenant(t, "ada")
		importFile := func(isDry bool, file string) string {
			return outcomes(c.importCSV(t, map[string]any{"dryRun": isDry, "onConflict": "REPLACE"}, file))
		}
		const file = "id,code,url,folder,tags\n1,a,https://example.com/a,old,x\n2,b,https://example.com/b,,\n"
		if got := importFile(false, file); got != "SUCCEEDED 2 of 2: CREATED 2" {
			t.Fatal(got)
		}
		before := b.dump(t)
		got := importFile(true, strings.Replace(file, "https://example.com/a", "https://example.com/changed", 1)+
			"3,c,https://example.com/c,new,y\n4,b,https://example.com/other,,\n5,d,no url,,\n")
		if got != "SUCCEEDED 5 of 5: CREATED 1, UPDATED 2, UNCHANGED 1, FAILED 1" {
			t.Error(got)
		}
		for table, rows := range b.dump(t) {
			if diff := cmp.Diff(before[table], rows); diff != "" && !slices.Contains(taskTables, table) &&
				!strings.HasPrefix(table, "link_search") && table != "webhook_readers" && table != "click_logs" {
				t.Errorf("%s (-before +after):\n%s", table, diff)
			}
		}
	})
}

// TestImport_LeavesNoToken of an API in any table, response or line of the log.
func TestImport_LeavesNoToken(t *testing.T) {
	t.Parallel()
	eachBackend(t, func(t *testing.T, b backend) {
		const token = "planted-4ab1c9d7"
		var sent sync.Map
		kutt := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			sent.Store(r.Header.Get("X-API-KEY"), true)
			fmt.Fprint(w, `{"total": 1, "limit": 50, "skip": 0, "data": [{"id": "1", "address": "a",
				"link": "https://kutt.example/a", "target": "https://example.com/", "password": false}]}`)
		}))
		defer kutt.Close()
		s := start(t, b, "LINKFORGE_OUTBOUND_ALLOW=127.0.0.1", "LINKFORGE_ENCRYPTION_KEY="+encryptionKey,
			"LINKFORGE_LOG_LEVEL=debug")
		c := s.tenant(t, "ada")
		for _, baseURL := range []string{kutt.URL, kutt.URL + "/missing"} {
			it := c.ended(t, c.importByAPI(t, baseURL, token))
			if text := fmt.Sprintf("%+v %+v", it, it.Failure); strings.Contains(text, token) {
				t.Errorf("the task has the token: %s", text)
			}
		}
		if _, ok := sent.Load(token); !ok {
			t.Fatal("the API was not requested with the token")
		}
		for table, rows := range b.dump(t) {
			if strings.Contains(strings.Join(rows, "\n"), token) {
				t.Errorf("a row of %s has the token", table)
			}
		}
		same(t, "tasks with a sealed token", numberOf(t, b, "SELECT count(*) FROM tasks WHERE secret IS NOT NULL"), 0)
		if log := content(t, s.err); strings.Contains(log, token) {
			t.Error("the log has the token")
		}
	})
}

// TestParity_KeepsItsRate of one request in a second for each host, over all nodes and workspaces.
func TestParity_KeepsItsRate(t *testing.T) {
	t.Parallel()
	eachBackend(t, func(t *testing.T, b backend) {
		var mu sync.Mutex
		var at []time.Time
		old := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			at = append(at, time.Now())
			mu.Unlock()
			http.Redirect(w, r, "https://example.com"+r.URL.Path, http.StatusFound)
		}))
		defer old.Close()
		nodes := startAll(t, b, b.nodes, "LINKFORGE_OUTBOUND_ALLOW=127.0.0.1", "LINKFORGE_DESTINATION_CHECKS=off",
			"LINKFORGE_RATE_LIMITS=on")
		const links = 3
		tasks := map[string]tenant{}
		for i, slug := range []string{"ada", "grace"} {
			c := nodes[i%len(nodes)].tenant(t, slug)
			file := "shorturl,url\n"
			for n := range links {
				file += fmt.Sprintf("%s/%s-%d,https://example.com/%[2]s-%[3]d\n", old.URL, slug, n)
			}
			c.importCSV(t, map[string]any{"dryRun": false}, file)
			check := c.ask(t, `mutation ($w: ID!) { checkParity(input: {workspaceId: $w}) { task { id } } }`,
				map[string]any{"w": c.workspaceID})
			tasks[check.text("checkParity.task.id")] = c
		}
		for taskID, c := range tasks {
			c.ended(t, taskID)
			got := c.ask(t, `query ($id: ID!) { node(id: $id) { ... on Task { report { ... on ParityReport {
				counts { verdict links } } } } } }`, map[string]any{"id": taskID}).text("node.report.counts")
			if want := fmt.Sprintf("[map[links:%d verdict:SAME]]", links); got != want {
				t.Errorf("parity: %s, want %s", got, want)
			}
		}
		mu.Lock()
		defer mu.Unlock()
		if n := len(at); n < 2*links || at[n-1].Sub(at[0]) < time.Duration(n-2)*time.Second {
			t.Errorf("%d requests in %s", n, at[n-1].Sub(at[0]))
		}
	})
}
