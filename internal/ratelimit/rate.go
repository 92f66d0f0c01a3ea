// Package ratelimit limits attempts in a short time, per subject, such as log-ins of an address or
// the cost of a workspace's operations. The counters are in Redis; if it is unavailable, attempts
// are allowed. It owns the counters, and each caller its rates: accounts, domains, links, probes
// and the GraphQL endpoint call it.
package ratelimit

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/linkforge/linkforge/internal/errs"
)

// rateDeadline bounds each call of Redis.
const rateDeadline = 5 * time.Second

// Rate is a number of attempts in a window of time, which starts with the first attempt.
type Rate struct {
	// Name is part of the key of the counter.
	Name string
	// Attempts is the number of allowed attempts, Window the duration after which the counter expires.
	Attempts int64
	Window   time.Duration
	// MaxWait bounds the wait of a subject that continues after it was refused: each refusal doubles
	// the wait. Zero means that the wait is the rest of the window.
	MaxWait time.Duration
}

// Limiter counts attempts in Redis.
type Limiter struct {
	// KV is Redis.
	KV redis.UniversalClient
	// Log receives failures of Redis.
	Log *slog.Logger
	// Off allows all attempts.
	Off bool
}

// Allowance is the rest of a rate.
type Allowance struct {
	// Known is false if rates are off or Redis is unavailable.
	Known bool
	Rate  Rate
	// Left is the number of remaining attempts, Reset the duration until the counter expires.
	Left  int64
	Reset time.Duration
}

// Charge counts one attempt of a subject, such as an account or an address, before the attempt, so
// that concurrent attempts cannot exceed the rate. It returns RateLimited. It allows all attempts
// while Redis is unavailable: users can still log in, and the cost of the password hash still
// limits guessing.
func (l Limiter) Charge(ctx context.Context, r Rate, subject string) error {
	_, err := l.Spend(ctx, r, subject, 1)
	return err
}

// Spend counts several attempts like Charge, and returns the remaining allowance.
func (l Limiter) Spend(ctx context.Context, r Rate, subject string, attempts int64) (Allowance, error) {
	if l.Off {
		return Allowance{}, nil
	}
	count, left, err := l.add(ctx, r, subject, attempts)
	if err != nil {
		l.Log.WarnContext(ctx, "rate limit not checked", "rate", r.Name, "error", err)
		return Allowance{}, nil
	}
	a := Allowance{
		Known: true,
		Rate:  r,
		Left:  max(0, r.Attempts-count),
		Reset: max(left, time.Second).Round(time.Second),
	}
	if count <= r.Attempts {
		return a, nil
	}
	if count > r.Attempts+1 && 2*a.Reset <= r.MaxWait {
		a.Reset *= 2
		l.extend(ctx, r, subject, a.Reset)
	}
	return a, errs.New(errs.RateLimited, "Too many attempts. Try again in %s.", a.Reset).After(a.Reset)
}

// Refund reverts a Charge, for a successful attempt that does not count.
func (l Limiter) Refund(ctx context.Context, r Rate, subject string) {
	if l.Off {
		return
	}
	if _, _, err := l.add(ctx, r, subject, -1); err != nil {
		l.Log.WarnContext(ctx, "refunding a rate limit failed", "rate", r.Name, "error", err)
	}
}

// extend sets a later end of a window.
func (l Limiter) extend(ctx context.Context, r Rate, subject string, left time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, rateDeadline)
	defer cancel()
	if err := l.KV.PExpire(ctx, r.key(subject), left).Err(); err != nil {
		l.Log.WarnContext(ctx, "extending a rate limit failed", "rate", r.Name, "error", err)
	}
}

// Reset deletes the counter of a subject.
func (l Limiter) Reset(ctx context.Context, r Rate, subject string) {
	if l.Off {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, rateDeadline)
	defer cancel()
	if err := l.KV.Del(ctx, r.key(subject)).Err(); err != nil {
		l.Log.WarnContext(ctx, "resetting a rate limit failed", "rate", r.Name, "error", err)
	}
}

// add adds delta to a counter, and returns its value and its remaining lifetime. It creates a
// missing counter, whose window has ended, together with its expiry.
func (l Limiter) add(
	ctx context.Context, r Rate, subject string, delta int64,
) (count int64, left time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, rateDeadline)
	defer cancel()
	key := r.key(subject)
	pipe := l.KV.TxPipeline()
	pipe.SetNX(ctx, key, 0, r.Window)
	sum, ttl := pipe.IncrBy(ctx, key, delta), pipe.PTTL(ctx, key)
	_, err = pipe.Exec(ctx)
	return sum.Val(), ttl.Val(), err
}

// key hashes the subject, which may be an IP address.
func (r Rate) key(subject string) string {
	sum := sha256.Sum256([]byte(subject))
	return fmt.Sprintf("rates:{%s}:%s", hex.EncodeToString(sum[:16]), r.Name)
}
