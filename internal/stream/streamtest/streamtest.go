// Package streamtest has what the tests of streams share.
package streamtest

import (
	"context"
	"sync"
	"testing"
)

// Run calls run, which returns nil once its context has ended, until the test's end.
func Run(t *testing.T, run func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = run(ctx) })
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
