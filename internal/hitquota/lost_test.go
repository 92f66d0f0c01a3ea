package hitquota

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/linkforge/linkforge/internal/id"
)

// forgetful is a source that has lost all counters that it was not seeded with.
type forgetful struct {
	*tally
	seeded  map[string]bool
	asked   []string
	seeding func(ctx context.Context) error
}

func newForgetful() *forgetful {
	c := &forgetful{tally: newTally(), seeded: map[string]bool{}}
	c.seeding = func(context.Context) error { return nil }
	return c
}

func (c *forgetful) Take(_ context.Context, requests []*Request) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, a := range requests {
		if !c.seeded[a.LinkID] {
			a.Err = ErrLost
			continue
		}
		c.grant(a)
	}
	return nil
}

func (c *forgetful) Seed(ctx context.Context, requests []*Request) error {
	if err := c.seeding(ctx); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, a := range requests {
		c.seeded[a.LinkID] = true
		c.asked = append(c.asked, fmt.Sprintf("%s known %t", a.LinkID, a.Known))
	}
	return nil
}

// lose forgets a counter.
func (c *forgetful) lose(linkID string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.seeded, linkID)
}

// TestQuota_SeedsBeforeGranting: once, with the known hits of the link.
func TestQuota_SeedsBeforeGranting(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		source, linkID := newForgetful(), id.New(id.Link)
		d := newDesk(source, nil)
		stop := run(t, d.Leases)
		if got := take(t, d.Leases, linkID, 20, 10); got != 10 {
			t.Errorf("%d hits given, want 10", got)
		}
		source.lose(linkID)
		after(refusedLife)
		if got := take(t, d.Leases, linkID, 20, 30); got != 20 {
			t.Errorf("%d hits given after a loss, want 20", got)
		}
		if diff := cmp.Diff([]string{linkID + " known false", linkID + " known true"}, source.asked); diff != "" {
			t.Errorf("seeds (-want +got):\n%s", diff)
		}
		stop()
		source.want(t, "at the end", linkID, 30, 0)
	})
}

// TestQuota_SeedingDelaysNoOtherLink: the database may take its time.
func TestQuota_SeedingDelaysNoOtherLink(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		source, lost, other := newForgetful(), id.New(id.Link), id.New(id.Link)
		source.seeded[other] = true
		source.seeding = func(context.Context) error { time.Sleep(time.Second); return nil }
		d := newDesk(source, nil)
		run(t, d.Leases)
		told := make(chan int64, 1)
		began := time.Now()
		go func() { told <- take(t, d.Leases, lost, 5, 10) }()
		synctest.Wait()
		if got := take(t, d.Leases, other, 5, 10); got != 5 || time.Since(began) > 0 {
			t.Errorf("%d hits of another link given after %s, want 5 at once", got, time.Since(began))
		}
		if got := <-told; got != 5 || time.Since(began) > 2*time.Second {
			t.Errorf("%d hits given after %s, want 5 after a second", got, time.Since(began))
		}
	})
}

// TestQuota_ReportsAFailedSeed is refused with the reason, and nothing is granted.
func TestQuota_ReportsAFailedSeed(t *testing.T) {
	t.Parallel()
	broken := errors.New("the database is away")
	for name, c := range map[string]struct {
		seeding func(ctx context.Context, source *forgetful, linkID string) error
		want    error
		took    time.Duration
	}{
		"the database fails": {func(context.Context, *forgetful, string) error { return broken }, broken, 0},
		"the database hangs": {func(ctx context.Context, _ *forgetful, _ string) error {
			<-ctx.Done()
			return ctx.Err()
		}, context.DeadlineExceeded, sourceDeadline},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				source, linkID := newForgetful(), id.New(id.Link)
				source.seeding = func(ctx context.Context) error { return c.seeding(ctx, source, linkID) }
				d := newDesk(source, nil)
				run(t, d.Leases)
				began := time.Now()
				if got, err := tryTake(t.Context(), d.Leases, linkID, 3, 10); got != 0 || !errors.Is(err, c.want) ||
					time.Since(began) != c.took {
					t.Errorf("%d hits given after %s: %v, want %v after %s", got, time.Since(began), err, c.want,
						c.took)
				}
				source.want(t, name, linkID, 0, 0)
			})
		})
	}
}

// vanishing is a source whose counters vanish again and again.
type vanishing struct {
	*forgetful
	times int
}

