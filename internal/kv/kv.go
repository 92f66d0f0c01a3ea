// Package kv opens Redis: a server by its URL or, without one, an in-process Redis that lives as long as the
// client. It is the only room that knows which of the two it is.
package kv

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
)

// Client speaks to Redis.
type Client struct {
	redis.UniversalClient
	embedded *embedded
}

// Open prepares a client with at most pool connections. A server is not connected to yet.
func Open(redisURL string, pool int) (*Client, error) {
	if redisURL == "" {
		return openEmbedded(pool)
	}
	options, err := redis.ParseURL(redisURL)
	if err != nil {
		return nil, errors.New("the Redis URL cannot be read") // go-redis's own text may hold the password
	}
	return &Client{UniversalClient: redis.NewClient(tuned(options, pool))}, nil
}

// tuned makes deadlines hold: a command that waits for Redis is otherwise not interrupted by its context.
func tuned(options *redis.Options, pool int) *redis.Options {
	options.PoolSize = pool
	options.ContextTimeoutEnabled = true
	options.ClientName = "linkforge"
	return options
}

// LogTo sends what the client library itself says, for every client of the process, to the log.
func LogTo(log *slog.Logger) { redis.SetLogger(libraryLog{log}) }

// libraryLog is the library's log: what it says is about connections that it makes anew.
type libraryLog struct{ *slog.Logger }

// Printf implements the library's interface.
func (l libraryLog) Printf(ctx context.Context, format string, args ...any) {
	l.DebugContext(ctx, "Redis client", "message", fmt.Sprintf(format, args...))
}

// InProcess says that this Redis is the process's own, and ends with it.
func (c *Client) InProcess() bool { return c.embedded != nil }

// Close ends the client and, if it is in-process, its Redis.
func (c *Client) Close() error {
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

// passTime makes keys expire: miniredis lets time pass only when it is told to, and its own ticking option
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
		// It walks every key and lets nobody else at them: a hundredth of the time at most.
		timer.Reset(max(tick, 100*time.Since(now)))
	}
}

func (e *embedded) stop() {
	e.once.Do(func() { close(e.quit) })
	e.done.Wait()
	e.server.Close()
}

// Ready asks Redis for a sign of life.
func (c *Client) Ready(ctx context.Context) error {
	return c.Ping(ctx).Err()
}
