package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"

	"github.com/linkforge/linkforge/internal/cli"
	"github.com/linkforge/linkforge/internal/platform/config"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/poll/polltest"
	"github.com/linkforge/linkforge/internal/platform/proctest"
	"github.com/linkforge/linkforge/internal/platform/redisx"
	"github.com/linkforge/linkforge/internal/stores"
)

const (
	// patience is how long a test waits for what must happen, on a busy machine.
	patience = 60 * time.Second
	// pollEvery is the poll interval.
	pollEvery = 10 * time.Millisecond

	jwtSecret  = "the log-in secret of these tests, long enough"
	codeSecret = "the code secret of these tests, long enough"

	// asProgram makes a process of the test's binary the program if it is "on" or, for a child of the test, "child".
	// productionCost sets the cost of password hashes to that of production if it is "on".
	// clockAhead is a duration by which the clock of the program is ahead of the machine's.
	asProgram      = "LINKFORGE_TEST_AS_PROGRAM"
	productionCost = "LINKFORGE_TEST_PRODUCTION_COST"
	clockAhead     = "LINKFORGE_TEST_CLOCK_AHEAD"
	// certificatePaceVariable has the certificatePace of the program.
	certificatePaceVariable = "LINKFORGE_TEST_CERTIFICATE_PACE"

	encryptionKey = "dGhlIGVuY3J5cHRpb24ga2V5IG9mIHRoZXNlIHRlc3Q="
)

// childPipe is the file descriptor of a pipe that ends with the test's process, and with it the child, however it ends.
const childPipe = 3

// parentPipe returns both ends of that pipe. Children inherit the first one.
var parentPipe = sync.OnceValue(func() [2]*os.File {
	inherited, held, err := os.Pipe()
	if err != nil {
		panic(err)
	}
	return [2]*os.File{inherited, held}
})

// TestMain runs the program in processes that tests start. Otherwise it removes settings from the environment and
// runs the tests.
func TestMain(m *testing.M) {
	if os.Getenv(productionCost) != "on" {
		passwordCost = bcrypt.MinCost
	}
	if text := os.Getenv(clockAhead); text != "" {
		ahead, err := time.ParseDuration(text)
		if err != nil {
			panic(err)
		}
		clock = func() time.Time { return time.Now().Add(ahead) }
	}
	if text := os.Getenv(certificatePaceVariable); text != "" {
		pace, err := time.ParseDuration(text)
		if err != nil {
			panic(err)
		}
		certificatePace = pace
	}
	switch os.Getenv(asProgram) {
	case "child":
		go func() {
			_, _ = io.Copy(io.Discard, os.NewFile(childPipe, "parent"))
			os.Exit(1)
		}()
		fallthrough
	case "on":
		main()
		os.Exit(0)
	}
	for _, variable := range os.Environ() {
		name, _, _ := strings.Cut(variable, "=")
		if strings.HasPrefix(name, "LINKFORGE_") && !strings.HasPrefix(name, "LINKFORGE_TEST_") {
			os.Unsetenv(name)
		}
	}
	redisx.LogTo(slog.New(slog.DiscardHandler))
	os.Exit(m.Run())
}

// program prepares a process of the program, with an environment of its own.
func program(ctx context.Context, t testing.TB, env []string, args ...string) *exec.Cmd {
	t.Helper()
	proctest.SkipShort(t)
	p := exec.CommandContext(ctx, os.Args[0], args...)
	p.Dir = t.TempDir()
	p.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "LINKFORGE_") })
	// The race detector would otherwise sleep for a second before every exit.
	p.Env = slices.Concat(p.Env, []string{asProgram + "=child", "GORACE=atexit_sleep_ms=0"}, env)
	p.ExtraFiles = []*os.File{parentPipe()[0]}
	return p
}

// command runs a command of the program to its end, in this process if possible.
func command(t testing.TB, env []string, stdin string, args ...string) (stdout, stderr string, status int) {
	t.Helper()
	return commandOn(t, false, env, stdin, args...)
}

// commandOn is command of a person on a terminal, or of a program.
func commandOn(
	t testing.TB, terminal bool, env []string, stdin string, args ...string,
) (stdout, stderr string, status int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var out, err strings.Builder
	// which change or end the process
	if slices.Contains(args, "--help") || slices.Contains(args, "help") || slices.Contains(args, "serve") {
		p := program(ctx, t, env, args...)
		p.Stdout, p.Stderr = &out, &err
		if failed := p.Run(); failed != nil && !errors.As(failed, new(*exec.ExitError)) {
			t.Fatal(failed)
		}
		return out.String(), err.String(), p.ProcessState.ExitCode()
	}
	variables := settings(t, env)
	std := cli.IO{In: strings.NewReader(stdin), Out: &out, Err: &err, Terminal: terminal,
		Getenv: func(name string) string { return variables[name] }}
	status = report(run(ctx, append(flags(t, env), args...), std), &err)
	return out.String(), err.String(), status
}

