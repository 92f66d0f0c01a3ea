package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"modernc.org/sqlite"

	"github.com/linkforge/linkforge/internal/click"
	"github.com/linkforge/linkforge/internal/click/clicktest"
	"github.com/linkforge/linkforge/internal/click/ingest"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/poll/polltest"
	"github.com/linkforge/linkforge/internal/platform/suitetest"
	"github.com/linkforge/linkforge/internal/stores"
)

// killer kills commands of the program in the middle of a transaction. On PostgreSQL it makes them
// wait for a lock that it holds. On SQLite, whose single writer would prevent them from starting,
// it pauses them while they write, checks that they still do, and kills them.
type killer struct {
	t     *testing.T
	d     *db.DB
	env   []string
	probe *sql.DB // SQLite's
}

func newKiller(t *testing.T, b backend, env []string) *killer {
	t.Helper()
	k := &killer{t: t, env: env}
	var err error
	if k.d, err = b.open(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { k.d.Close() })
	if k.d.Kind == db.SQLite {
		if k.probe, err = sql.Open("sqlite", "file:"+filepath.Join(folderOf(env),
			stores.DatabaseName)+"?_txlock=immediate&_pragma=busy_timeout(0)"); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { k.probe.Close() })
	}
	return k
}

// within runs a command and kills it: on PostgreSQL when it waits for the lock of the statement, on
// SQLite when a transaction after passed others has been writing for long. It returns false if the
// command has ended before.
func (k *killer) within(hold string, passed int, long time.Duration, args ...string) (killed bool) {
	k.t.Helper()
	if k.d.Kind == db.SQLite {
		return k.withinSQLite(passed, long, args...)
	}
	holding, err := k.d.DB.DB.BeginTx(db.AsOwner(k.t.Context()), nil)
	if err != nil {
		k.t.Fatal(err)
	}
	defer func() {
		_ = holding.Rollback() // it has been only to hold
		k.awaitServer()
	}()
	if _, err := holding.ExecContext(db.AsOwner(k.t.Context()), hold); err != nil {
		k.t.Fatalf("%s: %v", hold, err)
	}
	p := k.start(args...)
	waits := false
	polltest.Until(k.t, "the command waits for the lock or has ended", func() bool {
		waits = p.waits(k)
		return waits || p.hasEnded()
	})
	return waits && p.kill()
}

// awaitServer waits until PostgreSQL has ended the session of a process that was killed.
func (k *killer) awaitServer() {
	k.t.Helper()
	polltest.Until(k.t, "the sessions of the killed have ended", func() bool {
		return k.countAs(db.AsOwner(k.t.Context()), `SELECT count(*) FROM pg_stat_activity WHERE datname =
			current_database() AND backend_type = 'client backend'
			AND pid <> pg_backend_pid() AND state <> 'idle'`) == 0
	})
}

func (k *killer) withinSQLite(passed int, long time.Duration, args ...string) (killed bool) {
	k.t.Helper()
	p := k.start(args...)
	for !p.hasEnded() {
		if !k.writing() {
			polltest.Elapse(50 * time.Microsecond) // and leave the processor to the command
			continue
		}
		for began := time.Now(); time.Since(began) < long && k.writing(); { // one transaction, while it lasts
		}
		if passed--; passed >= 0 || !k.writing() {
			for k.writing() && !p.hasEnded() { // until this transaction has ended
			}
			continue
		}
		p.signal(syscall.SIGSTOP)
		p.awaitStop()
		if k.writing() {
			return p.kill()
		}
		p.signal(syscall.SIGCONT)
	}
	return false
}

// writing reports whether a write transaction is open.
func (k *killer) writing() bool {
	k.t.Helper()
	tx, err := k.probe.BeginTx(k.t.Context(), nil)
	if err == nil {
		err = tx.Rollback()
	}
	if e, ok := errors.AsType[*sqlite.Error](err); ok && e.Code()&0xff == 5 { // SQLITE_BUSY
		return true
	}
	if err != nil {
		k.t.Fatal(err)
	}
	return false
}

// victim is a running command.
type victim struct {
	*exec.Cmd
	t     *testing.T
	said  *strings.Builder
	ended chan struct{}
}

