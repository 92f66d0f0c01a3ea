package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/linkforge/linkforge/bench/internal/rig"
	"github.com/linkforge/linkforge/internal/db"
)

const (
	// steadyAfter is how long a target is driven before it is measured.
	steadyAfter = 500 * time.Millisecond
	// restPatience is how long a target may go on working after its requests.
	restPatience = 15 * time.Second
)

// bench is one run.
type bench struct {
	options
	say func(format string, args ...any)
	// self and server are binaries, folder is where everything is written. pgbenchBinary is empty when there is none.
	self, folder, pgbenchBinary string
	services                    *rig.Services
	bare, ours                  *target
	least                       []*target // the bare handler with a table for new links
	client                      *client   // of ours, logged in
	estate                      estate
	admin                       string            // where ours shows its profiles
	scripts                     map[string]string // for pgbench, by operation
	next                        int               // the number of the next request

	measured []measured
	// created is how many links were answered, found how many the database has.
	created, found int64
	// others is how many cores others used, burst by burst.
	others []float64
	// wrong is what should not have been.
	wrong []string
}

// target is a server that is measured.
type target struct {
	name    string
	process *rig.Process
	// beside are the processes of PostgreSQL and Redis, when the target uses them.
	beside []int
}

func (t *target) pids() []int { return append([]int{t.process.PID()}, t.beside...) }

// measured is one operation in one round.
type measured struct {
	operation  string
	bare, ours figures
	sql        *figures  // nil when it was not measured
	least      []figures // of a creation, at each of the bench's least
}

// figures are what one burst showed.
type figures struct {
	rate     float64 // requests a second
	own      float64 // CPU µs a request
	beside   float64 // the same, of PostgreSQL and Redis
	p50, p99 float64 // ms
	bytes    float64 // of an answer
	// generator is what the load generator used, µs a request.
	generator float64
}

func (f figures) cpu() float64 { return f.own + f.beside }

// compare sees that all targets answer each operation in the same shape.
func (b *bench) compare(ctx context.Context) error {
	for _, o := range b.operations {
		var theirs []byte
		for _, t := range append([]*target{b.bare, b.ours}, b.leastOf(o)...) {
			c := &client{address: t.process.Address}
			if t == b.ours {
				c = b.client
			}
			answer, err := c.ask(ctx, withNumber(o.bodies(b.estate.of(o))[0], b.next))
			b.next++
			if err != nil {
				return fmt.Errorf("%s, %s: %w", t.name, o.name, err)
			}
			if t == b.bare {
				theirs = answer
			}
			if err := sameShape(theirs, answer); err != nil {
				return fmt.Errorf("%s, %s: %w", t.name, o.name, err)
			}
		}
		if o.creates {
			b.created++
		}
	}
	return nil
}

// leastOf are the targets that an operation is held against beside the bare handler.
func (b *bench) leastOf(o operation) []*target {
	if !o.creates {
		return nil
	}
	return b.least
}

// mostApart is how much longer one answer may be than the other, as a part of it.
const mostApart = 0.05

// sameShape says how two answers differ, but in their values.
func sameShape(one, other []byte) error {
	shapes := make([]string, 2)
	for i, text := range [][]byte{one, other} {
		var value any
		if err := json.Unmarshal(text, &value); err != nil {
			return fmt.Errorf("no answer: %w", err)
		}
		shapes[i] = shape(value)
	}
	if shapes[0] != shapes[1] {
		return fmt.Errorf("the answers differ:\n%s\n%s", shapes[0], shapes[1])
	}
	if least, most := min(len(one), len(other)), max(len(one), len(other)); float64(most-least) > mostApart*float64(most) {
		return fmt.Errorf("the answers have %d and %d bytes", len(one), len(other))
	}
	return nil
}

// shape is a JSON value without what its texts and numbers are.
func shape(value any) string {
	switch value := value.(type) {
	case map[string]any:
		var fields []string
		for name, of := range value {
			fields = append(fields, name+": "+shape(of))
		}
		slices.Sort(fields)
		return "{" + strings.Join(fields, ", ") + "}"
	case []any:
		var items []string
		for _, of := range value {
			items = append(items, shape(of))
		}
		return "[" + strings.Join(items, ", ") + "]"
	case nil:
		return "null"
	}
	return fmt.Sprintf("%T", value)
}

// round measures everything once: each operation on one target right after the other.
func (b *bench) round(ctx context.Context) (err error) {
	if err := b.analyze(ctx); err != nil {
		return err
	}
	for _, o := range b.operations {
		m := measured{operation: o.name}
		if m.bare, err = b.measure(ctx, b.bare, o); err != nil {
			return err
		}
		if m.ours, err = b.measure(ctx, b.ours, o); err != nil {
			return err
		}
		for _, t := range b.leastOf(o) {
			f, err := b.measure(ctx, t, o)
			if err != nil {
				return err
			}
			m.least = append(m.least, f)
		}
		if script, ok := b.scripts[o.name]; ok {
			f, err := b.measureSQL(ctx, script)
			if err != nil {
				return err
			}
			m.sql = &f
		}
		b.measured = append(b.measured, m)
	}
	return nil
}

