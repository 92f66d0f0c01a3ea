package main

import (
	"context"
	"encoding/json"
	"flag"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/linkforge/linkforge/bench/internal/rig"
)

// patience is how long after its end a burst may wait for answers, and a sweep altogether: whatever takes longer hangs.
const (
	patience      = 30 * time.Second
	sweepPatience = 30 * time.Minute
)

// load is what is to be asked of a target.
type load struct {
	// Address is where it listens.
	Address     string
	Links       int
	Connections int
	// Burst is how long links are drawn and visited; zero means that each of them is visited once, in order.
	Burst time.Duration
	// Look says that it is only asked where links lead, by HEAD, which is not counted.
	Look bool
	// Seed decides what is drawn.
	Seed uint64
}

// outcome is what came of it.
type outcome struct {
	// Redirects is how many answers were 302, Others how many had which other status.
	Redirects int64
	Others    map[int]int64
	// Broken are connections that ended too early.
	Broken []string
	// Took is the time from the first request to the last answer.
	Took          time.Duration
	P50, P99, Max time.Duration
	// CPU is what the generator itself used while it was at it.
	CPU time.Duration

	whole time.Duration // CPU time of the generator's process, with what it did before
}

// runLoad is the load generator's process: it prints the outcome as JSON.
func runLoad(ctx context.Context, args []string, out io.Writer) error {
	l, err := parseLoad(args)
	if err != nil {
		return err
	}
	rig.BecomeGenerator()
	o, err := l.run(ctx)
	if err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(o)
}

func parseLoad(args []string) (load, error) {
	var l load
	flags := flag.NewFlagSet("load", flag.ContinueOnError)
	flags.StringVar(&l.Address, "address", "", "")
	flags.IntVar(&l.Links, "links", 0, "")
	flags.IntVar(&l.Connections, "connections", 1, "")
	flags.DurationVar(&l.Burst, "burst", 0, "")
	flags.BoolVar(&l.Look, "look", false, "")
	flags.Uint64Var(&l.Seed, "seed", 0, "")
	err := flags.Parse(args)
	return l, err
}

// arguments are what parseLoad reads, after the word that starts it.
func (l load) arguments() []string {
	return []string{
		"load", "-address", l.Address, "-links", strconv.Itoa(l.Links), "-connections", strconv.Itoa(l.Connections),
		"-burst", l.Burst.String(), "-look=" + strconv.FormatBool(l.Look), "-seed", strconv.FormatUint(l.Seed, 10),
	}
}

// run opens all connections, and lets them loose at once.
func (l load) run(ctx context.Context) (outcome, error) {
	visitors := make([]*visitor, l.Connections)
	for i := range visitors {
		v, err := l.dial(ctx)
		if err != nil {
			return outcome{}, err
		}
		defer v.conn.Close()
		visitors[i] = v
	}
	l.plan(visitors)
	began, used := time.Now(), rig.OwnCPU()
	end := time.Time{}
	deadline := began.Add(sweepPatience)
	if l.Burst > 0 {
		end = began.Add(l.Burst)
		deadline = end.Add(patience)
	}
	var running sync.WaitGroup
	for _, v := range visitors {
		running.Go(func() { v.visit(began, end, deadline) })
	}
	running.Wait()
	o := outcomeOf(visitors)
	o.Took, o.CPU = time.Since(began), rig.OwnCPU()-used
	return o, ctx.Err()
}

// plan tells every visitor where to go, before the time runs: drawing must not cost what is measured.
func (l load) plan(visitors []*visitor) {
	if l.Burst == 0 {
		for i, v := range visitors {
			for number := i; number < l.Links; number += len(visitors) {
				v.plan = append(v.plan, codeOf(number))
			}
		}
		return
	}
	visits := draw(l.Links, drawn, l.Seed)
	for i, v := range visitors {
		v.plan = visits[i*len(visits)/len(visitors) : (i+1)*len(visits)/len(visitors)]
	}
}

func outcomeOf(visitors []*visitor) outcome {
	o := outcome{Others: map[int]int64{}}
	var times rig.Histogram
	for _, v := range visitors {
		times.Merge(&v.times)
		for status, n := range v.statuses {
			if status == http.StatusFound {
				o.Redirects += n
				continue
			}
			o.Others[status] += n
		}
		if v.err != nil {
			o.Broken = append(o.Broken, v.err.Error())
		}
	}
	o.P50, o.P99, o.Max = times.Percentile(0.5), times.Percentile(0.99), times.Max
	return o
}

// visitor is one connection, kept alive, on which one request follows the answer to the one before.
type visitor struct {
	conn    net.Conn
	request []byte // with a place for the code
	place   int
	buffer  [4096]byte
	plan    []code

	times    rig.Histogram
	statuses map[int]int64
	err      error
}

func (l load) dial(ctx context.Context) (*visitor, error) {
	conn, err := (&net.Dialer{Timeout: patience}).DialContext(ctx, "tcp", l.Address)
	if err != nil {
		return nil, err
	}
	line := "GET /"
	if l.Look {
		line = "HEAD /"
	}
	return &visitor{
		conn:     conn,
		request:  []byte(line + string(make([]byte, len(code{}))) + " HTTP/1.1\r\nHost: " + l.Address + "\r\n\r\n"),
		place:    len(line),
		statuses: map[int]int64{},
	}, nil
}

// visit goes by the plan: until the end, over and over, or once when there is no end.
func (v *visitor) visit(began, end, deadline time.Time) {
	if v.err = v.conn.SetDeadline(deadline); v.err != nil {
		return
	}
	now := began
	for i := 0; ; i++ {
		if i == len(v.plan) {
			if i = 0; end.IsZero() {
				return
			}
		}
		status, err := v.get(v.plan[i])
		if err != nil {
			v.err = err
			return
		}
		sent := now
		now = time.Now() // also when the next request is sent
		v.times.Add(now.Sub(sent))
		v.statuses[status]++
		if !end.IsZero() && now.After(end) {
			return
		}
	}
}

// get asks for a code.
func (v *visitor) get(c code) (status int, err error) {
	copy(v.request[v.place:], c[:])
	status, _, err = rig.Exchange(v.conn, v.request, v.buffer[:])
	return status, err
}
