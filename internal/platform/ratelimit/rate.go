// Package ratelimit limits attempts in a short time, per subject, such as log-ins of an address or
// the cost of a workspace's operations. The counters are in Redis; while it is unavailable, each
// node counts in its memory, as a Throttle always does. It owns the counters, and each caller its
// rates: accounts, domains, links, redirects, probes, gates and the GraphQL endpoint call it.
package ratelimit

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/poll"
	"github.com/linkforge/linkforge/internal/platform/web"
)

const (
	// rateDeadline bounds each call of Redis.
	rateDeadline = 5 * time.Second
	// localBuckets is the number of buckets in each shard of the counters for an outage of Redis:
	// 2 MiB.
	localBuckets = 512
)

// Rate is a number of attempts in a window of time, which starts with the first attempt.
type Rate struct {
	// Name is part of the key of the counter.
	Name string
	// Attempts is the number of allowed attempts, Window the duration after which the counter
	// expires.
	Attempts int64
	Window   time.Duration
	// MaxWait bounds the wait of a subject that continues after it was refused: each refusal
	// doubles the wait. Zero means that the wait is the rest of the window.
	MaxWait time.Duration
}

// Limiter counts attempts in Redis, and in the memory of the node while Redis is unavailable:
// attempts are never unlimited.
type Limiter struct {
	// Off allows all attempts.
	Off bool

	kv    redis.UniversalClient
	log   *slog.Logger
	now   func() time.Time
	local *counters
	turns *turns
}

// New returns a Limiter. The log receives failures of Redis; now is the clock of the counters in
// memory.
func New(kv redis.UniversalClient, log *slog.Logger, now func() time.Time) Limiter {
	return Limiter{kv: kv, log: log, now: now, local: newCounters(localBuckets), turns: &turns{}}
}

// Counter is the count of a rate for a subject.
type Counter struct {
	Rate    Rate
	Subject string
}

// siteFactor is how many times the rate of an address network its whole IPv6 /48 has: a client that
// has a /48 chooses among 65,536 networks.
const siteFactor = 4

// OfNetwork returns the counters of an attempt from an address network, as web.AddressOf returns
// it: that of the network and, for IPv6, that of its site. No rate of addresses is counted in
// another way. The others are the rest of the subject, such as a link.
func OfNetwork(r Rate, network string, others ...string) []Counter {
	of := func(network string) string {
		return strings.Join(append(others[:len(others):len(others)], network), " ")
	}
	all := []Counter{{r, of(network)}}
	if site := web.Site(network); site != "" {
		wide := r
		wide.Name, wide.Attempts = r.Name+"-site", siteFactor*r.Attempts
		all = append(all, Counter{wide, of(site)})
	}
	return all
}

// Charged is a counter that took an attempt.
type Charged struct {
	Counter
	isLocal bool // in the memory of the node
}

// Allowance is the rest of a rate.
type Allowance struct {
	// Known is false if rates are off.
	Known bool
	Rate  Rate
	// Left is the number of remaining attempts, Reset the duration until the counter expires.
	Left  int64
	Reset time.Duration

	isLocal bool // as that of Charged
}

// Charge counts one attempt of a subject, such as an account or an address, before the attempt, so
// that concurrent attempts cannot exceed the rate. It returns RateLimited.
func (l Limiter) Charge(ctx context.Context, r Rate, subject string) error {
	_, err := l.Spend(ctx, r, subject, 1)
	return err
}

// SpendFrom counts attempts from an address network, as OfNetwork says. It returns RateLimited. What
// the site refuses does not count towards the rate of the network.
func (l Limiter) SpendFrom(ctx context.Context, r Rate, attempts int64, network string, others ...string) error {
	var charged []Charged
	for _, c := range OfNetwork(r, network, others...) {
		a, err := l.Spend(ctx, c.Rate, c.Subject, attempts)
		if err != nil {
			l.refund(ctx, attempts, charged...)
			return err
		}
		charged = append(charged, Charged{c, a.isLocal})
	}
	return nil
}

// Wait waits until one more attempt of a subject, such as a request to a host, keeps to the rate,
// and charges it. Callers, such as accounts, that wait on a node take turns. It returns the error of
// a context that ends before, and Unavailable or RateLimited if too many wait: a caller that calls
// again then has the turn that it waited for.
func (l Limiter) Wait(ctx context.Context, r Rate, subject, caller string) error {
	if l.Off {
		return ctx.Err()
	}
	q := l.turns.join(r.key(subject))
	defer l.turns.part(r.key(subject), q)
	turn, err := q.Enter(ctx, 1, caller)
	if err != nil {
		return err
	}
	defer turn.Leave()
	for {
		count, left, _ := l.count(ctx, r, subject, 1)
		if count <= r.Attempts {
			return ctx.Err()
		}
		if err := poll.Wait(ctx, left); err != nil {
			return err
		}
	}
}

// ChargeAll charges one attempt to each counter, or to none: then it returns RateLimited. So
// attempts that are refused while others are in progress, whose charges are refunded later, use up
// nothing.
func (l Limiter) ChargeAll(ctx context.Context, all ...Counter) (charged []Charged, err error) {
	for _, c := range all {
		one, err := l.charge(ctx, c)
		if err != nil {
			l.Refund(ctx, charged...)
			return nil, err
		}
		charged = append(charged, one)
	}
	return charged, nil
}

