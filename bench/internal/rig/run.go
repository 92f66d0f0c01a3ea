package rig

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Main runs a benchmark or drill until it ends or is interrupted. It exits with 1 when run returns
// an error.
func Main(name string, run func(ctx context.Context, args []string) error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintf(os.Stderr, "bench/%s: %v\n", name, err)
		os.Exit(1)
	}
}

// Run is one run of a benchmark or drill: its folder, its databases, its processes, and what went
// wrong.
type Run struct {
	// Folder has everything that is written, Server is the binary to measure, Self this program.
	Folder, Server, Self string
	Services             *Services
	Say                  func(format string, args ...any)
	// Wrong is what must not have happened, Others how many cores other processes used, burst by
	// burst.
	Wrong     []string
	Others    []float64
	Generator []float64 // CPU µs of the load generator for a request
	processes []*Process
	wrk       string
	mu        sync.Mutex // guards Wrong
}

// NewRun creates a folder, builds the server unless it is given, and creates a database on either
// service. What it returns is to be closed, also when there is an error.
func NewRun(ctx context.Context, server string, progress io.Writer) (r *Run, err error) {
	r = &Run{Server: server, Say: Progress(progress)}
	if r.Self, err = os.Executable(); err != nil {
		return r, err
	}
	databaseURL, redisURL := os.Getenv("LINKFORGE_TEST_DATABASE_URL"), os.Getenv("LINKFORGE_TEST_REDIS_URL")
	if databaseURL == "" || redisURL == "" {
		return r, errors.New("PostgreSQL and Redis are needed: scripts/with-services provides them")
	}
	found, err := FindPrograms(ctx, r.Say, Program{"wrk", "wrk"})
	if err != nil {
		return r, err
	}
	r.wrk = found["wrk"]
	if r.Folder, err = os.MkdirTemp("", "linkforge-bench."); err != nil {
		return r, err
	}
	if err := os.Chmod(r.Folder, 0o711); err != nil { // nginx's workers are unprivileged, and read in it
		return r, err
	}
	if r.Server == "" {
		if r.Server, err = Build(ctx, r.Folder); err != nil {
			return r, err
		}
		r.Say("the server is built")
	}
	r.Services, err = OpenServices(ctx, databaseURL, redisURL)
	return r, err
}

// Close stops and removes everything that is left.
func (r *Run) Close() (err error) {
	for _, p := range slices.Backward(r.processes) {
		err = errors.Join(err, p.Stop())
	}
	err = errors.Join(err, r.Services.Close())
	if r.Folder != "" {
		err = errors.Join(err, os.RemoveAll(r.Folder))
	}
	return err
}

// Problems is an error when something happened that must not have.
func (r *Run) Problems() error {
	if len(r.Wrong) == 0 {
		return nil
	}
	return errors.New(strings.Join(r.Wrong, "\n"))
}

// Progress prints lines with the time since it was called.
func Progress(w io.Writer) func(format string, args ...any) {
	began := time.Now()
	return func(format string, args ...any) {
		fmt.Fprintf(w, "%6.1f s  %s\n", time.Since(began).Seconds(), fmt.Sprintf(format, args...))
	}
}

const (
	// Unlimited is a quota or rate that is counted and never reached.
	Unlimited = 1 << 40
	// Secret is what servers of one run sign with.
	Secret = "benchmarkbenchmarkbenchmarkbenchmark"
	// PublicURL is for servers that share sessions: tokens are valid at one URL. No request goes
	// there.
	PublicURL = "http://sho.rt"
)

// ServicesEnv names the run's PostgreSQL and Redis to a server.
func (r *Run) ServicesEnv() []string {
	return []string{"LINKFORGE_DATABASE_URL=" + r.Services.DatabaseURL, "LINKFORGE_REDIS_URL=" + r.Services.RedisURL}
}

// Serve starts a Linkforge and waits until it is ready, with everything on that neither queries the
// internet nor refuses load. Later settings replace earlier ones.
func (r *Run) Serve(ctx context.Context, name, binary string, env ...string) (*Process, error) {
	address, err := FreeAddress()
	if err != nil {
		return nil, err
	}
	limit := strconv.Itoa(Unlimited)
	p, err := r.StartServer(ctx, name, address, append([]string{
		"LINKFORGE_LISTEN=" + address, "LINKFORGE_PUBLIC_URL=http://" + address, "LINKFORGE_ENV=production",
		"LINKFORGE_LOG_LEVEL=warn",
		"LINKFORGE_LOG_FORMAT=json", "LINKFORGE_DATA_DIR=" + filepath.Join(r.Folder, name+"-data"), "LINKFORGE_JWT_SECRET=" +
			Secret,
		"LINKFORGE_CODE_SECRET=" + Secret, "LINKFORGE_RATE_LIMITS=off", "LINKFORGE_DESTINATION_CHECKS=off",
		"LINKFORGE_LINK_QUOTA=" + limit, "LINKFORGE_HIT_QUOTA=" + limit,
	}, env...), binary, "serve")
	if err != nil {
		return nil, err
	}
	return p, AwaitReady(ctx, address)
}

