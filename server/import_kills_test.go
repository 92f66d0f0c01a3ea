package main

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/poll/polltest"
	"github.com/linkforge/linkforge/internal/platform/suitetest"
)

// counts are the results of statements of one number.
func (b backend) counts(t *testing.T, statements ...string) (all []int64) {
	t.Helper()
	for _, statement := range statements {
		all = append(all, numberOf(t, b, statement))
	}
	return all
}

// TestFault_ReplaceTagsSurvivesKills kills the node between and within the calls that rename a tag:
// each link is changed once, by one operation.
func TestFault_ReplaceTagsSurvivesKills(t *testing.T) {
	suitetest.Fault(t)
	t.Parallel()
	eachBackend(t, func(t *testing.T, b backend) {
		const links, kills = 4000, 6
		s := start(t, b.inProcesses())
		who := s.tenant(t, "tagger")
		who.many(t, links, "tagged", map[string]any{"strategy": "RANDOM", "tags": []string{"before"}})
		operations := map[string]bool{}
		for killed, remaining := 0, int64(1); remaining > 0; {
			var got struct {
				ReplaceTags struct {
					Remaining   int64
					OperationID *string
				}
			}
			answered := make(chan error, 1)
			go func() {
				answered <- who.try(&got,
					`mutation ($w: ID!) { replaceTags(input: {workspaceId: $w, from: ["before"], to: "after"}) {
					remaining operationId } }`, map[string]any{"w": who.workspaceID})
			}()
			if killed < kills {
				killed++
				time.Sleep(time.Duration(rand.IntN(150)) * time.Millisecond) //nolint:gosec // a test
				s.killAndRestart()
			}
			if err := <-answered; err == nil {
				remaining = got.ReplaceTags.Remaining
				if id := got.ReplaceTags.OperationID; id != nil {
					operations[*id] = true
				}
			}
		}
		got := b.counts(t, "SELECT count(*) FROM link_tags WHERE tag = 'after'",
			"SELECT count(*) FROM link_tags WHERE tag <> 'after'",
			"SELECT sum(version) FROM links", "SELECT count(*) FROM audit_events WHERE action = 'LINK_UPDATED'")
		if want := fmt.Sprint([]int64{links, 0, 2 * links, links}); fmt.Sprint(got) != want || len(operations) != 1 {
			t.Errorf("tags, other tags, versions, events: %v, want %s; operations %v", got, want, operations)
		}
	})
}

// TestFault_ImportSurvivesKills kills nodes at random while they import: the links, their versions,
// events and origins, the counts of the report and the quota are those of an undisturbed import.
func TestFault_ImportSurvivesKills(t *testing.T) {
	suitetest.Fault(t)
	t.Parallel()
	eachBackend(t, func(t *testing.T, b backend) {
		rows, kills := suitetest.Size(6000, 100_000), suitetest.Size(2, 8)
		nodes := startAll(t, b.inProcesses(), b.nodes, "LINKFORGE_LINK_QUOTA=1000000")
		who := nodes[0].tenant(t, "mover")
		taskID := who.importRows(t, rows)
		for range kills {
			time.Sleep(time.Duration(200+rand.IntN(800)) * time.Millisecond) //nolint:gosec // a test
			for _, s := range nodes {
				s.killAndRestart()
			}
			before := b.counts(t, "SELECT done FROM tasks")[0]
			began := time.Now()
			for b.counts(t, "SELECT done FROM tasks")[0] == before &&
				b.counts(t, "SELECT count(*) FROM tasks WHERE finished_at IS NULL")[0] > 0 {
				if gap := time.Since(began); gap > 70*time.Second {
					t.Fatalf("no progress for %s after the nodes were killed", gap)
				}
				time.Sleep(time.Second)
			}
		}
		polltest.Within(t, time.Duration(rows)*10*time.Millisecond, "the import has ended", func() bool {
			return b.counts(t, "SELECT count(*) FROM tasks WHERE finished_at IS NULL")[0] == 0
		})
		wantImported(t, b, who.ended(t, taskID), int64(rows))
	})
}

// importRows begins an import of new links.
func (w tenant) importRows(t *testing.T, rows int) (taskID string) {
	t.Helper()
	lines := []string{"code,url,title"}
	for i := range rows {
		lines = append(lines, fmt.Sprintf("code-%d,https://example.com/%d,Title %d", i, i, i))
	}
	taskID, url := w.createImport(t, map[string]any{"workspaceId": w.workspaceID, "source": "CSV", "dryRun": false})
	if status := w.server.upload(t, url, []byte(strings.Join(lines, "\n"))); status != http.StatusCreated {
		t.Fatalf("the upload answers %d", status)
	}
	return taskID
}

// wantImported checks that an import of new links has done everything once.
func wantImported(t *testing.T, b backend, it imported, n int64) {
	t.Helper()
	if got := outcomes(it); got != fmt.Sprintf("SUCCEEDED %d of %d: CREATED %[1]d", n, n) {
		t.Errorf("the import: %s", got)
	}
	got := b.counts(t, "SELECT count(*) FROM links", "SELECT sum(version) FROM links",
		"SELECT count(*) FROM link_origins",
		"SELECT count(*) FROM audit_events WHERE action = 'LINK_CREATED'", "SELECT count(*) FROM import_rows",
		"SELECT sum(links) FROM link_usage")
	if want := fmt.Sprint([]int64{n, n, n, n, n, n}); fmt.Sprint(got) != want {
		t.Errorf("links, versions, origins, events, rows, used: %v, want %s", got, want)
	}
}

// TestFault_ImportSurvivesStops stops the importing node for longer than its lease: another node
// continues within 70 s. The stopped node changes nothing when it continues.
func TestFault_ImportSurvivesStops(t *testing.T) {
	suitetest.Fault(t)
	t.Parallel()
	eachBackend(t, func(t *testing.T, b backend) {
		rows, stop := 12_000, suitetest.Size(75*time.Second, 3*time.Minute)
		nodes := startAll(t, b.inProcesses(), b.nodes, "LINKFORGE_LINK_QUOTA=1000000")
		who := nodes[0].tenant(t, "mover")
		taskID := who.importRows(t, rows)
		done := func() int64 { return b.counts(t, "SELECT done FROM tasks")[0] }
		polltest.Until(t, "the import runs", func() bool { return done() > 0 })
		signal := func(s *server, what os.Signal) { must.NoError(t, s.process.Process.Signal(what)) }
		advances := func(within time.Duration) bool {
			for before, began := done(), time.Now(); time.Since(began) < within; time.Sleep(100 * time.Millisecond) {
				if done() != before {
					return true
				}
			}
			return false
		}
		var stopped *server
		for _, s := range nodes {
			if signal(s, syscall.SIGSTOP); !advances(4 * time.Second) {
				stopped = s
				break
			}
			signal(s, syscall.SIGCONT)
		}
		if stopped == nil {
			t.Fatal("no node imports")
		}
		began := time.Now()
		if len(nodes) > 1 && !advances(70*time.Second) {
			t.Errorf("no other node has gone on after %s", time.Since(began))
		}
		time.Sleep(stop - time.Since(began))
		signal(stopped, syscall.SIGCONT)
		wantImported(t, b, who.onServer(nodes[0]).ended(t, taskID), int64(rows))
	})
}
