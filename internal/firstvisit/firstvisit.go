// Package firstvisit knows which visits are the first of their visitors on a UTC day, on all nodes. It
// keeps the hashes by which daily visitors are counted, in Redis, until the end of the day. Package
// redirect calls it for links with conditions on visits only.
package firstvisit

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/linkforge/linkforge/internal/click"
	"github.com/linkforge/linkforge/internal/redisx"
)

// deadline bounds the question: a visitor waits for it.
const deadline = 250 * time.Millisecond

// Visits are the visits of this day.
type Visits struct {
	Redis *redisx.Client
}

// Mark reports whether the visitor has not followed the link before on the UTC day of the instant. Of
// several simultaneous visits, exactly one is the first.
func (v *Visits) Mark(ctx context.Context, linkID string, visitor int64, at time.Time) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	day := click.DayOf(at)
	key := fmt.Sprintf("visit:%d:%s:%s", day, linkID, strconv.FormatUint(uint64(visitor), 36))
	end := time.Unix((day+1)*int64(click.Day/time.Second), 0)
	reply, err := v.Redis.SetArgs(ctx, key, 1, redis.SetArgs{Mode: "NX", ExpireAt: end}).Result()
	if err == redis.Nil {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("marking a first visit: %w", err)
	}
	return reply == "OK", nil
}
