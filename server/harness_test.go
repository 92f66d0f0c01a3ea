package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/dbtest"
	"github.com/linkforge/linkforge/internal/polltest"
	"github.com/linkforge/linkforge/internal/proctest"
	"github.com/linkforge/linkforge/internal/stores"
)

const (
	// patience is how long a test waits for what must happen, on a busy machine.
	patience = 60 * time.Second
	// pollEvery is the poll interval.
	pollEvery = 10 * time.Millisecond

	jwtSecret  = "the log-in secret of these tests, long enough"
	codeSecret = "the code secret of these tests, long enough"

	encryptionKey = "dGhlIGVuY3J5cHRpb24ga2V5IG9mIHRoZXNlIHRlc3Q="
)

// TestMain removes the binaries that the tests have built.
func TestMain(m *testing.M) {
	status := m.Run()
	if folder, err := binaries(); err == nil {
		os.RemoveAll(folder)
	}
	os.Exit(status)
}

// binaries is the folder of the binaries.
var binaries = sync.OnceValues(func() (string, error) { return os.MkdirTemp("", "linkforge-test-") })

// The program is built once as it is and, for tests that ask many things at once, once with the
// race detector, where scripts/test has it: see underRace.
var (
	plainBinary = sync.OnceValues(func() (string, error) { return build("linkforge") })
	racedBinary = sync.OnceValues(func() (string, error) {
		if !underRace() {
			return plainBinary()
		}
		return build("linkforge-race", "-race", "-gcflags=modernc.org/...=-race=false",
			"-gcflags=golang.org/x/crypto/...=-race=false")
	})
)

func build(name string, flags ...string) (path string, err error) {
	folder, err := binaries()
	if err != nil {
		return "", err
	}
	path = filepath.Join(folder, name)
	flags = append([]string{"build", "-o", path, "-ldflags",
		"-X github.com/linkforge/linkforge/internal/account.cheap=yes"}, flags...)
	if out, err := exec.Command("go", append(flags, ".")...).CombinedOutput(); err != nil {
		return "", fmt.Errorf("building the server: %w\n%s", err, out)
	}
	return path, nil
}

// underRace reports whether servers under concurrent load are built with the race detector: if the
// tests are, or by an environment variable.
func underRace() bool {
	if os.Getenv("LINKFORGE_TEST_RACE") == "on" {
		return true
	}
	info, _ := debug.ReadBuildInfo()
	return slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}

// sized returns a size that is small in the suite, and larger by an environment variable.
func sized(variable string, small int) int {
	if n, err := strconv.Atoi(os.Getenv(variable)); err == nil {
		return n
	}
	return small
}

// program prepares a process of a binary, with an environment of its own.
func program(ctx context.Context, t testing.TB, binary func() (string, error), env []string, args ...string) *exec.Cmd {
	t.Helper()
	proctest.SkipShort(t)
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	p := exec.CommandContext(ctx, path, args...)
	p.Dir = t.TempDir()
	p.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "LINKFORGE_") })
	// The race detector would otherwise sleep for a second before every exit.
	p.Env = append(append(p.Env, "GORACE=atexit_sleep_ms=0"), env...)
	return p
}

// command runs the program to its end.
func command(t testing.TB, env []string, stdin string, args ...string) (stdout, stderr string, status int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	p := program(ctx, t, plainBinary, env, args...)
	var out, err strings.Builder
	p.Stdin, p.Stdout, p.Stderr = strings.NewReader(stdin), &out, &err
	if failed := p.Run(); failed != nil && !errors.As(failed, new(*exec.ExitError)) {
		t.Fatal(failed)
	}
	return out.String(), err.String(), p.ProcessState.ExitCode()
}

// backend has the environment of servers with a kind of storage.
type backend struct {
	env []string
	// nodes is how many servers may share it.
	nodes int
	// open opens its database.
	open func() (*db.DB, error)
	// fails says that it is taken away from the servers, which may say so.
	fails bool
	// busy means concurrent load: servers have the race detector if the tests do.
	busy bool
	// binary replaces the program that is built for tests; optional.
	binary func() (string, error)
}

// raced is the backend for tests that ask many things at once.
func (b backend) raced() backend {
	b.busy = true
	return b
}

// eachBackend runs the test on SQLite with the in-process Redis, and on PostgreSQL with Redis, both migrated.
func eachBackend(t *testing.T, test func(t *testing.T, b backend)) {
	t.Helper()
	eachOf(t, embedded, production, test)
}

