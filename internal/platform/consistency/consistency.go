// Package consistency tracks recent writers across all nodes, so that they read their own writes:
// they are served from the primary database, while all others may be served from a replica. The
// GraphQL endpoint uses it.
package consistency

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/replica"
	"github.com/linkforge/linkforge/internal/platform/redisx"
)

// Writers records in Redis which users and API keys have written within the last replica.MaxLag.
// Older writes need no record: a replica that lags further behind is not read.
type Writers struct {
	DB  *db.DB
	KV  *redisx.Client
	Log *slog.Logger
	// Now is the clock.
	Now func() time.Time
}

// recordTTL exceeds replica.MaxLag by the longest duration of a write.
const recordTTL = 2 * replica.MaxLag

func key(actorID string) string { return "wrote:" + actorID }

// Writes are dated by the clock of Redis, in milliseconds: those of nodes differ, and the time to
// live of a key in the process is exact to a second only.
var (
	recordScript = redis.NewScript(`
local time = redis.call('TIME')
redis.call('SET', KEYS[1], time[1] * 1000 + math.floor(time[2] / 1000), 'PX', ARGV[1])`)
	ageScript = redis.NewScript(`
local wrote, time = redis.call('GET', KEYS[1]), redis.call('TIME')
return wrote and time[1] * 1000 + math.floor(time[2] / 1000) - wrote`)
)

// Reading returns a context for reads that include all writes of the user or API key, and may lag
// behind those of others by up to replica.MaxLag. If Redis is unavailable, reads go to the primary
// database.
func (w *Writers) Reading(ctx context.Context, actorID string) context.Context {
	if !w.DB.Replica.Has(w.Now().Add(-replica.MaxLag)) {
		return ctx
	}
	age, err := ageScript.Run(ctx, w.KV, []string{key(actorID)}).Int64()
	if errors.Is(err, redis.Nil) {
		age, err = replica.MaxLag.Milliseconds(), nil
	}
	if err != nil {
		return ctx
	}
	// An instant before the response would date the write back.
	return replica.MayLag(ctx, w.Now().Add(-min(time.Duration(age)*time.Millisecond, replica.MaxLag)))
}

// Wrote records a write of a user or API key. If Redis is unavailable, it waits until the replica
// has the write.
func (w *Writers) Wrote(ctx context.Context, actorID string) {
	ctx = context.WithoutCancel(ctx) // the write is committed, even if the client has disconnected
	err := recordScript.Run(ctx, w.KV, []string{key(actorID)}, recordTTL.Milliseconds()).Err()
	if err == nil || errors.Is(err, redis.Nil) {
		return
	}
	w.Log.WarnContext(ctx, "recording a writer failed, waiting for the replica", "error", err)
	_ = w.DB.Replica.Await(ctx, w.Now()) // the context does not end
}
