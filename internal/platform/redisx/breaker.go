package redisx

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/linkforge/linkforge/internal/platform/errs"
)

// commandDeadline bounds a command or a pipeline. No request waits longer for a Redis that does not
// answer, and after the first one none waits at all.
const commandDeadline = 250 * time.Millisecond

// errOpen is the error of commands while the circuit breaker is open.
var errOpen = errs.New(errs.Unavailable, "Redis is unavailable.")

// Protect bounds every command of the client, and refuses commands while Redis does not answer, or
// states that it serves none. It re-creates the connections then, because a fixed address may lead
// to another server.
func (c *Client) Protect(log *slog.Logger) {
	if c.guard != nil || c.InProcess() {
		return
	}
	g := &guard{connections: connections{open: map[net.Conn]struct{}{}}}
	g.breaker = newBreaker(breakerConfig{Name: "Redis", Log: log, Probe: func(ctx context.Context) error {
		err := c.Ready(context.WithValue(ctx, unprotected{}, true))
		if err != nil {
			g.cause.Store(&err)
			g.connections.close()
		}
		return err
	}})
	c.guard = g
	c.AddHook(g)
}

// IsOpen reports whether the circuit breaker is open.
func (c *Client) IsOpen() bool { return c.guard != nil && c.guard.IsOpen() }

// unprotected is the context key of the breaker's own probes.
type unprotected struct{}

// guard is the hook of a protected client.
type guard struct {
	*breaker
	connections connections
	// cause is the last error of a command or a probe without a response of Redis, or with a reply
	// of an outage.
	cause atomic.Pointer[error]
}

// DialHook implements redis.Hook. The client of a cluster does not call it, and finds masters
// itself.
func (g *guard) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := next(ctx, network, address)
		if err == nil {
			g.connections.add(conn)
		}
		return conn, err
	}
}

// ProcessHook implements redis.Hook.
func (g *guard) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		return g.within(ctx, []redis.Cmder{cmd}, func(ctx context.Context) error { return next(ctx, cmd) })
	}
}

// ProcessPipelineHook implements redis.Hook.
func (g *guard) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		return g.within(ctx, cmds, func(ctx context.Context) error { return next(ctx, cmds) })
	}
}

func (g *guard) within(ctx context.Context, cmds []redis.Cmder, do func(context.Context) error) error {
	if ctx.Value(unprotected{}) != nil {
		return do(ctx)
	}
	if g.IsOpen() {
		for _, cmd := range cmds {
			cmd.SetErr(errOpen)
		}
		return errOpen
	}
	attempt, cancel := context.WithTimeout(ctx, commandDeadline)
	defer cancel()
	err := do(attempt)
	if cause := outage(err, cmds); cause != nil && ctx.Err() == nil {
		g.cause.Store(&cause)
		g.Trip(fmt.Errorf("%s: %w", Explain(cause), cause))
		if outageCause(cause) != "" {
			g.connections.close()
		}
	}
	return err
}

// outage returns the error of commands without a response of Redis, or with a reply of an outage;
// nil if there is none. A transaction fails with EXECABORT, and one of its commands with the cause.
func outage(err error, cmds []redis.Cmder) error {
	if err == nil {
		return nil
	}
	if _, isReply := errors.AsType[redis.Error](err); !isReply || outageCause(err) != "" {
		return err
	}
	for _, cmd := range cmds {
		if outageCause(cmd.Err()) != "" {
			return cmd.Err()
		}
	}
	return nil
}

// connections are the open connections of a client, and some that have been closed since the last
// one was opened.
type connections struct {
	mu   sync.Mutex
	open map[net.Conn]struct{}
}

func (c *connections) add(conn net.Conn) {
	if encrypted, ok := conn.(*tls.Conn); ok {
		conn = encrypted.NetConn()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.DeleteFunc(c.open, func(conn net.Conn, _ struct{}) bool { return isClosed(conn) })
	c.open[conn] = struct{}{}
}

// close closes all connections. The client removes them from its pool, and opens new ones.
func (c *connections) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for conn := range c.open {
		_ = conn.Close() // it may be closed already
	}
	clear(c.open)
}

func isClosed(conn net.Conn) bool {
	socket, ok := conn.(syscall.Conn)
	if !ok {
		return true // of an unknown kind, which cannot be followed
	}
	raw, err := socket.SyscallConn()
	return err != nil || raw.Control(func(uintptr) {}) != nil
}