func (k *killer) start(args ...string) *victim {
	k.t.Helper()
	p := &victim{Cmd: program(context.Background(), k.t, k.env, args...), t: k.t, said: &strings.Builder{},
		ended: make(chan struct{})}
	p.Stdout, p.Stderr = p.said, p.said
	if err := p.Start(); err != nil {
		k.t.Fatal(err)
	}
	go func() {
		defer close(p.ended)
		_ = p.Wait() // the exit status is in ProcessState
	}()
	k.t.Cleanup(func() { p.kill() })
	return p
}

func (p *victim) signal(s os.Signal) { _ = p.Process.Signal(s) } // it may have ended

// kill sends SIGKILL, and reports whether it ended the process.
func (p *victim) kill() bool {
	p.signal(syscall.SIGKILL)
	<-p.ended
	return p.ProcessState.ExitCode() == -1
}

// hasEnded says that it has, which must have been well.
func (p *victim) hasEnded() bool {
	p.t.Helper()
	select {
	case <-p.ended:
		if status := p.ProcessState.ExitCode(); status != 0 {
			p.t.Fatalf("%q: exit status %d: %s", p.Args, status, p.said)
		}
		return true
	default:
		return false
	}
}

// waits says that a session other than the test's own waits for a lock.
func (p *victim) waits(k *killer) bool {
	p.t.Helper()
	return k.countAs(db.AsOwner(p.t.Context()), "SELECT count(*) FROM pg_stat_activity WHERE datname = "+
		"current_database() AND wait_event_type = 'Lock'") > 0
}

// awaitStop waits until all of a process has stopped, or it has ended.
func (p *victim) awaitStop() {
	p.t.Helper()
	polltest.Until(p.t, "the process has stopped", func() bool {
		stat, err := os.ReadFile("/proc/" + strconv.Itoa(p.Process.Pid) + "/stat")
		_, state, _ := strings.Cut(string(stat), ") ")
		return err != nil || strings.HasPrefix(state, "T") || strings.HasPrefix(state, "Z")
	})
}

func (k *killer) count(query string, args ...any) (n int) {
	k.t.Helper()
	return k.countAs(db.AsSystem(k.t.Context()), query, args...)
}

func (k *killer) countAs(ctx context.Context, query string, args ...any) (n int) {
	k.t.Helper()
	if err := k.d.NewRaw(query, args...).Scan(ctx, &n); err != nil {
		k.t.Fatalf("%s: %v", query, err)
	}
	return n
}

func (k *killer) write(query string, args ...any) {
	k.t.Helper()
	if _, err := k.d.ExecContext(db.AsSystem(k.t.Context()), query, args...); err != nil {
		k.t.Fatalf("%s: %v", query, err)
	}
}

// enoughKills is the minimum number of kills per job.
const enoughKills = 3

// job kills a job repeatedly: on PostgreSQL when it writes to each of the tables, on SQLite in a
// later transaction each time. After each kill whole checks the data. At the end the job completes.
func (k *killer) job(name string, tables []string, whole func()) {
	k.t.Helper()
	args, kills := append([]string{"jobs", "run"}, strings.Fields(name)...), 0
	// on SQLite a transaction can be too short to be seen
	for i := 0; i < len(tables) || kills < enoughKills && i < 5*len(tables); i++ {
		// a short job has few transactions, and the first can be killed again
		passed := max(0, i%len(tables)-enoughKills+1)
		if k.within("LOCK TABLE "+tables[i%len(tables)]+" IN SHARE MODE", passed, 0, args...) {
			kills++
			whole()
		}
		k.write("UPDATE leases SET lease_holder = NULL, lease_until = NULL") // as 30 seconds later
	}
	if kills < enoughKills {
		k.t.Errorf("%d runs were killed, which is too few to tell anything", kills)
	}
	succeed(k.t, k.env, args...)
	whole()
}

