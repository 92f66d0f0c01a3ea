package link

import (
	"context"
	"fmt"

	"github.com/linkforge/linkforge/internal/batcher"
	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/workspace"
)

// creations are links that are asked for one by one, by workspace: whoever comes while a batch of
// the workspace is on its way waits for it, as it would for the quota's row, and everybody who has
// waited is in the next batch, with its statements and its commit.
type creations = batcher.Batcher[string, *wish, struct{}]

// wish is a link that somebody asks for.
type wish struct {
	member workspace.Membership
	in     *New
	Result
}

// createGathered makes one link, together with others that are asked for in the workspace. When the
// context ends, the link may be made all the same, as if the answer had got lost.
func (s *Store) createGathered(ctx context.Context, m workspace.Membership, in *New) (Result, error) {
	w := &wish{member: m, in: in}
	if _, err := s.creations.Do(ctx, m.ID(), w, s.makeGroup); err != nil {
		return Result{}, err
	}
	return w.Result, internal([]Result{w.Result})
}

// makeGroup gives every wish a result.
func (s *Store) makeGroup(ctx context.Context, wishes []*wish) (struct{}, error) {
	if err := s.makeWishes(ctx, wishes); db.IsRefused(err) && len(wishes) > 1 {
		for i := range wishes { // nobody suffers from what another has asked for
			_ = s.makeWishes(ctx, wishes[i:i+1])
		}
	}
	return struct{}{}, nil
}

// makeWishes makes a batch of links. Its error is everybody's.
func (s *Store) makeWishes(ctx context.Context, wishes []*wish) error {
	b := &batch{Store: s, member: wishes[0].member, now: s.now()}
	for _, w := range wishes {
		b.add(w.member, w.in)
	}
	err := b.prepare(ctx)
	if err == nil {
		err = b.settle(ctx)
	}
	for i, r := range b.results() {
		if wishes[i].Result = r; err != nil {
			wishes[i].Result = Result{Err: fmt.Errorf("making links: %w", err)}
		}
	}
	return err
}
