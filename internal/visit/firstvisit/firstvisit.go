// Package firstvisit records in Redis which visitors have followed a link on a UTC day, for all
// nodes. It stores the hashes of daily visitors until the end of the day. Package redirect calls it
// if a decision depends on a visit condition.
package firstvisit

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/linkforge/linkforge/internal/click"
	"github.com/linkforge/linkforge/internal/platform/redisx"
)

// defaultTimeout applies if Timeout is zero.
const defaultTimeout = 250 * time.Millisecond

// Visits are the visits of this day.
type Visits struct {
	Redis *redisx.Client
	// Timeout bounds a call: a redirect waits for it. Zero selects 250 ms.
	Timeout time.Duration
}

// Mark records a visit, and reports whether it is the visitor's first recorded visit of the link on
// that UTC day. Of several simultaneous visits, exactly one is the first.
func (v *Visits) Mark(ctx context.Context, linkID string, visitor int64, at time.Time) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(v.Timeout, defaultTimeout))
	defer cancel()
	day := click.DayOf(at)
	key := fmt.Sprintf("visit:%d:%s:%s", day, linkID, strconv.FormatUint(uint64(visitor), 36))
	end := time.Unix((day+1)*int64(click.Day/time.Second), 0)
	set := redis.NewStatusCmd(ctx, "set", key, 1, "exat", end.Unix(), "nx")
	err := v.Redis.Process(ctx, redisx.Once(set))
	if err == redis.Nil {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("marking a first visit: %w", err)
	}
	return set.Val() == "OK", nil
}
