package transport

import (
	"runtime"
	"testing"
	"time"
)

// TestObserve_CountsOperationsOnEveryTransport: an operation counts once, however it has come.
func TestObserve_CountsOperationsOnEveryTransport(t *testing.T) {
	t.Parallel()
	b := setup(t)
	sent := int64(0)
	for way, send := range b.ways(t) {
		send(request{"query": "query Mine { me { id } }"})
		send(request{"query": "query Mine { planted }"})
		sent++
		deadline := time.Now().Add(10 * time.Second)
		for answered := b.Stats().Outcomes; answered["query"][outcomeOK] != sent ||
			answered[kindUnread]["BAD_REQUEST"] != sent; answered = b.Stats().Outcomes {
			if time.Now().After(deadline) { // a socket's operation ends after its answer
				t.Fatalf("%s: after %d of each: %v", way, sent, answered)
			}
			runtime.Gosched()
		}
	}
}
