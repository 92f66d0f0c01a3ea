package rig

import (
	"bufio"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

//go:embed load.lua
var loadScript string

const (
	// answerTimeout is how long after its end a load may wait for answers, longestLoad how long one
	// without an end may take.
	answerTimeout = 30 * time.Second
	longestLoad   = 30 * time.Minute
)

// NumberPlace stands in a request where a number of as many digits goes, so that no two requests
// are the same.
const NumberPlace = "NNNNNNNNNNNN"

// Load describes requests that wrk sends: over each connection, one follows the answer to the one
// before.
type Load struct {
	Address, Token string
	// Requests writes n requests, one a line: a path to follow, a path after a question mark that is
	// only resolved by HEAD, or a GraphQL document as JSON. With a Burst they are repeated until it
	// ends; without one, each is sent once.
	Requests    func(i int) string
	N           int
	Connections int
	Burst       time.Duration
	// Status and Expected are what each right answer has.
	Status   int
	Expected string
	// First is the first number that takes NumberPlace.
	First int
}

// Outcome is the result of a load.
type Outcome struct {
	Sent, Right, Wrong, Bytes int64
	Sample                    string // a wrong answer
	// Next is the first number that was not used.
	Next                int
	Took, P50, P99, CPU time.Duration
}

// generatorThreads leaves most of the machine to what is measured.
func generatorThreads() int { return max(1, runtime.NumCPU()/3) }

// Drive sends a load with wrk, and waits for all answers. Wrong and missing answers are noted in
// r.Wrong under the name.
func (r *Run) Drive(ctx context.Context, name string, l Load) (o Outcome, err error) {
	folder, err := os.MkdirTemp(r.Folder, "load.")
	if err != nil {
		return o, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	threads := min(generatorThreads(), l.Connections)
	if err := errors.Join(writePlans(folder, threads, l), os.WriteFile(folder+"/load.lua", []byte(loadScript),
		0o600)); err != nil {
		return o, err
	}
	limit := l.Burst + answerTimeout
	if l.Burst == 0 {
		limit = longestLoad
	}
	args := []string{
		"-t", strconv.Itoa(threads), "-c", strconv.Itoa(l.Connections), "-d", fmt.Sprintf("%ds", int(limit.Seconds())+1),
		"--timeout", "30s", "-s", folder + "/load.lua", "-H", "Content-Type: application/json", "-H",
		"Accept: application/json",
	}
	if l.Token != "" {
		args = append(args, "-H", "Authorization: Bearer "+l.Token)
	}
	args = append(args, "http://"+l.Address, "--", folder, l.Expected, fmt.Sprint(l.Burst.Seconds()),
		strconv.Itoa(l.First),
		strconv.Itoa(threads), strconv.Itoa(l.Status))
	cmd := exec.CommandContext(ctx, r.wrk, args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return o, err
	}
	if err := cmd.Start(); err != nil {
		return o, err
	}
	text, err := awaitThreads(cmd, out, threads)
	if err := errors.Join(err, cmd.Wait()); err != nil {
		return o, fmt.Errorf("wrk, at %s: %w", name, err)
	}
	if o, err = parseOutcome(text); err != nil {
		return o, fmt.Errorf("wrk, at %s: %w", name, err)
	}
	o.CPU = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	r.mu.Lock()
	defer r.mu.Unlock()
	if o.Wrong > 0 {
		r.Wrong = append(r.Wrong, fmt.Sprintf("%s: %d answers were wrong, such as %s", name, o.Wrong, o.Sample))
	}
	if missing := o.Sent - o.Right - o.Wrong; missing != 0 {
		r.Wrong = append(r.Wrong, fmt.Sprintf("%s: %d of %d requests had no answer", name, missing, o.Sent))
	}
	return o, ctx.Err()
}

// writePlans deals the requests to the threads.
func writePlans(folder string, threads int, l Load) error {
	for t := range threads {
		file, err := os.Create(filepath.Join(folder, "plan."+strconv.Itoa(t)))
		if err != nil {
			return err
		}
		w := bufio.NewWriter(file)
		for i := t; i < l.N; i += threads {
			_, _ = w.WriteString(l.Requests(i))
			_ = w.WriteByte('\n') // Flush returns what went wrong
		}
		if err := errors.Join(w.Flush(), file.Close()); err != nil {
			return err
		}
	}
	return nil
}

// awaitThreads interrupts wrk, which has no other end before its time, once all its threads have
// finished.
func awaitThreads(cmd *exec.Cmd, out io.Reader, threads int) (text string, err error) {
	lines := bufio.NewReader(out)
	for {
		line, err := lines.ReadString('\n')
		switch {
		case errors.Is(err, io.EOF):
			return text + line, nil
		case err != nil:
			return text, err
		case line == "finished\n":
			if threads--; threads == 0 {
				err = cmd.Process.Signal(syscall.SIGINT)
			}
			if err != nil {
				return text, err
			}
		default:
			text += line
		}
	}
}

func parseOutcome(text string) (o Outcome, err error) {
	_, rest, ok := strings.Cut(text, "outcome ")
	if !ok {
		return o, fmt.Errorf("no outcome: %q", text)
	}
	line, sample, _ := strings.Cut(rest, "\n")
	var took float64
	var p50, p99, broken int64
	_, err = fmt.Sscan(line, &o.Sent, &o.Right, &o.Wrong, &o.Bytes, &o.Next, &took, &p50, &p99, &broken)
	o.Sample, o.Took = sample, time.Duration(took*float64(time.Second))
	o.P50, o.P99 = time.Duration(p50)*time.Microsecond, time.Duration(p99)*time.Microsecond
	if err == nil && broken > 0 {
		err = fmt.Errorf("%d connections broke", broken)
	}
	return o, err
}
