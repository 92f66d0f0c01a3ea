package creation

import (
	"context"
	"fmt"
	"hash/crc32"
	"slices"

	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/platform/admission"
	"github.com/linkforge/linkforge/internal/platform/batcher"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/errs"
)

// gatherer combines concurrent calls into batches. Its keys are lanes, each with calls of many
// workspaces, and ids of workspaces, for calls that the batch of a lane cannot serve. Calls that
// arrive while a batch of the key runs share the next one.
type gatherer = batcher.Batcher[string, *call, struct{}]

const (
	// shared is the owner of the transactions of shared batches, see admission.OwnedBy.
	shared = "creations"
	// defaultLanes is how many shared batches run at a time, each of other workspaces. More lanes
	// make smaller batches: with four, creations were a quarter slower.
	defaultLanes = 2
	// maxSharedLinks and maxSharedBytes bound a call that shares a batch: larger ones would delay
	// the others.
	maxSharedLinks, maxSharedBytes = 10, 64 << 10
	// maxBatchLinks bounds the links of a batch of several calls, and maxBatchCalls how many calls
	// it is formed of.
	maxBatchLinks, maxBatchCalls = 200, 200
)

// create creates the links of a call, in a batch with concurrent calls if it is a small one. When
// the context ends, the links may still be created, as if the response had been lost.
func (s *Store) create(ctx context.Context, c *call) error {
	if c.isAlone() {
		return firstError(s.newBatch(c).run(ctx), c)
	}
	_, err := s.gatherer.Do(ctx, s.lane(c.member.ID()), c, s.createAll)
	if err == nil && c.hasLeft {
		_, err = s.gatherer.Do(ctx, c.member.ID(), c, s.createAll)
	}
	return firstError(err, c)
}

// lane returns the key of the shared batches with the calls of a workspace.
func (s *Store) lane(workspaceID string) string {
	return fmt.Sprint("lane ", crc32.ChecksumIEEE([]byte(workspaceID))%s.lanes)
}

// firstError returns the error of a batch, or else that of a call. It reads the latter only without
// the former, which a canceled caller gets while the batch may still set that of the call.
func firstError(err error, c *call) error {
	if err != nil {
		return err
	}
	return c.err
}

// isAlone reports whether the call is a batch by itself: a large one, one that is rolled back if a
// link fails, one that saves its results, one that changes links, one for a domain, one with a fence,
// which must not share the links of others, and one with a publishable key, which has a quota of its
// own.
func (c *call) isAlone() bool {
	return c.policy == link.AllOrNothing || c.key != nil || c.items[0].want.kind == upserts ||
		c.member.Fence() != nil || c.member.IsPublishable() ||
		len(c.items) > maxSharedLinks || c.size() > maxSharedBytes ||
		slices.ContainsFunc(c.items, func(it *item) bool { return it.want.in.DomainID != nil })
}

// size returns about how many bytes the rows of the links will have.
func (c *call) size() (size int) {
	for _, it := range c.items {
		size += it.want.in.size()
	}
	return size
}

// createAll creates the links of calls in as few batches as the bounds permit: in shared ones, or in
// batches of the workspace that all calls are of if they have left those. It sets the error of each
// call. No call fails because of the input of another one: those that leave a batch of the workspace
// run alone, and create runs those that leave a shared one.
func (s *Store) createAll(ctx context.Context, calls []*call) (struct{}, error) {
	isShared := !calls[0].hasLeft
	if isShared {
		ctx = admission.OwnedBy(ctx, shared)
	}
	for len(calls) > 0 {
		n := countFitting(calls)
		b := s.newBatch(calls[:n]...)
		b.isShared = isShared
		if err := b.run(ctx); err != nil {
			b.fail(ctx, err)
		}
		for i, c := range calls[:n] {
			if c.hasLeft && n > 1 && !isShared {
				_, _ = s.createAll(ctx, calls[i:i+1])
			}
		}
		calls = calls[n:]
	}
	return struct{}{}, nil
}

// fail sets the error of every call of the batch. All leave the batch if it may be due to one of
// them.
func (b *batch) fail(ctx context.Context, err error) {
	isDueToOne := db.IsRefused(err) || b.isShared && db.IsLockTimeout(err) ||
		ctx.Err() == nil && errs.From(err).Kind == errs.Internal
	for _, c := range b.calls {
		c.hasLeft, c.err = isDueToOne, err
	}
}

// countFitting returns how many calls fit into a batch: one at least.
func countFitting(calls []*call) int {
	links, size := 0, 0
	for i, c := range calls {
		links, size = links+len(c.items), size+c.size()
		if i > 0 && (links > maxBatchLinks || size > link.StatementBytes) {
			return i
		}
	}
	return len(calls)
}
