// Package fastpath is a listener in front of net/http: it answers plain requests, GET over HTTP/1.1
// without a body, with less than half of the work. It passes a connection on to net/http as soon as
// a request is anything else, so no response differs. The server passes the function that answers
// short URLs.
package fastpath

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// headBytes bounds the head of a plain request. Heads of browsers are smaller, even with
	// cookies.
	headBytes = 4 << 10
	// firstDeadline bounds the wait for the first request of a connection, like ReadHeaderTimeout
	// of net/http.
	firstDeadline = 5 * time.Second
	// idleDeadline bounds the wait for the next request, and for the client to read a response. It
	// is extended at most every moveEvery, because extending it costs as much as parsing a header.
	idleDeadline = 2 * time.Minute
	moveEvery    = 10 * time.Second
)

// Answer writes the response of a request, or reports false without writing anything: net/http
// answers the request then. The context of the request does not end when the client disconnects,
// and the writer has only the methods of http.ResponseWriter. Neither is valid after the call. A
// response has a status from 200 on, and no fields about the connection or the encoding of the body
// but Content-Length.
type Answer func(w http.ResponseWriter, r *http.Request) bool

// Listener answers plain requests on the connections that it accepts. Accept returns the
// connections with other requests, with all unread bytes, so that an http.Server can serve the
// Listener.
type Listener struct {
	net.Listener
	answer Answer
	log    *slog.Logger

	others  chan net.Conn
	errs    chan error
	closed  chan struct{}
	running sync.WaitGroup

	draining atomic.Bool

	mu    sync.Mutex
	conns map[*conn]struct{}
}

// Listen starts to answer on the connections of a listener. The log receives panics.
func Listen(below net.Listener, answer Answer, log *slog.Logger) *Listener {
	l := &Listener{
		Listener: below, answer: answer, log: log,
		others: make(chan net.Conn), errs: make(chan error), closed: make(chan struct{}), conns: map[*conn]struct{}{},
	}
	l.running.Go(l.accept)
	return l
}

// accept serves all connections. It passes errors to the caller of Accept, which decides how long
// to wait.
func (l *Listener) accept() {
	for {
		c, err := l.Listener.Accept()
		if err == nil {
			l.running.Go(func() { l.serve(c) })
			continue
		}
		select {
		case l.errs <- err:
		case <-l.closed:
			return
		}
	}
}

// Accept implements net.Listener.
func (l *Listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.others:
		return c, nil
	case err := <-l.errs:
		return nil, err
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener. It closes idle connections. A connection with a request is closed
// after the response; see Wait.
func (l *Listener) Close() error {
	err := l.Listener.Close()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.isClosed() {
		return net.ErrClosed
	}
	l.draining.Store(true)
	close(l.closed)
	for c := range l.conns {
		_ = c.SetReadDeadline(time.Unix(1, 0)) // wakes the reader; a broken connection needs none
	}
	return err
}

// Drain ends each connection with its next response.
func (l *Listener) Drain() { l.draining.Store(true) }

// IsBusy reports whether a client is connected that has connected or sent a request since the time.
func (l *Listener) IsBusy(since time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.conns {
		if c.active.Load() > since.UnixNano() {
			return true
		}
	}
	return false
}

func (l *Listener) isClosed() bool {
	select {
	case <-l.closed:
		return true
	default:
		return false
	}
}

// Wait waits, after Close, for the responses of all requests. It closes the remaining connections
// when the context ends.
func (l *Listener) Wait(ctx context.Context) error {
	done := make(chan struct{})
	go func() {
		l.running.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
	}
	l.mu.Lock()
	for c := range l.conns {
		_ = c.Close()
	}
	l.mu.Unlock()
	return fmt.Errorf("waiting for redirects to be answered: %w", ctx.Err())
}

// register adds a connection for Close. It reports false after Close.
func (l *Listener) register(c *conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.isClosed() {
		return false
	}
	l.conns[c] = struct{}{}
	return true
}

func (l *Listener) unregister(c *conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.conns, c)
}

// serve answers the requests of a connection until it ends or is passed to net/http.
func (l *Listener) serve(below net.Conn) {
	c := &conn{Conn: below, in: bufio.NewReaderSize(below, headBytes)}
	c.active.Store(time.Now().UnixNano()) // its first request may be on its way
	defer l.unregister(c)
	if !l.register(c) || l.answerPlain(c) {
		_ = below.Close()
		return
	}
	c.active.Store(time.Now().UnixNano()) // busy until net/http has it
	_ = below.SetDeadline(time.Time{})
	c.head, c.response = head{}, response{}
	select {
	case l.others <- c:
	case <-l.closed: // Accept is not called any more
		_ = below.Close()
	}
}

// answerPlain answers plain requests. It reports true if the connection has to be closed, and false
// if net/http has to answer the next request.
func (l *Listener) answerPlain(c *conn) (isOver bool) {
	defer func() {
		if broken := recover(); broken != nil {
			isOver = true
			if err, ok := broken.(error); !ok || !errors.Is(err, http.ErrAbortHandler) {
				l.log.Error("panic while answering a request", "error", broken)
			}
		}
	}()
	_ = c.SetReadDeadline(time.Now().Add(firstDeadline))
	for {
		if !l.awaitRequest(c) {
			return true
		}
		r, size := c.next()
		if r == nil {
			return false
		}
		c.response.reset()
		if !l.answer(&c.response, r) {
			return false
		}
		now := time.Now()
		c.active.Store(now.UnixNano())
		if _, err := c.in.Discard(size); err != nil {
			return true
		}
		if now.Sub(c.moved) >= moveEvery {
			c.moved = now
			_ = c.SetDeadline(now.Add(idleDeadline))
		}
		last := l.draining.Load()
		if last {
			c.response.Header().Set("Connection", "close")
		}
		if _, err := c.Write(c.response.encode(now)); err != nil || last {
			return true
		}
	}
}

// lastRequest is how long Close waits for a request that may be on its way.
const lastRequest = 5 * time.Millisecond

// awaitRequest waits for the next request, and reports false if there will be none.
func (l *Listener) awaitRequest(c *conn) bool {
	if l.isClosed() { // Close may precede an extended deadline
		_ = c.SetReadDeadline(time.Now().Add(lastRequest))
	}
	_, err := c.in.Peek(1)
	if err != nil && l.isClosed() {
		_ = c.SetReadDeadline(time.Now().Add(lastRequest))
		_, err = c.in.Peek(1)
	}
	return err == nil
}

// conn is a connection with a read buffer.
type conn struct {
	net.Conn
	in       *bufio.Reader
	address  string
	moved    time.Time    // when the deadline was extended last
	active   atomic.Int64 // when it was accepted or answered last, in nanoseconds since 1970
	head     head
	response response
	framing  *framing // of the requests to net/http; nil if they are encrypted
}

// Read implements net.Conn for net/http.
func (c *conn) Read(b []byte) (n int, err error) {
	if c.in.Buffered() > 0 {
		n, err = c.in.Read(b)
	} else {
		n, err = c.Conn.Read(b)
	}
	if c.framing != nil {
		c.framing.read(b[:n])
	}
	return n, err
}

// CloseWrite says that nothing more is written, which http.Server does before it closes a
// connection that may still send.
func (c *conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}
