package admission_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/linkforge/linkforge/internal/admission"
	"github.com/linkforge/linkforge/internal/errs"
	"github.com/linkforge/linkforge/internal/must"
)

func fair(capacity int64, queue int) *admission.Fair {
	return admission.NewFair(admission.Config{
		Name: "calls", Capacity: capacity, Share: 1, Waiting: 2, Queue: queue, MaxWait: 10 * time.Second,
	})
}

// TestFair_PrefersRareSubjects: calls of which any subject is frequent wait for the others, whichever subject it is.
func TestFair_PrefersRareSubjects(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := fair(1, 16)
		for i := range 3 { // guesses from three networks for one link
			must.Value(f.Enter(t.Context(), fmt.Sprint("network ", i), "guessed"))(t)(0)
		}
		leave := must.Value(f.Enter(t.Context(), "network", "link"))(t)
		var order []string
		var all sync.WaitGroup
		for _, subjects := range [][]string{
			{"another network", "guessed"}, {"network 0", "a link"}, {"third network", "guessed"}, {"visitor", "other"},
		} {
			all.Go(func() {
				leave := must.Value(f.Enter(t.Context(), subjects...))(t)
				order = append(order, subjects[0])
				leave(0)
			})
			synctest.Wait()
		}
		leave(0)
		all.Wait()
		want := []string{"visitor", "network 0", "another network", "third network"}
		if diff := cmp.Diff(want, order); diff != "" {
			t.Errorf("order of admission (-want +got):\n%s", diff)
		}
	})
}

// TestFair_RestsOnlyItsSubject: while a first subject rests, its next call waits, and others do not.
func TestFair_RestsOnlyItsSubject(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := fair(2, 16)
		must.Value(f.Enter(t.Context(), "guesser", "link"))(t)(time.Second)
		began := time.Now()
		must.Value(f.Enter(t.Context(), "visitor", "link"))(t)(0)
		if waited := time.Since(began); waited > 0 {
			t.Errorf("a visitor of the same link waited for %s", waited)
		}
		must.Value(f.Enter(t.Context(), "guesser", "another link"))(t)(0)
		if waited := time.Since(began); waited != time.Second {
			t.Errorf("the guesser waited for %s", waited)
		}
	})
}

// TestFair_RefusesExcess: a first subject has few waiting calls, and if too many calls wait in all, a frequent subject
// loses one. A wait ends with the context or after MaxWait, and leaves nothing behind.
func TestFair_RefusesExcess(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := fair(1, 3)
		leave := must.Value(f.Enter(t.Context(), "first", "guessed"))(t)
		got := map[string]error{}
		var mu sync.Mutex
		var all sync.WaitGroup
		enter := func(ctx context.Context, subjects ...string) {
			all.Go(func() {
				leave, err := f.Enter(ctx, subjects...)
				mu.Lock()
				got[fmt.Sprint(subjects)] = err
				mu.Unlock()
				if err == nil {
					leave(0)
				}
			})
			synctest.Wait()
		}
		gone, cancel := context.WithCancel(t.Context())
		enter(t.Context(), "a", "1")
		enter(t.Context(), "a", "2")
		enter(t.Context(), "a", "3") // one too many of a
		enter(t.Context(), "b", "guessed")
		enter(gone, "c", "4") // makes b's call one too many
		cancel()
		synctest.Wait()
		leave(0)
		all.Wait()
		for subjects, want := range map[string]errs.Kind{
			"[a 3]": errs.RateLimited, "[b guessed]": errs.Unavailable, "[c 4]": errs.Unavailable,
		} {
			if err := got[subjects]; !errs.Is(err, want) || errs.From(err).RetryAfter == 0 {
				t.Errorf("%s: %v", subjects, err)
			}
		}
		if got["[a 1]"] != nil || got["[a 2]"] != nil {
			t.Errorf("calls within the bounds: %v", got)
		}
		leave = must.Value(f.Enter(t.Context(), "next"))(t)
		began := time.Now()
		if _, err := f.Enter(t.Context(), "late"); !errs.Is(err, errs.Unavailable) || time.Since(began) != 10*time.Second {
			t.Errorf("after %s: %v", time.Since(began), err)
		}
		leave(0)
	})
}

// TestFair_ForgetsOldCalls: the calls of a subject count less as others follow.
func TestFair_ForgetsOldCalls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := fair(1, 16)
		call := func(subject string, calls int) {
			for range calls {
				must.Value(f.Enter(t.Context(), subject))(t)(0)
			}
		}
		call("former", 100)
		for i := range 10_000 {
			call(fmt.Sprint(i), 1)
		}
		call("present", 2)
		leave := must.Value(f.Enter(t.Context(), "first"))(t)
		var order []string
		var all sync.WaitGroup
		for _, subject := range []string{"present", "former"} {
			all.Go(func() {
				leave := must.Value(f.Enter(t.Context(), subject))(t)
				order = append(order, subject)
				leave(0)
			})
			synctest.Wait()
		}
		leave(0)
		all.Wait()
		if !slices.Equal(order, []string{"former", "present"}) {
			t.Errorf("admitted in the order %v", order)
		}
	})
}
