package rig

import (
	"bufio"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

//go:embed load.lua
var loadScript string

const (
	responseTimeout = 30 * time.Second
	longestLoad     = 30 * time.Minute // of a load without an end
)

// NumberPlace is replaced by a number of as many digits wherever it occurs, so that no two requests
// are the same.
const NumberPlace = "NNNNNNNNNNNN"

// Load is what wrk sends: over each connection, one request follows the response to the one before.
type Load struct {
	Address, Token string
	// Requests writes n requests, one a line: a path to follow, a path after a question mark for a
	// HEAD request, or a GraphQL request as JSON. With a Burst they are repeated until it ends;
	// without one, each is sent once.
	Requests    func(i int) string
	N           int
	Connections int
	Burst       time.Duration
	// Status and Expected are what each right response has.
	Status   int
	Expected string
	First    int // the first number that replaces NumberPlace
}

// Outcome is the result of a load.
type Outcome struct {
	Sent, Right, Wrong, Bytes int64
	Sample                    string // a wrong response
	Next                      int    // the first number that was not used
	Took, P50, P99, CPU       time.Duration
}

// generatorThreads leaves most cores to the measured processes.
func generatorThreads() int { return max(1, runtime.NumCPU()/3) }

// Drive sends a load with wrk, and waits for all responses. Wrong and missing responses fail the
// run.
func (r *Run) Drive(name string, l Load) Outcome {
	if r.wrk == "" {
		r.wrk = Program("wrk")
	}
	folder := Must(os.MkdirTemp(r.Folder, "load."))
	defer os.RemoveAll(folder)
	threads := min(generatorThreads(), l.Connections)
	writePlans(folder, threads, l)
	Check(os.WriteFile(folder+"/load.lua", []byte(loadScript), 0o600))
	limit := l.Burst + responseTimeout
	if l.Burst == 0 {
		limit = longestLoad
	}
	args := []string{"-t", strconv.Itoa(threads), "-c", strconv.Itoa(l.Connections), "-d",
		fmt.Sprintf("%ds", int(limit.Seconds())+1), "--timeout", "30s", "-s", folder + "/load.lua",
		"-H", "Content-Type: application/json", "-H", "Accept: application/json"}
	if l.Token != "" {
		args = append(args, "-H", "Authorization: Bearer "+l.Token)
	}
	args = append(args, "http://"+l.Address, "--", folder, l.Expected, fmt.Sprint(l.Burst.Seconds()),
		strconv.Itoa(l.First), strconv.Itoa(threads), strconv.Itoa(l.Status))
	cmd := exec.CommandContext(r, r.wrk, args...)
	cmd.Stderr = os.Stderr
	out := Must(cmd.StdoutPipe())
	Check(cmd.Start())
	text, err := awaitThreads(cmd, out, threads)
	Check(errors.Join(err, cmd.Wait()))
	o, err := parseOutcome(text)
	Check(err)
	o.CPU = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	if o.Wrong > 0 {
		r.Wrongf("%s: %d responses were wrong, such as %s", name, o.Wrong, o.Sample)
	}
	if missing := o.Sent - o.Right - o.Wrong; missing != 0 {
		r.Wrongf("%s: %d of %d requests had no response", name, missing, o.Sent)
	}
	Check(r.Err())
	return o
}

// writePlans deals the requests to the threads.
func writePlans(folder string, threads int, l Load) {
	for t := range threads {
		file := Must(os.Create(filepath.Join(folder, "plan."+strconv.Itoa(t))))
		w := bufio.NewWriter(file)
		for i := t; i < l.N; i += threads {
			_, _ = w.WriteString(l.Requests(i) + "\n") // Flush returns the error
		}
		Check(errors.Join(w.Flush(), file.Close()))
	}
}

// awaitThreads interrupts wrk once all its threads have finished: else it runs until its limit.
func awaitThreads(cmd *exec.Cmd, out io.Reader, threads int) (text string, err error) {
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if lines.Text() != "finished" {
			text += lines.Text() + "\n"
		} else if threads--; threads == 0 {
			err = errors.Join(err, cmd.Process.Signal(syscall.SIGINT))
		}
	}
	return text, errors.Join(err, lines.Err())
}

func parseOutcome(text string) (o Outcome, err error) {
	_, rest, ok := strings.Cut(text, "outcome ")
	if !ok {
		return o, fmt.Errorf("wrk printed no outcome: %q", text)
	}
	line, sample, _ := strings.Cut(rest, "\n")
	var took float64
	var p50, p99, broken int64
	_, err = fmt.Sscan(line, &o.Sent, &o.Right, &o.Wrong, &o.Bytes, &o.Next, &took, &p50, &p99, &broken)
	o.Sample, o.Took = strings.TrimSpace(sample), time.Duration(took*float64(time.Second))
	o.P50, o.P99 = time.Duration(p50)*time.Microsecond, time.Duration(p99)*time.Microsecond
	if err == nil && broken > 0 {
		err = fmt.Errorf("%d connections broke", broken)
	}
	return o, err
}

// Figures are the results of one burst.
type Figures struct {
	Rate        float64 // requests a second
	Own, Beside float64 // CPU µs a request: of the target, and of PostgreSQL and Redis
	P50, P99    float64 // ms
	Bytes       float64 // of a response's body
	Rest        float64 // seconds until deferred work was done
}

// CPU returns the CPU time of a request in µs.
func (f Figures) CPU() float64 { return f.Own + f.Beside }

// FiguresOf divides the CPU time used by the right responses.
func FiguresOf(o Outcome, used Usage) Figures {
	n := float64(max(o.Right, 1))
	return Figures{
		Rate: float64(o.Right) / max(o.Took.Seconds(), 1e-9), Own: Micros(used.Own) / n,
		Beside: Micros(used.Beside) / n,
		P50:    Millis(o.P50), P99: Millis(o.P99), Bytes: float64(o.Bytes) / n,
	}
}

// Target is the receiver of a load: its own processes, and its services.
type Target struct {
	Name        string
	Own, Beside []int
}

// PIDs are all processes of the target.
func (t Target) PIDs() []int { return slices.Concat(t.Own, t.Beside) }

// Measure drives a target for a burst, after a shorter one that warms it up. Deferred work of its
// processes is included.
func (r *Run) Measure(t Target, warmUp time.Duration, l Load) (f Figures, o, before Outcome) {
	first := l
	first.Burst = warmUp
	before = r.Drive(t.Name, first)
	l.First = before.Next
	start := Used(t)
	o = r.Drive(t.Name, l)
	rest := r.Rest(t.PIDs(), 5*time.Minute)
	used := Used(t).Since(start)
	f = FiguresOf(o, used)
	f.Rest = rest.Seconds()
	r.Generator = append(r.Generator, Micros(o.CPU)/float64(max(o.Right, 1)))
	r.Others = append(r.Others, max(0, (used.Machine-used.Own-used.Beside-o.CPU).Seconds()/used.At.Seconds()))
	return f, o, before
}
