package link

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/workspace"
)

// gatherer makes links that are asked for one by one in batches: whoever comes while a batch of the workspace is on its way
// waits for it, as it would for the quota's row, and everybody who has waited is in the next batch. They share its statements
// and its commit. Whoever comes alone waits for nobody.
type gatherer struct {
	mu sync.Mutex
	// queues are the groups that wait, by workspace. A workspace is there as long as a batch of it is on its way.
	queues map[string][]*group
}

// group are wishes that are made together, by whoever came first.
type group struct {
	wishes []*wish
	turn   chan struct{} // closed when the batch before has ended
}

// wish is a link that somebody asks for.
type wish struct {
	member workspace.Membership
	in     *New
	done   chan struct{} // closed when there is a result
	Result
}

// gatherDeadline bounds a batch of many people's: it does not end with the request of the one who happens to make it.
const gatherDeadline = 15 * time.Second

// join puts a wish into a group, and returns the group if it is its first: that one is to make it, when its turn has come.
func (g *gatherer) join(w *wish) *group {
	g.mu.Lock()
	defer g.mu.Unlock()
	queue, busy := g.queues[w.member.ID()]
	if n := len(queue); n > 0 && len(queue[n-1].wishes) < MaxBatch {
		queue[n-1].wishes = append(queue[n-1].wishes, w)
		return nil
	}
	first := &group{wishes: []*wish{w}, turn: make(chan struct{})}
	if !busy {
		close(first.turn)
	} else {
		queue = append(queue, first)
	}
	if g.queues == nil {
		g.queues = map[string][]*group{}
	}
	g.queues[w.member.ID()] = queue
	return first
}

// next says that a batch of the workspace has ended. Nobody joins the group whose turn it is.
func (g *gatherer) next(workspaceID string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	queue := g.queues[workspaceID]
	if len(queue) == 0 {
		delete(g.queues, workspaceID)
		return
	}
	close(queue[0].turn)
	g.queues[workspaceID] = queue[1:]
}

// createGathered makes one link, together with others that are asked for in the workspace.
func (s *Store) createGathered(ctx context.Context, m workspace.Membership, in *New) (Result, error) {
	w := &wish{member: m, in: in, done: make(chan struct{})}
	if group := s.gatherer.join(w); group != nil {
		<-group.turn
		s.makeGroup(ctx, group)
	}
	select {
	case <-w.done:
		return w.Result, internal([]Result{w.Result})
	case <-ctx.Done(): // the link may be made all the same, as if the answer had got lost
		return Result{}, ctx.Err()
	}
}

var errNotMade = errors.New("the batch ended early")

// makeGroup gives every wish a result, whatever happens.
func (s *Store) makeGroup(ctx context.Context, g *group) {
	defer s.gatherer.next(g.wishes[0].member.ID())
	defer func() {
		for _, w := range g.wishes {
			if w.Link == nil && w.Err == nil { // a panic, which goes on
				w.Err = errNotMade
			}
			close(w.done)
		}
	}()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), gatherDeadline)
	defer cancel()
	if err := s.makeWishes(ctx, g.wishes); db.IsRefused(err) && len(g.wishes) > 1 {
		for i := range g.wishes { // nobody suffers from what another has asked for
			_ = s.makeWishes(ctx, g.wishes[i:i+1])
		}
	}
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