// Helper starts this program as another process, which listens at the address that follows its
// arguments.
func (r *Run) Helper(ctx context.Context, name string, env []string, args ...string) (*Process, error) {
	address, err := FreeAddress()
	if err != nil {
		return nil, err
	}
	return r.StartServer(ctx, name, address, env, append(append([]string{r.Self}, args...), address)...)
}

// StartServer starts a process that listens at the address; Close stops it.
func (r *Run) StartServer(
	ctx context.Context, name, address string, env []string, command ...string,
) (*Process, error) {
	p, err := Start(ctx, r.Folder, name, address, env, command...)
	if err == nil {
		r.processes = append(r.processes, p)
	}
	return p, err
}

// Command runs a command of the server's binary to its end.
func (r *Run) Command(ctx context.Context, env []string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, r.Server, args...)
	cmd.Env = append(CleanEnvironment(), env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("linkforge %s: %w: %.2000s", strings.Join(args, " "), err, out)
	}
	return string(out), err
}

// Figures are the results of one burst.
type Figures struct {
	Rate        float64 // requests a second
	Own, Beside float64 // CPU µs a request: of the target, and of PostgreSQL and Redis
	P50, P99    float64 // ms
	Bytes       float64 // of an answer's body
	Rest        float64 // seconds until deferred work was done
}

// CPU is the CPU time of a request in µs.
func (f Figures) CPU() float64 { return f.Own + f.Beside }

// Target is what a load is sent to: processes of its own, and those that work for it.
type Target struct {
	Name        string
	Own, Beside []int
}

// Measure drives a target for a burst, after a shorter one that warms it up. Work that its
// processes defer is included.
func (r *Run) Measure(
	ctx context.Context, t Target, warmUp time.Duration, l Load,
) (f Figures, o, before Outcome, err error) {
	first := l
	first.Burst = warmUp
	if before, err = r.Drive(ctx, t.Name, first); err != nil {
		return f, o, before, err
	}
	l.First = before.Next
	used, rest, err := r.Use(ctx, t, func() error {
		o, err = r.Drive(ctx, t.Name, l)
		return err
	})
	if err != nil {
		return f, o, before, err
	}
	f = FiguresOf(o, used)
	f.Rest = rest.Seconds()
	r.Note(used, o.CPU, o.Right)
	return f, o, before, nil
}

// Note remembers what the load generator and other processes used meanwhile.
func (r *Run) Note(used Usage, generator time.Duration, requests int64) {
	r.Generator = append(r.Generator, Micros(generator)/float64(max(requests, 1)))
	r.Others = append(r.Others, max(0, (used.Machine-used.Own-used.Beside-generator).Seconds()/used.At.Seconds()))
}

// FiguresOf divides what was used by the right answers.
func FiguresOf(o Outcome, used Usage) Figures {
	n := float64(max(o.Right, 1))
	return Figures{
		Rate: float64(o.Right) / max(o.Took.Seconds(), 1e-9), Own: Micros(used.Own) / n, Beside: Micros(used.Beside) / n,
		P50: Millis(o.P50), P99: Millis(o.P99), Bytes: float64(o.Bytes) / n,
	}
}

// Use returns what a target uses while something is done, until it is at rest.
func (r *Run) Use(ctx context.Context, t Target, do func() error) (used Usage, rest time.Duration, err error) {
	before, err := Used(t.Own, t.Beside)
	if err != nil {
		return used, 0, err
	}
	if err := do(); err != nil {
		return used, 0, err
	}
	if rest, err = Rest(ctx, append(slices.Clone(t.Own), t.Beside...), 5*time.Minute); err != nil {
		return used, 0, err
	}
	after, err := Used(t.Own, t.Beside)
	return after.Minus(before), rest, err
}

// ReportMachine prints what else was going on.
func (r *Run) ReportMachine(w io.Writer) {
	same := func(f float64) float64 { return f }
	fmt.Fprintf(w, "- wrk used %s µs a request, on %d of the machine's %d cores. Other processes used %s cores.\n",
		Spread(r.Generator, "%.1f", same), generatorThreads(), runtime.NumCPU(), Spread(r.Others, "%.1f", same))
	if len(r.Services.PIDs()) < 2 {
		fmt.Fprintln(w, "- PostgreSQL or Redis is on another machine: its CPU time is not included.")
	}
}
