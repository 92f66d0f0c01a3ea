package admission_test

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/linkforge/linkforge/internal/platform/admission"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/wanttest"
)

// queue returns a Queue in which eight calls of a subject and 16 in all may wait, for ten seconds.
func queue(capacity, share int64) *admission.Queue {
	return admission.New(admission.Config{
		Name: "calls", Capacity: capacity, Share: share, Waiting: 8, AllWaiting: 16, MaxWait: 10 * time.Second,
	})
}

// enter is Enter of a call that must be admitted.
func enter(t *testing.T, q *admission.Queue, units int64, subjects ...string) *admission.Turn {
	t.Helper()
	turn, err := q.Enter(t.Context(), units, subjects...)
	if err != nil {
		t.Fatalf("%s: %v", subjects, err)
	}
	return turn
}

// wantEmpty fails a test after which work is in progress or waits.
func wantEmpty(t *testing.T, q *admission.Queue) {
	t.Helper()
	if used, waiting := q.Stats(); used != 0 || waiting != 0 {
		t.Errorf("at the end %d units are in progress and %d calls wait", used, waiting)
	}
}

// TestQueue_BoundsSubjectsAndNode: neither one subject nor all together exceed their bounds.
func TestQueue_BoundsSubjectsAndNode(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := admission.New(admission.Config{
			Name: "calls", Capacity: 10, Share: 4, Waiting: 100, AllWaiting: 1000, MaxWait: time.Hour,
		})
		var all sync.WaitGroup
		var used, most int64
		var mu sync.Mutex
		held, mostHeld := map[string]int64{}, int64(0)
		for i := range 200 {
			subject, units := fmt.Sprint(i%5), int64(1+i%3)
			all.Go(func() {
				turn := enter(t, q, units, subject)
				mu.Lock()
				used += units
				held[subject] += units
				most, mostHeld = max(most, used), max(mostHeld, held[subject])
				mu.Unlock()
				time.Sleep(time.Second)
				mu.Lock()
				used -= units
				held[subject] -= units
				mu.Unlock()
				turn.Leave()
			})
		}
		all.Wait()
		if most > 10 || mostHeld > 4 || most < 9 {
			t.Errorf("%d units at once, %d of one subject; want 10 and 4 at most", most, mostHeld)
		}
		wantEmpty(t, q)
	})
}

// TestQueue_SubjectsTakeTurns: each round admits one of the waiting calls with a subject in common.
// So a subject with many waiting calls delays another by one call at most.
func TestQueue_SubjectsTakeTurns(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ calls, want []string }{
		"one subject": {
			[]string{"flood", "flood", "flood", "flood", "flood", "flood", "victim", "victim"},
			[]string{"flood", "victim", "flood", "victim", "flood", "flood", "flood", "flood"},
		},
		"a network and a link": {
			[]string{"first link", "guesser1 guessed", "guesser2 guessed", "guesser3 guessed", "visitor a",
				"visitor b", "another c"},
			[]string{"first link", "guesser1 guessed", "visitor a", "another c", "guesser2 guessed", "visitor b",
				"guesser3 guessed"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				q, order := queue(1, 1), make(chan string, len(c.calls))
				var all sync.WaitGroup
				for _, call := range c.calls {
					all.Go(func() {
						turn := enter(t, q, 1, strings.Fields(call)...)
						order <- call
						time.Sleep(time.Second)
						turn.Leave()
					})
					synctest.Wait()
				}
				all.Wait()
				close(order)
				wanttest.Equal(t, c.want, slices.Collect(values(order)), "order of admission")
			})
		})
	}
}

// values yields what a closed channel has.
func values(from <-chan string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for v := range from {
			if !yield(v) {
				return
			}
		}
	}
}

