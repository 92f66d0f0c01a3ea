package hitquota

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/linkforge/linkforge/internal/id"
)

// TestFallback_CountsDuringOutage: hits return to the source that granted them, and the
// source resumes before it is used again.
func TestFallback_CountsDuringOutage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		source, fallback, linkID, other := newTally(), newTally(), id.New(id.Link), id.New(id.Link)
		d := newDesk(source, fallback)
		hold(t, d.Leases, linkID, 10, 100)
		stop := run(t, d.Leases)
		source.fail(errGone)
		if got := take(t, d.Leases, linkID, 4, 100); got != 4 || d.Stats().Away {
			t.Errorf("%d hits given of those that were held, want 4; away is %t", got, d.Stats().Away)
		}
		for range 3 {
			if got := take(t, d.Leases, other, 7, 100); got != 7 || !d.Stats().Away {
				t.Errorf("%d hits given by the fallback, want 7; away is %t", got, d.Stats().Away)
			}
			after(reapInterval)
		}
		if got := strings.Count(d.said.String(), "cannot be taken: the database counts instead"); got != 1 {
			t.Errorf("it was logged %d times that the source has gone, want once", got)
		}
		after(2 * plentyLife)
		source.want(t, "while it is away", linkID, 10, 1)
		fallback.want(t, "when the leases have ended", other, 21, 0)

		source.events = nil
		source.fail(nil)
		after(2 * reapInterval)
		source.want(t, "when it is back", linkID, 4, 0)
		if got := take(t, d.Leases, other, 5, 100); got != 5 || d.Stats().Away {
			t.Errorf("%d hits given by the source, want 5; away is %t", got, d.Stats().Away)
		}
		if diff := cmp.Diff([]string{"resume", "return", "take"}, source.events); diff != "" {
			t.Errorf("what was called (-want +got):\n%s", diff)
		}
		stop()
		source.want(t, "at the end", other, 5, 0)
		fallback.want(t, "at the end", other, 21, 0)
		if got := strings.Count(d.said.String(), "hits are taken again"); got != 1 {
			t.Errorf("it was logged %d times that the source is back, want once", got)
		}
	})
}

// TestFallback_GetsItsLeasesBack, even after the source is available again.
func TestFallback_GetsItsLeasesBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		source, fallback, linkID := newTally(), newTally(), id.New(id.Link)
		d := newDesk(source, fallback)
		source.fail(errGone)
		hold(t, d.Leases, linkID, 10, 100)
		fallback.want(t, "while the source is away", linkID, 10, 1)
		source.fail(nil)
		run(t, d.Leases)
		after(plentyLife + reapInterval)
		source.want(t, "after the lease's life", linkID, 0, 0)
		fallback.want(t, "after the lease's life", linkID, 0, 0)
	})
}

// TestFallback_IsRequiredDuringOutage: until the source is back.
func TestFallback_IsRequiredDuringOutage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		source, linkID := newTally(), id.New(id.Link)
		d := newDesk(source, nil)
		stop := run(t, d.Leases)
		source.fail(errGone)
		for range 3 {
			if got, err := tryTake(t.Context(), d.Leases, linkID, 5, 100); got != 0 || !errors.Is(err, errGone) ||
				!d.Stats().Away {
				t.Errorf("%d hits given without a source, away is %t: %v", got, d.Stats().Away, err)
			}
		}
		if got := strings.Count(d.said.String(), "cannot be taken: redirects are refused"); got != 1 {
			t.Errorf("it was logged %d times that the source has gone, want once", got)
		}
		source.fail(nil)
		if got := take(t, d.Leases, linkID, 5, 100); got != 5 { // before the source is known to be available
			t.Errorf("%d hits given, want 5", got)
		}
		after(abundantLife + 2*reapInterval)
		source.want(t, "after the lease's life", linkID, 5, 0)
		if d.Stats().Away {
			t.Error("the source is still thought to be away")
		}
		stop()
	})
}

