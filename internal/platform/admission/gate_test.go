package admission_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/linkforge/linkforge/internal/platform/admission"
	"github.com/linkforge/linkforge/internal/platform/errs"
)

func gate(capacity, share int64) *admission.Gate {
	return admission.New(admission.Config{
		Name: "calls", Capacity: capacity, Share: share, Waiting: 8, Queue: 16, MaxWait: 10 * time.Second,
	})
}

// enter is Enter of a call that must be admitted.
func enter(t *testing.T, g *admission.Gate, subject string, units int64) (leave func()) {
	t.Helper()
	leave, err := g.Enter(t.Context(), subject, units)
	if err != nil {
		t.Fatalf("%s: %v", subject, err)
	}
	return leave
}

// TestGate_BoundsSubjectsAndNode: neither one subject nor all together exceed their bounds.
func TestGate_BoundsSubjectsAndNode(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := admission.New(admission.Config{
			Name: "calls", Capacity: 10, Share: 4, Waiting: 100, Queue: 1000, MaxWait: time.Hour,
		})
		var all sync.WaitGroup
		var used, most int64
		var mu sync.Mutex
		held, mostHeld := map[string]int64{}, int64(0)
		for i := range 200 {
			subject, units := fmt.Sprint(i%5), int64(1+i%3)
			all.Go(func() {
				leave := enter(t, g, subject, units)
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
				leave()
			})
		}
		all.Wait()
		if most > 10 || mostHeld > 4 || most < 9 {
			t.Errorf("%d units at once, %d of one subject; want 10 and 4 at most", most, mostHeld)
		}
		if used, waiting := g.Stats(); used != 0 || waiting != 0 {
			t.Errorf("at the end %d units are in progress and %d calls wait", used, waiting)
		}
	})
}

// TestGate_SubjectsTakeTurns: a subject with many waiting calls delays another by one call at most.
func TestGate_SubjectsTakeTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := gate(1, 1)
		var order []string
		var mu sync.Mutex
		var all sync.WaitGroup
		call := func(subject string) {
			all.Go(func() {
				leave := enter(t, g, subject, 1)
				mu.Lock()
				order = append(order, subject)
				mu.Unlock()
				time.Sleep(time.Second)
				leave()
			})
			synctest.Wait()
		}
		for range 6 {
			call("flood")
		}
		call("victim")
		call("victim")
		all.Wait()
		want := []string{"flood", "victim", "flood", "victim", "flood", "flood", "flood", "flood"}
		if !slices.Equal(order, want) {
			t.Errorf("admitted in the order %v, want %v", order, want)
		}
	})
}

// TestGate_RefusesExcess: the calls of a subject beyond its queue are its own fault. If the queue
// of all is full, the subject with the most waiting calls loses one to a newcomer.
func TestGate_RefusesExcess(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := gate(1, 1)
		leave := enter(t, g, "other", 1)
		var refused atomic.Int64
		var all sync.WaitGroup
		call := func(subject string) {
			all.Go(func() {
				leave, err := g.Enter(t.Context(), subject, 1)
				switch {
				case err == nil:
					leave()
				case errs.Is(err, errs.RateLimited) && errs.From(err).Retry() > 0:
					refused.Add(1)
				default:
					t.Error(err)
				}
			})
			synctest.Wait()
		}
		for range 10 {
			call("flood")
		}
		if n := refused.Load(); n != 2 {
			t.Errorf("%d of 10 calls were refused while 8 may wait, want 2", n)
		}
		for range 8 {
			call("second")
		}
		call("victim")
		if n := refused.Load(); n != 3 {
			t.Errorf("%d calls were refused, want 3: one of a long queue made room for the newcomer", n)
		}
		leave()
		all.Wait()
	})
}

// TestGate_EndsWaits: a wait ends with the context or after MaxWait, and leaves nothing behind.
func TestGate_EndsWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := gate(4, 4)
		leave := enter(t, g, "other", 4)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		for name, tc := range map[string]struct {
			ctx  context.Context
			want time.Duration
		}{"context": {ctx, time.Second}, "MaxWait": {t.Context(), 10 * time.Second}} {
			began := time.Now()
			if _, err := g.Enter(tc.ctx, name, 1); !errs.Is(err, errs.Unavailable) || time.Since(began) > tc.want {
				t.Errorf("%s: %v after %s, want Unavailable after %s", name, err, time.Since(began), tc.want)
			}
		}
		leave()
		enter(t, g, "next", 4)()
		if used, waiting := g.Stats(); used != 0 || waiting != 0 {
			t.Errorf("%d units are in progress and %d calls wait", used, waiting)
		}
	})
}

// TestGate_AdmitsLargeCalls: small calls that arrive later do not pass a large one for ever, and a
// call larger than a share is admitted as a whole share.
func TestGate_AdmitsLargeCalls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := gate(4, 4)
		first := enter(t, g, "small", 1)
		admitted := make(chan func())
		go func() { admitted <- enter(t, g, "large", 100) }()
		synctest.Wait()
		second := make(chan func())
		go func() { second <- enter(t, g, "another", 1) }()
		synctest.Wait()
		first()
		leave := <-admitted
		leave()
		(<-second)()
	})
}

// TestGate_AdmitsTheLastSubjectLast: its calls wait while any other could be admitted, and no call
// that cannot be admitted holds them up.
func TestGate_AdmitsTheLastSubjectLast(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := gate(2, 1)
		g.Last = "last"
		leave := map[string]func(){"a": enter(t, g, "a", 1), "last": enter(t, g, "last", 1)}
		admitted := make(chan string, 6)
		var all sync.WaitGroup
		for _, subject := range []string{"last", "last", "a", "b", "c", "b"} {
			all.Go(func() {
				leave := enter(t, g, subject, 1)
				admitted <- subject
				time.Sleep(time.Second)
				leave()
			})
			synctest.Wait()
		}
		leave["last"]() // a has its share
		synctest.Wait()
		time.Sleep(5 * time.Second)
		leave["a"]()
		all.Wait()
		close(admitted)
		var order []string
		for subject := range admitted {
			order = append(order, subject)
		}
		if want := []string{"b", "c", "b", "last", "last", "a"}; !slices.Equal(order, want) {
			t.Errorf("order of admission %v, want %v", order, want)
		}
	})
}
