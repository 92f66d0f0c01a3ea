package admission_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/linkforge/linkforge/internal/platform/admission"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/wanttest"
)

func fair(capacity int64, queue int) *admission.Fair {
	return admission.NewFair(admission.Config{
		Name: "calls", Capacity: capacity, Share: 1, Waiting: 2, Queue: queue, MaxWait: 10 * time.Second,
	})
}

// TestFair_SubjectsTakeTurns: each round admits one of the waiting calls with a subject in common.
func TestFair_SubjectsTakeTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := fair(1, 16)
		leave := must.Value(f.Enter(t.Context(), "network", "link"))(t)
		var order []string
		var all sync.WaitGroup
		for _, subjects := range [][]string{
			{"guesser 1", "guessed"}, {"guesser 2", "guessed"}, {"guesser 3", "guessed"}, {"visitor", "a"}, {"visitor",
				"b"},
			{"another visitor", "c"},
		} {
			all.Go(func() {
				leave := must.Value(f.Enter(t.Context(), subjects...))(t)
				order = append(order, fmt.Sprint(subjects))
				leave(0)
			})
			synctest.Wait()
		}
		leave(0)
		all.Wait()
		want := []string{"[guesser 1 guessed]", "[visitor a]", "[another visitor c]", "[guesser 2 guessed]",
			"[visitor b]",
			"[guesser 3 guessed]"}
		wanttest.Equal(t, want, order, "order of admission")
	})
}

// TestFair_StarvesNoSubject: while clients call again and again, an account with a past waits for
// at most one call of each of their subjects, also if they change their subjects with each call.
func TestFair_StarvesNoSubject(t *testing.T) {
	t.Parallel()
	const clients = 8
	for name, c := range map[string]struct {
		subjects func(client, call int) []string
		longest  time.Duration // wait of the account, if each call takes a second
	}{
		"one link from new networks": {func(client, call int) []string {
			return []string{fmt.Sprint(client, call), "guessed"}
		}, 2 * time.Second},
		"links of their own": {func(client, call int) []string {
			return []string{fmt.Sprint(client, call), fmt.Sprint("link ", client)}
		}, (clients + 1) * time.Second},
		"new links from new networks": {func(client, call int) []string {
			return []string{fmt.Sprint(client, call), fmt.Sprint("link ", client, call)}
		}, (clients + 1) * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := fair(1, 16)
				f.MaxWait = time.Minute
				enter := func(subjects ...string) {
					leave := must.Value(f.Enter(t.Context(), subjects...))(t)
					time.Sleep(time.Second)
					leave(0)
				}
				for range 20 {
					enter("account", "workspace")
				}
				var all sync.WaitGroup
				var ended atomic.Bool
				for client := range clients {
					all.Go(func() {
						for call := 0; !ended.Load(); call++ {
							enter(c.subjects(client, call)...)
						}
					})
				}
				for range 5 {
					synctest.Wait()
					began := time.Now()
					enter("account", "workspace")
					if waited := time.Since(began) - time.Second; waited > c.longest {
						t.Errorf("the account waited for %s", waited)
					}
				}
				ended.Store(true)
				all.Wait()
			})
		})
	}
}

// TestFair_RestsOnlyItsSubject: while a first subject rests, its next call waits, and others do
// not.
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

// TestFair_RefusesExcess: a first subject has few waiting calls, and if too many calls wait in all,
// the subject with the most loses one. A wait ends with the context or after MaxWait, and leaves
// nothing behind.
func TestFair_RefusesExcess(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := fair(1, 3)
		leave := must.Value(f.Enter(t.Context(), "first", "link"))(t)
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
		enter(t.Context(), "b", "1")
		enter(gone, "c", "4") // makes b's call one too many
		cancel()
		synctest.Wait()
		leave(0)
		all.Wait()
		for subjects, want := range map[string]errs.Kind{
			"[a 3]": errs.RateLimited, "[b 1]": errs.Unavailable, "[c 4]": errs.Unavailable,
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
		if _, err := f.Enter(t.Context(), "late"); !errs.Is(err, errs.Unavailable) ||
			time.Since(began) != 10*time.Second {
			t.Errorf("after %s: %v", time.Since(began), err)
		}
		leave(0)
	})
}
