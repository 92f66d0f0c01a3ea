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

	"github.com/linkforge/linkforge/internal/pause"
)

const (
	// deadline bounds every call to Redis. It is long: a step that is given up on may have been counted all the same.
	deadline = 5 * time.Second
	// guard stands in the place of a counter that vanished under a request, until that request has removed it:
	// far above every limit, so that nobody takes it for a count. guardTTL removes it should the request die.
	guard    = int64(1) << 52
	guardTTL = 2 * deadline
	// guardWait is how long others wait for a guard to go, rounds how often they look again.
	guardWait = 5 * time.Millisecond
	rounds    = 400
	// afterlife is how long a counter outlives its month, which its key names: requests that arrived in the month's
	// last moments, and clocks that differ, still find it.
	afterlife = 24 * time.Hour
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
	for range rounds {
		used, err := h.used(ctx, key, m, seed)
		if err != nil {
			return false, err
		}
		if limit <= used && used < guard/2 {
			return false, nil
		}
		used, lost, err := h.add(ctx, key, 1)
		if err != nil {
			return false, fmt.Errorf("taking a hit: %w", err)
		}
		if !lost {
			return used <= limit, h.undoAbove(ctx, key, used, limit)
		}
		if err := pause.For(ctx, guardWait); err != nil {
			return false, fmt.Errorf("waiting for a hit counter: %w", err)
		}
	}
	return false, errors.New("the hit counter keeps vanishing from Redis")
}

// Return gives back a hit that was taken and not used.
func (h Hits) Return(ctx context.Context, linkID string, m Month) error {
	if _, _, err := h.add(ctx, hitsKey(linkID, m), -1); err != nil {
		return fmt.Errorf("returning a hit: %w", err)
	}
	return nil
}

// undoAbove gives a hit back that was beyond the limit, because others took the last ones since the counter was
// read: should the limit be raised, the count is honest.
func (h Hits) undoAbove(ctx context.Context, key string, used, limit int64) error {
	if used <= limit {
		return nil
	}
	if _, _, err := h.add(ctx, key, -1); err != nil {
		return fmt.Errorf("giving a hit back: %w", err)
	}
	return nil
}

// used reads the counter and, when there is none, makes it from the seed. It is made with its expiry in one
// step, so none stays for ever.
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
	err = h.KV.SetArgs(ctx, key, known, redis.SetArgs{Mode: "NX", ExpireAt: m.End.Add(afterlife)}).Err()
	if err != nil && !errors.Is(err, redis.Nil) {
		return 0, fmt.Errorf("making the hit counter: %w", err)
	}
	return known, nil // should another request have been first, adding to it shows its count
}

// add adds to a counter that is there, and never makes one: a counter that has vanished must be seeded, not
// start over. Since INCRBY would make one, a guard is put in its place within the same step, which expires soon
// and is removed at once; lost says that it was needed, or that another request's stands there. The guard is not
// removed late, when a counter may stand in its place again.
func (h Hits) add(ctx context.Context, key string, delta int64) (sum int64, lost bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, deadline) // before the guard expires
	defer cancel()
	pipe := h.KV.TxPipeline()
	guarded := pipe.SetNX(ctx, key, guard, guardTTL)
	count := pipe.IncrBy(ctx, key, delta)
	if _, err := pipe.Exec(ctx); err != nil {
		return 0, false, err
	}
	if guarded.Val() {
		_ = h.KV.Del(ctx, key).Err() // else it expires
		return 0, true, nil
	}
	return count.Val(), count.Val() >= guard/2, nil
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
		if n, err := reply.(*redis.StringCmd).Int64(); err == nil && n < guard/2 {
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
