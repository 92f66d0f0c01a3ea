package rig

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	// startPatience and stopPatience bound how long a server may take to listen, and to write what it
	// still has.
	startPatience = 2 * time.Minute
	stopPatience  = 2 * time.Minute
	// tick is the unit in which Linux shows CPU time to programs, everywhere.
	tick = time.Second / 100
)

// Process is a server that this program has started.
type Process struct {
	// Address is where it listens.
	Address string

	name  string
	log   string // a file
	cmd   *exec.Cmd
	ended chan struct{}
	err   error // once it has ended
}

// Start starts a command, whose output goes to a file in the folder, and waits until it listens.
func Start(ctx context.Context, folder, name, address string, env []string, command ...string) (*Process, error) {
	p := &Process{name: name, Address: address, log: filepath.Join(folder, name+".log"), ended: make(chan struct{})}
	log, err := os.Create(p.log)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Env, cmd.Stdout, cmd.Stderr = append(CleanEnvironment(), env...), log, log
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	p.cmd = cmd
	go func() {
		p.err = cmd.Wait()
		close(p.ended)
	}()
	if err := p.waitUp(ctx); err != nil {
		return nil, errors.Join(err, p.Stop())
	}
	return p, nil
}

// CleanEnvironment is without the settings of a developer's own server.
func CleanEnvironment() []string {
	var env []string
	for _, e := range os.Environ() {
		if !strings.HasPrefix(e, "LINKFORGE_") {
			env = append(env, e)
		}
	}
	return env
}

func (p *Process) waitUp(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startPatience)
	defer cancel()
	for {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", p.Address)
		if err == nil {
			return conn.Close()
		}
		select {
		case <-p.ended:
			return fmt.Errorf("%s ended instead of listening: %w\n%s", p.name, p.err, p.said())
		case <-ctx.Done():
			return fmt.Errorf("%s does not listen: %w\n%s", p.name, ctx.Err(), p.said())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// said is the end of what the process has printed.
func (p *Process) said() string {
	text, _ := os.ReadFile(p.log) // for people: nothing depends on it
	return string(text[max(0, len(text)-2000):])
}

// Warnings are the warnings and errors in its log, when it is Linkforge's and written as JSON.
func (p *Process) Warnings() (lines []string) {
	text, _ := os.ReadFile(p.log) // as in said
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "{") && (strings.Contains(line, `"level":"WARN"`) ||
			strings.Contains(line, `"level":"ERROR"`)) {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return lines
}

// Stop asks the process to end, and waits for it. A second call does nothing.
func (p *Process) Stop() error {
	if p == nil || p.cmd == nil {
		return nil
	}
	cmd := p.cmd
	p.cmd = nil
	_ = cmd.Process.Signal(syscall.SIGTERM) // else it has ended already
	select {
	case <-p.ended:
	case <-time.After(stopPatience):
		_ = cmd.Process.Kill()
		<-p.ended
		return fmt.Errorf("%s did not end by itself\n%s", p.name, p.said())
	}
	if p.err != nil && cmd.ProcessState.ExitCode() >= 0 { // below it was the signal, which not everybody handles
		return fmt.Errorf("%s ended badly: %w\n%s", p.name, p.err, p.said())
	}
	return nil
}

// PID is the number of the process.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// FreeAddress is one that nobody listened on a moment ago.
func FreeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}

// stat is what Linux tells of a process: its parent, and its CPU time with that of its children
// that have ended.
type stat struct {
	name   string
	parent int
	used   time.Duration
}

// readStat reads /proc/PID/stat (https://man7.org/linux/man-pages/man5/proc_pid_stat.5.html).
func readStat(pid int) (stat, error) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return stat{}, err
	}
	return parseStat(string(text))
}

func parseStat(text string) (stat, error) {
	open, end := strings.Index(text, "("), strings.LastIndex(text, ")") // a name may have any of both
	if open < 0 || end < open {
		return stat{}, fmt.Errorf("no stat of a process: %q", text)
	}
	fields := strings.Fields(text[end+1:])
	if len(fields) < 15 {
		return stat{}, fmt.Errorf("no stat of a process: %q", text)
	}
	var numbers [5]int64
	for i, field := range []int{1, 11, 12, 13, 14} { // ppid, utime, stime, cutime, cstime
		n, err := strconv.ParseInt(fields[field], 10, 64)
		if err != nil {
			return stat{}, fmt.Errorf("no stat of a process: %q", text)
		}
		numbers[i] = n
	}
	used := numbers[1] + numbers[2] + numbers[3] + numbers[4]
	return stat{name: text[open+1 : end], parent: int(numbers[0]), used: time.Duration(used) * tick}, nil
}

