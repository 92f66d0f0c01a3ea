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
	// tellEvery is how often a node that somebody watches at looks for new clicks.
	tellEvery = 250 * time.Millisecond
	// tellDeadline bounds one look.
	tellDeadline = 5 * time.Second
	// watchBuffer is how many clicks wait for one who watches; who has more to come reads them from
	// the database.
	watchBuffer = 1000
)

// Live tells those who watch of clicks as they come into the database, whichever node has written
// them: each once, and in the same order on every node.
type Live struct {
	// DB is the database.
	DB *db.DB
	// Log is told when the database does not answer.
	Log *slog.Logger
	// Now is the clock.
	Now func() time.Time

	// telling is held while clicks are looked for and told: nobody joins in between. It guards told.
	telling sync.Mutex
	// told is the place up to which those who have joined were told.
	told place

	mu     sync.Mutex
	joined map[string]map[*Watch]bool // by workspace
	all    int                        // that are open, joined or not
	asked  time.Time                  // when the last answer was asked for
}

// LiveStats are numbers for metrics.
type LiveStats struct {
	// Watches is how many watch at this node.
	Watches int
	// Lag is how long ago the last look for new clicks was; zero while nobody watches.
	Lag time.Duration
}

// Stats are the numbers of this moment.
func (l *Live) Stats() LiveStats {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := LiveStats{Watches: l.all}
	if len(l.joined) > 0 {
		s.Lag = l.Now().Sub(l.asked)
	}
	return s
}

// Run tells of clicks until the context ends. It returns nil. That the database does not answer is
// logged once; nobody misses anything by it.
func (l *Live) Run(ctx context.Context) error {
	failures := poll.Failures{Log: l.Log, Message: "new clicks are not told to those who watch"}
	poll.Every(ctx, tellEvery, failures, func(ctx context.Context) error {
		more, err := true, error(nil)
		for more && err == nil && ctx.Err() == nil {
			more, err = l.tell(ctx)
		}
		return err
	})
	return nil
}

// tell looks for clicks once, and reports whether there may be more. Without anybody who watches it
// asks nothing.
func (l *Live) tell(ctx context.Context) (more bool, err error) {
	l.telling.Lock()
	defer l.telling.Unlock()
	workspaceIDs := l.watched()
	if len(workspaceIDs) == 0 {
		return false, nil
	}
	asked := l.Now()
	s, err := l.readOn(ctx, l.told, workspaceIDs, "")
	if errs.Is(err, errs.Expired) { // the database was away for a day: each will be told so
		l.sendAway()
		return false, nil
	}
	if err != nil {
		return false, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range s.clicks {
		for w := range l.joined[c.WorkspaceID] {
			w.offer(c)
		}
	}
	l.told, l.asked = s.reached, asked
	return s.more, nil
}

// watched are the workspaces at which somebody has joined.
func (l *Live) watched() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Sorted(maps.Keys(l.joined))
}

func (l *Live) sendAway() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, watches := range l.joined {
		for w := range watches {
			w.leave()
		}
	}
}
