package dbtest

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/linkforge/linkforge/internal/platform/proctest"
)

// Pair is a PostgreSQL server of one test with a standby.
type Pair struct {
	// URL and ReadURL are what LINKFORGE_DATABASE_URL and LINKFORGE_DATABASE_READ_URL would be.
	// BothURL is a LINKFORGE_DATABASE_URL that follows a promotion.
	URL, ReadURL, BothURL string

	primary, standby *postgres
}

// postgres is one server of a Pair.
type postgres struct {
	programs, data, address string
	owner                   *syscall.Credential // nil for the user of the test
	stop                    func()              // nil while it does not run
}

// pairSettings trade durability for speed.
const pairSettings = `
listen_addresses = '127.0.0.1'
unix_socket_directories = ''
fsync = off
shared_buffers = 16MB
max_connections = 60
wal_level = replica
hot_standby = on
`

// NewPair starts a PostgreSQL server and a standby. Without the binaries it skips the test.
func NewPair(t testing.TB) *Pair {
	t.Helper()
	proctest.SkipShort(t)
	ServerURL(t, DatabaseURL)
	programs := postgresPrograms()
	if programs == "" {
		t.Skip("initdb and pg_basebackup are neither on PATH nor where packages put them")
	}
	folder, owner := sharedFolder(t)
	p := &Pair{}
	for _, s := range []struct {
		name string
		at   **postgres
	}{{"primary", &p.primary}, {"standby", &p.standby}} {
		*s.at = &postgres{programs: programs, data: filepath.Join(folder, s.name), address: proctest.FreeAddress(),
			owner: owner}
	}
	t.Cleanup(func() {
		p.standby.end()
		p.primary.end()
	})
	p.primary.do(t, "initdb", "--pgdata="+p.primary.data, "--username=postgres", "--auth=trust", "--encoding=UTF8",
		"--locale=C", "--no-sync")
	conf, err := os.OpenFile(filepath.Join(p.primary.data, "postgresql.conf"), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conf.WriteString(pairSettings); err != nil {
		t.Fatal(err)
	}
	conf.Close()
	p.primary.run(t)
	// Not a superuser, for whom row-level security would be off.
	p.primary.exec(t, "CREATE ROLE linkforge LOGIN CREATEROLE")
	p.primary.exec(t, "CREATE DATABASE linkforge OWNER linkforge")
	p.primary.do(t, "pg_basebackup", "--pgdata="+p.standby.data, "--write-recovery-conf", "--wal-method=stream",
		"--checkpoint=fast", "--no-sync",
		"--host=127.0.0.1", "--port="+portOf(p.primary.address), "--username=postgres")
	p.standby.run(t)
	p.URL, p.ReadURL = p.primary.url("linkforge", "linkforge"), p.standby.url("linkforge", "linkforge")
	p.BothURL = strings.Replace(p.URL, p.primary.address, p.primary.address+","+p.standby.address, 1) +
		"&target_session_attrs=read-write"
	return p
}

// Hold pauses replay on the standby until Release.
func (p *Pair) Hold(t testing.TB) {
	t.Helper()
	p.standby.exec(t, "SELECT pg_wal_replay_pause()")
	if !poll(func() bool { return p.standby.ask("SELECT pg_get_wal_replay_pause_state()") == "paused" }) {
		t.Fatal("the standby does not pause")
	}
}

// Release resumes replay on the standby.
func (p *Pair) Release(t testing.TB) {
	t.Helper()
	p.standby.exec(t, "SELECT pg_wal_replay_resume()")
}

// Delay sets the delay of replay on the standby.
func (p *Pair) Delay(t testing.TB, d time.Duration) {
	t.Helper()
	p.standby.exec(t, fmt.Sprintf("ALTER SYSTEM SET recovery_min_apply_delay = '%dms'", d.Milliseconds()))
	p.standby.exec(t, "SELECT pg_reload_conf()")
}

// CrashPrimary stops the primary at once, and starts it again.
func (p *Pair) CrashPrimary(t testing.TB) {
	t.Helper()
	p.primary.end()
	p.primary.run(t)
}

// Synchronize makes commits wait for the standby.
func (p *Pair) Synchronize(t testing.TB) {
	t.Helper()
	p.primary.exec(t, "ALTER SYSTEM SET synchronous_standby_names = '*'")
	p.primary.exec(t, "SELECT pg_reload_conf()")
	p.awaitStandby(t)
}

func (p *Pair) awaitStandby(t testing.TB) {
	t.Helper()
	if !poll(func() bool { return p.primary.ask("SELECT sync_state FROM pg_stat_replication") == "sync" }) {
		t.Fatal("the standby is not synchronous")
	}
}

// CutOff stops the synchronous standby at once, and has the primary end n transactions that the
// standby does not receive: once it is promoted, their numbers are those of other transactions.
func (p *Pair) CutOff(t testing.TB, n int) {
	t.Helper()
	abort := fmt.Sprintf("DO $$ BEGIN FOR i IN 1..%d LOOP PERFORM pg_current_xact_id(); ROLLBACK; END LOOP; END $$", n)
	for {
		p.KillStandby()
		p.primary.exec(t, abort)
		if p.primary.ask(
			"SELECT pg_snapshot_xmin(now) = pg_snapshot_xmax(now) FROM pg_current_snapshot() AS now") == "true" {
			return
		}
		p.standby.run(t) // an earlier transaction waits for it
		p.awaitStandby(t)
	}
}

// Promote stops the primary at once, and makes the standby the primary.
func (p *Pair) Promote(t testing.TB) {
	t.Helper()
	p.primary.end()
	if p.standby.stop == nil {
		p.standby.run(t)
	}
	p.standby.exec(t, "SELECT pg_promote()")
}

// KillStandby stops the standby at once.
func (p *Pair) KillStandby() { p.standby.end() }

// RunStandby starts the standby again.
func (p *Pair) RunStandby(t testing.TB) {
	t.Helper()
	p.standby.run(t)
}

// sharedFolder returns a folder and the user that PostgreSQL runs as, nil for the own one: it
// refuses to run as root.
func sharedFolder(t testing.TB) (folder string, owner *syscall.Credential) {
	t.Helper()
	outer, err := os.MkdirTemp("", "linkforge-pair")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(outer) })
	folder = filepath.Join(outer, "pg")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	if os.Getuid() != 0 {
		return folder, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, _ := strconv.Atoi(u.Uid)
		gid, _ := strconv.Atoi(u.Gid)
		if err := errors.Join(os.Chmod(outer, 0o711), os.Chown(folder, uid, gid)); err != nil {
			t.Fatal(err)
		}
		return folder, &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	}
	t.Skip("there is no user that PostgreSQL could run as")
	return "", nil
}

