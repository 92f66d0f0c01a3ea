package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"strconv"
	"strings"

	"github.com/linkforge/linkforge/bench/internal/rig"
)

// counter counts the instructions that processes execute outside of the kernel, with perf. The figure hardly depends on
// who else is on the machine. Where perf is missing or may not count, as on most virtual machines, there is none.
type counter struct {
	cmd *exec.Cmd
	out *bytes.Buffer
}

var errNotCounted = errors.New("perf did not count")

// perfArguments ask for one line of fields with commas between them, on the standard error.
func perfArguments() []string { return []string{"stat", "-x", ",", "-e", "instructions:u"} }

// canCount says that perf is there, and may count.
func canCount() bool {
	out, err := exec.Command("perf", append(perfArguments(), "true")...).CombinedOutput()
	if err != nil {
		return false
	}
	_, err = parseCount(string(out))
	return err == nil
}

// startCounter counts what a process and its children do.
func startCounter(pid int) (*counter, error) {
	list := strconv.Itoa(pid)
	for _, child := range rig.Children(pid) {
		list += "," + strconv.Itoa(child)
	}
	c := &counter{out: new(bytes.Buffer)}
	c.cmd = exec.Command("perf", append(perfArguments(), "-p", list)...)
	c.cmd.Stderr = c.out
	return c, c.cmd.Start()
}

// stop ends the count; perf prints it when it is interrupted. It is zero when perf could not count.
func (c *counter) stop() int64 {
	_ = c.cmd.Process.Signal(os.Interrupt)
	_ = c.cmd.Wait() // it says that it was interrupted
	n, _ := parseCount(c.out.String())
	return n
}

// parseCount reads the line, which begins with the count or with <not supported>.
func parseCount(text string) (int64, error) {
	for line := range strings.Lines(text) {
		fields := strings.Split(line, ",")
		if len(fields) < 3 || !strings.HasPrefix(fields[2], "instructions") {
			continue
		}
		if n, err := strconv.ParseInt(fields[0], 10, 64); err == nil {
			return n, nil
		}
	}
	return 0, errNotCounted
}