// eachEmptyBackend does so without tables.
func eachEmptyBackend(t *testing.T, test func(t *testing.T, b backend)) {
	t.Helper()
	eachOf(t,
		func(t testing.TB) backend { return onSQLite(filepath.Join(t.TempDir(), "data")) },
		func(t testing.TB) backend { return onPostgres(t, dbtest.PostgresURL(t)) }, test)
}

func eachOf(t *testing.T, sqlite, postgres func(testing.TB) backend, test func(*testing.T, backend)) {
	t.Helper()
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		test(t, sqlite(t))
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		t.Run("redis", func(t *testing.T) {
			t.Parallel()
			test(t, postgres(t))
		})
	})
}

// redisDatabases counts the Redis databases of tests.
var redisDatabases atomic.Int32

// alone is the backend with a database of Redis for itself: the rates of addresses are counted
// there, and all tests come from one.
func (b backend) alone(t testing.TB) backend {
	t.Helper()
	b.env = slices.Clone(b.env)
	for i, variable := range b.env {
		address, ok := strings.CutPrefix(variable, "LINKFORGE_REDIS_URL=")
		if !ok {
			continue
		}
		u, err := url.Parse(address)
		if err != nil {
			t.Fatal(err)
		}
		u.Path = fmt.Sprint("/", redisDatabases.Add(1)) // of the sixteen that Redis has
		b.env[i] = "LINKFORGE_REDIS_URL=" + u.String()
	}
	return b
}

// withRedisOf is the backend with the Redis database of another.
func (b backend) withRedisOf(other backend) backend {
	b.env = slices.Clone(b.env)
	for i, variable := range b.env {
		if strings.HasPrefix(variable, "LINKFORGE_REDIS_URL=") {
			b.env[i] = other.env[i]
		}
	}
	return b
}

// embedded is a migrated SQLite database with the in-process Redis.
func embedded(t testing.TB) backend {
	t.Helper()
	folder := filepath.Join(t.TempDir(), "data")
	dbtest.WriteMigratedSQLite(t, filepath.Join(folder, stores.DatabaseName))
	return onSQLite(folder)
}

func onSQLite(folder string) backend {
	return backend{env: []string{"LINKFORGE_DATA_DIR=" + folder}, nodes: 1, open: func() (*db.DB, error) {
		return db.OpenSQLite(filepath.Join(folder, stores.DatabaseName), 2)
	}}
}

// production is a migrated PostgreSQL database with Redis.
func production(t testing.TB) backend {
	t.Helper()
	return onPostgres(t, dbtest.MigratedPostgresURL(t))
}

func onPostgres(t testing.TB, databaseURL string) backend {
	t.Helper()
	redisURL := os.Getenv(dbtest.RedisURL)
	if redisURL == "" {
		t.Skipf("%s is not set: make test sets it", dbtest.RedisURL)
	}
	return backend{
		env: []string{
			"LINKFORGE_DATABASE_URL=" + databaseURL, "LINKFORGE_REDIS_URL=" + redisURL,
			"LINKFORGE_JWT_SECRET=" + jwtSecret, "LINKFORGE_CODE_SECRET=" + codeSecret, "LINKFORGE_DATA_DIR=" + t.TempDir(),
			"LINKFORGE_ENCRYPTION_KEY=" + encryptionKey,
		},
		nodes: 2,
		open:  func() (*db.DB, error) { return db.OpenPostgres(databaseURL, 2) },
	}
}

// server is a running Linkforge.
type server struct {
	t testing.TB
	// address is where it listens, public the URL that it believes to have.
	address, public string
	env             []string
	process         *exec.Cmd
	out, err        *os.File
	exited          chan struct{}
	http            *http.Client
	fails           bool
	binary          func() (string, error)
}

// start starts a server and waits until it is ready. Rate limits are off: all tests come from one
// address.
func start(t testing.TB, b backend, settings ...string) *server {
	t.Helper()
	return startAll(t, b, 1, settings...)[0]
}

// startAll starts n servers with the same backend and the first one's public URL, and waits until
// they are ready.
func startAll(t testing.TB, b backend, n int, settings ...string) []*server {
	t.Helper()
	var all []*server
	for range n {
		s := &server{t: t, address: freeAddress(t), fails: b.fails, binary: plainBinary}
		if b.busy {
			s.binary = racedBinary
		}
		if b.binary != nil {
			s.binary = b.binary
		}
		if s.public = "http://" + s.address; len(all) > 0 {
			s.public = all[0].public
		}
		s.env = slices.Concat(b.env, []string{
			"LINKFORGE_LISTEN=" + s.address, "LINKFORGE_PUBLIC_URL=" + s.public, "LINKFORGE_RATE_LIMITS=off",
		}, settings)
		s.launch()
		all = append(all, s)
	}
	for _, s := range all {
		s.awaitReady()
	}
	return all
}

