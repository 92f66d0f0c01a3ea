// Package rig is what benchmarks and drills share: databases of the run's own, servers as
// processes, wrk as the load generator, CPU time, GraphQL requests and reports. It needs Linux.
//
// A failed step ends the run, as in a test: Check and Must panic, and Try, Parallel and Main
// recover. What Cleanup registers runs in any case.
package rig

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
)

type failure struct{ err error }

// Check ends the run with the error, if there is one.
func Check(err error) { check(err, 2) }

// Must returns the value, or ends the run with the error.
func Must[T any](value T, err error) T {
	check(err, 2)
	return value
}

// Failf ends the run.
func Failf(format string, args ...any) { check(fmt.Errorf(format, args...), 2) }

func check(err error, skip int) {
	if err == nil {
		return
	}
	if _, file, line, ok := runtime.Caller(skip); ok {
		err = fmt.Errorf("%s:%d: %w", filepath.Join(filepath.Base(filepath.Dir(file)), filepath.Base(file)), line, err)
	}
	panic(failure{err})
}

// Try returns the error that do failed with.
func Try(do func()) (err error) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case failure:
			err = p.err
		default:
			panic(p)
		}
	}()
	do()
	return nil
}

// Parallel runs functions at the same time, and fails when one of them has failed.
func Parallel(all ...func()) {
	errs := make([]error, len(all))
	var running sync.WaitGroup
	for i, do := range all {
		running.Go(func() { errs[i] = Try(do) })
	}
	running.Wait()
	check(errors.Join(errs...), 2)
}

// InBatches calls do for batches of a size, callers at a time.
func InBatches(total, size, callers int, do func(from, to int)) {
	batches := make(chan int, total/size+1)
	for from := 0; from < total; from += size {
		batches <- from
	}
	close(batches)
	Parallel(slices.Repeat([]func(){func() {
		for from := range batches {
			do(from, min(from+size, total))
		}
	}}, callers)...)
}

// Run is one run of a benchmark or drill: its folder, its databases and its processes.
type Run struct {
	context.Context
	// Folder holds all files of the run, Server is the binary to measure.
	Folder, Server string
	// DatabaseURL and RedisURL name databases of the run's own after OpenServices.
	DatabaseURL, RedisURL string
	Redis                 *redis.Client
	// Patience is how long Await waits; zero selects two minutes.
	Patience time.Duration
	// User runs servers and commands; nil is the user of the run.
	User *syscall.Credential
	// ServicePIDs are the processes of PostgreSQL and Redis, as far as they are on this machine.
	ServicePIDs []int
	// Wrong lists results that fail the run, Others how many cores other processes used in each
	// burst, Generator the CPU µs of the load generator for a request.
	Wrong             []string
	Others, Generator []float64

	began    time.Time
	wrk      string
	cleanups []func() error
	mu       sync.Mutex // guards Wrong and cleanups
}

var serverFlag = flag.String("server", "", "the linkforge binary to measure; built from this tree when empty")

// Helpers are processes that a benchmark starts from its own binary, by their name.
type Helpers map[string]func(ctx context.Context, args []string)

// Main runs a benchmark or drill, or a helper if the first argument names one. It exits with 1 when
// the run has failed.
func Main(run func(*Run), helpers Helpers) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	flag.Parse()
	r := &Run{Context: ctx, began: time.Now()}
	var err error
	if helper := helpers[flag.Arg(0)]; helper != nil {
		err = Try(func() { helper(ctx, flag.Args()[1:]) })
	} else {
		err = Try(func() {
			r.open()
			run(r)
			if len(r.Wrong) > 0 {
				Failf("%s", strings.Join(r.Wrong, "\n"))
			}
		})
	}
	for _, cleanup := range slices.Backward(r.cleanups) {
		err = errors.Join(err, cleanup())
	}
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func (r *Run) open() {
	if flag.NArg() > 0 {
		Failf("unexpected argument %q", flag.Arg(0))
	}
	r.Folder = Must(os.MkdirTemp("", "linkforge-bench."))
	r.Cleanup(func() error { return os.RemoveAll(r.Folder) })
	Check(os.Chmod(r.Folder, 0o711)) // servers that run as other users read files in it
	if r.Server = *serverFlag; r.Server == "" {
		r.Server = filepath.Join(r.Folder, "linkforge")
		r.Build(Root(r), r.Server)
	}
}