// many creates links with the given fields, 500 in a call.
func (w tenant) many(t *testing.T, n int, of string, fields map[string]any) (made []linkView) {
	t.Helper()
	for from := 0; from < n; from += 500 {
		var some []any
		for i := from; i < min(from+500, n); i++ {
			one := map[string]any{"url": fmt.Sprintf("https://example.com/%s/%d", of, i)}
			maps.Copy(one, fields)
			some = append(some, one)
		}
		var got struct {
			CreateLinks struct {
				Results []createLinkPayload
				Errors  []userError
			}
		}
		w.must(t, &got, `mutation ($in: CreateLinksInput!) { createLinks(input: $in) {
			results { created link { id code shortUrl } errors { code message } } errors { code message } } }`,
			map[string]any{"in": map[string]any{"workspaceId": w.workspaceID, "links": some}})
		for _, r := range got.CreateLinks.Results {
			if !r.Created {
				t.Fatalf("a link of %s was not made: %+v %+v", of, r, got.CreateLinks.Errors)
			}
			made = append(made, r.Link)
		}
	}
	return made
}

// TestCleanup_SurvivesKill: each link that ended long ago is either complete, or scrubbed except for
// its reserved code.
func TestCleanup_SurvivesKill(t *testing.T) {
	t.Parallel()
	eachBackend(t, func(t *testing.T, b backend) {
		const ended, stay = 550, 30
		s := start(t, b, "LINKFORGE_LINK_QUOTA=1000000")
		who := s.tenant(t, "swept")
		tags := map[string]any{"tags": []string{"old"}}
		who.many(t, ended, "ended", tags)
		who.many(t, ended, "counted", map[string]any{"tags": []string{"old"}, "strategy": "COUNTER"})
		who.many(t, stay, "stays", tags)
		first := who.shorten(t, "https://example.com/ended/0").Link
		s.stop()
		k := newKiller(t, b, s.env)
		k.write(
			`UPDATE links SET expires_at = '2020-01-01 00:00:00+00:00', ended_at = '2020-01-01 00:00:00+00:00' WHERE
				original_url NOT LIKE '%/stays/%'`)
		k.job("clean-up", []string{"leases", "links", "audit_events", "link_tags", "changes", "link_tags", "changes",
			"idempotency_keys"}, func() {
			t.Helper()
			for what, n := range map[string]int{
				"links without their tags": k.count(`SELECT count(*) FROM links l WHERE purged_at IS NULL
					AND NOT EXISTS (SELECT 1 FROM link_tags t WHERE t.link_id = l.id)`),
				"expirations without an event": k.count(`SELECT count(*) FROM links l WHERE expired_at IS NOT NULL
					AND NOT EXISTS (SELECT 1 FROM audit_events e WHERE e.target_id = l.id AND e.action =
					'LINK_EXPIRED')`),
				"expirations with several events": k.count(`SELECT count(*) FROM (SELECT target_id FROM audit_events
					WHERE action = 'LINK_EXPIRED' GROUP BY target_id HAVING count(*) > 1) AS several`),
				"tags without their link": k.count(
					`SELECT count(*) FROM link_tags t WHERE NOT EXISTS (SELECT 1 FROM links l
					WHERE l.id = t.link_id)`),
				"links purged in part": k.count(
					`SELECT count(*) FROM links l WHERE purged_at IS NOT NULL AND (original_url <>
					'' OR code = ''
					OR strategy <> 'DETERMINISTIC' OR EXISTS (SELECT 1 FROM link_tags t WHERE t.link_id = l.id))`),
				"links that should stay and are not whole": stay - k.count(
					`SELECT count(*) FROM links WHERE original_url LIKE
					'%/stays/%'
					AND ended_at IS NULL AND deleted_at IS NULL`),
				"codes that were forgotten": ended + stay - k.count(`SELECT count(*) FROM links WHERE strategy =
					'DETERMINISTIC'`),
			} {
				if n != 0 {
					t.Errorf("%d %s", n, what)
				}
			}
		})
		if purged, all := k.count("SELECT count(*) FROM links WHERE purged_at IS NOT NULL"),
			k.count("SELECT count(*) FROM links"); purged != ended || all != ended+stay {
			t.Errorf("%d links, %d of them purged: want %d and %d", all, purged, ended+stay, ended)
		}
		s.again()
		if again := who.shorten(t, first.OriginalURL).Link; again.Code != first.Code {
			t.Errorf("the code was %s and is %s", first.Code, again.Code)
		}
		s.stop()
	})
}

