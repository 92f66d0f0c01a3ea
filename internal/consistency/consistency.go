// Package consistency tracks recent writers across all nodes, so that they read their own writes:
// they are served from the primary database, while all others may be served from a replica. The
// GraphQL endpoint uses it.
package consistency

import (
	"context"
	"log/slog"
	"time"

	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/redisx"
)

// Writers are, for a database with a replica, those who have changed something within db.MaxLag. A
// replica that is further behind is read by nobody, so who has written before that need not be
// known.
type Writers struct {
	DB  *db.DB
	KV  *redisx.Client
	Log *slog.Logger
	Now func() time.Time
}

// kept is longer than db.MaxLag by what a command may take.
const kept = 2 * db.MaxLag

func key(who string) string { return "wrote:" + who }

// Reading returns a context whose reads have everything that the person, or the API key, has
// written, and may otherwise be a little behind. When nobody can say what they have written, the
// reads are of the first database.
func (w *Writers) Reading(ctx context.Context, who string) context.Context {
	now := w.Now()
	if !w.DB.Replica.Has(now.Add(-db.MaxLag)) {
		return ctx
	}
	left, err := w.KV.PTTL(ctx, key(who)).Result()
	if err != nil {
		return ctx
	}
	since := now.Add(-db.MaxLag)
	if left > 0 && now.Add(left-kept).After(since) {
		since = now.Add(left - kept)
	}
	return db.MayLag(ctx, since)
}

// Wrote keeps that somebody has just written, until it makes no difference any more. Where it
// cannot be kept, Wrote waits until it makes none.
func (w *Writers) Wrote(ctx context.Context, who string) {
	ctx = context.WithoutCancel(ctx) // it is written, whether or not somebody waits for the answer
	err := w.KV.Set(ctx, key(who), 1, kept).Err()
	if err == nil {
		return
	}
	w.Log.WarnContext(ctx, "who has written is not known to other nodes: the replica is waited for", "error", err)
	_ = w.DB.Replica.Await(ctx, w.Now()) // the context does not end
}
