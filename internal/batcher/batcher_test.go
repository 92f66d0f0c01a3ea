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

// site is somewhere calls are made, each of which takes a while and answers with its questions.
type site struct {
	calls Batcher[string, int, []int]
	takes time.Duration

	mu    sync.Mutex
	made  [][]int
	begun []time.Duration
	since time.Time
}

func (s *site) call(_ context.Context, questions []int) ([]int, error) {
	s.mu.Lock()
	s.made = append(s.made, slices.Clone(questions))
	s.begun = append(s.begun, time.Since(s.since))
	s.mu.Unlock()
	time.Sleep(s.takes)
	return questions, nil
}

// ask asks questions one after the other, at once, and waits for all answers.
func (s *site) ask(t *testing.T, key string, questions ...int) *sync.WaitGroup {
	t.Helper()
	if s.since.IsZero() {
		s.since = time.Now()
	}
	var asking sync.WaitGroup
	for _, q := range questions {
		asking.Go(func() {
			answer, err := s.calls.Do(t.Context(), key, q, s.call)
			if err != nil || !slices.Contains(answer, q) {
				t.Errorf("%d: got %v, %v", q, answer, err)
			}
		})
		synctest.Wait()
	}
	return &asking
}

// TestWhoComesTogetherShares: the first waits for nobody, those who come meanwhile share a call, or
// as many calls as they need, one after the other.
func TestWhoComesTogetherShares(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &site{calls: Batcher[string, int, []int]{Most: 3, Patient: true}, takes: time.Hour}
		asking, others := s.ask(t, "a", 1, 2, 3, 4, 5), s.ask(t, "b", 6)
		if n := s.calls.Waiting("a"); n != 4 {
			t.Errorf("%d wait, want 4", n)
		}
		asking.Wait()
		others.Wait()
		s.ask(t, "a", 7).Wait()
		if got := fmt.Sprint(s.made, s.begun); got != "[[1] [6] [2 3 4] [5] [7]] [0s 0s 1h0m0s 2h0m0s 3h0m0s]" {
			t.Errorf("calls and when they began: %s", got)
		}
		if len(s.calls.queues) != 0 {
			t.Errorf("%d keys are kept", len(s.calls.queues))
		}
	})
}

// TestACallThatHangsIsNotWaitedFor for longer than the patience of those who have waited longest.
func TestACallThatHangsIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &site{calls: Batcher[string, int, []int]{Most: 2}, takes: time.Second}
		asking := s.ask(t, "a", 1, 2, 3, 4)
		time.Sleep(patience / 2)
		later := s.ask(t, "a", 5)
		asking.Wait()
		later.Wait()
		slices.SortFunc(s.made, slices.Compare) // the last two begin at the same time
		if got := fmt.Sprint(s.made, s.begun); got != "[[1] [2 3] [4 5]] [0s 10ms 10ms]" {
			t.Errorf("calls and when they began: %s", got)
		}
		if len(s.calls.queues) != 0 {
			t.Errorf("%d keys are kept", len(s.calls.queues))
		}
	})
}

// TestWhoeverGoesTakesNobodyAlong: a call goes on for the others, and whoever has gone waits for
// nobody.
func TestWhoeverGoesTakesNobodyAlong(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &site{takes: time.Second}
		var asking sync.WaitGroup
		gone, leave := context.WithCancel(t.Context())
		asking.Go(func() {
			_, _ = s.calls.Do(gone, "a", 1, func(ctx context.Context, _ []int) ([]int, error) {
				leave()
				if until, ok := ctx.Deadline(); ctx.Err() != nil || !ok || time.Until(until) != deadline {
					t.Errorf("the call's context: %v until %v", ctx.Err(), until)
				}
				time.Sleep(patience / 2)
				return nil, nil
			})
		})
		synctest.Wait()
		others := s.ask(t, "a", 2)
		began := time.Now()
		if _, err := s.calls.Do(gone, "a", 3, s.call); !errors.Is(err, context.Canceled) || time.Since(began) != 0 {
			t.Errorf("who has gone: %v after %v", err, time.Since(began))
		}
		asking.Wait()
		others.Wait()
	})
}

func TestAPanicIsNobodyElses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &site{takes: patience / 2}
		first := s.ask(t, "a", 1)
		var second, third sync.WaitGroup
		second.Go(func() {
			defer func() {
				if recover() == nil {
					t.Error("the panic does not go on")
				}
			}()
			_, _ = s.calls.Do(t.Context(), "a", 2, func(context.Context, []int) ([]int, error) { panic("broken") })
		})
		synctest.Wait()
		third.Go(func() {
			if _, err := s.calls.Do(t.Context(), "a", 3, s.call); !errors.Is(err, errEnded) {
				t.Errorf("got %v", err)
			}
		})
		first.Wait()
		second.Wait()
		third.Wait()
		s.ask(t, "a", 4).Wait()
	})
}
