package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/linkforge/linkforge/bench/internal/rig"
)

const (
	// formation bounds how long servers may take until they are what they are to be together, on a
	// busy machine.
	formation = time.Minute
	// stopPatience bounds how long one may take to end.
	stopPatience = 90 * time.Second
)

// host is where the servers run: in a folder that is removed at the end, as an unprivileged user.
type host struct {
	folder string
	owner  *syscall.Credential // nil for whoever runs this
	taken  map[string]bool     // addresses that were given out
}

// newHost makes the folder, in which the servers' user must be able to walk: a private TMPDIR does
// not allow it.
func newHost() (*host, error) {
	h := &host{taken: map[string]bool{}}
	var err error
	if h.owner, err = unprivileged(); err != nil {
		return nil, err
	}
	for _, base := range []string{os.TempDir(), "/tmp", "/var/tmp"} {
		if h.folder, err = os.MkdirTemp(base, "linkforge-cluster."); err != nil {
			continue
		}
		if err = errors.Join(os.Chmod(h.folder, 0o711), h.give(h.folder)); err == nil {
			if err = h.command("mkdir", filepath.Join(h.folder, "nodes")).Run(); err == nil {
				return h, nil
			}
		}
		os.RemoveAll(h.folder)
	}
	return nil, fmt.Errorf("no temporary folder that the servers' user can use: %w", err)
}

// unprivileged is whom servers run as when this runs as root, whom PostgreSQL and PgBouncer refuse.
func unprivileged() (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err := strconv.ParseUint(u.Uid, 10, 32)
		if err != nil {
			return nil, err
		}
		gid, err := strconv.ParseUint(u.Gid, 10, 32)
		return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, err
	}
	return nil, errors.New("no unprivileged user to run the servers as: create a user 'nobody', or do not run this as " +
		"root")
}

// give makes a file or folder the servers' own.
func (h *host) give(path string) error {
	if h.owner == nil {
		return nil
	}
	return os.Chown(path, int(h.owner.Uid), int(h.owner.Gid))
}

// room makes a folder for a server.
func (h *host) room(name string) (string, error) {
	folder := filepath.Join(h.folder, name)
	return folder, errors.Join(os.Mkdir(folder, 0o700), h.give(folder))
}

// write writes a file that only the servers can read.
func (h *host) write(path, text string) error {
	return errors.Join(os.WriteFile(path, []byte(text), 0o600), h.give(path))
}

// command is one that runs as the servers' user, in a process group of its own, which Ctrl-C does
// not reach: servers are ended in their order. They end with this process too if it is killed
// outright.
func (h *host) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	cmd.Dir = h.folder
	cmd.Env = rig.CleanEnvironment()
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: h.owner, Setpgid: true, Pdeathsig: syscall.SIGINT}
	return cmd
}

// do runs a command to its end.
func (h *host) do(ctx context.Context, env []string, name string, args ...string) error {
	cmd := h.command(name, args...)
	cmd.Env = append(cmd.Env, env...)
	out, err := outputOf(ctx, cmd)
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", filepath.Base(name), err, out)
	}
	return nil
}

// outputOf ends the command when the context does.
func outputOf(ctx context.Context, cmd *exec.Cmd) ([]byte, error) {
	stop := context.AfterFunc(ctx, func() {
		if cmd.Process != nil {
			_ = cmd.Process.Kill() // it may have ended
		}
	})
	defer stop()
	return cmd.CombinedOutput()
}

// address is one on loopback that nobody listens at, outside the range from which clients get their
// ports: a server that is started again finds it free.
func (h *host) address() string {
	for {
		address := fmt.Sprintf("127.0.0.1:%d", 15_000+rand.IntN(17_000))
		if h.taken[address] {
			continue
		}
		if l, err := net.Listen("tcp", address); err == nil {
			l.Close()
			h.taken[address] = true
			return address
		}
	}
}

func portOf(address string) string {
	_, port, _ := net.SplitHostPort(address) // it was made here
	return port
}

// process is a server that runs.
type process struct {
	name, log string
	cmd       *exec.Cmd
	quit      syscall.Signal
	ended     chan struct{}
	err       error // once it has ended
}

// launch starts a server, whose output is added to a file, and which quits by the signal.
func (h *host) launch(name string, quit syscall.Signal, env []string, command ...string) (*process, error) {
	p := &process{name: name, log: filepath.Join(h.folder, name+".log"), quit: quit, ended: make(chan struct{})}
	log, err := os.OpenFile(p.log, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	p.cmd = h.command(command[0], command[1:]...)
	p.cmd.Env, p.cmd.Stdout, p.cmd.Stderr = append(p.cmd.Env, env...), log, log
	p.cmd.SysProcAttr.Pdeathsig = quit
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.ended)
	}()
	return p, nil
}

// await asks until the answer is yes. A process that has ended will never say it.
func (p *process) await(ctx context.Context, what string, yes func() bool) error {
	if err := await(ctx, what, func() bool { return yes() || p.gone() }); err != nil {
		return fmt.Errorf("%w\n%s", err, p.said())
	}
	if p.gone() {
		return fmt.Errorf("%s has ended: %w\n%s", p.name, p.err, p.said())
	}
	return nil
}

// listens says that somebody does at the address.
func listens(address string) bool {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return false
	}
	conn.Close()
	return true
}

// await polls until a condition holds.
func await(ctx context.Context, what string, holds func() bool) error {
	return rig.Await(ctx, what, formation, holds)
}

func (p *process) gone() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

// said is the end of what the process has printed.
func (p *process) said() string {
	text, _ := os.ReadFile(p.log) // for people: nothing depends on it
	return string(text[max(0, len(text)-2000):])
}

// stop asks the process to end, and waits for it. A second call does nothing.
func (p *process) stop() error {
	if p == nil || p.gone() {
		return nil
	}
	_ = p.cmd.Process.Signal(p.quit) // else it has ended already
	select {
	case <-p.ended:
		return nil
	case <-time.After(stopPatience):
		p.kill()
		return fmt.Errorf("%s did not end by itself\n%s", p.name, p.said())
	}
}

// kill ends the process, and those that it has started, at once, as when their machine dies.
func (p *process) kill() {
	own := p.cmd.Process.Pid
	for _, pid := range append([]int{own}, rig.Children(own)...) { // the parent first: it must not start others
		_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
	}
	<-p.ended
}
