package ratelimit

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/maypok86/otter/v2"

	"github.com/linkforge/linkforge/internal/errs"
	"github.com/linkforge/linkforge/internal/memo"
)

const (
	// fallbackDeadline bounds the wait for Redis: a visitor waits for it.
	fallbackDeadline = 500 * time.Millisecond
	// maxLocal bounds the memory of counters; frequent subjects stay.
	maxLocal = 100_000
)

// Fallback is a Limiter that counts in the memory of the node while Redis is unavailable, for attempts
// that must never be unlimited.
type Fallback struct {
	Limiter
	now   func() time.Time
	local memo.Cache[string, *window]
}

// window counts the attempts of a subject until it ends.
type window struct {
	count atomic.Int64
	until time.Time
}

// NewFallback returns a Fallback.
func NewFallback(l Limiter, now func() time.Time) *Fallback {
	return &Fallback{Limiter: l, now: now, local: memo.New(&otter.Options[string, *window]{MaximumSize: maxLocal})}
}

// Charge counts one attempt of a subject before it is made. It returns RateLimited, with the time after
// which the window ends.
func (f *Fallback) Charge(ctx context.Context, r Rate, subject string) error {
	if f.Off {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, fallbackDeadline)
	defer cancel()
	allowance, err := f.Spend(ctx, r, subject, 1)
	if allowance.Known || err != nil {
		return err
	}
	w := f.window(r, subject)
	if w.count.Add(1) <= r.Attempts {
		return nil
	}
	left := max(w.until.Sub(f.now()), time.Second)
	return errs.New(errs.RateLimited, "Too many attempts. Try again in %s.", left.Round(time.Second)).After(left)
}

// Refund reverts a Charge, for an attempt that does not count. The attempt may have been counted in Redis
// or here: one that was counted elsewhere is not reverted.
func (f *Fallback) Refund(ctx context.Context, r Rate, subject string) {
	if f.Off {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), fallbackDeadline)
	defer cancel()
	if _, _, err := f.add(ctx, r, subject, -1); err == nil {
		return
	}
	if w := f.window(r, subject); w.count.Add(-1) < 0 {
		w.count.Store(0)
	}
}

// window returns the present window of a subject on this node.
func (f *Fallback) window(r Rate, subject string) *window {
	key, now := r.key(subject), f.now()
	w, _ := f.local.Compute(key, func(old *window, found bool) (*window, otter.ComputeOp) {
		if found && now.Before(old.until) {
			return old, otter.CancelOp
		}
		return &window{until: now.Add(r.Window)}, otter.WriteOp
	})
	return w
}
