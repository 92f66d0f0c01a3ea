// Package clickstream delivers committed clicks to subscriptions, in one order on every node. It
// reads the batches that ingest announces and does not write clicks. GraphQL subscriptions call it.
package clickstream

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/errs"
	"github.com/linkforge/linkforge/internal/poll"
)

const (
	// pollInterval is the time between two reads of new clicks, while the node has subscriptions.
	pollInterval = 250 * time.Millisecond
	// readDeadline bounds one read.
	readDeadline = 5 * time.Second
	// watchBuffer is the number of clicks that are buffered for a Watch. A slower Watch reads from the
	// database.
	watchBuffer = 1000
)

// Live delivers clicks of all nodes to the watches of this node, each once and in the same order on
// every node.
type Live struct {
	// DB is the database.
	DB *db.DB
	// Log receives failures of the database.
	Log *slog.Logger
	// Now is the clock.
	Now func() time.Time

	// delivering is held during a read and its delivery, so that no watch attaches in between. It
	// guards delivered.
	delivering sync.Mutex
	// delivered is the position up to which clicks were sent to the attached watches.
	delivered position

	mu       sync.Mutex
	attached map[string]map[*Watch]bool // by workspace
	open     int                        // the number of open watches, attached or not
	readAt   time.Time                  // the start of the last successful read
}

// LiveStats are the values of metrics.
type LiveStats struct {
	// Watches is the number of open watches of this node.
	Watches int
	// Lag is the time since the last read of new clicks; zero without attached watches.
	Lag time.Duration
}

// Stats returns the present values.
func (l *Live) Stats() LiveStats {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := LiveStats{Watches: l.open}
	if len(l.attached) > 0 {
		s.Lag = l.Now().Sub(l.readAt)
	}
	return s
}

// Run delivers clicks until the context ends, and returns nil. It logs the first of consecutive
// failures; no click is lost by a failure.
func (l *Live) Run(ctx context.Context) error {
	failures := poll.Failures{Log: l.Log, Message: "reading new clicks for subscriptions failed"}
	poll.Every(ctx, pollInterval, failures, func(ctx context.Context) error {
		more, err := true, error(nil)
		for more && err == nil && ctx.Err() == nil {
			more, err = l.deliver(ctx)
		}
		return err
	})
	return nil
}

// deliver reads and delivers clicks once, and reports whether more may follow. Without attached
// watches it does not query the database.
func (l *Live) deliver(ctx context.Context) (more bool, err error) {
	l.delivering.Lock()
	defer l.delivering.Unlock()
	workspaceIDs := l.watched()
	if len(workspaceIDs) == 0 {
		return false, nil
	}
	asked := l.Now()
	s, err := l.readAfter(ctx, l.delivered, workspaceIDs, "")
	if errs.Is(err, errs.Expired) { // the database was unavailable for a day: each watch will return Expired
		l.detachAll()
		return false, nil
	}
	if err != nil {
		return false, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range s.clicks {
		for w := range l.attached[c.WorkspaceID] {
			w.offer(c)
		}
	}
	l.delivered, l.readAt = s.reached, asked
	return s.more, nil
}

// watched returns the workspaces with attached watches.
func (l *Live) watched() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Sorted(maps.Keys(l.attached))
}

func (l *Live) detachAll() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, watches := range l.attached {
		for w := range watches {
			w.detach()
		}
	}
}
