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

// rateDeadline bounds every question of a rate limit.
const rateDeadline = 5 * time.Second

// Rate is a short-term allowance: so many attempts in a window that starts with the first.
type Rate struct {
	// Name tells rates apart.
	Name string
	// Attempts is how many are allowed, Window how long it takes until they are forgotten.
	Attempts int64
	Window   time.Duration
	// Longest is how long a wait may become: whoever goes on after being refused waits twice as
	// long each time. Zero means that a wait is what is left of the window.
	Longest time.Duration
}

// Limiter keeps short-term allowances.
type Limiter struct {
	// KV is Redis.
	KV redis.UniversalClient
	// Log is told when Redis does not answer.
	Log *slog.Logger
	// Off lets everything through.
	Off bool
}

// Allowance is what is left of a rate.
type Allowance struct {
	// Known is false where nothing is limited, or nothing is known because Redis is away.
	Known bool
	Rate  Rate
	// Left is how many more attempts there are, Reset how long until there are all of them again.
	Left  int64
	Reset time.Duration
}

// Charge counts one attempt of the subject (an account, an address) before it is made, so that
// attempts at the same time cannot slip past. It returns RateLimited. It fails open: when Redis is
// away people can still log in, and the cost of the password's hash still slows down whoever
// guesses.
func (l Limiter) Charge(ctx context.Context, r Rate, subject string) error {
	_, err := l.Spend(ctx, r, subject, 1)
	return err
}

// Spend is Charge of several attempts at once, and says what is left.
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
	if count > r.Attempts+1 && 2*a.Reset <= r.Longest {
		a.Reset *= 2
		l.prolong(ctx, r, subject, a.Reset)
	}
	return a, errs.New(errs.RateLimited, "Too many attempts. Try again in %s.", a.Reset).After(a.Reset)
}

// Pardon takes back a charge: the attempt was a good one.
func (l Limiter) Pardon(ctx context.Context, r Rate, subject string) {
	if l.Off {
		return
	}
	if _, _, err := l.add(ctx, r, subject, -1); err != nil {
		l.Log.WarnContext(ctx, "rate limit not given back", "rate", r.Name, "error", err)
	}
}

// prolong lets a window end later.
func (l Limiter) prolong(ctx context.Context, r Rate, subject string, left time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, rateDeadline)
	defer cancel()
	if err := l.KV.PExpire(ctx, r.key(subject), left).Err(); err != nil {
		l.Log.WarnContext(ctx, "rate limit not prolonged", "rate", r.Name, "error", err)
	}
}

// Forget lets a subject begin anew.
func (l Limiter) Forget(ctx context.Context, r Rate, subject string) {
	if l.Off {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, rateDeadline)
	defer cancel()
	if err := l.KV.Del(ctx, r.key(subject)).Err(); err != nil {
		l.Log.WarnContext(ctx, "rate limit not forgotten", "rate", r.Name, "error", err)
	}
}

// add counts attempts up or down, and returns how many there are and how long until they are
// forgotten. A counter that is missing, because its window has ended, is made with its expiry in
// the same step.
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

// key does not show the subject, which may be somebody's address.
func (r Rate) key(subject string) string {
	sum := sha256.Sum256([]byte(subject))
	return fmt.Sprintf("rates:{%s}:%s", hex.EncodeToString(sum[:16]), r.Name)
}
