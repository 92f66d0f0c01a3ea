// Package breaker stops calls to a dependency that does not answer: after one failure callers fail
// at once, until a probe in the background succeeds. It is independent of the kind of dependency.
// Packages redisx and db call it.
package breaker

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

// Config configures a Breaker.
type Config struct {
	// Name names the dependency in the log.
	Name string
	// Probe returns nil once the dependency answers again.
	Probe func(ctx context.Context) error
	// Log receives changes of the state.
	Log *slog.Logger
}

// Breaker is closed while its dependency answers, and open while it does not.
type Breaker struct {
	Config
	open atomic.Bool

	mu      sync.Mutex
	closed  bool
	stop    context.CancelFunc
	probing sync.WaitGroup
}

// New returns a closed Breaker.
func New(c Config) *Breaker { return &Breaker{Config: c} }

// IsOpen reports whether callers must not use the dependency.
func (b *Breaker) IsOpen() bool { return b.open.Load() }

// Trip opens the breaker because of an error, and probes until the dependency answers.
func (b *Breaker) Trip(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed || b.open.Swap(true) {
		return
	}
	b.Log.Log(context.Background(), errs.LogLevel(err), b.Name+" unavailable: its circuit breaker is open", "error", err)
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

func (b *Breaker) probe(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, probeDeadline)
	defer cancel()
	return b.Probe(ctx)
}

// Close ends the probes.
func (b *Breaker) Close() {
	b.mu.Lock()
	b.closed = true
	if b.stop != nil {
		b.stop()
	}
	b.mu.Unlock()
	b.probing.Wait()
}
