package redisx

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/poll"
)

const (
	// probeInterval is the time between two probes, probeDeadline bounds one of them.
	probeInterval = 100 * time.Millisecond
	probeDeadline = 250 * time.Millisecond
)

// breakerConfig configures a Breaker.
type breakerConfig struct {
	// Name names the dependency in the log.
	Name string
	// Probe returns nil once the dependency answers again.
	Probe func(ctx context.Context) error
	// Log receives changes of the state.
	Log *slog.Logger
}

// breaker stops commands to a Redis that does not respond: after one failure callers fail at once,
// until a probe in the background succeeds. It is closed while Redis responds, and open while it
// does not.
type breaker struct {
	breakerConfig
	open atomic.Bool

	mu      sync.Mutex
	closed  bool
	stop    context.CancelFunc
	probing sync.WaitGroup
}

// newBreaker returns a closed Breaker.
func newBreaker(c breakerConfig) *breaker { return &breaker{breakerConfig: c} }

// IsOpen reports whether callers must not use the dependency.
func (b *breaker) IsOpen() bool { return b.open.Load() }

// Trip opens the breaker because of an error, and probes until the dependency answers.
func (b *breaker) Trip(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed || b.open.Swap(true) {
		return
	}
	b.Log.Log(context.Background(), errs.LogLevel(err), b.Name+" unavailable: its circuit breaker is open", "error",
		err)
	ctx, stop := context.WithCancel(context.Background())
	b.stop = stop
	b.probing.Go(func() {
		defer stop()
		opened := time.Now()
		for poll.Wait(ctx, probeInterval) == nil {
			if b.probe(ctx) == nil {
				b.open.Store(false)
				b.Log.Info(b.Name+" available again: its circuit breaker is closed", "after", time.Since(opened))
				return
			}
		}
	})
}

func (b *breaker) probe(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, probeDeadline)
	defer cancel()
	return b.Probe(ctx)
}

// Close ends the probes.
func (b *breaker) Close() {
	b.mu.Lock()
	b.closed = true
	if b.stop != nil {
		b.stop()
	}
	b.mu.Unlock()
	b.probing.Wait()
}
