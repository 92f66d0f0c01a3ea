package ratelimit

import (
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

// join returns the queue of the subject that a key stands for, until part is called.
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
