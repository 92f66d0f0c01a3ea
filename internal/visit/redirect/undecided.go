package redirect

import (
	"context"
	"maps"
	"slices"
	"sync"
)

// undecided are the visits of links with MaxClicks that may have a hit and have no grant yet, by
// link. Until they are decided, the number of granted clicks does not say whether a link has ended.
// The zero value is ready for use.
type undecided struct {
	mu     sync.Mutex
	visits map[string]map[chan struct{}]struct{}
}

// begin registers a visit before it takes its hit. The caller calls decided once it has its grant,
// or will have none; further calls do nothing.
func (u *undecided) begin(linkID string) (decided func()) {
	visit := make(chan struct{})
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.visits == nil {
		u.visits = map[string]map[chan struct{}]struct{}{}
	}
	if u.visits[linkID] == nil {
		u.visits[linkID] = map[chan struct{}]struct{}{}
	}
	u.visits[linkID][visit] = struct{}{}
	return sync.OnceFunc(func() {
		close(visit)
		u.mu.Lock()
		defer u.mu.Unlock()
		if delete(u.visits[linkID], visit); len(u.visits[linkID]) == 0 {
			delete(u.visits, linkID)
		}
	})
}

// wait waits until all visits of a link that are undecided at the time of the call are decided, or
// until the context ends.
func (u *undecided) wait(ctx context.Context, linkID string) {
	u.mu.Lock()
	visits := slices.Collect(maps.Keys(u.visits[linkID]))
	u.mu.Unlock()
	for _, visit := range visits {
		select {
		case <-visit:
		case <-ctx.Done():
			return
		}
	}
}
