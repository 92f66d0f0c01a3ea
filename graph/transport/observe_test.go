package transport

import (
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"
)

// TestObserve_LogsTheRequestID, which links the request's log lines, and the cause of a failure.
func TestObserve_LogsTheRequestID(t *testing.T) {
	t.Parallel()
	b := setup(t)
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/graphql?query={me{id}}", nil)
	r.Header.Set("X-Request-Id", "request-1")
	b.ServeHTTP(httptest.NewRecorder(), r)
	if got := b.lines(); len(got) != 1 || !strings.HasSuffix(got[0], "request_id=request-1") {
		t.Errorf("got log %q, want one line with the request ID", got)
	}
}

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
