// Package fastpath is a listener in front of net/http: it answers plain requests, GET over HTTP/1.1
// without a body, with less than half of the work. It passes a connection on to net/http as soon as a
// request is anything else, so no request is answered differently. It does not know what it serves:
// the server gives it the function that answers short URLs.
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
	"time"
)

const (
	// headBytes bounds the head of a plain request: browsers' have less, even with a few cookies.
	headBytes = 4 << 10
	// firstDeadline is how long a new connection may take to ask for something, as net/http's
	// ReadHeaderTimeout has it.
	firstDeadline = 5 * time.Second
	// idleDeadline is how long a connection may wait for its next request, or an answer for being
	// read. It is moved ahead only once in a while (moveEvery), since moving it costs as much as
	// parsing a header.
	idleDeadline = 2 * time.Minute
	moveEvery    = 10 * time.Second
)

// Answer answers a request, or reports false if somebody else is to: then it must have written
// nothing. The context of the request does not end when the client goes away, and the writer has no
// more methods than http.ResponseWriter. Neither may be kept: the next request of the connection
// takes their place. An answer is a status from 200 on that may have a body, and sets no field
// about the connection or about how the body is sent but a Content-Length.
type Answer func(w http.ResponseWriter, r *http.Request) bool

// Listener answers plain requests on the connections that it accepts. Its Accept returns those that
// ask for anything else, with all that is still to be read, so that an http.Server can serve it in
// the place of the listener below.
type Listener struct {
	net.Listener
	answer Answer
	log    *slog.Logger

	others  chan net.Conn
	errs    chan error
	closed  chan struct{}
	running sync.WaitGroup

	mu    sync.Mutex
	conns map[*conn]struct{}
}

// Listen begins to answer on the listener's connections. The log is told of what panics.
func Listen(below net.Listener, answer Answer, log *slog.Logger) *Listener {
	l := &Listener{
		Listener: below, answer: answer, log: log,
		others: make(chan net.Conn), errs: make(chan error), closed: make(chan struct{}), conns: map[*conn]struct{}{},
	}
	l.running.Go(l.accept)
	return l
}

// accept has every connection served. What goes wrong is for whoever calls Accept, who knows how
// long to wait.
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

// Close implements net.Listener. Connections that wait for their next request are closed; those
// that have one are when it is answered, which Wait waits for.
func (l *Listener) Close() error {
	err := l.Listener.Close()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.isClosed() {
		return net.ErrClosed
	}
	close(l.closed)
	for c := range l.conns {
		_ = c.SetReadDeadline(time.Unix(1, 0)) // wakes it; one that is broken is awake
	}
	return err
}

func (l *Listener) isClosed() bool {
	select {
	case <-l.closed:
		return true
	default:
		return false
	}
}

// Wait waits, after Close, until every request has been answered. When the context ends first, the
// connections of those that have not are closed.
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

// keep has Close know of the connection. It reports false after Close.
func (l *Listener) keep(c *conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.isClosed() {
		return false
	}
	l.conns[c] = struct{}{}
	return true
}

func (l *Listener) drop(c *conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.conns, c)
}

// serve answers on a connection until it ends, or is somebody else's.
func (l *Listener) serve(below net.Conn) {
	c := &conn{Conn: below, in: bufio.NewReaderSize(below, headBytes)}
	over := !l.keep(c) || l.talk(c)
	l.drop(c)
	if over {
		_ = below.Close()
		return
	}
	_ = below.SetDeadline(time.Time{})
	c.head, c.response = head{}, response{}
	select {
	case l.others <- c:
	case <-l.closed: // nobody takes it any more
		_ = below.Close()
	}
}

// talk answers plain requests. It reports true when the connection is to be closed, and false when
// what comes next is for somebody else.
func (l *Listener) talk(c *conn) (over bool) {
	defer func() {
		if broken := recover(); broken != nil {
			over = true
			if err, ok := broken.(error); !ok || !errors.Is(err, http.ErrAbortHandler) {
				l.log.Error("a request was not answered", "error", broken)
			}
		}
	}()
	_ = c.SetReadDeadline(time.Now().Add(firstDeadline))
	for !l.isClosed() { // Close may have come before a deadline was moved
		if _, err := c.in.Peek(1); err != nil {
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
		if _, err := c.in.Discard(size); err != nil {
			return true
		}
		if now.Sub(c.moved) >= moveEvery {
			c.moved = now
			_ = c.SetDeadline(now.Add(idleDeadline))
		}
		if _, err := c.Write(c.response.encode(now)); err != nil {
			return true
		}
	}
	return true
}

// conn is a connection with what has been read ahead of it.
type conn struct {
	net.Conn
	in       *bufio.Reader
	address  string
	moved    time.Time // when the deadline was moved last
	head     head
	response response
}

// Read implements net.Conn for whoever takes the connection over.
func (c *conn) Read(b []byte) (int, error) {
	if c.in.Buffered() > 0 {
		return c.in.Read(b)
	}
	return c.Conn.Read(b)
}

// CloseWrite says that nothing more is written, which http.Server does before it closes a
// connection that may still send.
func (c *conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}
