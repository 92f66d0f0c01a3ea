package rig

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/prometheus/procfs"
)

const stopTimeout = 2 * time.Minute

// Command is a server to start.
type Command struct {
	Name    string
	Address string // where it listens
	Args    []string
	Env     []string
	Quit    syscall.Signal // ends it; SIGTERM when zero
}

// Process is a server that the run has started.
type Process struct {
	Command
	PID     int
	log     string // a file
	process *os.Process
	ended   chan struct{}
	err     error // once it has ended
}

// Start starts a server, and waits until it listens. The end of the run stops it. It has a process
// group of its own, so that Ctrl-C does not end servers in any order.
func (r *Run) Start(c Command) *Process {
	if c.Quit == 0 {
		c.Quit = syscall.SIGTERM
	}
	p := &Process{Command: c, log: filepath.Join(r.Folder, c.Name+".log"), ended: make(chan struct{})}
	log := Must(os.OpenFile(p.log, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600))
	defer log.Close()
	cmd := exec.Command(c.Args[0], c.Args[1:]...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = r.Folder, append(cleanEnvironment(), c.Env...), log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: r.User, Setpgid: true, Pdeathsig: c.Quit}
	Check(cmd.Start())
	p.process, p.PID = cmd.Process, cmd.Process.Pid
	go func() {
		p.err = cmd.Wait()
		close(p.ended)
	}()
	r.Cleanup(p.stop)
	r.Await(c.Name+" listens", func() bool {
		if p.gone() {
			Failf("%s ended: %w\n%s", c.Name, p.err, p.tail())
		}
		conn, err := (&net.Dialer{}).DialContext(r, "tcp", c.Address)
		if err == nil {
			conn.Close()
		}
		return err == nil
	})
	return p
}

func cleanEnvironment() []string {
	return slices.DeleteFunc(os.Environ(), func(e string) bool { return strings.HasPrefix(e, "LINKFORGE_") })
}

func (p *Process) gone() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

func (p *Process) tail() string {
	text, _ := os.ReadFile(p.log) // for the error message
	return string(text[max(0, len(text)-2000):])
}

// Warnings returns the warnings and errors in the JSON log of a Linkforge.
func (p *Process) Warnings() (lines []string) {
	for line := range strings.Lines(string(Must(os.ReadFile(p.log)))) {
		if strings.Contains(line, `"level":"WARN"`) || strings.Contains(line, `"level":"ERROR"`) {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return lines
}

// Stop stops the process, and waits for it. A second call does nothing.
func (p *Process) Stop() { Check(p.stop()) }

func (p *Process) stop() error {
	_ = p.process.Signal(p.Quit) // it may have ended
	select {
	case <-p.ended:
	case <-time.After(stopTimeout):
		p.Kill()
		return fmt.Errorf("%s did not stop\n%s", p.Name, p.tail())
	}
	exit, ok := errors.AsType[*exec.ExitError](p.err)
	if ok && exit.ExitCode() > 0 { // below zero the signal ended it
		return fmt.Errorf("%s: %w\n%s", p.Name, p.err, p.tail())
	}
	return nil
}

// Signal sends a signal to the process.
func (p *Process) Signal(signal os.Signal) { Check(p.process.Signal(signal)) }

// Kill ends the process and its children at once, as when their machine fails.
func (p *Process) Kill() {
	for _, pid := range append([]int{p.PID}, childrenOf([]int{p.PID})...) { // the parent starts no others
		_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
	}
	<-p.ended
}

// FreeAddress returns an address on loopback that is free. It is below the range from which
// outgoing connections take their ports, so that a server can be started again there.
func FreeAddress() string {
	addresses.Lock()
	defer addresses.Unlock()
	for {
		address := fmt.Sprintf("127.0.0.1:%d", 15_000+rand.IntN(7000))
		if l, err := net.Listen("tcp", address); err == nil && !addresses.taken[address] {
			addresses.taken[address] = true
			l.Close()
			return address
		}
	}
}

var addresses = struct {
	sync.Mutex
	taken map[string]bool
}{taken: map[string]bool{}}

// Port returns the port of an address.
func Port(address string) string {
	_, port, err := net.SplitHostPort(address)
	Check(err)
	return port
}

const (
	// Unlimited is a quota or rate that is counted and never reached.
	Unlimited = "1099511627776"
	// Secret is what servers of a run sign with.
	Secret = "benchmarkbenchmarkbenchmarkbenchmark"
	// PublicURL is for servers that share sessions: tokens are valid at one URL.
	PublicURL = "http://sho.rt"
)

// Serve starts a Linkforge and waits until it is ready, with everything on that neither queries the
// internet nor refuses load. Later settings replace earlier ones.
func (r *Run) Serve(name, binary string, env ...string) *Process {
	address := FreeAddress()
	p := r.Start(Command{Name: name, Address: address, Args: []string{binary, "serve"}, Env: append([]string{
		"LINKFORGE_LISTEN=" + address, "LINKFORGE_PUBLIC_URL=http://" + address, "LINKFORGE_PLAYGROUND=off",
		"LINKFORGE_INTROSPECTION=off",
		"LINKFORGE_LOG_LEVEL=warn", "LINKFORGE_LOG_FORMAT=json", "LINKFORGE_DATA_DIR=" +
			filepath.Join(r.Folder, name+"-data"),
		"LINKFORGE_JWT_SECRET=" + Secret, "LINKFORGE_CODE_SECRET=" + Secret, "LINKFORGE_RATE_LIMITS=off",
		"LINKFORGE_DESTINATION_CHECKS=off", "LINKFORGE_LINK_QUOTA=" + Unlimited, "LINKFORGE_HIT_QUOTA=" + Unlimited,
	}, env...)})
	r.AwaitReady(p)
	return p
}

// AwaitReady waits until a Linkforge is ready for requests.
func (r *Run) AwaitReady(p *Process) {
	r.Await(p.Name+" is ready", func() bool {
		if p.gone() {
			Failf("%s ended: %w\n%s", p.Name, p.err, p.tail())
		}
		return r.Get("http://"+p.Address+"/readyz") != nil
	})
}

// Metric returns a metric without labels that a node reports at its admin address. ok is false when
// the node is down.
func (r *Run) Metric(admin, name string) (value float64, ok bool) {
	for line := range strings.Lines(string(r.Get("http://" + admin + "/metrics"))) {
		if rest, found := strings.CutPrefix(line, name+" "); found {
			return Must(strconv.ParseFloat(strings.TrimSpace(rest), 64)), true
		}
	}
	return 0, false
}

// Helper starts a helper of this program, whose last argument is the address to listen at.
func (r *Run) Helper(name string, env []string, args ...string) *Process {
	address := FreeAddress()
	command := append([]string{Must(os.Executable())}, append(args, address)...)
	return r.Start(Command{Name: name, Address: address, Args: command, Env: env})
}

// ServeHTTP serves until the context ends.
func ServeHTTP(ctx context.Context, address string, handler http.Handler) {
	server := &http.Server{Addr: address, Handler: handler, ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout: 2 * time.Minute}
	context.AfterFunc(ctx, func() { server.Close() })
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		Check(err)
	}
}

// ServeConstant is the helper that only redirects to one URL: the lower bound of net/http.
func ServeConstant(location string) func(context.Context, []string) {
	return func(ctx context.Context, args []string) {
		ServeHTTP(ctx, args[0],
			http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { Redirect(w, location) }))
	}
}