// CPU is what the processes have used so far, with their children.
func CPU(pids []int) (used time.Duration, err error) {
	for _, pid := range pids {
		s, err := readStat(pid)
		if err != nil {
			return 0, err
		}
		used += s.used
	}
	for _, s := range children(pids) {
		used += s.used
	}
	return used, nil
}

// Children are the processes that this one has started, and that have not ended.
func Children(parent int) (pids []int) {
	for pid := range children([]int{parent}) {
		pids = append(pids, pid)
	}
	return pids
}

// children are the processes that these have started, and that have not ended.
func children(parents []int) map[int]stat {
	found := map[int]stat{}
	all, _ := filepath.Glob("/proc/[0-9]*")
	for _, folder := range all {
		pid, _ := strconv.Atoi(filepath.Base(folder))
		if s, err := readStat(pid); err == nil && slices.Contains(parents, s.parent) { // else it has ended meanwhile
			found[pid] = s
		}
	}
	return found
}

// MachineCPU is what all processes have used so far, and what the machine has given to others
// (https://man7.org/linux/man-pages/man5/proc_stat.5.html).
func MachineCPU() (time.Duration, error) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, err
	}
	return parseMachine(string(text))
}

func parseMachine(text string) (used time.Duration, err error) {
	line, _, _ := strings.Cut(text, "\n")
	fields := strings.Fields(line)
	if len(fields) < 9 || fields[0] != "cpu" {
		return 0, fmt.Errorf("no stat of a machine: %q", line)
	}
	for i, field := range fields[1:9] { // user, nice, system, idle, iowait, irq, softirq, steal
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("no stat of a machine: %q", line)
		}
		if i != 3 && i != 4 {
			used += time.Duration(n) * tick
		}
	}
	return used, nil
}

// RSS is the memory that a process has, in bytes.
func RSS(pid int) (int64, error) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/statm")
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(text))
	if len(fields) < 2 {
		return 0, fmt.Errorf("no statm of a process: %q", text)
	}
	pages, err := strconv.ParseInt(fields[1], 10, 64)
	return pages * int64(os.Getpagesize()), err
}

const (
	// window is how long processes must use less than idle of a core to be at rest, and looks how
	// often that is looked at. It is longer than any of them pauses in the middle of what it has put
	// off.
	window = 3 * time.Second
	looks  = 12
	idle   = 0.05
)

// Rest waits until the processes have done what they put off, and tells how long that took: a
// server that answers now and works later must not be taken for a faster one, and must not disturb
// the next. When patience ends first, it took that long.
func Rest(ctx context.Context, pids []int, patience time.Duration) (time.Duration, error) {
	began := time.Now()
	var used []time.Duration // at each look
	for {
		now, err := CPU(pids)
		if err != nil {
			return 0, err
		}
		used = append(used, now)
		since := used[max(0, len(used)-1-looks)]
		calm := len(used) > looks && float64(now-since) < idle*float64(window)
		if calm || time.Since(began) > patience {
			return max(0, time.Since(began)-window).Truncate(window / looks), nil
		}
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-time.After(window / looks):
		}
	}
}

// Usage is the CPU time of a target's own processes, of those beside, and of the whole machine,
// with the time it is of.
type Usage struct{ Own, Beside, Machine, At time.Duration }

// Used is what has been used so far.
func Used(own, beside []int) (u Usage, err error) {
	u.At = time.Duration(time.Now().UnixNano())
	if u.Own, err = CPU(own); err != nil {
		return u, err
	}
	if u.Beside, err = CPU(beside); err != nil {
		return u, err
	}
	u.Machine, err = MachineCPU()
	return u, err
}

// Minus is what has been used since.
func (u Usage) Minus(before Usage) Usage {
	return Usage{u.Own - before.Own, u.Beside - before.Beside, u.Machine - before.Machine, u.At - before.At}
}