// record writes clicks into the database, as a server's recorder does.
func (k *killer) record(clicks ...click.Click) {
	k.t.Helper()
	log, err := ingest.OpenLog(ingest.LogConfig{Dir: k.t.TempDir(), Logger: slog.New(slog.DiscardHandler),
		Now: time.Now})
	if err != nil {
		k.t.Fatal(err)
	}
	r := ingest.NewRecorder(clicktest.RecorderOf(k.d, log, nil))
	ctx, cancel := context.WithCancel(k.t.Context())
	running := make(chan error, 1)
	go func() { running <- r.Run(ctx) }()
	for _, c := range clicks {
		r.Record(&c)
	}
	err = r.Flush(ctx)
	cancel()
	if err := errors.Join(err, <-running, r.Close()); err != nil {
		k.t.Fatal(err)
	}
}

// ofWorkspaces are the tables whose rows belong to a workspace.
func (k *killer) ofWorkspaces() (tables []string) {
	k.t.Helper()
	query := map[db.Kind]string{
		db.Postgres: `SELECT c.table_name FROM information_schema.columns c JOIN information_schema.tables t USING
			(table_schema, table_name)
			WHERE c.table_schema = 'public' AND c.column_name = 'workspace_id' AND t.table_type = 'BASE TABLE'`,
		db.SQLite: `SELECT m.name FROM sqlite_master m, pragma_table_info(m.name) c WHERE m.type = 'table' AND c.name =
			'workspace_id'`,
	}[k.d.Kind]
	if err := k.d.NewRaw(query).Scan(db.AsOwner(k.t.Context()), &tables); err != nil {
		k.t.Fatal(err)
	}
	return slices.DeleteFunc(tables, func(name string) bool {
		return name == "slugs" || regexp.MustCompile(`_\d{4}_\d\d$`).
			MatchString(name)
	})
}

func (k *killer) rowsOf(workspaceID string) map[string]int {
	rows := map[string]int{}
	for _, table := range k.ofWorkspaces() {
		rows[table] = k.count("SELECT count(*) FROM "+table+" WHERE workspace_id = ?", workspaceID)
	}
	return rows
}

// TestFault_PurgeSurvivesKill: it is said to be purged when nothing is left of it, and others
// are left alone.
func TestFault_PurgeSurvivesKill(t *testing.T) {
	suitetest.Fault(t)
	t.Parallel()
	eachBackend(t, func(t *testing.T, b backend) {
		s := start(t, b, "LINKFORGE_LINK_QUOTA=1000000")
		gone, stays := s.tenant(t, "gone"), s.tenant(t, "stays")
		k := newKiller(t, b, s.env)
		for _, who := range []tenant{gone, stays} {
			who.many(t, 600, "many", map[string]any{"tags": []string{"some"}})
			linkID := who.shorten(t, "https://example.com/followed").Link.ID
			var clicks []click.Click
			for n := range 200 {
				clicks = append(clicks,
					click.Click{WorkspaceID: who.workspaceID, LinkID: linkID, Status: 302, Visitor: int64(n),
						ClickedAt: time.Now().Add(-time.Duration(n) * time.Hour)})
			}
			k.record(clicks...)
		}
		succeed(t, s.env, "jobs", "run", "click", "days")
		succeed(t, s.env, "workspaces", "delete", "gone", "--yes")
		s.stop()
		k.write("UPDATE workspaces SET deleted_at = '2020-01-01 00:00:00+00:00' WHERE id = ?", gone.workspaceID)
		others := k.rowsOf(stays.workspaceID)
		for _, table := range []string{"links", "link_tags", "clicks", "click_days", "click_totals",
			"members", "audit_events"} {
			if others[table] == 0 {
				t.Errorf("nothing is in %s: nothing is tried", table)
			}
		}
		k.job("workspaces",
			[]string{"links", "link_tags", "links", "idempotency_keys", "link_usage", "clicks", "unmatched",
				"click_days", "click_totals", "members", "invitations", "api_keys", "domains", "audit_events",
				"workspaces"},
			func() {
				t.Helper()
				left := 0
				for _, n := range k.rowsOf(gone.workspaceID) {
					left += n
				}
				if purged := k.count("SELECT count(*) FROM workspaces WHERE id = ? AND purged_at IS NOT NULL",
					gone.workspaceID) == 1; purged && left > 0 {
					t.Errorf("the workspace is purged, and %d rows are left of it", left)
				}
				if diff := cmp.Diff(others, k.rowsOf(stays.workspaceID)); diff != "" {
					t.Errorf("another workspace (-want +got):\n%s", diff)
				}
			})
		for table, n := range k.rowsOf(gone.workspaceID) {
			if n > 0 {
				t.Errorf("%d rows are left in %s", n, table)
			}
		}
		if k.count("SELECT count(*) FROM workspaces WHERE id = ? AND purged_at IS NOT NULL", gone.workspaceID) != 1 {
			t.Error("the workspace is not purged")
		}
	})
}