// TestQueue_StarvesNoSubject: while clients call again and again, an account with a past waits for
// at most one call of each of their subjects, also if they change their subjects with each call.
func TestQueue_StarvesNoSubject(t *testing.T) {
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
				q := queue(1, 1)
				q.MaxWait = time.Minute
				work := func(subjects ...string) {
					turn := enter(t, q, 1, subjects...)
					time.Sleep(time.Second)
					turn.Leave()
				}
				for range 20 {
					work("account", "workspace")
				}
				var all sync.WaitGroup
				var ended atomic.Bool
				for client := range clients {
					all.Go(func() {
						for call := 0; !ended.Load(); call++ {
							work(c.subjects(client, call)...)
						}
					})
				}
				for range 5 {
					synctest.Wait()
					began := time.Now()
					work("account", "workspace")
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

// TestQueue_RestsOnlyItsSubject: while a first subject rests, its next call waits, and others do
// not.
func TestQueue_RestsOnlyItsSubject(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := queue(2, 1)
		enter(t, q, 1, "guesser", "link").LeaveAndRest(time.Second)
		began := time.Now()
		enter(t, q, 1, "visitor", "link").Leave()
		if waited := time.Since(began); waited > 0 {
			t.Errorf("a visitor of the same link waited for %s", waited)
		}
		enter(t, q, 1, "guesser", "another link").Leave()
		if waited := time.Since(began); waited != time.Second {
			t.Errorf("the guesser waited for %s", waited)
		}
	})
}

// TestQueue_RefusesExcess: a first subject has few waiting calls: further ones are its own fault. If
// too many calls wait in all, a subject with the most loses one to a newcomer.
func TestQueue_RefusesExcess(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		waiting, allWaiting int
		calls               []string
		want                map[string]int // results
	}{
		"one subject": {8, 16, slices.Concat(slices.Repeat([]string{"flood"}, 10), slices.Repeat([]string{"second"}, 8),
			[]string{"victim"}), map[string]int{
			"flood: admitted": 8, "flood: RATE_LIMITED": 2, "second: admitted": 7, "second: RATE_LIMITED": 1,
			"victim: admitted": 1,
		}},
		"a network and a link": {2, 3, []string{"a 1", "a 2", "a 3", "b 1", "c 4"}, map[string]int{
			"a 1: admitted": 1, "a 2: admitted": 1, "a 3: RATE_LIMITED": 1, "b 1: UNAVAILABLE": 1, "c 4: admitted": 1,
		}},
		"a newcomer": {8, 2, []string{"a", "b", "c"}, map[string]int{
			"a: admitted": 1, "b: admitted": 1, "c: UNAVAILABLE": 1,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				q := queue(1, 1)
				q.Waiting, q.AllWaiting = c.waiting, c.allWaiting
				first := enter(t, q, 1, "other")
				var all sync.WaitGroup
				results := make(chan string, len(c.calls))
				for _, call := range c.calls {
					all.Go(func() {
						turn, err := q.Enter(t.Context(), 1, strings.Fields(call)...)
						if err == nil {
							results <- call + ": admitted"
							turn.Leave()
							return
						}
						results <- call + ": " + errs.From(err).Kind.Code()
						if errs.From(err).Retry() <= 0 {
							t.Errorf("%s: no retry after %v", call, err)
						}
					})
					synctest.Wait()
				}
				first.Leave()
				all.Wait()
				got := map[string]int{}
				for range c.calls {
					got[<-results]++
				}
				wanttest.Equal(t, c.want, got, "results")
				wantEmpty(t, q)
			})
		})
	}
}

// TestQueue_EndsWaits: a wait ends with the context or after MaxWait, and leaves nothing behind.
func TestQueue_EndsWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := queue(4, 4)
		other := enter(t, q, 4, "other")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		for name, tc := range map[string]struct {
			ctx  context.Context
			want time.Duration
		}{"context": {ctx, time.Second}, "MaxWait": {t.Context(), 10 * time.Second}} {
			began := time.Now()
			if _, err := q.Enter(tc.ctx, 1, name); !errs.Is(err, errs.Unavailable) || time.Since(began) > tc.want {
				t.Errorf("%s: %v after %s, want Unavailable after %s", name, err, time.Since(began), tc.want)
			}
		}
		other.Leave()
		enter(t, q, 4, "next").Leave()
		wantEmpty(t, q)
	})
}

