// Package pause waits, but not for longer than somebody wants the result.
package pause

import (
	"context"
	"time"
)

// For waits for d, or until the context ends: then it returns the context's error.
func For(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
