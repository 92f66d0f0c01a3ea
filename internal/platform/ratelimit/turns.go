package ratelimit

import (
	"context"
	"sync"
	"time"

	"github.com/linkforge/linkforge/internal/platform/admission"
)

const (
	// maxCallerWaiting and maxAllWaiting bound the calls that wait for attempts of one subject, of
	// one caller and of all. maxTurnWait bounds the wait, after which a caller keeps its turn for its
	// next call.
	maxCallerWaiting, maxAllWaiting = 64, 512
	maxTurnWait                     = 5 * time.Second
)

// turns has the calls that wait for attempts, by the subject. The zero value is ready to use.
type turns struct {
	mu     sync.Mutex
	queues map[string]*queue
}

// queue has the calls that wait for attempts of a subject, one of which is next.
type queue struct {
	*admission.Queue
	calls int
}

// enter waits until a caller is next for an attempt of the subject that a key stands for, until
// leave is called.
func (t *turns) enter(ctx context.Context, key, caller string) (leave func(), err error) {
	q := t.join(key)
	turn, err := q.Enter(ctx, 1, caller)
	if err != nil {
		t.part(key, q)
		return nil, err
	}
	return func() {
		turn.Leave()
		t.part(key, q)
	}, nil
}

func (t *turns) join(key string) *queue {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.queues == nil {
		t.queues = map[string]*queue{}
	}
	q := t.queues[key]
	if q == nil {
		q = &queue{Queue: admission.New(admission.Config{
			Name: "requests to this host", Capacity: 1, Share: 1, Waiting: maxCallerWaiting, AllWaiting: maxAllWaiting,
			MaxWait: maxTurnWait, KeepsRounds: true,
		})}
		t.queues[key] = q
	}
	q.calls++
	return q
}

func (t *turns) part(key string, q *queue) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if q.calls--; q.calls == 0 {
		delete(t.queues, key)
	}
}