// TestQueue_AdmitsLargeCalls: small calls that arrive later do not pass a large one for ever, and a
// call larger than a share is admitted as a whole share.
func TestQueue_AdmitsLargeCalls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := queue(4, 4)
		first := enter(t, q, 1, "small")
		large, second := make(chan *admission.Turn), make(chan *admission.Turn)
		go func() { large <- enter(t, q, 100, "large") }()
		synctest.Wait()
		go func() { second <- enter(t, q, 1, "another") }()
		synctest.Wait()
		first.Leave()
		(<-large).Leave()
		(<-second).Leave()
	})
}

// TestQueue_AdmitsTheLastSubjectLast: its calls wait while any other could be admitted, and no call
// that cannot be admitted holds them up.
func TestQueue_AdmitsTheLastSubjectLast(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := queue(2, 1)
		q.Last = "last"
		ofA, ofLast := enter(t, q, 1, "a"), enter(t, q, 1, "last")
		admitted := make(chan string, 6)
		var all sync.WaitGroup
		for _, subject := range []string{"last", "last", "a", "b", "c", "b"} {
			all.Go(func() {
				turn := enter(t, q, 1, subject)
				admitted <- subject
				time.Sleep(time.Second)
				turn.Leave()
			})
			synctest.Wait()
		}
		ofLast.Leave() // a has its share
		synctest.Wait()
		time.Sleep(5 * time.Second)
		ofA.Leave()
		all.Wait()
		close(admitted)
		wanttest.Equal(t, []string{"b", "c", "b", "last", "last", "a"}, slices.Collect(values(admitted)),
			"order of admission")
	})
}

// TestQueue_BoundsEachSubject takes units of two subjects within a common bound, and returns them.
func TestQueue_BoundsEachSubject(t *testing.T) {
	t.Parallel()
	all := admission.Bound{Kind: "all", Max: 5}
	one, two := admission.Bound{Kind: "one", Subject: "x", Max: 3}, admission.Bound{Kind: "two", Subject: "x", Max: 3}
	var q admission.Queue
	for i, c := range []struct {
		bound   admission.Bound
		n, want int64
	}{{one, 8, 3}, {one, 1, 0}, {two, 3, 2}, {two, 1, 0}, {one, -1, 0}} {
		if got := q.Take(c.n, all, c.bound); got != c.want {
			t.Errorf("call %d: took %d, want %d", i, got, c.want)
		}
	}
	if got := q.Full("one"); !slices.Equal(got, []string{"x"}) || len(q.Full("two")) > 0 {
		t.Errorf("full: %v, %v", got, q.Full("two"))
	}
	q.Give(3, all, one)
	if q.Used(all) != 2 || q.Used(one) != 0 || q.Take(3, all, two) != 1 {
		t.Errorf("after the return: %d in all, %d of one", q.Used(all), q.Used(one))
	}
}

// TestQueue_OrderOfASubject: calls of one subject are admitted in the order of their arrival, also if
// a later one is smaller, or those before both have left.
func TestQueue_OrderOfASubject(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q, order := queue(100, 10), []string{}
		call := func(ctx context.Context, name string, units int64) {
			go func() {
				turn, err := q.Enter(ctx, units, "a")
				if err == nil {
					order = append(order, name)
					time.Sleep(time.Second)
					turn.Leave()
				}
			}()
			synctest.Wait()
		}
		first := enter(t, q, 6, "a")
		call(t.Context(), "large", 10)
		call(t.Context(), "small", 2)
		first.Leave()
		time.Sleep(3 * time.Second)
		synctest.Wait()
		first = enter(t, q, 10, "a")
		leaving, leave := context.WithCancel(t.Context())
		call(leaving, "left", 10)
		call(leaving, "left", 10)
		call(t.Context(), "earlier", 10)
		leave()
		synctest.Wait()
		call(t.Context(), "later", 10)
		first.Leave()
		time.Sleep(3 * time.Second)
		synctest.Wait()
		if want := []string{"large", "small", "earlier", "later"}; !slices.Equal(order, want) {
			t.Errorf("%q, want %q", order, want)
		}
		wantEmpty(t, q)
	})
}