// ChargeEither is ChargeAll, and charges one attempt more: to the wide counter or, once that is
// used up, to the last one. So the attempts of many subjects leave each of them one of its own.
func (l Limiter) ChargeEither(ctx context.Context, wide, last Counter, all ...Counter) ([]Charged, error) {
	charged, err := l.ChargeAll(ctx, all...)
	if err != nil {
		return nil, err
	}
	one, err := l.charge(ctx, wide)
	if err != nil {
		one, err = l.charge(ctx, last)
	}
	if err != nil {
		l.Refund(ctx, charged...)
		return nil, err
	}
	return append(charged, one), nil
}

// charge charges one attempt, or none if it is refused. A counter with MaxWait counts refusals,
// too.
func (l Limiter) charge(ctx context.Context, c Counter) (Charged, error) {
	a, err := l.Spend(ctx, c.Rate, c.Subject, 1)
	one := Charged{c, a.isLocal}
	if err != nil && c.Rate.MaxWait == 0 {
		l.Refund(ctx, one)
	}
	return one, err
}

// Spend counts several attempts like Charge, and returns the remaining allowance.
func (l Limiter) Spend(ctx context.Context, r Rate, subject string, attempts int64) (Allowance, error) {
	if l.Off {
		return Allowance{}, nil
	}
	count, left, isLocal := l.count(ctx, r, subject, attempts)
	a := Allowance{
		Known:   true,
		Rate:    r,
		Left:    max(0, r.Attempts-count),
		Reset:   max(left, time.Second).Round(time.Second),
		isLocal: isLocal,
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

// Refund reverts charges, for an attempt that does not count. A charge that Redis took stays if
// Redis is unavailable now, and of a window that has ended nothing is reverted. It ignores the end
// of the context.
func (l Limiter) Refund(ctx context.Context, charged ...Charged) { l.refund(ctx, 1, charged...) }

// refund is Refund of charges of several attempts each.
func (l Limiter) refund(ctx context.Context, attempts int64, charged ...Charged) {
	if l.Off {
		return
	}
	for _, c := range charged {
		if c.isLocal {
			l.countLocally(c.Rate, c.Subject, -attempts)
		} else if count, _, err := l.add(ctx, c.Rate, c.Subject, -attempts); err == nil && count < 0 {
			_, _, _ = l.add(ctx, c.Rate, c.Subject, -count) // which begins a window: no attempt is to spare
		}
	}
}

// extend sets a later end of a window.
func (l Limiter) extend(ctx context.Context, r Rate, subject string, left time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, rateDeadline)
	defer cancel()
	if err := l.kv.PExpire(ctx, r.key(subject), left).Err(); err != nil {
		l.warn(ctx, r, err)
		l.local.extend(l.local.key(r.key(subject)), left, l.now())
	}
}

// Reset deletes the counters of a subject. It ignores the end of the context.
func (l Limiter) Reset(ctx context.Context, r Rate, subject string) {
	if l.Off {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rateDeadline)
	defer cancel()
	l.local.extend(l.local.key(r.key(subject)), 0, l.now())
	if err := l.kv.Del(ctx, r.key(subject)).Err(); err != nil {
		l.warn(ctx, r, err)
	}
}

// count adds attempts to a counter, in the memory of the node if Redis is unavailable.
func (l Limiter) count(
	ctx context.Context, r Rate, subject string, attempts int64,
) (count int64, left time.Duration, isLocal bool) {
	count, left, err := l.add(ctx, r, subject, attempts)
	if err != nil {
		count, left = l.countLocally(r, subject, attempts)
	}
	return count, left, err != nil
}

func (l Limiter) countLocally(r Rate, subject string, attempts int64) (count int64, left time.Duration) {
	return l.local.add(l.local.key(r.key(subject)), &r, attempts, math.MaxInt64, l.now())
}

// add adds delta to a counter in Redis, and returns its value and its remaining lifetime. It
// creates a missing counter, whose window has ended, together with its expiry. It ignores the end
// of the context: a refund would otherwise revert a charge that Redis never had, and leave attempts
// to spare.
func (l Limiter) add(
	ctx context.Context, r Rate, subject string, delta int64,
) (count int64, left time.Duration, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rateDeadline)
	defer cancel()
	key := r.key(subject)
	pipe := l.kv.TxPipeline()
	pipe.SetNX(ctx, key, 0, r.Window)
	sum, ttl := pipe.IncrBy(ctx, key, delta), pipe.PTTL(ctx, key)
	if _, err := pipe.Exec(ctx); err != nil {
		l.warn(ctx, r, err)
		return 0, 0, err
	}
	return sum.Val(), ttl.Val(), nil
}

// warn logs a failure of Redis, but none while its circuit breaker is open, which has its own log.
func (l Limiter) warn(ctx context.Context, r Rate, err error) {
	if !errs.Is(err, errs.Unavailable) {
		l.log.WarnContext(ctx, "rate limit counted on this node only", "rate", r.Name, "error", err)
	}
}

// key hashes the subject, which may be an IP address.
func (r Rate) key(subject string) string {
	sum := sha256.Sum256([]byte(subject))
	return fmt.Sprintf("rates:{%s}:%s", hex.EncodeToString(sum[:16]), r.Name)
}