// freeAddress returns an unused loopback address outside of the ephemeral ports.
func freeAddress(t testing.TB) string {
	t.Helper()
	for {
		address := fmt.Sprintf("127.0.0.1:%d", 20_000+rand.IntN(12_000))
		if l, err := net.Listen("tcp", address); err == nil {
			l.Close()
			return address
		}
	}
}

// launch starts the process. It is killed after the test, and fails it when it has said something
// alarming.
func (s *server) launch() {
	s.t.Helper()
	s.process = program(context.Background(), s.t, s.binary, s.env)
	folder := s.t.TempDir()
	for name, file := range map[string]**os.File{"stdout": &s.out, "stderr": &s.err} {
		var err error
		if *file, err = os.Create(filepath.Join(folder, name)); err != nil {
			s.t.Fatal(err)
		}
	}
	s.process.Stdout, s.process.Stderr = s.out, s.err
	s.http = &http.Client{
		Transport:     &http.Transport{MaxIdleConnsPerHost: 1000, DisableCompression: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Timeout:       patience,
	}
	if err := s.process.Start(); err != nil {
		s.t.Fatal(err)
	}
	process, exited := s.process, make(chan struct{})
	s.exited = exited
	go func() {
		defer close(exited)
		_ = process.Wait() // the exit status is in ProcessState
	}()
	out, err, alarms := s.out, s.err, []string{"DATA RACE", "panic", "level=ERROR"}
	if s.fails {
		alarms = alarms[:2]
	}
	s.t.Cleanup(func() {
		_ = process.Process.Kill() // it may have ended
		<-exited
		inspect(s.t, out, err, alarms...)
	})
}

// maxWarnings is how many warnings of a server are shown after a failure.
const maxWarnings = 20

var warning = regexp.MustCompile("(?m)^.*level=(WARN|ERROR).*$")

// inspect fails the test if the server's log contains an alarm. After any failure it shows the server's warnings.
func inspect(t testing.TB, out, err *os.File, alarms ...string) {
	said := content(t, err)
	for _, alarm := range alarms {
		if at := strings.Index(said, alarm); at >= 0 {
			t.Errorf("the server's stderr holds %q:\n%.5000s", alarm, said[max(0, at-100):])
			break
		}
	}
	if t.Failed() {
		for _, line := range warning.FindAllString(said, maxWarnings) {
			t.Logf("%.500s", line)
		}
	}
	out.Close()
	err.Close()
}

func content(t testing.TB, f *os.File) string {
	t.Helper()
	text, err := os.ReadFile(f.Name())
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// awaitReady waits until the server says that it is ready.
func (s *server) awaitReady() {
	s.t.Helper()
	polltest.Until(s.t, "the server is ready", func() bool {
		select {
		case <-s.exited:
			s.t.Fatalf("the server ended with %s:\n%s", s.process.ProcessState, content(s.t, s.err))
		default:
		}
		return s.isReady()
	})
}

func (s *server) isReady() bool {
	a, err := s.get("/readyz")
	return err == nil && a.status == http.StatusOK
}

// terminate sends the server a termination signal.
func (s *server) terminate() {
	s.t.Helper()
	if err := s.process.Process.Signal(syscall.SIGTERM); err != nil {
		s.t.Fatal(err)
	}
}

// awaitExit waits until the process has ended, which must be in good order.
func (s *server) awaitExit() {
	s.t.Helper()
	select {
	case <-s.exited:
	case <-time.After(patience):
		s.t.Fatalf("the server does not end:\n%s", content(s.t, s.err))
	}
	if status := s.process.ProcessState.ExitCode(); status != 0 {
		s.t.Errorf("the server ended with %s:\n%s", s.process.ProcessState, content(s.t, s.err))
	}
}

// stop ends the server in good order.
func (s *server) stop() {
	s.t.Helper()
	s.terminate()
	s.awaitExit()
}

// again restarts the server with its previous data.
func (s *server) again() {
	s.t.Helper()
	s.launch()
	s.awaitReady()
}
