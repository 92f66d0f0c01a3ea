package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/poll/polltest"
)

// rowsOf are the objects that a command writes, one a line.
func rowsOf(t *testing.T, env []string, args ...string) (rows []map[string]any) {
	t.Helper()
	out := succeed(t, env, append(args, "--json")...)
	for line := range strings.Lines(out) {
		var row map[string]any
		if err := json.Unmarshal([]byte(line), &row); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		rows = append(rows, row)
	}
	return rows
}

// operatorEvents returns the actions of the operator in the workspace's audit log, newest first,
// with details.
func (w tenant) operatorEvents(t *testing.T) (events []string) {
	t.Helper()
	got := w.ask(t, `query ($w: ID!) { workspace(by: {id: $w}) { auditLog(first: 50) { nodes { type details actorId
		actor { id } } } } }`, map[string]any{"w": w.workspaceID})
	for _, e := range got.at("workspace.auditLog.nodes").([]any) {
		if e := e.(map[string]any); e["actorId"] == nil && e["actor"] == nil {
			events = append(events, fmt.Sprint(e["type"], " ", e["details"]))
		}
	}
	return events
}

// TestCommands_OperateTheInstance take effect on a running server within a second.
func TestCommands_OperateTheInstance(t *testing.T) {
	t.Parallel()
	nextMonth(t)
	eachBackend(t, func(t *testing.T, b backend) {
		s := start(t, b)
		who, other := s.tenant(t, "watched"), s.tenant(t, "left-alone")
		l := who.shorten(t, "https://example.com/some/where?x=1", "customCode", "promo").Link
		untouched := other.shorten(t, "https://example.com/", "customCode", "promo").Link

		rows := rowsOf(t, s.env, "users", "list", "--email", "WATCHED@")
		if len(rows) != 1 || rows[0]["id"] != who.id || rows[0]["email"] != who.email || rows[0]["sessions"] != 1.0 {
			t.Errorf("users: %v", rows)
		}
		first := rowsOf(t, s.env, "users", "list", "--limit", "1")
		rest := rowsOf(t, s.env, "users", "list", "--after", first[0]["id"].(string))
		if len(first) != 1 || len(rest) != 1 || rest[0]["id"] != other.id {
			t.Errorf("users by parts: %v, %v", first, rest)
		}
		wantTable(t, s.env, "users list", "ID EMAIL NAME CREATED VERIFIED DISABLED SESSIONS",
			`"watched@example.com"`)
		rows = rowsOf(t, s.env, "workspaces", "list", "--slug", "watched")
		if len(rows) != 1 || rows[0]["id"] != who.workspaceID || rows[0]["members"] != 1.0 ||
			!cmp.Equal(rows[0]["owners"], []any{who.email}) || rows[0]["hitQuota"] != nil ||
			rows[0]["deletedAt"] != nil {
			t.Errorf("workspaces: %v", rows)
		}
		wantTable(t, s.env, "workspaces list", "ID SLUG NAME OWNERS MEMBERS HITS LINKS CREATED DELETED",
			`"left-alone@example.com"`)
		obeysLimits(t, s, who, l)

		for _, what := range []string{"promo", l.ShortURL, l.ID, "https://EXAMPLE.com/some/where?x=1", "some/WHERE"} {
			if !slices.ContainsFunc(rowsOf(t, s.env, "links", "find", what), func(row map[string]any) bool {
				return row["id"] == l.ID && row["slug"] == "watched" && row["status"] == "ACTIVE" &&
					row["shortUrl"] == l.ShortURL
			}) {
				t.Errorf("links find %s does not find it", what)
			}
		}
		wantTable(t, s.env, "links find promo", "ID WORKSPACE SHORT URL STATUS CREATED LEADS TO", l.ID)
		obeysDisable(t, s, l)

		declined(t, s.env, "--yes is needed", "workspaces", "delete", "watched")
		s.expect(t, http.StatusFound, http.MethodGet, l.path(s))
		succeed(t, s.env, "workspaces", "delete", "watched", "--yes")
		s.becomes(t, l, http.StatusGone, "the workspace is deleted")
		rows = rowsOf(t, s.env, "workspaces", "list", "--slug", "watched")
		if len(rows) != 1 || rows[0]["deletedAt"] == nil {
			t.Errorf("deleted: %v", rows)
		}
		declined(t, s.env, "deleted already", "workspaces", "delete", "watched")
		succeed(t, s.env, "workspaces", "restore", "watched")
		s.becomes(t, l, http.StatusFound, "the workspace is restored")
		declined(t, s.env, "not deleted", "workspaces", "restore", "watched")
		want := []string{
			"WORKSPACE_RESTORED {}", "WORKSPACE_DELETED {}", "LINK_ENABLED {}", "LINK_DISABLED {}",
			`WORKSPACE_UPDATED {"hitQuota":null,"linkQuota":null}`, `WORKSPACE_UPDATED {"linkQuota":1}`,
			`WORKSPACE_UPDATED {"hitQuota":3}`,
		}
		same(t, "the audit log", who.operatorEvents(t), want)
		if events := other.operatorEvents(t); len(events) > 0 {
			t.Errorf("the other workspace's audit log: %q", events)
		}
		s.expect(t, http.StatusFound, http.MethodGet, untouched.path(s))

		rows = rowsOf(t, s.env, "users", "logout", strings.ToUpper(who.email))
		if len(rows) != 1 || rows[0]["endedSessions"] != 1.0 {
			t.Errorf("logout: %v", rows)
		}
		polltest.Until(t, "the token is no longer good", func() bool {
			a, err := who.run(`{ me { id } }`, nil)
			return err == nil && a.code() == "UNAUTHENTICATED"
		})
		other.ask(t, `{ me { id } }`, nil)
		who.token = s.login(t, who).Token
		loggedIn(t, who)
	})
}

