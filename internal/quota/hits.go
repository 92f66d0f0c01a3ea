// Package quota counts what is allowed: redirects of a link in a month, and attempts in a short time. The
// counters live in Redis, which is fast and not the truth: whatever it loses is counted anew from the database.
package quota

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// deadline bounds every call to Redis on the redirect path.
	deadline = 2 * time.Second
	// guardTTL is how long a counter that vanished under a request may stand in its place, full, should the
	// request die before it has removed it.
	guardTTL = time.Second
	// tries is how often Take starts over when counters vanish under it.
	tries = 5
)

// Hits counts how many redirects links have answered this month.
type Hits struct {
	// KV is Redis.
	KV redis.UniversalClient
}

// Seed tells how many hits of the month the database knows. It is asked when Redis has no counter.
type Seed func(ctx context.Context) (int64, error)

// Take takes one hit of the link's quota, and reports whether there was one left. While Redis keeps its
// counters no more than limit hits are ever given in a month, however many nodes ask at once. A hit that is
// refused is not counted.
//
// An error means that Redis or the seed did not answer: nothing may be assumed to have been taken.
func (h Hits) Take(ctx context.Context, linkID string, m Month, limit int64, seed Seed) (bool, error) {
	key := hitsKey(linkID, m)
	for range tries {
		used, err := h.used(ctx, key, m, seed)
		if err != nil {
			return false, err
		}
		if used >= limit {
			return false, nil
		}
		took, vanished, err := h.takeOne(ctx, key, limit)
		if err != nil || !vanished {
			return took, err
		}
	}
	return false, errors.New("the hit counter keeps vanishing from Redis")
}

// used reads the counter and, when there is none, makes it from the seed. It is made with its expiry in one
// step, so no counter outlives its month.
func (h Hits) used(ctx context.Context, key string, m Month, seed Seed) (int64, error) {
	used, err := h.get(ctx, key)
	if !errors.Is(err, redis.Nil) {
		return used, err
	}
	known, err := seed(ctx)
	if err != nil {
		return 0, fmt.Errorf("counting the month's hits: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	err = h.KV.SetArgs(ctx, key, known, redis.SetArgs{Mode: "NX", ExpireAt: m.End}).Err()
	if err != nil && !errors.Is(err, redis.Nil) {
		return 0, fmt.Errorf("making the hit counter: %w", err)
	}
	return known, nil // should another request have been first, taking one shows its count
}

// takeOne counts one hit up. A counter that has vanished since it was read must not start over from one, so a
// full one is put in its place within the same step, and the request that put it there removes it.
func (h Hits) takeOne(ctx context.Context, key string, limit int64) (took, vanished bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	pipe := h.KV.TxPipeline()
	guard := pipe.SetNX(ctx, key, limit, guardTTL)
	count := pipe.IncrBy(ctx, key, 1)
	if _, err := pipe.Exec(ctx); err != nil {
		return false, false, fmt.Errorf("taking a hit: %w", err)
	}
	if guard.Val() {
		if err := h.KV.Del(ctx, key).Err(); err != nil {
			return false, true, fmt.Errorf("removing a guard: %w", err)
		}
		return false, true, nil
	}
	if count.Val() <= limit {
		return true, false, nil
	}
	// Others took the last hits since the counter was read. Setting it back keeps it honest should the limit be
	// raised; XX and KEEPTTL never make a counter, and never one without an expiry.
	err = h.KV.SetArgs(ctx, key, limit, redis.SetArgs{Mode: "XX", KeepTTL: true}).Err()
	if err != nil && !errors.Is(err, redis.Nil) {
		return false, false, fmt.Errorf("setting the hit counter back: %w", err)
	}
	return false, false, nil
}

// Return gives back a hit that was taken and not used.
func (h Hits) Return(ctx context.Context, linkID string, m Month) error {
	ctx, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	key := hitsKey(linkID, m)
	pipe := h.KV.TxPipeline()
	guard := pipe.SetNX(ctx, key, 0, guardTTL)
	pipe.DecrBy(ctx, key, 1)
	if _, err := pipe.Exec(ctx); err != nil {
		return fmt.Errorf("returning a hit: %w", err)
	}
	if guard.Val() {
		return h.KV.Del(ctx, key).Err() // there was no counter to return it to
	}
	return nil
}

// Used reads the counters of the links. Links without a counter are missing from the answer.
func (h Hits) Used(ctx context.Context, linkIDs []string, m Month) (map[string]int64, error) {
	ctx, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	pipe := h.KV.Pipeline() // not MGET: on a cluster the keys live on many nodes
	for _, linkID := range linkIDs {
		pipe.Get(ctx, hitsKey(linkID, m))
	}
	replies, err := pipe.Exec(ctx)
	if err != nil && !errors.Is(err, redis.Nil) {
		return nil, fmt.Errorf("reading hit counters: %w", err)
	}
	used := make(map[string]int64, len(linkIDs))
	for i, reply := range replies {
		if n, err := reply.(*redis.StringCmd).Int64(); err == nil {
			used[linkIDs[i]] = n
		}
	}
	return used, nil
}

func (h Hits) get(ctx context.Context, key string) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	text, err := h.KV.Get(ctx, key).Result()
	if err != nil {
		return 0, fmt.Errorf("reading the hit counter: %w", err)
	}
	return strconv.ParseInt(text, 10, 64)
}

// hitsKey hashes by the link alone (the braces), so that a cluster keeps a link's counters together.
func hitsKey(linkID string, m Month) string {
	return "links:{" + linkID + "}:hits:" + m.String()
}
