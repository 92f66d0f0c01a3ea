// Package admission bounds concurrent work on a node and divides it fairly between subjects, such
// as accounts, workspaces and addresses: none of them can take more than its share, and waiting
// subjects take turns. It is independent of the kind of work. Accounts (password hashes), the
// database (connections) and the GraphQL endpoint (request bodies, expensive operations) call it.
package admission

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/linkforge/linkforge/internal/platform/errs"
)

// Config are the bounds of a Gate or a Fair. All are required.
type Config struct {
	// Name is the bounded work, in the plural: "Too many log-ins are in progress".
	Name string
	// Capacity is the work that may be in progress at once, in units of the caller's choice. Share
	// is the part of it that one subject may have.
	Capacity, Share int64
	// Waiting is the number of calls of one subject that may wait, Queue that of all subjects.
	Waiting, Queue int
	// MaxWait bounds the wait of a call.
	MaxWait time.Duration
	// Last is the subject of a Gate whose calls are admitted only while no other call could be;
	// optional.
	Last string
}

// Gate admits calls. Subjects whose calls wait take turns; the calls of a subject are admitted in
// the order of their arrival.
type Gate struct {
	Config

	mu     sync.Mutex
	used   int64
	held   map[string]int64     // units in progress by subject
	queues map[string][]*waiter // waiting calls by subject, the oldest first
	turns  []string             // subjects with waiting calls, the next one first
	length int                  // waiting calls of all subjects
	full   bool                 // the next call in turn waits for capacity, so none may pass it
}

// waiter is a call that waits.
type waiter struct {
	units int64
	ready chan error // receives nil when admitted; buffered
}

// New returns a Gate.
func New(c Config) *Gate {
	return &Gate{Config: c, held: map[string]int64{}, queues: map[string][]*waiter{}}
}

// Enter waits until units of work are admitted for a subject, and returns a function that ends
// them, to be called once. Work larger than the share counts as the whole share. It returns
// RateLimited if too many calls of the subject wait already, and Unavailable if the wait was too
// long.
func (g *Gate) Enter(ctx context.Context, subject string, units int64) (leave func(), err error) {
	units = min(units, g.Share)
	w := g.enqueue(subject, units)
	if w != nil {
		if err := g.wait(ctx, subject, w); err != nil {
			return nil, err
		}
	}
	return func() { g.leave(subject, units) }, nil
}

// enqueue admits a call at once and returns nil, or lets it wait.
func (g *Gate) enqueue(subject string, units int64) *waiter {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.queues[subject]) == 0 && !g.full && g.fits(subject, units) {
		g.take(subject, units)
		return nil
	}
	w := &waiter{units: units, ready: make(chan error, 1)}
	switch {
	case len(g.queues[subject]) >= g.Waiting:
		w.ready <- g.tooMany()
		return w
	case g.length >= g.Queue && !g.makeRoom(len(g.queues[subject])):
		w.ready <- g.busy()
		return w
	}
	if len(g.queues[subject]) == 0 {
		g.join(subject)
	}
	g.queues[subject] = append(g.queues[subject], w)
	g.length++
	g.dispatch()
	return w
}

// makeRoom refuses the newest call of the subject with the longest queue, if that is longer than
// the given one.
func (g *Gate) makeRoom(than int) bool {
	var longest string
	for subject, queue := range g.queues {
		if len(queue) > len(g.queues[longest]) {
			longest = subject
		}
	}
	queue := g.queues[longest]
	if len(queue) <= than+1 {
		return false
	}
	queue[len(queue)-1].ready <- g.tooMany()
	g.remove(longest, len(queue)-1)
	return true
}

// wait waits until the call is admitted or refused.
func (g *Gate) wait(ctx context.Context, subject string, w *waiter) error {
	timer := time.NewTimer(g.MaxWait)
	defer timer.Stop()
	select {
	case err := <-w.ready:
		return err
	case <-timer.C:
	case <-ctx.Done():
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case err := <-w.ready: // in the meantime
		return err
	default:
	}
	g.remove(subject, slices.Index(g.queues[subject], w))
	g.dispatch() // others may have waited behind it
	return g.busy().Because(ctx.Err())
}

func (g *Gate) leave(subject string, units int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.give(subject, units)
	g.dispatch()
}

// dispatch admits waiting calls in turn. A call that does not fit into the capacity lets no other
// pass, so that large calls are admitted too; a subject without a share left is skipped.
func (g *Gate) dispatch() {
	g.full = false
	for skipped := 0; skipped < len(g.turns); {
		next := 0
		if end := len(g.turns) - 1; skipped == end && g.isLast(g.turns[end]) {
			next = end
		}
		subject := g.turns[next]
		w := g.queues[subject][0]
		switch {
		case g.held[subject]+w.units > g.Share:
			skipped++
		case g.used+w.units > g.Capacity:
			g.full = true
			return
		default:
			skipped = 0
			g.take(subject, w.units)
			w.ready <- nil
		}
		g.turns = slices.Delete(g.turns, next, next+1)
		g.join(subject)
		if skipped == 0 {
			g.remove(subject, 0)
		}
	}
}

// join lets a subject wait for its turn, behind all others but the last one.
func (g *Gate) join(subject string) {
	end := len(g.turns)
	if end > 0 && g.isLast(g.turns[end-1]) {
		end--
	}
	g.turns = slices.Insert(g.turns, end, subject)
}

func (g *Gate) isLast(subject string) bool { return g.Last != "" && subject == g.Last }

func (g *Gate) fits(subject string, units int64) bool {
	return g.held[subject]+units <= g.Share && g.used+units <= g.Capacity
}

func (g *Gate) take(subject string, units int64) {
	g.used += units
	g.held[subject] += units
}

func (g *Gate) give(subject string, units int64) {
	g.used -= units
	if g.held[subject] -= units; g.held[subject] == 0 {
		delete(g.held, subject)
	}
}

// remove removes a waiting call of a subject, and the subject with its last one.
func (g *Gate) remove(subject string, i int) {
	g.length--
	g.queues[subject] = slices.Delete(g.queues[subject], i, i+1)
	if len(g.queues[subject]) == 0 {
		delete(g.queues, subject)
		i := slices.Index(g.turns, subject)
		g.turns = slices.Delete(g.turns, i, i+1)
	}
}

// retryAfter is the delay after which refused callers may try again.
const retryAfter = time.Second

func (c *Config) tooMany() *errs.Error {
	return errs.New(errs.RateLimited, "Too many %s of yours are in progress. Send fewer at once.", c.Name).
		After(retryAfter)
}

func (c *Config) busy() *errs.Error {
	return errs.New(errs.Unavailable, "Too many %s are in progress. Try again in a moment.", c.Name).After(retryAfter)
}

// Stats returns the units in progress and the number of waiting calls.
func (g *Gate) Stats() (used int64, waiting int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.used, g.length
}
