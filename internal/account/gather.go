package account

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/linkforge/linkforge/internal/db"
)

const (
	// gatherPatience is how long a group waits at most for the read before it. That one may be on a connection that hangs, and
	// then others are none the worse for it.
	gatherPatience = 10 * time.Millisecond
	// gatherDeadline bounds a read for many people: it does not end with the request of the one who happens to make it.
	gatherDeadline = 15 * time.Second
	// mostGathered is how many ids a group takes before whoever comes reads for themselves.
	mostGathered = 500
)

// gatherer reads accounts for many requests by one statement: whoever comes while a read is on its way waits for it to end, and
// everybody who has waited is in the next one. Whoever comes alone waits for nobody.
//
// Nothing is kept: a group is closed before its statement begins, so everybody is told what the database says after they have
// asked, and whoever has changed something is told of it.
type gatherer struct {
	mu      sync.Mutex
	reading int
	next    *gathered // who waits; nil when nobody does
}

// gathered are accounts that are read together, by whoever came first.
type gathered struct {
	ids  map[string]bool
	turn chan struct{} // closed when the read before has ended
	done chan struct{} // closed when there is a result

	found map[string]*Account
	err   error
}

var errNotRead = errors.New("the read ended early")

// Load is Get for what is asked all the time: it shares a statement with others who ask at the same time. The accounts are
// theirs as well, to be read and not changed. Its context has no scope.
func (s *Store) Load(ctx context.Context, ids ...string) (map[string]*Account, error) {
	g, first := s.gatherer.join(ids)
	if g == nil {
		return s.Get(ctx, ids...)
	}
	if first {
		s.gatherer.await(g)
		s.read(ctx, g)
	}
	select {
	case <-g.done:
	case <-ctx.Done():
		return nil, fmt.Errorf("loading accounts: %w", ctx.Err())
	}
	found := make(map[string]*Account, len(ids))
	for _, accountID := range ids {
		if a := g.found[accountID]; a != nil {
			found[accountID] = a
		}
	}
	return found, g.err
}

// join adds ids to a group, and says whether they are its first: whoever asked for those is to read. It returns nil when the
// group is full.
func (r *gatherer) join(ids []string) (g *gathered, first bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	g = r.next
	if g == nil {
		g, first = &gathered{ids: make(map[string]bool, len(ids)), done: make(chan struct{})}, true
	}
	if len(g.ids)+len(ids) > mostGathered {
		return nil, false
	}
	for _, accountID := range ids {
		g.ids[accountID] = true
	}
	switch {
	case first && r.reading == 0:
		r.reading++
	case first:
		g.turn = make(chan struct{})
		r.next = g
	}
	return g, first
}

// await waits for a group's turn. Nobody joins it from then on.
func (r *gatherer) await(g *gathered) {
	if g.turn == nil {
		return
	}
	impatient := time.NewTimer(gatherPatience)
	defer impatient.Stop()
	select {
	case <-g.turn:
	case <-impatient.C:
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.next == g {
			r.begin()
		}
	}
}

// begin takes the group that waits for one that reads.
func (r *gatherer) begin() {
	r.next = nil
	r.reading++
}

// ended says that a read has ended: it is the turn of those who wait.
func (r *gatherer) ended() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reading--
	if r.next != nil {
		close(r.next.turn)
		r.begin()
	}
}

// read gives a group its result, whatever happens.
func (s *Store) read(ctx context.Context, g *gathered) {
	defer close(g.done)
	defer s.gatherer.ended()
	ctx, cancel := context.WithTimeout(db.UpToDate(context.WithoutCancel(ctx)), gatherDeadline)
	defer cancel()
	ids := make([]string, 0, len(g.ids))
	for accountID := range g.ids {
		ids = append(ids, accountID)
	}
	g.err = errNotRead // should it panic
	g.found, g.err = s.Get(ctx, ids...)
}
