// Package redisx opens Redis by its URL: a server, the master of a sentinel group, or a cluster.
// Without a URL it starts an in-process Redis that lives as long as the client. No other package
// knows which of them is in use.
package redisx

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"net/url"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
)

const (
	// dialDeadline bounds one attempt to connect, and dials the number of attempts before the
	// command is tried again. A dead server must be noticed long before the waiting requests time
	// out.
	dialDeadline = commandDeadline
	dials        = 1
	// noPipelinePool disables the separate pool for pipelines, so that the pool's size is the
	// configured one.
	noPipelinePool = -1
)

// Client speaks to Redis.
type Client struct {
	redis.UniversalClient
	embedded *embedded
	guard    *guard // nil unless Protect was called
}

// Open prepares a client with at most pool connections, to each node of a cluster. No server is
// connected to yet. The error is that of Check.
func Open(redisURL string, pool int) (*Client, error) {
	if redisURL == "" {
		return openEmbedded(pool)
	}
	u, list, err := parse(redisURL)
	if err != nil {
		return nil, fmt.Errorf("the Redis URL %w", err)
	}
	if isList(u) {
		return openList(u, list, pool)
	}
	options, err := parseOne(redisURL)
	if err != nil {
		return nil, fmt.Errorf("the Redis URL %w", err)
	}
	return &Client{UniversalClient: redis.NewClient(tuned(options, pool))}, nil
}

// openList opens what sentinels or a cluster's nodes lead to.
func openList(u *url.URL, list string, pool int) (*Client, error) {
	options, err := parseList(u, list)
	if err != nil {
		return nil, fmt.Errorf("the Redis URL %w", err)
	}
	options.PoolSize, options.PipelinePoolSize = pool, noPipelinePool
	options.DialTimeout, options.DialerRetries = dialDeadline, dials
	options.ContextTimeoutEnabled = true
	options.ClientName = clientName
	return &Client{UniversalClient: redis.NewUniversalClient(options)}, nil
}

// clientName is what Redis lists connections by.
const clientName = "linkforge"

// tuned makes deadlines hold: a command that waits for Redis is otherwise not interrupted by its
// context.
func tuned(options *redis.Options, pool int) *redis.Options {
	options.PoolSize, options.PipelinePoolSize = pool, noPipelinePool
	options.DialTimeout = cmp.Or(options.DialTimeout, dialDeadline)
	options.DialerRetries = cmp.Or(options.DialerRetries, dials)
	options.ContextTimeoutEnabled = true
	options.ClientName = clientName
	return options
}

// LogTo sends the log of the client library, for all clients of the process, to log.
func LogTo(log *slog.Logger) { redis.SetLogger(libraryLog{log}) }

// libraryLog is the log of the client library. It reports connections that it re-creates.
type libraryLog struct{ *slog.Logger }

// Printf implements the library's interface.
func (l libraryLog) Printf(ctx context.Context, format string, args ...any) {
	l.DebugContext(ctx, "Redis client", "message", fmt.Sprintf(format, args...))
}

// InProcess says that this Redis is the process's own, and ends with it.
func (c *Client) InProcess() bool { return c.embedded != nil }

// Close ends the client and, if it is in-process, its Redis.
func (c *Client) Close() error {
	if c.guard != nil {
		c.guard.Close()
	}
	err := c.UniversalClient.Close()
	if c.embedded != nil {
		c.embedded.stop()
	}
	return err
}

// embedded is an in-process Redis and the clock that makes its keys expire.
type embedded struct {
	server *miniredis.Miniredis
	quit   chan struct{}
	once   sync.Once
	done   sync.WaitGroup
}

// openEmbedded listens on a free loopback port, behind a password that no other process knows.
func openEmbedded(pool int) (*Client, error) {
	password := rand.Text()
	server := miniredis.NewMiniRedis()
	server.RequireAuth(password)
	if err := server.Start(); err != nil {
		return nil, fmt.Errorf("starting the in-process Redis: %w", err)
	}
	e := &embedded{server: server, quit: make(chan struct{})}
	e.done.Go(e.passTime)
	options := &redis.Options{Addr: server.Addr(), Password: password}
	return &Client{UniversalClient: redis.NewClient(tuned(options, pool)), embedded: e}, nil
}

// tick is how often time passes while there are few keys.
const tick = time.Second

// passTime makes keys expire: the time of miniredis advances only by a call, and its own ticker
// walks every key on every command.
func (e *embedded) passTime() {
	timer := time.NewTimer(tick)
	defer timer.Stop()
	last := time.Now()
	for {
		select {
		case <-e.quit:
			return
		case <-timer.C:
		}
		now := time.Now()
		e.server.FastForward(now.Sub(last))
		last = now
		// It walks every key under the global lock: a hundredth of the time at most.
		timer.Reset(max(tick, 100*time.Since(now)))
	}
}

func (e *embedded) stop() {
	e.once.Do(func() { close(e.quit) })
	e.done.Wait()
	e.server.Close()
}
