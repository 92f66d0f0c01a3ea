package quota

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

// Rate is a short-term allowance: so many attempts in a window that starts with the first.
type Rate struct {
	// Name tells rates apart.
	Name string
	// Attempts is how many are allowed, Window how long it takes until they are forgotten.
	Attempts int64
	Window   time.Duration
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

// Charge counts one attempt of the subject (an account, an address) before it is made, so that attempts at the
// same time cannot slip past. It returns RateLimited. It fails open: when Redis is away people can still log
// in, and the cost of the password's hash still slows down whoever guesses.
func (l Limiter) Charge(ctx context.Context, r Rate, subject string) error {
	if l.Off {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	key := r.key(subject)
	pipe := l.KV.TxPipeline()
	pipe.SetNX(ctx, key, 0, r.Window)
	count := pipe.IncrBy(ctx, key, 1)
	left := pipe.PTTL(ctx, key)
	if _, err := pipe.Exec(ctx); err != nil {
		l.Log.WarnContext(ctx, "rate limit not checked", "rate", r.Name, "error", err)
		return nil
	}
	if count.Val() <= r.Attempts {
		return nil
	}
	wait := max(left.Val(), time.Second).Round(time.Second)
	return errs.New(errs.RateLimited, "Too many attempts. Try again in %s.", wait).After(wait)
}

// Pardon takes back a charge: the attempt was a good one.
func (l Limiter) Pardon(ctx context.Context, r Rate, subject string) {
	if l.Off {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	key := r.key(subject)
	pipe := l.KV.TxPipeline()
	pipe.SetNX(ctx, key, 0, r.Window) // the window may have ended since: never a counter without an expiry
	pipe.DecrBy(ctx, key, 1)
	if _, err := pipe.Exec(ctx); err != nil {
		l.Log.WarnContext(ctx, "rate limit not given back", "rate", r.Name, "error", err)
	}
}

// key does not show the subject, which may be somebody's address.
func (r Rate) key(subject string) string {
	sum := sha256.Sum256([]byte(subject))
	return fmt.Sprintf("rates:{%s}:%s", hex.EncodeToString(sum[:16]), r.Name)
}