// measure drives a target for one burst, once it is in its stride. What its processes use until they are at rest is counted
// as well: work that is put off is not free.
func (b *bench) measure(ctx context.Context, t *target, o operation) (figures, error) {
	if _, err := b.drive(ctx, t, o, steadyAfter); err != nil {
		return figures{}, err
	}
	before, err := rig.Used([]int{t.process.PID()}, t.beside)
	if err != nil {
		return figures{}, err
	}
	came, err := b.drive(ctx, t, o, b.burst)
	if err != nil {
		return figures{}, err
	}
	if _, err := rig.Rest(ctx, t.pids(), restPatience); err != nil {
		return figures{}, err
	}
	after, err := rig.Used([]int{t.process.PID()}, t.beside)
	if err != nil {
		return figures{}, err
	}
	n, used := float64(max(came.Right, 1)), after.Minus(before)
	b.others = append(b.others, max(0, (used.Machine-used.Own-used.Beside-came.whole).Seconds()/used.At.Seconds()))
	return figures{
		rate: float64(came.Right) / came.Took.Seconds(), own: rig.Micros(used.Own) / n, beside: rig.Micros(used.Beside) / n,
		p50: rig.Millis(came.P50), p99: rig.Millis(came.P99), bytes: float64(came.Bytes) / n, generator: rig.Micros(came.CPU) / n,
	}, nil
}

// drive has the load generator ask a target, and notes what should not have happened.
func (b *bench) drive(ctx context.Context, t *target, o operation, burst time.Duration) (came outcome, err error) {
	l := load{
		Address: t.process.Address, Bodies: o.bodies(b.estate.of(o)), Good: o.good, First: b.next, Connections: b.connections, Burst: burst,
	}
	if t == b.ours {
		l.Token = b.client.token
	}
	in, err := json.Marshal(l)
	if err != nil {
		return came, err
	}
	cmd := exec.CommandContext(ctx, b.self, "load")
	cmd.Stdin, cmd.Stderr = bytes.NewReader(in), os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return came, fmt.Errorf("the load generator, at %s: %w", t.name, err)
	}
	if err := json.Unmarshal(out, &came); err != nil {
		return came, fmt.Errorf("the load generator, at %s: %w", t.name, err)
	}
	came.whole = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	b.next = came.Next
	if o.creates && t == b.ours {
		b.created += came.Right
	}
	for status, n := range came.Wrong {
		b.wrong = append(b.wrong, fmt.Sprintf("%s, %s: %d answers with %d were wrong, one of all that were: %s", t.name, o.name, n, status, came.Sample))
	}
	if len(came.Broken) > 0 {
		b.wrong = append(b.wrong, fmt.Sprintf("%s, %s: %d connections broke, the first with: %s", t.name, o.name, len(came.Broken), came.Broken[0]))
	}
	return came, nil
}

// leastProfile is the shortest profile that says something.
const leastProfile = 2 * time.Second

// profile writes a CPU profile of Linkforge under each operation, if they are wanted.
func (b *bench) profile(ctx context.Context) error {
	if b.details == "" {
		return nil
	}
	for _, o := range b.operations {
		b.say("a profile of %s", o.name)
		length := max(b.burst, leastProfile).Round(time.Second)
		ended := make(chan error, 1)
		go func() { ended <- b.fetchProfile(ctx, o.name+".pprof", length) }()
		_, err := b.drive(ctx, b.ours, o, length)
		if err := errors.Join(err, <-ended); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) fetchProfile(ctx context.Context, file string, length time.Duration) error {
	from := url.URL{Scheme: "http", Host: b.admin, Path: "/debug/pprof/profile", RawQuery: "seconds=" + strconv.Itoa(int(length.Seconds()))}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, from.String(), nil)
	if err != nil {
		return err
	}
	response, err := (&http.Client{Timeout: length + patience}).Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("the profile was answered with %d", response.StatusCode)
	}
	return b.keep(file, text)
}

// keep writes a file of details, if they are wanted.
func (b *bench) keep(name string, text []byte) error {
	if b.details == "" {
		return nil
	}
	if err := os.MkdirAll(b.details, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(b.details, name), text, 0o600)
}

// count sees that the database has as many new links as there were answers that said so.
func (b *bench) count(ctx context.Context) error {
	err := b.within(func(d *db.DB) error {
		return d.NewRaw("SELECT count(*) FROM links").Scan(db.AsSystem(ctx), &b.found)
	})
	if err != nil {
		return fmt.Errorf("counting the links: %w", err)
	}
	b.found -= int64(b.estate.links)
	if b.found != b.created {
		b.wrong = append(b.wrong, fmt.Sprintf("links in the database %d, answers that said so %d", b.found, b.created))
	}
	return nil
}

// problems are what the run must not have met.
func (b *bench) problems() error {
	if len(b.wrong) == 0 {
		return nil
	}
	return errors.New(strings.Join(b.wrong, "\n"))
}
