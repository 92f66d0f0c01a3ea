package batcher

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// recorder records the calls of a batcher. A call returns its requests after a duration.
type recorder struct {
	batcher  Batcher[string, int, []int]
	duration time.Duration

	mu     sync.Mutex
	calls  [][]int
	starts []time.Duration // since epoch
	epoch  time.Time
}

func (r *recorder) call(_ context.Context, requests []int) ([]int, error) {
	r.mu.Lock()
	r.calls = append(r.calls, slices.Clone(requests))
	r.starts = append(r.starts, time.Since(r.epoch))
	r.mu.Unlock()
	time.Sleep(r.duration)
	return requests, nil
}

// send sends requests concurrently, in this order. The caller waits for the results.
func (r *recorder) send(t *testing.T, key string, requests ...int) *sync.WaitGroup {
	t.Helper()
	if r.epoch.IsZero() {
		r.epoch = time.Now()
	}
	var sent sync.WaitGroup
	for _, request := range requests {
		sent.Go(func() {
			result, err := r.batcher.Do(t.Context(), key, request, r.call)
			if err != nil || !slices.Contains(result, request) {
				t.Errorf("%d: got %v, %v", request, result, err)
			}
		})
		synctest.Wait()
	}
	return &sent
}

// TestBatcher_CoalescesConcurrentRequests checks that the first request does not wait, and that
// requests which arrive meanwhile share calls of the largest size, one after the other.
func TestBatcher_CoalescesConcurrentRequests(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{batcher: Batcher[string, int, []int]{MaxBatch: 3, Serial: true}, duration: time.Hour}
		sent, others := r.send(t, "a", 1, 2, 3, 4, 5), r.send(t, "b", 6)
		if n := r.batcher.Waiting("a"); n != 4 {
			t.Errorf("%d requests wait, want 4", n)
		}
		sent.Wait()
		others.Wait()
		r.send(t, "a", 7).Wait()
		if got := fmt.Sprint(r.calls, r.starts); got != "[[1] [6] [2 3 4] [5] [7]] [0s 0s 1h0m0s 2h0m0s 3h0m0s]" {
			t.Errorf("calls and their starts: %s", got)
		}
		if len(r.batcher.queues) != 0 {
			t.Errorf("%d keys remain", len(r.batcher.queues))
		}
	})
}

func TestBatcher_StartsBesideASlowCallAfterMaxWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{batcher: Batcher[string, int, []int]{MaxBatch: 2}, duration: time.Second}
		sent := r.send(t, "a", 1, 2, 3, 4)
		time.Sleep(maxWait / 2)
		later := r.send(t, "a", 5)
		sent.Wait()
		later.Wait()
		slices.SortFunc(r.calls, slices.Compare) // the last two start at the same time
		if got := fmt.Sprint(r.calls, r.starts); got != "[[1] [2 3] [4 5]] [0s 10ms 10ms]" {
			t.Errorf("calls and their starts: %s", got)
		}
		if len(r.batcher.queues) != 0 {
			t.Errorf("%d keys remain", len(r.batcher.queues))
		}
	})
}

// TestBatcher_DoesNotWaitForAnOldCall: only the newest call delays a batch, so that one that hangs
// delays no other call.
func TestBatcher_DoesNotWaitForAnOldCall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{duration: time.Second}
		first := r.send(t, "a", 1)
		time.Sleep(5 * maxWait)
		second := r.send(t, "a", 2)
		time.Sleep(maxWait / 2)
		third := r.send(t, "a", 3)
		first.Wait()
		second.Wait()
		third.Wait()
		if got := fmt.Sprint(r.calls, r.starts); got != "[[1] [2] [3]] [0s 50ms 60ms]" {
			t.Errorf("calls and their starts: %s", got)
		}
	})
}

// TestBatcher_RunsAtMostMaxRunningCalls: the requests that arrive meanwhile share the next one.
func TestBatcher_RunsAtMostMaxRunningCalls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{batcher: Batcher[string, int, []int]{MaxRunning: 2}, duration: time.Second}
		first := r.send(t, "a", 1, 2)
		time.Sleep(2 * maxWait)
		later := r.send(t, "a", 3)
		time.Sleep(2 * maxWait)
		last := r.send(t, "a", 4)
		first.Wait()
		later.Wait()
		last.Wait()
		if got := fmt.Sprint(r.calls, r.starts); got != "[[1] [2] [3 4]] [0s 10ms 1s]" {
			t.Errorf("calls and their starts: %s", got)
		}
		if len(r.batcher.queues) != 0 {
			t.Errorf("%d keys remain", len(r.batcher.queues))
		}
	})
}

// TestBatcher_CancelledCallerDoesNotCancelTheCall checks that a call continues for the other
// callers, and that a cancelled caller returns at once.
func TestBatcher_CancelledCallerDoesNotCancelTheCall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{duration: time.Second}
		var sent sync.WaitGroup
		cancelled, cancel := context.WithCancel(t.Context())
		sent.Go(func() {
			_, _ = r.batcher.Do(cancelled, "a", 1, func(ctx context.Context, _ []int) ([]int, error) {
				cancel()
				if until, ok := ctx.Deadline(); ctx.Err() != nil || !ok || time.Until(until) != deadline {
					t.Errorf("the call's context: %v until %v", ctx.Err(), until)
				}
				time.Sleep(maxWait / 2)
				return nil, nil
			})
		})
		synctest.Wait()
		others := r.send(t, "a", 2)
		began := time.Now()
		if _, err := r.batcher.Do(cancelled, "a", 3, r.call); !errors.Is(err, context.Canceled) ||
			time.Since(began) != 0 {
			t.Errorf("the cancelled caller: %v after %v", err, time.Since(began))
		}
		sent.Wait()
		others.Wait()
	})
}

func TestBatcher_PanicEndsOnlyItsOwnBatch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{duration: maxWait / 2}
		first := r.send(t, "a", 1)
		var second, third sync.WaitGroup
		second.Go(func() {
			defer func() {
				if recover() == nil {
					t.Error("the panic does not reach the caller")
				}
			}()
			_, _ = r.batcher.Do(t.Context(), "a", 2, func(context.Context, []int) ([]int, error) { panic("broken") })
		})
		synctest.Wait()
		third.Go(func() {
			if _, err := r.batcher.Do(t.Context(), "a", 3, r.call); !errors.Is(err, errAborted) {
				t.Errorf("got %v", err)
			}
		})
		first.Wait()
		second.Wait()
		third.Wait()
		r.send(t, "a", 4).Wait()
	})
}