// postgresPrograms returns the folder of initdb and pg_basebackup: on PATH, or the newest of a
// package. A folder with initdb alone has a server of another version than the pg_basebackup of
// this machine.
func postgresPrograms() string {
	if path, err := exec.LookPath("initdb"); err == nil {
		if path, err = filepath.EvalSymlinks(path); err == nil {
			if _, err := os.Stat(filepath.Join(filepath.Dir(path), "pg_basebackup")); err == nil {
				return filepath.Dir(path)
			}
		}
	}
	for _, pattern := range []string{"/usr/lib/postgresql/*/bin/initdb", "/usr/pgsql-*/bin/initdb",
		"/opt/homebrew/opt/postgresql@*/bin/initdb"} {
		if found, _ := filepath.Glob(pattern); len(found) > 0 {
			return filepath.Dir(slices.Max(found))
		}
	}
	return ""
}

func (p *postgres) command(name string, args ...string) *exec.Cmd {
	c := exec.Command(filepath.Join(p.programs, name), args...)
	c.Dir, c.SysProcAttr = filepath.Dir(p.data), &syscall.SysProcAttr{Credential: p.owner}
	return c
}

func (p *postgres) do(t testing.TB, name string, args ...string) {
	t.Helper()
	if out, err := p.command(name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", name, err, out)
	}
}

// run starts the server.
func (p *postgres) run(t testing.TB) {
	t.Helper()
	p.stop = tether(t, filepath.Dir(p.data), p.owner, filepath.Join(p.programs, "postgres"), "-D", p.data, "-p",
		portOf(p.address))
	if !poll(func() bool { return p.ask("SELECT 1") == "1" }) {
		t.Fatalf("PostgreSQL at %s does not start", p.address)
	}
}

// tether starts a program that ends with the test process: a shell waits for the end of its input.
// stop ends it as a crash would.
func tether(t testing.TB, folder string, owner *syscall.Credential, program ...string) (stop func()) {
	t.Helper()
	process := exec.Command("/bin/sh",
		append([]string{"-c", `"$@" >/dev/null 2>&1 & cat >/dev/null; kill -QUIT $!; wait`, "sh"},
			program...)...)
	process.Dir, process.SysProcAttr = folder, &syscall.SysProcAttr{Credential: owner}
	leash, err := process.StdinPipe()
	if err == nil {
		err = process.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	return func() {
		leash.Close()
		_ = process.Wait() // it says how the program has ended
	}
}

// end stops the server as a crash would.
func (p *postgres) end() {
	if p.stop != nil {
		p.stop()
		p.stop = nil
	}
}

func (p *postgres) url(role, database string) string {
	u := url.URL{Scheme: "postgres", User: url.User(role), Host: p.address, Path: database,
		RawQuery: "sslmode=disable&connect_timeout=3"}
	return u.String()
}

// exec runs a statement as the superuser.
func (p *postgres) exec(t testing.TB, statement string) {
	t.Helper()
	if _, err := p.query(statement); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

// ask returns the result of a statement, or an empty text.
func (p *postgres) ask(statement string) string {
	answer, _ := p.query(statement)
	return answer
}

func (p *postgres) query(statement string) (answer string, err error) {
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, p.url("postgres", "postgres"))
	if err != nil {
		return "", err
	}
	defer conn.Close(ctx)
	rows, err := conn.Query(ctx, statement, pgx.QueryExecModeSimpleProtocol)
	if err != nil {
		return "", err
	}
	defer rows.Close()
	for rows.Next() {
		values, err := rows.Values()
		if err != nil {
			return "", err
		}
		answer = strings.TrimSpace(fmt.Sprint(values...))
	}
	return answer, rows.Err()
}