// noFlags are the variables that are secrets of clients.
var noFlags = []string{"LINKFORGE_API_KEY", "LINKFORGE_SOURCE_TOKEN"}

// flags returns the command line of an environment.
func flags(t testing.TB, env []string) (all []string) {
	t.Helper()
	for name, value := range settings(t, env) {
		if slices.Contains(noFlags, name) {
			continue
		}
		all = append(all, "--"+strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(name, "LINKFORGE_"), "_", "-"))+
			"="+value)
	}
	return all
}

// settings returns an environment as a map. The last of several values counts.
func settings(t testing.TB, env []string) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, variable := range env {
		name, value, _ := strings.Cut(variable, "=")
		if !strings.HasPrefix(name, "LINKFORGE_") {
			t.Fatalf("%s is no setting: it needs a process", name)
		}
		all[name] = value
	}
	return all
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
	// ownProcess starts each server as a process.
	ownProcess bool
}

// inProcesses returns the backend with one process for each server, for tests that kill, stop or
// measure servers.
func (b backend) inProcesses() backend {
	b.ownProcess = true
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

// redisDatabases has the Redis databases that no test uses, of the sixteen that Redis has.
var redisDatabases = func() chan int {
	free := make(chan int, 15)
	for n := 1; n <= cap(free); n++ {
		free <- n
	}
	return free
}()

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
		u := must.Value(url.Parse(address))(t)
		n := <-redisDatabases
		u.Path = fmt.Sprint("/", n)
		b.env[i] = "LINKFORGE_REDIS_URL=" + u.String()
		k := dbtest.Redis(t, u.String())
		t.Cleanup(func() {
			if err := k.FlushDB(context.WithoutCancel(t.Context())).Err(); err != nil {
				t.Error(err)
			}
			redisDatabases <- n
		})
	}
	return b
}

// withRedis is the backend with another Redis.
func (b backend) withRedis(redisURL string) backend {
	b.env = append(slices.DeleteFunc(slices.Clone(b.env), func(variable string) bool {
		return strings.HasPrefix(variable, "LINKFORGE_REDIS_URL=")
	}), "LINKFORGE_REDIS_URL="+redisURL)
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
	env := []string{"LINKFORGE_DATA_DIR=" + folder, "LINKFORGE_DATABASE_URL=sqlite"}
	return backend{env: env, nodes: 1, open: func() (*db.DB, error) {
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
		env: []string{ // a connection costs PostgreSQL as much as tens of requests
			"LINKFORGE_DATABASE_URL=" + databaseURL, "LINKFORGE_REDIS_URL=" + redisURL,
			"LINKFORGE_JWT_SECRET=" + jwtSecret, "LINKFORGE_CODE_SECRET=" + codeSecret,
			"LINKFORGE_DATA_DIR=" + t.TempDir(),
			"LINKFORGE_ENCRYPTION_KEY=" + encryptionKey, "LINKFORGE_DATABASE_POOL=6",
		},
		nodes: 2,
		open:  func() (*db.DB, error) { return db.OpenPostgres(databaseURL, 2) },
	}
}

// server is a running Linkforge, in the process of the test or in its own.
type server struct {
	t testing.TB
	// address is where it listens, public the URL that it believes to have.
	address, public   string
	env               []string
	http              *http.Client
	out, err          *os.File
	ownProcess, fails bool
	// mail receives the mail of the server; nil if it sends none.
	mail *mailbox

	// process is nil if the server runs in the process of the test; cancel ends the server then.
	process *exec.Cmd
	cancel  context.CancelFunc
	exited  chan struct{}
	failure error // set when the server has exited
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
		s := &server{t: t, address: proctest.FreeAddress(), ownProcess: b.ownProcess, fails: b.fails, http: newClient()}
		if s.public = "http://" + s.address; len(all) > 0 {
			s.public = all[0].public
		}
		s.env = slices.Concat(b.env, []string{
			"LINKFORGE_LISTEN=" + s.address, "LINKFORGE_PUBLIC_URL=" + s.public, "LINKFORGE_RATE_LIMITS=off",
			"LINKFORGE_DRAIN_DELAY=0s",
		}, settings)
		s.launch()
		all = append(all, s)
	}
	for _, s := range all {
		s.awaitReady()
	}
	return all
}

// newTransport returns a transport with connections for many requests at a time. Go dials for each
// one that finds none idle, and keeps the connection if another becomes idle before; the server
// closes one without a request after five seconds. So the client closes idle ones before that, or a
// request could meet the end of its connection.
func newTransport() *http.Transport {
	return &http.Transport{MaxIdleConnsPerHost: 1000, IdleConnTimeout: 3 * time.Second, DisableCompression: true}
}

