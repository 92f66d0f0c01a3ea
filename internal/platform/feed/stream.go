package feed

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/poll"
)

// retryInterval is the time until a watch reads a log again that is unavailable, or does not return
// its items yet.
const retryInterval = 250 * time.Millisecond

// Item is an item of a log.
type Item[T any] struct {
	Value       T
	WorkspaceID string
	Position    Position
}

// Step is the result of one read.
type Step[T any] struct {
	// Items are in order.
	Items []Item[T]
	// Reached is the position that reads of the log have reached. It may be behind the last item.
	Reached Position
	// More means that more items may follow.
	More bool
}

// Log is a log with the items of all workspaces.
type Log[T any] interface {
	// After returns items of the workspaces after a position. It returns Expired if some may have
	// been deleted.
	After(ctx context.Context, after Position, workspaceIDs []string) (Step[T], error)
}

// Live delivers items of all nodes to the watches of this node, each once and in order.
type Live[T any] struct {
	log    Log[T]
	now    func() time.Time
	logger *slog.Logger
	// failure is the message for failures of reads.
	failure string

	// delivering is held during a read and its delivery, so that no watch attaches in between. It
	// guards delivered.
	delivering sync.Mutex
	// delivered is the position of the last items that were sent to the attached watches.
	delivered Position

	mu       sync.Mutex
	attached map[string]map[*Watch[T]]bool // by workspace
	open     int                           // the number of open watches, attached or not
	isBehind bool                          // there may be items that were not delivered
	readAt   time.Time                     // when there was nothing else to deliver

	wake chan struct{}
}

// NewLive returns a Live that does not run yet. It logs failures of reads with the message.
func NewLive[T any](log Log[T], now func() time.Time, logger *slog.Logger, failure string) *Live[T] {
	return &Live[T]{log: log, now: now, logger: logger, failure: failure, attached: map[string]map[*Watch[T]]bool{},
		wake: make(chan struct{}, 1)}
}

// Stats are the values of metrics.
type Stats struct {
	// Watches is the number of open watches of this node.
	Watches int
	// Lag is the time since all items were delivered; zero without attached watches.
	Lag time.Duration
}

// Stats returns the present values.
func (l *Live[T]) Stats() Stats {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := Stats{Watches: l.open}
	if len(l.attached) > 0 {
		s.Lag = l.now().Sub(l.readAt)
	}
	return s
}

// Run delivers items until the context ends, and returns nil. It logs the first of consecutive
// failures; no item is lost by a failure.
func (l *Live[T]) Run(ctx context.Context) error {
	failures := poll.Failures{Log: l.logger, Message: l.failure}
	poll.OnSignal(ctx, l.wake, time.Minute, failures, func(ctx context.Context) error {
		more, err := true, error(nil)
		for more && err == nil && ctx.Err() == nil {
			more, err = l.deliver(ctx)
		}
		if err != nil {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.isBehind = true
		}
		return err
	})
	return nil
}

// Follow delivers items if the log has new ones, as of an instant.
func (l *Live[T]) Follow(at time.Time, hasNew bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if hasNew {
		l.lookAgain()
	}
	if !l.isBehind {
		l.readAt = at
	}
}

// lookAgain has Run deliver items. The caller holds mu.
func (l *Live[T]) lookAgain() {
	l.isBehind = true
	poll.Signal(l.wake)
}

// deliver reads and delivers items once, and reports whether more may follow. Without attached
// watches it does not read the log.
func (l *Live[T]) deliver(ctx context.Context) (more bool, err error) {
	l.delivering.Lock()
	defer l.delivering.Unlock()
	workspaceIDs := l.watched()
	if len(workspaceIDs) == 0 {
		return false, nil
	}
	began := l.now()
	s, err := l.log.After(ctx, l.delivered, workspaceIDs)
	if errs.Is(err, errs.Expired) { // the log was unavailable for long: each watch will return Expired
		l.detachAll()
		return false, nil
	}
	if err != nil {
		return false, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, item := range s.Items {
		for w := range l.attached[item.WorkspaceID] {
			w.offer(item)
		}
	}
	l.delivered, l.readAt = s.Reached, began
	return s.More, nil
}

// watched returns the workspaces with attached watches. News that comes later is delivered later.
func (l *Live[T]) watched() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.isBehind = false
	return slices.Sorted(maps.Keys(l.attached))
}

func (l *Live[T]) detachAll() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, watches := range l.attached {
		for w := range watches {
			w.detach()
		}
	}
}
