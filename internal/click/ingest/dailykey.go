package ingest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/linkforge/linkforge/internal/click"
	"github.com/linkforge/linkforge/internal/click/visitor"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/poll"
)

const (
	// keyLead is how long before its day a key is created, keyCheck the interval of checks.
	keyLead  = 2 * time.Hour
	keyCheck = time.Minute
)

// DailyKeys are the keys of visitor hashes: one for each UTC day, which all nodes share, and which is
// deleted after the day. With the database alone, it is then impossible to find out whether a user
// has followed a link.
type DailyKeys struct {
	// DB is the database.
	DB *db.DB
	// Log receives missing keys.
	Log *slog.Logger
	// Now is the clock.
	Now func() time.Time

	held atomic.Pointer[map[int64]*visitor.Key] // by day since 1970
}

// Of returns the key of a day, or nil when this node has none: then clicks have no visitor.
func (k *DailyKeys) Of(t time.Time) *visitor.Key {
	if held := k.held.Load(); held != nil {
		return (*held)[click.DayOf(t)]
	}
	return nil
}

// Fetch gets the keys of today and, when that is near, of tomorrow, and forgets those of days that
// are over.
func (k *DailyKeys) Fetch(ctx context.Context) (err error) {
	now := k.Now()
	today := click.DayOf(now)
	held := map[int64]*visitor.Key{}
	for _, d := range slices.Compact([]int64{today, click.DayOf(now.Add(keyLead))}) {
		key := k.Of(time.Unix(d*int64(click.Day/time.Second), 0))
		if key == nil {
			var problem error
			key, problem = k.share(ctx, d)
			err = errors.Join(err, problem)
		}
		if key != nil {
			held[d] = key
		}
	}
	k.held.Store(&held) // also after an error: the keys of days that are over are forgotten
	return err
}

// share makes a key of the day, unless another node has: that one holds for all.
func (k *DailyKeys) share(ctx context.Context, day int64) (*visitor.Key, error) {
	key := visitor.Key{}
	_, _ = rand.Read(key[:]) // never fails
	var shared []byte
	err := k.DB.NewRaw(`INSERT INTO visitor_keys AS k (day, key) VALUES (?, ?)
		ON CONFLICT (day) DO UPDATE SET key = k.key RETURNING key`,
		day, key[:]).Scan(db.AsSystem(ctx), &shared)
	if err != nil {
		return nil, fmt.Errorf("the day's key of visitors: %w", err)
	}
	if len(shared) != len(key) {
		return nil, errors.New("the day's key of visitors is damaged")
	}
	copy(key[:], shared)
	return &key, nil
}

// Run refreshes the keys until the context ends. It logs the first of consecutive failures.
func (k *DailyKeys) Run(ctx context.Context) error {
	failures := poll.Failures{Log: k.Log, Message: "no visitor key: unique visitors are not counted"}
	for {
		failures.Report(ctx, k.Fetch(ctx))
		if poll.Wait(ctx, keyCheck) != nil {
			return nil
		}
	}
}
