// Package poll waits, wakes, calls a function periodically and watches files. It owns the rule that
// a periodic failure is logged once, until it is over. Every package with a background loop uses
// it.
package poll

import (
	"context"
	"log/slog"
	"time"

	"github.com/linkforge/linkforge/internal/platform/errs"
)

// Wait waits for d, or until the context ends: then it returns the context's error.
func Wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Signal wakes the receiver of a channel with one place, now or at its next receive.
func Signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Every waits for the interval and calls f, until the context ends. It logs failures of f as
// Failures does.
func Every(ctx context.Context, interval time.Duration, failures Failures, f func(context.Context) error) {
	for Wait(ctx, interval) == nil {
		failures.Report(ctx, f(ctx))
	}
}

// retryPause is the longest time until OnSignal calls a function that has failed again.
const retryPause = time.Second

// OnSignal calls f, and again at each signal and after the interval, or soon if it failed, until
// the context ends. It logs failures of f as Failures does.
func OnSignal(ctx context.Context, signal <-chan struct{}, interval time.Duration, failures Failures,
	f func(context.Context) error) {
	for ctx.Err() == nil {
		err := f(ctx)
		failures.Report(ctx, err)
		wait := interval
		if err != nil {
			wait = min(interval, retryPause)
		}
		timer := time.NewTimer(wait)
		select {
		case <-signal:
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

// Failures logs the first error of a series, at the level of errs.LogLevel. One goroutine uses it.
type Failures struct {
	// Log receives the error, with Message.
	Log     *slog.Logger
	Message string

	logged slog.Level // of the series; zero, which is INFO, if there is none
}

// Report logs the error unless the series has had one of its level, or the context has ended. A nil
// error ends the series.
func (f *Failures) Report(ctx context.Context, err error) {
	if err == nil {
		f.logged = slog.LevelInfo
		return
	}
	if level := errs.LogLevel(err); level > f.logged && ctx.Err() == nil {
		f.Log.Log(ctx, level, f.Message, "error", err)
		f.logged = level
	}
}
