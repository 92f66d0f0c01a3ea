// Package feedtest has the helpers that the tests of streams share.
package feedtest

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/linkforge/linkforge/internal/platform/poll"
)

// Interval is the time between two news that Run delivers.
const Interval = 250 * time.Millisecond

// Live is a feed.Live.
type Live interface {
	Run(ctx context.Context) error
	Follow(at time.Time, hasNew bool)
}

// Run runs a stream until the test's end. It has news all the time.
func Run(t *testing.T, l Live, now func() time.Time) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = l.Run(ctx) })
	running.Go(func() {
		for poll.Wait(ctx, Interval) == nil {
			l.Follow(now(), true)
		}
	})
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
}

// IsSubsequence reports whether whole has the elements of part in the same order.
func IsSubsequence(part, whole []string) bool {
	for _, one := range whole {
		if len(part) > 0 && part[0] == one {
			part = part[1:]
		}
	}
	return len(part) == 0
}