// TestSource_RecoversUnansweredGrants: the source grants it, and then the answer gets lost.
func TestSource_RecoversUnansweredGrants(t *testing.T) {
	t.Parallel()
	for name, answered := range map[string]bool{"no answer": false, "an answer to some": true} {
		for _, fallback := range []*tally{nil, newTally()} {
			synctest.Test(t, func(t *testing.T) {
				source, linkID := newTally(), id.New(id.Link)
				d := newDesk(source, nil)
				if fallback != nil {
					d.Fallback = fallback
				}
				lost := 0
				source.taking = func(_ context.Context, requests []*Request) error {
					if lost++; lost > 1 {
						return nil
					}
					source.mu.Lock()
					defer source.mu.Unlock()
					for _, a := range requests {
						if source.grant(a); !answered {
							a.Granted, a.Left = 0, 0
						}
					}
					return errGone
				}
				var given int64
				var err error
				var waiting sync.WaitGroup
				waiting.Go(func() { given, err = tryTake(t.Context(), d.Leases, linkID, 3, 100) })
				synctest.Wait() // so that they share a request
				stop := run(t, d.Leases)
				waiting.Wait()
				if fallback == nil && (given != 0 || !errors.Is(err, errGone)) ||
					fallback != nil && (given != 3 || err != nil) {
					t.Errorf("%s, fallback %t: %d hits given: %v", name, fallback != nil, given, err)
				}
				after(2 * reapInterval)
				source.want(t, name+", when the source is back", linkID, 0, 0)
				stop()
			})
		}
	}
}

// TestFallback_FailureIsReported: callers receive an error, and hits that the fallback granted before
// its failure return to it.
func TestFallback_FailureIsReported(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		source, fallback, linkID := newTally(), newTally(), id.New(id.Link)
		d := newDesk(source, fallback)
		source.fail(errGone)
		broken := errors.New("broken")
		fallback.taking = func(_ context.Context, requests []*Request) error {
			fallback.mu.Lock()
			defer fallback.mu.Unlock()
			fallback.grant(requests[0])
			return broken
		}
		run(t, d.Leases)
		if got, err := tryTake(t.Context(), d.Leases, linkID, 3, 100); got != 0 || !errors.Is(err, broken) {
			t.Errorf("%d hits given: %v, want %v", got, err, broken)
		}
		after(2 * reapInterval)
		fallback.want(t, "then", linkID, 0, 0)
	})
}

// TestQuota_AnswersEveryWaiter: when the end comes while the source thinks, while requests wait for
// their turn, and after it.
func TestQuota_AnswersEveryWaiter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		source := newTally()
		d := newDesk(source, newTally())
		source.taking = func(ctx context.Context, _ []*Request) error {
			<-ctx.Done()
			return ctx.Err()
		}
		stop := run(t, d.Leases)
		var waiting sync.WaitGroup
		began := time.Now()
		for range 2 * maxBatch {
			linkID := id.New(id.Link)
			waiting.Go(func() {
				if got, err := tryTake(context.Background(), d.Leases, linkID, 2, 100); got != 0 || err == nil {
					t.Errorf("%d hits given: %v", got, err)
				}
			})
		}
		synctest.Wait()
		stop()
		waiting.Wait()
		if took := time.Since(began); took > 0 {
			t.Errorf("it took %s until everybody was told, want no time", took)
		}
		if _, ok, err := d.Take(context.Background(), id.New(id.Link), thisMonth(), 1, time.Now()); ok ||
			!errors.Is(err, errClosed) {
			t.Errorf("after the end: given %t: %v, want %v", ok, err, errClosed)
		}
		if d.Stats().Away {
			t.Error("the source was thought to be away because the end had come")
		}
	})
}

// TestQuota_CancelledCallerDelaysNobody: a hit whose caller has gone is available to others.
func TestQuota_CancelledCallerDelaysNobody(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		source, linkID := newTally(), id.New(id.Link)
		d := newDesk(source, nil)
		source.taking = func(context.Context, []*Request) error { time.Sleep(time.Second); return nil }
		stop := run(t, d.Leases)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if got, err := tryTake(ctx, d.Leases, linkID, 3, 10); got != 0 || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%d hits given: %v, want %v", got, err, context.DeadlineExceeded)
		}
		if got := take(t, d.Leases, linkID, 2, 10); got != 2 {
			t.Errorf("%d hits given, want 2", got)
		}
		stop()
		source.want(t, "at the end", linkID, 2, 0)
	})
}

// TestSource_HangingIsAbandoned: then the fallback counts.
func TestSource_HangingIsAbandoned(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		source, fallback, linkID := newTally(), newTally(), id.New(id.Link)
		d := newDesk(source, fallback)
		source.taking = func(ctx context.Context, _ []*Request) error {
			<-ctx.Done()
			return ctx.Err()
		}
		run(t, d.Leases)
		began := time.Now()
		if got := take(t, d.Leases, linkID, 3, 10); got != 3 {
			t.Errorf("%d hits given, want 3", got)
		}
		if took := time.Since(began); took != sourceDeadline {
			t.Errorf("it took %s, want %s", took, sourceDeadline)
		}
		fallback.want(t, "then", linkID, 3, len(fallback.open))
	})
}