// Cleanup registers a function to call at the end of the run, the last one first.
func (r *Run) Cleanup(do func() error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cleanups = append(r.cleanups, do)
}

// Say prints a line of progress.
func (r *Run) Say(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "%6.1f s  %s\n", time.Since(r.began).Seconds(), fmt.Sprintf(format, args...))
}

// Timed runs a step, and returns how long it took.
func (r *Run) Timed(step string, do func()) time.Duration {
	r.Say("%s", step)
	began := time.Now()
	do()
	return time.Since(began)
}

// Wrongf notes a wrong result, which fails the run at its end.
func (r *Run) Wrongf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Wrong = append(r.Wrong, fmt.Sprintf(format, args...))
}

// Pause returns after a duration. It ends the run when the run was interrupted.
func (r *Run) Pause(d time.Duration) {
	select {
	case <-r.Done():
		Failf("interrupted")
	case <-time.After(d):
	}
}

// Await polls until a condition holds, and fails after Patience.
func (r *Run) Await(what string, holds func() bool) {
	patience := cmp.Or(r.Patience, 2*time.Minute)
	for began := time.Now(); !holds(); r.Pause(20 * time.Millisecond) {
		if time.Since(began) > patience {
			Failf("waited %s until %s", patience, what)
		}
	}
}

// Output runs a command to its end, and returns its standard output and error.
func (r *Run) Output(env []string, command ...string) (string, error) {
	cmd := exec.CommandContext(r, command[0], command[1:]...)
	cmd.Dir, cmd.Env = r.Folder, append(cleanEnvironment(), env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: r.User}
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%s: %w: %.2000s", strings.Join(command[:min(3, len(command))], " "), err, out)
	}
	return string(out), err
}

// Linkforge runs a command of the server's binary.
func (r *Run) Linkforge(env []string, args ...string) (string, error) {
	return r.Output(env, append([]string{r.Server}, args...)...)
}

// Root returns the folder of the server's module.
func Root(ctx context.Context) string {
	out := Must(exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/linkforge/linkforge").
		Output())
	return strings.TrimSpace(string(out))
}

// Build builds the server from a source tree.
func (r *Run) Build(source, binary string) {
	r.Say("building %s", filepath.Base(binary))
	Must(r.Output(nil, "go", "-C", source, "build", "-trimpath", "-o", binary, "./server"))
}

// BuildRevision builds the server from a git revision.
func (r *Run) BuildRevision(revision, binary string) {
	source := binary + "-source"
	Check(os.Mkdir(source, 0o700))
	Must(r.Output(nil, "sh", "-c", "git -C "+Root(r)+" archive "+revision+" | tar -x -C "+source))
	r.Build(source, binary)
}

// BuildEarlier builds the server from the git revision of the flag -from, and returns the binary.
func (r *Run) BuildEarlier(from string) (binary string) {
	if from == "" {
		Failf("-from is missing: the revision to compare with")
	}
	binary = filepath.Join(r.Folder, "linkforge-before")
	r.BuildRevision(from, binary)
	return binary
}

// Program returns the path of a program that the run needs. Debian has PostgreSQL's and daemons in
// folders that are not on PATH.
func Program(name string) string {
	candidates := Must(filepath.Glob("/usr/lib/postgresql/*/bin/" + name)) // the newest is the last
	for _, candidate := range slices.Backward(append(candidates, "/usr/sbin/"+name, name)) {
		if path, err := exec.LookPath(candidate); err == nil {
			return path
		}
	}
	Failf("%s is not installed. Debian packages of all programs: postgresql pgbouncer redis nginx wrk openssl", name)
	return ""
}