// newClient returns a client that follows no redirects.
func newClient() *http.Client {
	return &http.Client{
		Transport:     newTransport(),
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Timeout:       patience,
	}
}

// launch starts the server. It ends after the test, and fails it if it has logged something alarming.
func (s *server) launch() {
	s.t.Helper()
	folder := s.t.TempDir()
	for name, file := range map[string]**os.File{"stdout": &s.out, "stderr": &s.err} {
		var err error
		if *file, err = os.Create(filepath.Join(folder, name)); err != nil {
			s.t.Fatal(err)
		}
	}
	s.http.CloseIdleConnections() // to the server before it
	var end func()
	exited := make(chan struct{})
	s.exited = exited
	if s.ownProcess {
		end = s.launchProcess()
	} else {
		end = s.launchHere()
	}
	out, err, alarms := s.out, s.err, []string{"DATA RACE", "panic", "level=ERROR"}
	if s.fails {
		alarms = alarms[:2]
	}
	s.t.Cleanup(func() {
		s.http.CloseIdleConnections()
		end()
		<-exited
		if !s.ownProcess && s.failure != nil && !s.fails {
			s.t.Errorf("the server ended with %v", s.failure)
		}
		inspect(s.t, out, err, alarms...)
	})
}

// launchProcess starts a process, and returns what kills it.
func (s *server) launchProcess() (kill func()) {
	s.t.Helper()
	process, exited := program(context.Background(), s.t, s.env), s.exited
	process.Stdout, process.Stderr = s.out, s.err
	if err := process.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.process = process
	go func() {
		defer close(exited)
		s.failure = process.Wait()
	}()
	return func() { _ = process.Process.Kill() } // it may have ended
}

// launchHere serves in this process, and returns what stops it.
func (s *server) launchHere() (stop func()) {
	s.t.Helper()
	c, err := config.Parse(settings(s.t, s.env), stores.Checks)
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	s.cancel = cancel
	out, exited, log := s.out, s.exited, newLogger(s.err, !c.LogText, c.LogLevel)
	go func() {
		defer close(exited)
		s.failure = serve(ctx, c, log, out)
	}()
	return cancel
}

// maxWarnings is how many warnings of a server are shown after a failure.
const maxWarnings = 20

var warning = regexp.MustCompile("(?m)^.*level=(WARN|ERROR).*$")

// overload matches the alarms of a node that a busy machine keeps from its Redis for longer than its deadline.
var overload = regexp.MustCompile("(?m)^.*level=ERROR.*(Redis does not answer|Quotas cannot be checked).*$")

// inspect fails the test if the server's log contains an alarm, other than of overload. After any
// failure it shows the server's warnings.
func inspect(t testing.TB, out, err *os.File, alarms ...string) {
	said := content(t, err)
	alarming := overload.ReplaceAllString(said, "")
	for _, alarm := range alarms {
		if at := strings.Index(alarming, alarm); at >= 0 {
			t.Errorf("the server's stderr holds %q:\n%.5000s", alarm, alarming[max(0, at-100):])
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
	text := must.Value(os.ReadFile(f.Name()))(t)
	return string(text)
}

// awaitReady waits until the server says that it is ready.
func (s *server) awaitReady() {
	s.t.Helper()
	polltest.Until(s.t, "the server is ready", func() bool {
		select {
		case <-s.exited:
			s.t.Fatalf("the server ended: %v\n%s", s.failure, content(s.t, s.err))
		default:
		}
		return s.isReady()
	})
}

func (s *server) isReady() bool {
	a, err := s.get("/readyz")
	return err == nil && a.status == http.StatusOK
}

// terminate has the server stop, in a process by a signal.
func (s *server) terminate() {
	s.t.Helper()
	if !s.ownProcess {
		s.cancel()
		return
	}
	if err := s.process.Process.Signal(syscall.SIGTERM); err != nil {
		s.t.Fatal(err)
	}
}

// kill ends the process of the server by SIGKILL.
func (s *server) kill() {
	s.t.Helper()
	if err := s.process.Process.Kill(); err != nil {
		s.t.Fatal(err)
	}
	<-s.exited
}

// killAndRestart kills the process of the server, and starts another one with its data.
func (s *server) killAndRestart() {
	s.t.Helper()
	s.kill()
	s.again()
}

// awaitExit waits until the server has ended, which must be in good order.
func (s *server) awaitExit() {
	s.t.Helper()
	select {
	case <-s.exited:
	case <-time.After(patience):
		s.t.Fatalf("the server does not end:\n%s", content(s.t, s.err))
	}
	if s.failure != nil {
		s.t.Errorf("the server ended with %v:\n%s", s.failure, content(s.t, s.err))
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