// wantTable checks that a command prints a table with a head and a word on a terminal, and elsewhere
// its rows alone, with a tab between cells.
func wantTable(t *testing.T, env []string, line, head, word string) {
	t.Helper()
	out, stderr, status := commandOn(t, true, env, "", strings.Fields(line)...)
	first, rows, _ := strings.Cut(out, "\n")
	if status != 0 || strings.Join(strings.Fields(first), " ") != head || !strings.Contains(rows, word) ||
		strings.Contains(out, "\t") {
		t.Errorf("%s: exit status %d, want the columns %s, and %s: %s%s", line, status, head, word, out, stderr)
	}
	piped, columns := succeed(t, env, strings.Fields(line)...), len(regexp.MustCompile(` {2,}`).Split(first, -1))
	for row := range strings.Lines(piped) {
		if strings.Count(row, "\t") != columns-1 {
			t.Errorf("%s: %q has not %d cells", line, row, columns)
		}
	}
	if strings.Count(piped, "\n") != strings.Count(rows, "\n") {
		t.Errorf("%s: %q are not the rows of %q", line, piped, rows)
	}
}

// becomes waits until the link answers so, which takes a second at most.
func (s *server) becomes(t *testing.T, l linkView, status int, when string) {
	t.Helper()
	polltest.Until(t, when, func() bool {
		a, err := s.get(l.path(s))
		return err == nil && a.status == status
	})
}

func obeysLimits(t *testing.T, s *server, who tenant, l linkView) {
	t.Helper()
	rows := rowsOf(t, s.env, "workspaces", "limits", "watched", "--hits", "3")
	if len(rows) != 1 || rows[0]["hitQuota"] != 3.0 || rows[0]["linkQuota"] != nil {
		t.Errorf("limits: %v", rows)
	}
	polltest.Until(t, "the limit is known", func() bool { return who.getLink(t, l.ID).HitQuota.Limit == 3 })
	s.becomes(t, l, http.StatusTooManyRequests, "the hits are used up")
	succeed(t, s.env, "workspaces", "limits", who.workspaceID, "--links", "1")
	refuses(t, "one link too many", must.Value(who.create("https://example.com/more"))(t).Errors, "QUOTA_EXCEEDED")
	succeed(t, s.env, "workspaces", "limits", "watched", "--hits", "default", "--links=default")
	who.shorten(t, "https://example.com/more")
	s.becomes(t, l, http.StatusFound, "the hits are those of the instance again")
}

func obeysDisable(t *testing.T, s *server, l linkView) {
	t.Helper()
	for _, changed := range []bool{true, false} {
		rows := rowsOf(t, s.env, "links", "disable", l.ShortURL)
		if len(rows) != 1 || rows[0]["changed"] != changed || rows[0]["status"] != "DISABLED" {
			t.Errorf("disable: %v", rows)
		}
	}
	s.becomes(t, l, http.StatusGone, "the link is disabled")
	for _, want := range []string{"enabled " + l.ID + "\n", l.ID + " was not disabled\n"} {
		same(t, "enable", succeed(t, s.env, "links", "enable", l.ShortURL), want)
	}
	s.becomes(t, l, http.StatusFound, "the link is enabled")
}

// TestJobsCommand_RunsJobs runs jobs while a server starts.
func TestJobsCommand_RunsJobs(t *testing.T) {
	t.Parallel()
	eachBackend(t, func(t *testing.T, b backend) {
		s := start(t, b, "LINKFORGE_DESTINATION_CHECKS=off")
		jobs := func() []map[string]any { // without the one that the server runs meanwhile
			return slices.DeleteFunc(rowsOf(t, s.env, "jobs", "list"), func(row map[string]any) bool {
				return row["name"] == "apply-scheduled-changes"
			})
		}
		rows := jobs()
		if len(rows) != 16 {
			t.Errorf("%d jobs", len(rows))
		}
		for _, row := range rows {
			name := row["name"].(string)
			if row["beganAt"] != nil || row["running"] != false {
				t.Errorf("before: %v", row)
			}
			out := succeed(t, s.env, append([]string{"jobs", "run"}, strings.Fields(name)...)...)
			if !strings.HasPrefix(out, "done: "+name+", in ") {
				t.Errorf("%q", out)
			}
		}
		succeed(t, s.env, "jobs", "run", "clean-up") // again, although it is not due
		for _, row := range jobs() {
			soonest := 13 * time.Minute
			if row["name"] == "transitions" || row["name"] == "grants" {
				soonest = 30 * time.Second
			}
			due, err := time.Parse(time.RFC3339Nano, fmt.Sprint(row["dueAt"]))
			if row["endedAt"] == nil || row["error"] != nil || row["node"] == "" || err != nil ||
				time.Until(due) < soonest {
				t.Errorf("after: %v: %v", row, err)
			}
		}
		execute(t, b, "UPDATE leases SET lease_holder = 'run_x', node = 'another/1', lease_until = ?, ended_at = NULL "+
			"WHERE name = 'clean-up'", time.Now().Add(time.Minute))
		declined(t, s.env, "a node is running", "jobs", "run", "clean-up")
		wantTable(t, s.env, "jobs list", "JOB STARTED ENDED NODE DUE OUTCOME", "running")
	})
}
