package rig

import (
	"context"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
)

// InBatches does a number of things in batches of a size, so many at a time, until all are done or one has failed.
func InBatches(ctx context.Context, total, size, callers int, do func(ctx context.Context, from, to int) error) error {
	var next atomic.Int64
	all, ctx := errgroup.WithContext(ctx)
	for range callers {
		all.Go(func() error {
			for {
				from := int(next.Add(int64(size))) - size
				if from >= total {
					return nil
				}
				if err := do(ctx, from, min(from+size, total)); err != nil {
					return err
				}
			}
		})
	}
	return all.Wait()
}
