package feed

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/errs/errstest"
	"github.com/linkforge/linkforge/internal/platform/feed/feedtest"
	"github.com/linkforge/linkforge/internal/platform/wanttest"
)

// numbers is a log with one number for each position, of two workspaces in turn.
type numbers struct {
	mu sync.Mutex
	// size is the number of items; those up to final are returned.
	size, final int
	reads       int
	err         error
}

// itemsPerRead is the number of items of one read.
const itemsPerRead = 100

func (n *numbers) After(_ context.Context, after Position, workspaceIDs []string) (s Step[int], err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.reads++
	if n.err != nil {
		return s, n.err
	}
	s.Reached = after
	for i := int(after.Seq) + 1; i <= min(n.final, n.size); i++ {
		if len(s.Items) == itemsPerRead {
			s.More = true
			break
		}
		s.Reached = Position{Seq: int64(i)}
		if workspaceID := workspaceOf(i); slices.Contains(workspaceIDs, workspaceID) {
			s.Items = append(s.Items, Item[int]{Value: i, WorkspaceID: workspaceID, Position: s.Reached})
		}
	}
	return s, nil
}

func workspaceOf(i int) string { return []string{"even", "odd"}[i%2] }

// add appends items that are all final.
func (n *numbers) add(count int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.size += count
	n.final = n.size
}

// addUnfinal appends items that are not returned yet.
func (n *numbers) addUnfinal(count int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.size += count
}

func (n *numbers) length() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.size
}

func (n *numbers) setErr(err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.err = err
}

func (n *numbers) countReads() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.reads
}

// run runs a Live of the log until the test's end, in a bubble of synctest.
func run(t *testing.T, n *numbers) *Live[int] {
	t.Helper()
	l := NewLive(n, time.Now, slog.New(slog.DiscardHandler), "reading failed")
	feedtest.Run(t, l, time.Now)
	return l
}

// watch returns a watch of the even numbers after a position.
func watch(l *Live[int], n *numbers, after int) *Watch[int] {
	return l.Watch(Subject[int]{WorkspaceID: "even", Log: n, Wants: func(int) bool { return true }},
		Position{Seq: int64(after)}, after == n.length())
}

// receive returns the next items of a watch.
func receive(t *testing.T, w *Watch[int], count int) (items []int) {
	t.Helper()
	for range count {
		item, err := w.Next(t.Context())
		if err != nil {
			t.Fatalf("after %v: %v", items, err)
		}
		items = append(items, item)
	}
	return items
}

// expectNone fails if an item is delivered during two polls. It attaches the watch.
func expectNone(t *testing.T, w *Watch[int]) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*feedtest.Interval)
	defer cancel()
	if item, err := w.Next(ctx); err == nil {
		t.Errorf("received %d, want no further item", item)
	}
}

func evens(from, to int) (all []int) {
	for i := from; i <= to; i += 2 {
		all = append(all, i)
	}
	return all
}

// TestLive_SlowWatchDelaysNoOther: a watch that does not read fills its buffer. When it resumes, it
// receives the items that it missed.
func TestLive_SlowWatchDelaysNoOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := &numbers{}
		l := run(t, n)
		slow, fast := watch(l, n, 0), watch(l, n, 0)
		expectNone(t, slow)
		const last = 6 * watchBuffer
		n.add(last)
		wanttest.Equal(t, evens(2, last), receive(t, fast, last/2), "the fast watch")
		if slow.buffer == nil || len(slow.buffer) != watchBuffer {
			t.Errorf("%d items are buffered, want %d", len(slow.buffer), watchBuffer)
		}
		wanttest.Equal(t, evens(2, last), receive(t, slow, last/2), "the slow watch")
		expectNone(t, slow)
		n.add(2)
		wanttest.Equal(t, []int{last + 2}, receive(t, slow, 1), "when it is attached again")
	})
}

// TestLive_ReadsOnceForAllWatches, and not at all without any.
func TestLive_ReadsOnceForAllWatches(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := &numbers{}
		l := run(t, n)
		time.Sleep(time.Minute)
		if reads := n.countReads(); reads != 0 {
			t.Errorf("%d reads without a watch", reads)
		}
		watches := []*Watch[int]{watch(l, n, 0), watch(l, n, 0), watch(l, n, 0)}
		var receiving sync.WaitGroup
		for _, w := range watches {
			receiving.Go(func() { receive(t, w, 1) })
		}
		synctest.Wait()
		before := n.countReads()
		time.Sleep(time.Second)
		if polls := n.countReads() - before; polls == 0 || polls > int(time.Second/feedtest.Interval) {
			t.Errorf("%d reads in a second", polls)
		}
		if s := l.Stats(); s.Watches != len(watches) || s.Lag > feedtest.Interval {
			t.Errorf("got %+v", s)
		}
		n.add(2)
		receiving.Wait()
		for _, w := range watches {
			w.Close()
		}
		before = n.countReads()
		time.Sleep(time.Minute)
		if n.countReads() != before || l.Stats() != (Stats{}) {
			t.Errorf("%d reads after the last watch: %+v", n.countReads()-before, l.Stats())
		}
	})
}

// TestWatch_StartsAfterItsCursor: wherever the attached watches are.
func TestWatch_StartsAfterItsCursor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := &numbers{}
		l := run(t, n)
		n.add(500)
		whole := watch(l, n, 0)
		receive(t, whole, 250)
		expectNone(t, whole)
		for _, after := range []int{0, 100, 499, 500} {
			w := watch(l, n, after)
			receive(t, w, (501-after)/2)
			expectNone(t, w)
		}
	})
}

// TestWatch_StartsAfterItemThatIsNotFinal: items after it follow, and it is not repeated. Other
// watches wait between their reads meanwhile.
func TestWatch_StartsAfterItemThatIsNotFinal(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := &numbers{}
		n.addUnfinal(4)
		l := run(t, n)
		ahead, behind := l.Watch(watch(l, n, 2).Subject, Position{Seq: 2}, true), watch(l, n, 0)
		expectNone(t, ahead)
		before := n.countReads()
		expectNone(t, behind)
		// Live and the watch each read at the start and the end of two intervals, and between; the
		// watch reads twice at the start.
		if reads := n.countReads() - before; reads > 3+4 {
			t.Errorf("%d reads while it waits", reads)
		}
		n.add(0)
		wanttest.Equal(t, []int{4}, receive(t, ahead, 1), "ahead")
		wanttest.Equal(t, []int{2, 4}, receive(t, behind, 2), "behind")
	})
}

// TestWatch_WaitsWhileTheLogIsUnavailable, and ends when items may have been deleted.
func TestWatch_WaitsWhileTheLogIsUnavailable(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := &numbers{}
		l := run(t, n)
		n.add(2)
		attached, reading := watch(l, n, 2), watch(l, n, 0)
		expectNone(t, attached)
		n.setErr(errors.New("unavailable"))
		n.add(2)
		expectNone(t, attached)
		expectNone(t, reading)
		n.setErr(nil)
		receive(t, attached, 1)
		receive(t, reading, 2)
		n.setErr(errs.New(errs.Expired, "too late"))
		for _, w := range []*Watch[int]{attached, reading} {
			errstest.Want(t, errs.Expired, "the error")(w.Next(t.Context()))
		}
	})
}
