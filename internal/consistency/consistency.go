// Package consistency tracks recent writers across all nodes, so that they read their own writes:
// they are served from the primary database, while all others may be served from a replica. The
// GraphQL endpoint uses it.
package consistency

import (
	"context"
	"log/slog"
	"time"

	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/db/replica"
	"github.com/linkforge/linkforge/internal/redisx"
)

// Writers records in Redis which users and API keys have written within the last replica.MaxLag. Older
// writes need no record: a replica that lags further behind is not read.
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

// Reading returns a context for reads that include all writes of the user or API key, and may lag
// behind those of others by up to replica.MaxLag. If Redis is unavailable, reads go to the primary
// database.
func (w *Writers) Reading(ctx context.Context, actorID string) context.Context {
	if !w.DB.Replica.Has(w.Now().Add(-replica.MaxLag)) {
		return ctx
	}
	left, err := w.KV.PTTL(ctx, key(actorID)).Result()
	if err != nil {
		return ctx
	}
	now := w.Now() // an instant before the response would date the write back
	since := now.Add(-replica.MaxLag)
	if left > 0 && now.Add(left-recordTTL).After(since) {
		since = now.Add(left - recordTTL)
	}
	return replica.MayLag(ctx, since)
}

// Wrote records a write of a user or API key. If Redis is unavailable, it waits until the replica
// has the write.
func (w *Writers) Wrote(ctx context.Context, actorID string) {
	ctx = context.WithoutCancel(ctx) // the write is committed, even if the client has disconnected
	err := w.KV.Set(ctx, key(actorID), 1, recordTTL).Err()
	if err == nil {
		return
	}
	w.Log.WarnContext(ctx, "recording a writer failed, waiting for the replica", "error", err)
	_ = w.DB.Replica.Await(ctx, w.Now()) // the context does not end
}