// Redirect responds with 302.
func Redirect(w http.ResponseWriter, location string) {
	w.Header().Set("Location", location)
	w.Header().Set("Content-Length", "0")
	w.WriteHeader(http.StatusFound)
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// childrenOf returns the running child processes.
func childrenOf(parents []int) (pids []int) {
	for _, p := range Must(procfs.AllProcs()) {
		if s, err := p.Stat(); err == nil && slices.Contains(parents, s.PPID) { // else it has ended
			pids = append(pids, p.PID)
		}
	}
	return pids
}

// CPU returns the CPU time that processes have used, with their children.
func CPU(pids []int) (used time.Duration) {
	for _, pid := range append(slices.Clone(pids), childrenOf(pids)...) {
		if s, err := Must(procfs.NewFS("/proc")).Proc(pid); err == nil {
			if stat, err := s.Stat(); err == nil {
				used += seconds(stat.CPUTime()) + seconds(float64(stat.CUTime+stat.CSTime)/100)
			}
		}
	}
	return used
}

// Written returns the bytes that processes and their children have sent to the disk.
func Written(pids []int) (bytes uint64) {
	for _, pid := range append(childrenOf(pids), pids...) {
		if p, err := procfs.NewProc(pid); err == nil {
			if io, err := p.IO(); err == nil { // it may have ended
				bytes += io.WriteBytes
			}
		}
	}
	return bytes
}

// RSS returns the memory of a process in bytes.
func RSS(pid int) int { return Must(Must(procfs.NewProc(pid)).Stat()).ResidentMemory() }

// Rest waits until processes use less than 5 % of a core for 3 s, and returns how long they took
// until then. It gives up after the timeout. Deferred work is part of the cost of a request, and
// must not disturb the next burst.
func (r *Run) Rest(pids []int, timeout time.Duration) time.Duration {
	const window, samples, idle = 3 * time.Second, 12, 0.05
	began := time.Now()
	for used := []time.Duration{}; ; r.Pause(window / samples) {
		used = append(used, CPU(pids))
		n := len(used)
		calm := n > samples && used[n-1]-used[n-1-samples] < time.Duration(idle*float64(window))
		if calm || time.Since(began) > timeout {
			return max(0, time.Since(began)-window).Truncate(window / samples)
		}
	}
}

// Usage is the CPU time of a target's own processes, of PostgreSQL and Redis, and of the whole
// machine, at or within a time.
type Usage struct{ Own, Beside, Machine, At time.Duration }

// Used returns the CPU time used so far.
func Used(t Target) Usage {
	c := Must(Must(procfs.NewFS("/proc")).Stat()).CPUTotal
	return Usage{CPU(t.Own), CPU(t.Beside), seconds(c.User + c.Nice + c.System + c.IRQ + c.SoftIRQ + c.Steal),
		time.Duration(time.Now().UnixNano())}
}

// Since returns the difference from an earlier measurement.
func (u Usage) Since(before Usage) Usage {
	return Usage{u.Own - before.Own, u.Beside - before.Beside, u.Machine - before.Machine, u.At - before.At}
}
