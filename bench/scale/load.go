package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/linkforge/linkforge/bench/internal/rig"
)

const (
	// patience is how long after its end a burst may wait for answers: whatever takes longer hangs. One that has a number of
	// requests to make has longest.
	patience = 30 * time.Second
	longest  = 5 * time.Minute
	// drawn is how many visits are drawn. Should a burst have more, they come again.
	drawn = 1 << 17
	// sampleBytes is how much of a wrong answer is told.
	sampleBytes = 400
)

// load is what is to be asked of servers.
type load struct {
	// Operation is the name of one, Shape what the servers hold.
	Operation string
	Shape     shape
	// Addresses are the servers', who get as many connections each; Token is whose the requests are.
	Addresses   []string
	Token       string
	Connections int
	// First is the first turn. There are so many turns or, when that is zero, as many as fit into the time.
	First, Turns int
	Burst        time.Duration
	// Seed decides which hot links are drawn.
	Seed uint64
}

// outcome is what came of it.
type outcome struct {
	// Right is how many answers were right, Wrong how many were not, and Sample one of those.
	Right, Wrong int64
	Sample       string
	// Next is the first turn that was not taken.
	Next int
	// Broken are connections that ended too early.
	Broken []string
	// Took is the time from the first request to the last answer.
	Took     time.Duration
	P50, P99 time.Duration
}

// runLoad is the load generator's process: it reads a load and prints the outcome, both as JSON.
func runLoad(ctx context.Context, in io.Reader, out io.Writer) error {
	var l load
	if err := json.NewDecoder(in).Decode(&l); err != nil {
		return err
	}
	rig.BecomeGenerator()
	o, err := l.run(ctx)
	if err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(o)
}

// run opens all connections, and lets them loose at once.
func (l load) run(ctx context.Context) (outcome, error) {
	op, err := operationNamed(l.Operation)
	if err != nil {
		return outcome{}, err
	}
	visits := l.Shape.draw(drawn, l.Seed)
	var turn atomic.Int64
	turn.Store(int64(l.First))
	callers := make([]*caller, l.Connections)
	for i := range callers {
		c, err := l.dial(ctx, op, l.Addresses[i%len(l.Addresses)])
		if err != nil {
			return outcome{}, err
		}
		defer c.conn.Close()
		c.turn, c.visits = &turn, visits
		callers[i] = c
	}
	began := time.Now()
	var running sync.WaitGroup
	for _, c := range callers {
		running.Go(func() { c.err = c.call(l, began) })
	}
	running.Wait()
	o := outcomeOf(callers)
	o.Took, o.Next = time.Since(began), int(turn.Load())
	return o, ctx.Err()
}

func outcomeOf(callers []*caller) (o outcome) {
	var times rig.Histogram
	for _, c := range callers {
		times.Merge(&c.times)
		o.Right, o.Wrong = o.Right+c.right, o.Wrong+c.wrong
		if c.sample != "" {
			o.Sample = c.sample
		}
		if c.err != nil {
			o.Broken = append(o.Broken, c.err.Error())
		}
	}
	o.P50, o.P99 = times.Percentile(0.5), times.Percentile(0.99)
	return o
}

// caller is one connection, kept alive, on which one request follows the answer to the one before.
type caller struct {
	operation
	conn    net.Conn
	head    string
	good    []byte
	request []byte
	buffer  [64 << 10]byte
	turn    *atomic.Int64 // all callers'
	visits  []int

	times        rig.Histogram
	right, wrong int64
	sample       string
	err          error
}

func (l load) dial(ctx context.Context, op operation, address string) (*caller, error) {
	conn, err := (&net.Dialer{Timeout: patience}).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	return &caller{operation: op, conn: conn, head: op.head(address, l.Token), good: []byte(op.good)}, nil
}

// call asks until the end, or until all turns have been taken.
func (c *caller) call(l load, began time.Time) error {
	limit, deadline := l.First+l.Turns, began.Add(longest)
	if l.Turns == 0 {
		deadline = began.Add(l.Burst + patience)
	}
	if err := c.conn.SetDeadline(deadline); err != nil {
		return err
	}
	for now := began; l.Turns > 0 || now.Sub(began) <= l.Burst; {
		turn := int(c.turn.Add(1) - 1)
		if l.Turns > 0 && turn >= limit {
			return nil
		}
		status, answer, err := c.ask(l.Shape, turn)
		if err != nil {
			return err
		}
		sent := now
		now = time.Now() // also when the next request is made
		c.times.Add(now.Sub(sent))
		c.note(status, answer)
	}
	return nil
}

var withErrors = []byte(`"errors":[{`)

// note counts an answer: a redirect, or what has in it what it must and no errors.
func (c *caller) note(status int, answer []byte) {
	isRight := status == http.StatusOK && bytes.Contains(answer, c.good) && !bytes.Contains(answer, withErrors)
	if c.link != nil {
		isRight = status == http.StatusFound
	}
	if isRight {
		c.right++
		return
	}
	c.wrong++
	c.sample = fmt.Sprintf("%d: %s", status, answer[:min(len(answer), sampleBytes)])
}

// ask sends the request of a turn and reads the answer, of which it returns what follows the head.
func (c *caller) ask(s shape, turn int) (status int, answer []byte, err error) {
	if c.request, err = c.write(c.request[:0], c.head, s, turn, c.visits); err != nil {
		return 0, nil, err
	}
	return rig.Exchange(c.conn, c.request, c.buffer[:])
}

// runConstant is the server that does nothing but redirect, which tells a slow machine from a slow server.
func runConstant(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("constant", flag.ContinueOnError)
	address := flags.String("address", "", "")
	if err := flags.Parse(args); err != nil {
		return err
	}
	server := &http.Server{Addr: *address, ReadHeaderTimeout: 10 * time.Second, Handler: http.HandlerFunc(redirect)}
	context.AfterFunc(ctx, func() { server.Close() })
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

func redirect(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Location", urlOf(0))
	w.Header().Set("Content-Length", "0")
	w.WriteHeader(http.StatusFound)
}
