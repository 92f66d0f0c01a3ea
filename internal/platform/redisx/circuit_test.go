package redisx

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestBreaker_OpensUntilAProbeSucceeds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var down atomic.Bool
		var probes atomic.Int64
		b := newBreaker(breakerConfig{Name: "it", Log: slog.New(slog.DiscardHandler),
			Probe: func(ctx context.Context) error {
				probes.Add(1)
				if down.Load() {
					<-ctx.Done() // a black hole
					return ctx.Err()
				}
				return nil
			}})
		defer b.Close()
		if b.IsOpen() {
			t.Error("a new breaker is open")
		}
		down.Store(true)
		for range 3 {
			b.Trip(errors.New("no answer"))
		}
		time.Sleep(time.Minute)
		if !b.IsOpen() || probes.Load() < 100 {
			t.Errorf("open is %t after %d probes of a dependency that is down", b.IsOpen(), probes.Load())
		}
		down.Store(false)
		time.Sleep(probeInterval + probeDeadline)
		synctest.Wait()
		if b.IsOpen() {
			t.Error("the breaker is open although the dependency answers")
		}
		before := probes.Load()
		time.Sleep(time.Minute)
		if probes.Load() != before {
			t.Error("a closed breaker probes")
		}
	})
}

func TestBreaker_CloseEndsProbes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBreaker(breakerConfig{Name: "it", Log: slog.New(slog.DiscardHandler),
			Probe: func(context.Context) error {
				return errors.New("down")
			}})
		b.Trip(errors.New("no answer"))
		time.Sleep(time.Second)
		b.Close()
		b.Trip(errors.New("no answer")) // starts no further probe: synctest would report the goroutine
	})
}
