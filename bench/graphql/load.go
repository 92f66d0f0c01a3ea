package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/linkforge/linkforge/bench/internal/rig"
)

// patience is how long after its end a burst may wait for answers: whatever takes longer hangs.
const patience = 30 * time.Second

// load is what is to be asked of a target.
type load struct {
	// Address is where it listens, Token whose the requests are; empty means nobody's.
	Address, Token string
	// Bodies are the requests, which take turns. Good stands in each right answer.
	Bodies []string
	Good   string
	// First is the number in the first request.
	First       int
	Connections int
	Burst       time.Duration
}

// outcome is what came of it.
type outcome struct {
	// Right is how many answers were right, Wrong how many had which other status; Sample is one of those.
	Right  int64
	Wrong  map[int]int64
	Sample string
	// Next is the first number that was not used.
	Next int
	// Bytes is how long all right answers were together, heads aside.
	Bytes int64
	// Broken are connections that ended too early.
	Broken []string
	// Took is the time from the first request to the last answer.
	Took          time.Duration
	P50, P99, Max time.Duration
	// CPU is what the generator itself used while it was at it.
	CPU time.Duration

	whole time.Duration // CPU time of the generator's process, with what it did before
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
	var number atomic.Int64
	number.Store(int64(l.First))
	callers := make([]*caller, l.Connections)
	for i := range callers {
		c, err := l.dial(ctx, &number)
		if err != nil {
			return outcome{}, err
		}
		defer c.conn.Close()
		callers[i] = c
	}
	began, used := time.Now(), rig.OwnCPU()
	end := began.Add(l.Burst)
	var running sync.WaitGroup
	for _, c := range callers {
		running.Go(func() { c.err = c.call(began, end) })
	}
	running.Wait()
	o := outcomeOf(callers)
	o.Next, o.Took, o.CPU = int(number.Load()), time.Since(began), rig.OwnCPU()-used
	return o, ctx.Err()
}

func outcomeOf(callers []*caller) outcome {
	o := outcome{Wrong: map[int]int64{}}
	var times rig.Histogram
	for _, c := range callers {
		times.Merge(&c.times)
		o.Right, o.Bytes = o.Right+c.right, o.Bytes+c.bytes
		for status, n := range c.wrong {
			o.Wrong[status] += n
			o.Sample = c.sample
		}
		if c.err != nil {
			o.Broken = append(o.Broken, c.err.Error())
		}
	}
	o.P50, o.P99, o.Max = times.Percentile(0.5), times.Percentile(0.99), times.Max
	return o
}

// caller is one connection, kept alive, on which one request follows the answer to the one before.
type caller struct {
	conn     net.Conn
	number   *atomic.Int64 // all callers'
	requests []request
	good     []byte
	buffer   [64 << 10]byte

	times        rig.Histogram
	right, bytes int64
	wrong        map[int]int64
	sample       string
	err          error
}

// request is one as it is sent; place is where its number goes, -1 when it has none.
type request struct {
	text  []byte
	place int
}

// sampleBytes is how much of a wrong answer is told.
const sampleBytes = 400

func (l load) dial(ctx context.Context, number *atomic.Int64) (*caller, error) {
	conn, err := (&net.Dialer{Timeout: patience}).DialContext(ctx, "tcp", l.Address)
	if err != nil {
		return nil, err
	}
	c := &caller{conn: conn, number: number, good: []byte(l.Good), wrong: map[int]int64{}}
	for _, body := range l.Bodies {
		text := l.head(len(body)) + body
		c.requests = append(c.requests, request{text: []byte(text), place: bytes.Index([]byte(text), []byte(numberPlace))})
	}
	return c, nil
}

func (l load) head(length int) string {
	head := "POST /graphql HTTP/1.1\r\nHost: " + l.Address + "\r\nContent-Type: application/json\r\nAccept: application/json\r\n"
	if l.Token != "" {
		head += "Authorization: Bearer " + l.Token + "\r\n"
	}
	return head + "Content-Length: " + strconv.Itoa(length) + "\r\n\r\n"
}

// call asks until the end.
func (c *caller) call(began, end time.Time) error {
	if err := c.conn.SetDeadline(end.Add(patience)); err != nil {
		return err
	}
	for now := began; !now.After(end); {
		status, answer, err := c.ask(int(c.number.Add(1) - 1))
		if err != nil {
			return err
		}
		sent := now
		now = time.Now() // also when the next request is sent
		c.times.Add(now.Sub(sent))
		c.note(status, answer)
	}
	return nil
}

var withErrors = []byte(`"errors":[{`)

// note counts an answer, which is right when it has what it must and no errors.
func (c *caller) note(status int, answer []byte) {
	if status == http.StatusOK && bytes.Contains(answer, c.good) && !bytes.Contains(answer, withErrors) {
		c.right++
		c.bytes += int64(len(answer))
		return
	}
	c.wrong[status]++
	if c.sample == "" {
		c.sample = string(answer[:min(len(answer), sampleBytes)])
	}
}

// ask sends a request and reads the answer, of which it returns the body as it was sent: in chunks, maybe.
func (c *caller) ask(number int) (status int, answer []byte, err error) {
	r := c.requests[number%len(c.requests)]
	if r.place >= 0 {
		writeNumber(r.text[r.place:r.place+len(numberPlace)], number)
	}
	return rig.Exchange(c.conn, r.text, c.buffer[:])
}

// writeNumber writes a number with as many digits as there is place.
func writeNumber(place []byte, number int) {
	for i := len(place) - 1; i >= 0; i-- {
		place[i] = byte('0' + number%10)
		number /= 10
	}
}
