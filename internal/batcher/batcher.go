// Package batcher coalesces concurrent calls, of a database for example. Requests that arrive while
// a call is running wait for it to end and share the next one; a request that arrives alone does
// not wait. Accounts, memberships and new links use it.
//
// It does not cache: a batch is closed before its call begins, so a result is never older than the
// request for it.
package batcher

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

const (
	// defaultMost bounds a group unless it is configured.
	defaultMost = 100
	// patience is how long a group waits at most for the call before it, which may hang.
	patience = 10 * time.Millisecond
	// deadline bounds a call: it does not end with the request of the one who happens to make it.
	deadline = 15 * time.Second
)

// Batcher are calls that are shared by those who ask with the same key. The zero value is ready.
type Batcher[K comparable, Q, A any] struct {
	// Most is how many questions a call takes at most, and whoever comes then is in the one after
	// it; zero means 100.
	Most int
	// Patient says that a group waits for the call before it for as long as that takes, because
	// both do something that only one can do at a time.
	Patient bool

	mu     sync.Mutex
	queues map[K]*queue[Q, A]
}

// queue is there as long as a call of its key is on its way.
type queue[Q, A any] struct {
	running int
	waiting []*group[Q, A]
}

// group are questions that one call answers, which whoever came first makes.
type group[Q, A any] struct {
	questions []Q
	turn      chan struct{} // closed when the call may begin
	done      chan struct{} // closed when there is an answer

	answer A
	err    error
}

// errEnded is what those are told whose call has panicked, beside the one who made it.
var errEnded = errors.New("a call that others share ended early")

// Do asks a question, which call answers together with those of others that have the same key: they
// share its answer, and its error. It returns early when the context ends; the call goes on for the
// others.
func (c *Batcher[K, Q, A]) Do(
	ctx context.Context, key K, question Q, call func(ctx context.Context, questions []Q) (A, error),
) (A, error) {
	g, first := c.join(key, question)
	if first {
		c.await(key, g)
		c.run(ctx, key, g, call)
	}
	select {
	case <-g.done:
		return g.answer, g.err
	case <-ctx.Done():
		var none A
		return none, fmt.Errorf("waiting for others: %w", ctx.Err())
	}
}

// Waiting is how many questions wait for a call to end.
func (c *Batcher[K, Q, A]) Waiting(key K) (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if q := c.queues[key]; q != nil {
		for _, g := range q.waiting {
			n += len(g.questions)
		}
	}
	return n
}

// join puts a question into a group, and says whether it is its first.
func (c *Batcher[K, Q, A]) join(key K, question Q) (g *group[Q, A], first bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	q := c.queues[key]
	if q != nil && len(q.waiting) > 0 {
		if last := q.waiting[len(q.waiting)-1]; len(last.questions) < cmp.Or(c.Most, defaultMost) {
			last.questions = append(last.questions, question)
			return last, false
		}
	}
	g = &group[Q, A]{questions: []Q{question}, turn: make(chan struct{}), done: make(chan struct{})}
	if q != nil {
		q.waiting = append(q.waiting, g)
		return g, true
	}
	if c.queues == nil {
		c.queues = map[K]*queue[Q, A]{}
	}
	c.queues[key] = &queue[Q, A]{running: 1}
	close(g.turn)
	return g, true
}

// await waits for a group's turn. Nobody joins it from then on.
func (c *Batcher[K, Q, A]) await(key K, g *group[Q, A]) {
	select {
	case <-g.turn:
		return
	default:
	}
	if c.Patient {
		<-g.turn
		return
	}
	impatient := time.NewTimer(patience)
	defer impatient.Stop()
	select {
	case <-g.turn:
	case <-impatient.C:
		c.hurry(key, g)
	}
}

// hurry says that it is the turn of a group, and of those who have waited longer.
func (c *Batcher[K, Q, A]) hurry(key K, g *group[Q, A]) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if q := c.queues[key]; q != nil {
		for range slices.Index(q.waiting, g) + 1 {
			q.begin()
		}
	}
}

// begin says that it is the turn of those who have waited longest.
func (q *queue[Q, A]) begin() {
	close(q.waiting[0].turn)
	q.waiting = q.waiting[1:]
	q.running++
}

// run gives a group its answer, whatever happens.
func (c *Batcher[K, Q, A]) run(
	ctx context.Context, key K, g *group[Q, A], call func(ctx context.Context, questions []Q) (A, error),
) {
	defer close(g.done)
	defer c.ended(key)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), deadline)
	defer cancel()
	g.err = errEnded
	g.answer, g.err = call(ctx, g.questions)
}

// ended says that a call has ended: it is the turn of the next.
func (c *Batcher[K, Q, A]) ended(key K) {
	c.mu.Lock()
	defer c.mu.Unlock()
	q := c.queues[key]
	q.running--
	if len(q.waiting) > 0 {
		q.begin()
	} else if q.running == 0 {
		delete(c.queues, key)
	}
}