// TestFault_RetentionSurvivesKill: only expired months are deleted.
func TestFault_RetentionSurvivesKill(t *testing.T) {
	suitetest.Fault(t)
	t.Parallel()
	eachBackend(t, func(t *testing.T, b backend) {
		s := start(t, b)
		who := s.tenant(t, "kept")
		k := newKiller(t, b, s.env)
		month := click.MonthOf(time.Now()).Start()
		var clicks []click.Click
		for link := range 3 {
			linkID := who.shorten(t, fmt.Sprintf("https://example.com/%d", link)).Link.ID
			for _, ago := range []int{30, 20, 14, 13, 2} {
				for n := range 40 {
					at := month.AddDate(0, -ago, n%20).Add(time.Duration(n) * time.Minute)
					clicks = append(clicks,
						click.Click{WorkspaceID: who.workspaceID, LinkID: linkID, Status: 302, Visitor: int64(n),
							ClickedAt: at})
				}
			}
		}
		k.record(clicks...)
		succeed(t, s.env, "jobs", "run", "click", "days")
		s.stop()
		since := month.AddDate(0, -13, 0)
		kept := func() map[string]int {
			return map[string]int{
				"clicks": k.count("SELECT count(*) FROM clicks WHERE clicked_at >= ?", since),
				"days":   k.count("SELECT sum(clicks) FROM click_days"),
				"totals": k.count("SELECT sum(clicks) FROM click_totals"),
				"links":  k.count("SELECT count(*) FROM links"),
			}
		}
		// links' and the workspace's
		want := map[string]int{"clicks": 3 * 80, "days": 2 * len(clicks), "totals": 2 * len(clicks),
			"links": 3}
		k.job("click months", []string{"unmatched", "clicks", "unmatched", "clicks"},
			func() {
				t.Helper()
				if diff := cmp.Diff(want, kept()); diff != "" {
					t.Errorf("what is to be kept (-want +got):\n%s", diff)
				}
			})
		if n := k.count("SELECT count(*) FROM clicks WHERE clicked_at < ?", since); n > 0 {
			t.Errorf("%d clicks of months that are over are left", n)
		}
		succeed(t, s.env, "stats", "verify")
	})
}

// TestFault_MigrationSurvivesKill kills `migrate up` within the base: nothing of it exists then,
// and the next run applies it.
func TestFault_MigrationSurvivesKill(t *testing.T) {
	suitetest.Fault(t)
	t.Parallel()
	eachEmptyBackend(t, func(t *testing.T, b backend) {
		if folder := folderOf(b.env); b.nodes == 1 {
			must.NoError(t, os.MkdirAll(folder, 0o700))
		}
		k := newKiller(t, b, b.env)
		const last = "CREATE TABLE parity_rows ()" // the base waits for a transaction with a table of the name
		columns := func(d *db.DB) map[string][]string {
			tables := tablesOf(t, d)
			delete(tables, "migrations")
			for _, names := range tables {
				slices.Sort(names)
			}
			return tables
		}
		before := columns(k.d)
		if !k.within(last, 0, 0, "migrate", "up") {
			t.Fatal("the base was not interrupted")
		}
		if diff := cmp.Diff(before, columns(k.d)); diff != "" {
			t.Errorf("left behind (-before +after):\n%s", diff)
		}
		if out := succeed(t, b.env, "migrate", "up"); !strings.HasPrefix(out, "applied 0001_base") {
			t.Errorf("the next run prints %q", out)
		}
		undisturbed := embedded(t)
		if b.nodes > 1 {
			undisturbed = production(t)
		}
		if diff := cmp.Diff(columns(newKiller(t, undisturbed, undisturbed.env).d), columns(k.d)); diff != "" {
			t.Errorf("the schema (-undisturbed +killed):\n%s", diff)
		}
	})
}