func (c *vanishing) Seed(ctx context.Context, requests []*Request) error {
	if c.times--; c.times >= 0 {
		return nil
	}
	return c.forgetful.Seed(ctx, requests)
}

func TestQuota_SeedsARepeatedLoss(t *testing.T) {
	t.Parallel()
	for times, want := range map[int]int64{seedRounds - 1: 3, seedRounds: 0} {
		synctest.Test(t, func(t *testing.T) {
			linkID := id.New(id.Link)
			d := newDesk(&vanishing{newForgetful(), times}, nil)
			run(t, d.Leases)
			got, err := tryTake(t.Context(), d.Leases, linkID, 3, 10)
			if got != want || want == 0 && !errors.Is(err, ErrLost) || want > 0 && err != nil {
				t.Errorf("vanished %d times: %d hits given, want %d: %v", times, got, want, err)
			}
		})
	}
}

// TestQuota_ClosesDuringSeeding: waiting callers receive an error.
func TestQuota_ClosesDuringSeeding(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		source := newForgetful()
		source.seeding = func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		}
		d := newDesk(source, nil)
		stop := run(t, d.Leases)
		told := make(chan error, 1)
		go func() {
			_, err := tryTake(context.Background(), d.Leases, id.New(id.Link), 3, 10)
			told <- err
		}()
		synctest.Wait()
		stop()
		if err := <-told; !errors.Is(err, context.Canceled) {
			t.Errorf("told %v, want %v", err, context.Canceled)
		}
	})
}

// TestQuota_ForgetsIdleLinks, but not as long as the database may lack clicks of theirs: a
// counter that is lost then must know of them.
func TestQuota_ForgetsIdleLinks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		source, linkID := newForgetful(), id.New(id.Link)
		d := newDesk(source, nil)
		run(t, d.Leases)
		var want []string
		for _, c := range []struct {
			lag   time.Duration
			known bool
		}{
			{0, false}, {idleLife, false}, {idleLife, true}, {0, true}, {0, false},
		} {
			source.lose(linkID)
			take(t, d.Leases, linkID, 1, 2*maxLeaseHits)
			want = append(want, fmt.Sprintf("%s known %t", linkID, c.known))
			d.lag.Store(int64(c.lag)) // until the next round
			after(abundantLife + idleLife + 2*reapInterval)
		}
		if !slices.Equal(want, source.asked) {
			t.Errorf("seeds (-want +got):\n%s", cmp.Diff(want, source.asked))
		}
	})
}

// TestQuota_PinsBeforeEveryOpenLease: held ones, requested ones, and those that could not be
// returned. The process that adopts the log has to find them in it.
func TestQuota_PinsBeforeEveryOpenLease(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		source, linkID, other := newTally(), id.New(id.Link), id.New(id.Link)
		d := newDesk(source, nil)
		pin := func(when string, want int64) {
			t.Helper()
			d.end.Add(100) // clicks
			if d.reap(t.Context(), false); want < 0 {
				want = d.end.Load()
			}
			if got := d.Pin(); got != want {
				t.Errorf("%s: the pin is %d of %d, want %d", when, got, d.end.Load(), want)
			}
		}
		pin("nothing was taken", -1)
		first := d.end.Load()
		hold(t, d.Leases, linkID, 3, 3)
		pin("a lease is held", first)
		second := d.end.Load()
		hold(t, d.Leases, other, 3, 3)
		pin("two leases are held", first)
		if got := take(t, d.Leases, linkID, 3, 3); got != 3 {
			t.Errorf("%d hits given, want 3", got)
		}
		pin("the first is used up", second)
		source.fail(errGone)
		after(nearLife)
		pin("the second cannot be given back", second)
		source.fail(nil)
		pin("the second is given back", -1)

		third := d.end.Load()
		source.taking = func(context.Context, []*Request) error { pin("a lease is being taken", third); return nil }
		hold(t, d.Leases, linkID, 1, 9)
		source.taking = nil
		pin("it was taken", third)
	})
}

// TestQuota_UnloggedLeasesPinNothing: they need not return.
func TestQuota_UnloggedLeasesPinNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(newTally(), nil)
		d.Note = nil
		d.end.Store(1000)
		hold(t, d.Leases, id.New(id.Link), 10, 100)
		d.reap(t.Context(), false)
		if got := d.Pin(); got != 1000 || d.Stats().Open != 1 {
			t.Errorf("the pin is %d with %d leases open, want 1000 with one", got, d.Stats().Open)
		}
	})
}
