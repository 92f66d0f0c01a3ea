// Package batcher coalesces concurrent calls, of a database for example. Requests that arrive while
// a call is running share the next one, which starts when the call ends, or soon, see Serial. A
// request that arrives alone does not wait.
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
	// defaultMaxBatch applies if MaxBatch is zero.
	defaultMaxBatch = 100
	// maxWait bounds how long a batch waits for a running call, which may hang, unless calls are
	// serial.
	maxWait = 10 * time.Millisecond
	// deadline bounds a call. The context of the caller that runs it does not end it.
	deadline = 15 * time.Second
)

// Batcher combines concurrent requests with the same key into calls. The zero value is ready to
// use.
type Batcher[K comparable, Q, A any] struct {
	// MaxBatch is the largest number of requests in a call; zero selects 100.
	MaxBatch int
	// Serial makes calls of a key run one at a time. Otherwise a batch also starts when the newest
	// call has run for 10 ms.
	Serial bool
	// MaxRunning is the largest number of calls of a key at a time, unless they are serial; zero
	// means no limit.
	MaxRunning int

	mu     sync.Mutex
	queues map[K]*queue[Q, A]
}

// queue holds the batches of a key. It exists while a call of the key is running.
type queue[Q, A any] struct {
	running int
	started time.Time // when the newest call started
	waiting []*batch[Q, A]
}

// batch holds the requests of one call, which the caller of its first request runs.
type batch[Q, A any] struct {
	requests []Q
	start    chan struct{} // closed when the call may start
	done     chan struct{} // closed when the result is set

	result A
	err    error
}

// errAborted is the error of a batch whose call has panicked.
var errAborted = errors.New("a coalesced call was aborted")

// Do adds a request to the next call of the key, and returns the result and the error of that call,
// which all requests of the batch share. It returns early when the context ends; the call continues
// for the other callers. The first caller runs its call for all, with the values of its context:
// those of a key must suit every request.
func (c *Batcher[K, Q, A]) Do(
	ctx context.Context, key K, request Q, call func(ctx context.Context, requests []Q) (A, error),
) (A, error) {
	b, isFirst := c.join(key, request)
	if isFirst && c.awaitStart(ctx, key, b) {
		c.run(ctx, key, b, call)
	} else if isFirst { // the caller leaves, but others may wait for the call
		go func() {
			defer func() { _ = recover() }() // they get errAborted
			<-b.start
			c.run(ctx, key, b, call)
		}()
	}
	select {
	case <-b.done:
		return b.result, b.err
	case <-ctx.Done():
		var none A
		return none, fmt.Errorf("waiting for a coalesced call: %w", ctx.Err())
	}
}

// Waiting returns the number of requests of the key whose call has not started.
func (c *Batcher[K, Q, A]) Waiting(key K) (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if q := c.queues[key]; q != nil {
		for _, b := range q.waiting {
			n += len(b.requests)
		}
	}
	return n
}

// join adds a request to a batch, and reports whether it is the first one of the batch.
func (c *Batcher[K, Q, A]) join(key K, request Q) (b *batch[Q, A], isFirst bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	q := c.queues[key]
	if q != nil && len(q.waiting) > 0 {
		if last := q.waiting[len(q.waiting)-1]; len(last.requests) < cmp.Or(c.MaxBatch, defaultMaxBatch) {
			last.requests = append(last.requests, request)
			return last, false
		}
	}
	b = &batch[Q, A]{requests: []Q{request}, start: make(chan struct{}), done: make(chan struct{})}
	if q != nil {
		q.waiting = append(q.waiting, b)
		return b, true
	}
	if c.queues == nil {
		c.queues = map[K]*queue[Q, A]{}
	}
	c.queues[key] = &queue[Q, A]{running: 1, started: time.Now()}
	close(b.start)
	return b, true
}

// awaitStart waits until the call of a batch may start. The batch accepts no more requests then. A
// serial call waits for the one before it: it reports false if the context ends meanwhile.
func (c *Batcher[K, Q, A]) awaitStart(ctx context.Context, key K, b *batch[Q, A]) bool {
	var late <-chan time.Time
	ended := ctx.Done()
	if !c.Serial {
		timer := time.NewTimer(maxWait - c.newestAge(key))
		defer timer.Stop()
		late, ended = timer.C, nil
	}
	select {
	case <-b.start:
		return true
	default:
	}
	select {
	case <-b.start:
		return true
	case <-late:
		c.startThrough(key, b)
	case <-ended:
		return false
	}
	select {
	case <-b.start:
		return true
	case <-ctx.Done():
		return false
	}
}

// newestAge returns how long the newest call of the key has run.
func (c *Batcher[K, Q, A]) newestAge(key K) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if q := c.queues[key]; q != nil {
		return time.Since(q.started)
	}
	return 0
}

// startThrough starts a batch and all batches that have waited longer, as many as MaxRunning
// permits.
func (c *Batcher[K, Q, A]) startThrough(key K, b *batch[Q, A]) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if q := c.queues[key]; q != nil {
		for range slices.Index(q.waiting, b) + 1 {
			if c.MaxRunning > 0 && q.running >= c.MaxRunning {
				return
			}
			q.startNext()
		}
	}
}

// startNext starts the batch that has waited longest.
func (q *queue[Q, A]) startNext() {
	close(q.waiting[0].start)
	q.waiting = q.waiting[1:]
	q.running++
	q.started = time.Now()
}

// run sets the result of a batch, also if the call panics.
func (c *Batcher[K, Q, A]) run(
	ctx context.Context, key K, b *batch[Q, A], call func(ctx context.Context, requests []Q) (A, error),
) {
	defer close(b.done)
	defer c.finish(key)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), deadline)
	defer cancel()
	b.err = errAborted
	b.result, b.err = call(ctx, b.requests)
}

// finish notes the end of a call, and starts the next batch.
func (c *Batcher[K, Q, A]) finish(key K) {
	c.mu.Lock()
	defer c.mu.Unlock()
	q := c.queues[key]
	q.running--
	if len(q.waiting) > 0 {
		q.startNext()
	} else if q.running == 0 {
		delete(c.queues, key)
	}
}
