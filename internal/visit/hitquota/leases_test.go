package hitquota

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/click"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/id"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/poll"
	"github.com/linkforge/linkforge/internal/platform/redisx"
)

var errGone = errs.New(errs.Unavailable, "the source is unavailable")

var discard = slog.New(slog.DiscardHandler)

// tally are Counters in memory that a test can take away.
type tally struct {
	mu      sync.Mutex
	used    map[string]int64 // by link and month
	outage  map[string]int64 // how many of them are of outage leases
	open    map[int64]int64  // hits of leases, by their numbers
	wants   []int64
	failing error // what every call returns
	losses  atomic.Int64
	taking  func(ctx context.Context, requests []*Request) error
	// returning is called before leases return.
	returning func()
}

func newTally() *tally {
	return &tally{used: map[string]int64{}, outage: map[string]int64{}, open: map[int64]int64{}}
}

func (c *tally) IsDown() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.failing != nil
}

// Take grants what there is, also of requests whose answer gets lost.
func (c *tally) Take(ctx context.Context, requests []*Request) int64 {
	var err error
	if c.taking != nil {
		err = c.taking(ctx, requests)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil {
		err = c.failing
	}
	for _, a := range requests {
		if a.Err = err; err == nil {
			c.grant(a)
		}
	}
	return c.Epoch()
}

func (c *tally) grant(a *Request) {
	key := a.LinkID + a.Month.String()
	before, ok := c.used[key]
	a.Granted, a.NeedsFloor, a.Exists = 0, a.MustExist && !ok, false
	if a.NeedsFloor {
		return
	}
	if !ok {
		c.outage[key] = a.Outage
	}
	used := max(before+max(0, a.Outage-c.outage[key]), a.Floor)
	granted := max(0, min(a.Want, a.Limit-used))
	if a.MustExist && !a.IsBlind && granted > 0 && used+granted > a.Limit/2 {
		a.NeedsFloor, a.Exists = true, true
		return
	}
	c.wants = append(c.wants, a.Want)
	c.used[key], c.outage[key] = used, max(c.outage[key], a.Outage)
	a.Granted = granted
	c.used[key] += a.Granted
	a.Remaining = max(0, a.Limit-c.used[key])
	for _, l := range a.Open {
		c.open[l.Number] = l.Hits
	}
	if a.Granted > 0 {
		c.open[a.Number] = a.Granted
	}
}

func (c *tally) Return(_ context.Context, _ string, leases []Lease) error {
	if c.returning != nil {
		c.returning()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failing != nil {
		return c.failing
	}
	for _, l := range leases {
		if hits, ok := c.open[l.Number]; ok {
			c.used[l.LinkID+l.Month.String()] -= hits - l.Used
			delete(c.open, l.Number)
		}
	}
	return nil
}

func (c *tally) Used(context.Context, click.Month, []string) (map[string]int64, error) {
	return nil, nil
}

func (c *tally) Epoch() int64 { return 1 + c.losses.Load() }

func (c *tally) Since() time.Time { return time.Time{} }

// fail makes every call return the error; nil ends that.
func (c *tally) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failing = err
}

// want checks the number of taken hits and open leases of a link.
func (c *tally) want(t *testing.T, when, linkID string, hits int64, leases int) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if got := c.used[linkID+thisMonth().String()]; got != hits || len(c.open) != leases {
		t.Errorf("%s: %d hits are taken and %d leases open, want %d and %d", when, got, len(c.open), hits, leases)
	}
}

// desk is Leases whose log is the test's.
type desk struct {
	*Leases
	testLog
	said bytes.Buffer
}

// testLog is a click log.
type testLog struct {
	end     atomic.Int64
	room    int64
	isFull  bool
	waiting map[string]click.MonthCount
	onFlush func()
	onNote  func()
}

func (l *testLog) Flush(context.Context) error {
	if l.onFlush != nil {
		l.onFlush()
	}
	return nil
}

func (*testLog) LogID() string                           { return "log_1" }
func (l *testLog) Span() (ingested, end, capacity int64) { return l.end.Load(), l.end.Load(), l.room }

func (l *testLog) Note(Lease) error {
	if l.isFull {
		return errGone
	}
	if l.onNote != nil {
		l.onNote()
	}
	l.end.Add(10)
	return nil
}

func (l *testLog) Waiting(int64, time.Time) (map[string]click.MonthCount, error) {
	return l.waiting, nil
}

// clicksFunc counts clicks in the database.
type clicksFunc func(linkIDs []string) (map[string]int64, error)

func (f clicksFunc) Since(
	_ context.Context, _ string, linkIDs []string, _ click.Month,
) (map[string]click.MonthCount, int64, error) {
	clicks, err := f(linkIDs)
	counts := map[string]click.MonthCount{}
	for linkID, n := range clicks {
		counts[linkID] = click.MonthCount{Clicks: n}
	}
	return counts, 0, err
}

func (f clicksFunc) Counts(_ context.Context, _ bun.IDB, linkIDs ...string) (map[string]int64, error) {
	return f(linkIDs)
}

// slowly counts clicks after a while.
type slowly struct {
	Clicks
	after time.Duration
}

func (s slowly) Since(
	ctx context.Context, logID string, linkIDs []string, m click.Month,
) (map[string]click.MonthCount, int64, error) {
	if err := poll.Wait(ctx, s.after); err != nil {
		return nil, 0, err
	}
	return s.Clicks.Since(ctx, logID, linkIDs, m)
}

func noClicks([]string) (map[string]int64, error) { return nil, nil }

func noLogs(click.Month) (map[string]click.MonthCount, error) { return nil, nil }

func newDesk(source Counters) *desk {
	d := &desk{}
	d.Leases = NewLeases(Config{
		ClickLog: &d.testLog, Clicks: clicksFunc(noClicks), Now: time.Now,
		Log: slog.New(slog.NewTextHandler(&d.said, nil)),
	}, source)
	_ = d.Carry(context.Background(), noLogs) // nothing to fail
	return d
}

// inBubble runs the test of a link with a desk, in a bubble with a clock of its own.
func inBubble(t *testing.T, test func(t *testing.T, source *tally, d *desk, linkID string)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		source := newTally()
		test(t, source, newDesk(source), id.New(id.Link))
	})
}

// run runs leases until the test's end, or until the function that it returns is called.
func run(t *testing.T, l *Leases) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := l.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	stop = func() {
		cancel()
		running.Wait()
	}
	t.Cleanup(stop)
	return stop
}

// take takes n hits at once, and returns how many were given.
func take(t *testing.T, l *Leases, linkID string, n int, limit int64) int64 {
	t.Helper()
	given, err := tryTake(t.Context(), l, linkID, n, limit)
	if err != nil {
		t.Error(err)
	}
	return given
}

// tryTake is take where it may fail: it returns one of the errors.
func tryTake(ctx context.Context, l *Leases, linkID string, n int, limit int64) (int64, error) {
	var given atomic.Int64
	var failed atomic.Pointer[error]
	var all sync.WaitGroup
	for range n {
		all.Go(func() {
			hit, ok, err := l.Take(ctx, &Claim{LinkID: linkID, Month: thisMonth(), Limit: limit}, l.Now())
			if ok && hit.LeaseNumber() == 0 {
				err = errors.New("a hit of no lease")
			}
			hit.Commit(0)
			if ok {
				given.Add(1)
			}
			if err != nil {
				failed.Store(&err)
			}
		})
	}
	all.Wait()
	if err := failed.Load(); err != nil {
		return given.Load(), *err
	}
	return given.Load(), nil
}

// takeHit takes one hit.
func takeHit(t *testing.T, d *desk, linkID string, m click.Month, limit int64) Hit {
	t.Helper()
	hit, ok, err := d.Take(t.Context(), &Claim{LinkID: linkID, Month: m, Limit: limit}, time.Now())
	if !ok || err != nil {
		t.Fatalf("taking a hit of %s returned %t, %v", m, ok, err)
	}
	return hit
}

// hold leaves n hits in a lease, whose callers have gone.
func hold(t *testing.T, l *Leases, linkID string, n int, limit int64) {
	t.Helper()
	key := must.Value(keyOf(linkID, thisMonth()))(t)
	for range n {
		_, _, wait, isFirst := l.try(&key, &Claim{LinkID: linkID, Month: thisMonth(), Limit: limit},
			l.Now().UnixMilli())
		if isFirst {
			defer l.requesting.Wait()
			defer l.enqueue(wait)
		}
	}
}

// after lets time pass, and everything that happens meanwhile.
func after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// TestQuota_TakesSingleHitsNearTheLimit: so that no node holds what another lacks.
func TestQuota_TakesSingleHitsNearTheLimit(t *testing.T) {
	inBubble(t, func(t *testing.T, source *tally, d *desk, linkID string) {
		run(t, d.Leases)
		const limit = 10_000
		left := int64(limit)
		for most := int64(0); left > 0; {
			before := len(source.wants)
			left -= take(t, d.Leases, linkID, 1, limit)
			for _, want := range source.wants[before:] {
				if allowed := max(1, min(maxLeaseHits, left/minShareDivisor+1)); want > allowed {
					t.Fatalf("%d were wanted when %d were left, want %d at most", want, left, allowed)
				}
				most = max(most, want)
			}
			if left == limit/2 && most < 300 {
				t.Errorf("%d were wanted at most, want hundreds for a busy link", most)
			}
		}
	})
}

// TestQuota_ReturnsIdleLeases: soon when few are left, and within minutes in any case.
func TestQuota_ReturnsIdleLeases(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		limit int64
		life  time.Duration
	}{
		{20, nearLife}, {30, nearLife}, {100, plentyLife}, {300, abundantLife},
	} {
		t.Run(fmt.Sprint("limit ", c.limit), func(t *testing.T) {
			inBubble(t, func(t *testing.T, source *tally, idle *desk, linkID string) {
				other := newDesk(source)
				other.numbers.Store(1000)
				hold(t, idle.Leases, linkID, 20, c.limit)
				run(t, idle.Leases)
				run(t, other.Leases)
				after(c.life - time.Millisecond)
				source.want(t, "within its life", linkID, 20, 1)
				if s := idle.Stats(); s.Open != 1 || s.Unused != 20 {
					t.Errorf("%+v, want 20 hits held", s)
				}
				after(time.Millisecond + reapInterval)
				source.want(t, "after its life", linkID, 0, 0)
				if got := take(t, other.Leases, linkID, 400, c.limit); got != c.limit {
					t.Errorf("%d hits given to another node, want all of the %d", got, c.limit)
				}
			})
		})
	}
}

// TestQuota_SizesLeasesByDemand while it may be kept: links that are followed now and then
// seldom ask.
func TestQuota_SizesLeasesByDemand(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		every time.Duration
		limit int64
		most  int // requests in half an hour
	}{
		{5 * time.Second, 1 << 40, 31}, {time.Minute, 1 << 40, 12}, {20 * time.Minute, 1 << 40, 2},
		{5 * time.Second, 400, 360},
	} {
		t.Run(fmt.Sprintf("a hit every %s, limit %d", c.every, c.limit), func(t *testing.T) {
			inBubble(t, func(t *testing.T, source *tally, d *desk, linkID string) {
				stop := run(t, d.Leases)
				taken := int64(0)
				for began := time.Now(); time.Since(began) < 30*time.Minute; after(c.every) {
					taken += take(t, d.Leases, linkID, 1, c.limit)
				}
				if got := len(source.wants); got > c.most {
					t.Errorf("followed every %s it asked %d times, want %d at most", c.every, got, c.most)
				}
				stop()
				source.want(t, "at the end", linkID, taken, 0)
			})
		})
	}
}

// crowd holds a hit of each of n other links in the shard of one.
func crowd(t *testing.T, l *Leases, linkID string, n int) {
	t.Helper()
	beside := func(linkID string) *shard {
		key := must.Value(keyOf(linkID, thisMonth()))(t)
		return l.shard(&key)
	}
	for n > 0 {
		if other := id.New(id.Link); beside(other) == beside(linkID) {
			hold(t, l, other, 1, 1<<40)
			n--
		}
	}
}

// TestQuota_EndsLeasesAmongMany: those of a crowded place are looked through now and then, but one
// that lives shortly, or that keeps too much of the log, ends in time.
func TestQuota_EndsLeasesAmongMany(t *testing.T) {
	t.Parallel()
	const others = 2 * minScanLinks
	for name, c := range map[string]struct {
		limit      int64
		keep, late time.Duration
		recorded   int64 // in the log meanwhile
	}{
		"near the limit":     {20, nearLife, reapInterval, 0},
		"plenty":             {100, plentyLife, scanTurns * reapInterval, 0},
		"plenty, a full log": {100, time.Second, 2 * reapInterval, 1 << 19},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, source *tally, d *desk, linkID string) {
				d.room = 1 << 20
				hold(t, d.Leases, linkID, 20, c.limit)
				crowd(t, d.Leases, linkID, others)
				stop := run(t, d.Leases)
				after(c.keep - time.Millisecond)
				source.want(t, name+": within its life", linkID, 20, others+1)
				if s := d.Stats(); s.Open != others+1 || s.Unused != others+20 || d.Pin() > 10 {
					t.Errorf("%+v and the log from %d on, want the first of %d leases in it", s, d.Pin(),
						others+1)
				}
				d.end.Add(c.recorded)
				after(time.Millisecond + c.late)
				if source.mu.Lock(); source.used[linkID+thisMonth().String()] != 0 {
					t.Error("its hits were not given back")
				}
				source.mu.Unlock()
				after(scanTurns * reapInterval)
				if d.Pin() < 10 {
					t.Errorf("the log is kept from %d on, though the lease has ended", d.Pin())
				}
				before := d.Stats().Unused
				used := take(t, d.Leases, linkID, 1, 1<<40)
				if after(reapInterval); d.Stats().Unused != before+1-used {
					t.Errorf("%d hits are held, want %d: the one that was taken is used", d.Stats().Unused, before)
				}
				stop()
				source.want(t, name+": at the end", linkID, used, 0)
			})
		})
	}
}

// TestQuota_RefusesQuickly: hits that another node returns are found soon.
func TestQuota_RefusesQuickly(t *testing.T) {
	inBubble(t, func(t *testing.T, source *tally, d *desk, linkID string) {
		run(t, d.Leases)
		if got := take(t, d.Leases, linkID, 9, 5); got != 5 {
			t.Errorf("%d hits given, want 5", got)
		}
		asked := len(source.wants)
		if got := take(t, d.Leases, linkID, 100, 50); got != 0 || len(source.wants) != asked {
			t.Errorf("%d hits given at once, by %d requests, want none", got, len(source.wants)-asked)
		}
		after(refusedLife)
		if got := take(t, d.Leases, linkID, 100, 50); got != 45 {
			t.Errorf("%d hits given when the limit was raised, want the other 45", got)
		}
		after(refusedLife)
		if got := take(t, d.Leases, linkID, 10, 20); got != 0 {
			t.Errorf("%d hits given when the limit was lowered, want none", got)
		}
		source.want(t, "then", linkID, 50, 0)
		d.Now = func() time.Time { return time.Now().Add(-time.Hour) }
		if got := take(t, d.Leases, linkID, 1, 60); got != 1 {
			t.Errorf("%d hits given after the clock was set back, want 1", got)
		}
	})
}

// TestHit_SettlesOnce: for every way to settle hits, the source counts exactly the committed ones,
// even if their lease has been replaced or has ended.
func TestHit_SettlesOnce(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		settle func(d *desk, linkID string, h *Hit)
		used   int64 // of a limit of 3; another node uses 2
	}{
		"committed, released later": {func(_ *desk, _ string, h *Hit) { h.Commit(0); h.Release() }, 3},
		"released twice":            {func(_ *desk, _ string, h *Hit) { h.Release(); h.Release() }, 2},
		"released after the lease": {func(_ *desk, _ string, h *Hit) { after(nearLife + 2*reapInterval); h.Release() },
			2},
		"committed after the lease": {func(_ *desk, _ string, h *Hit) {
			after(nearLife + 2*reapInterval)
			h.Commit(0)
		}, 3},
		"released after a replacement": {func(d *desk, linkID string, h *Hit) {
			_, _ = tryTake(context.Background(), d.Leases, linkID, 1, 3) // which is refused
			h.Release()
		}, 2},
		"the zero hit": {func(_ *desk, _ string, h *Hit) {
			new(Hit).Release()
			new(Hit).Commit(0)
			h.Release()
		}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, source *tally, d *desk, linkID string) {
				hold(t, d.Leases, linkID, 3, 3)
				stop := run(t, d.Leases)
				hit := takeHit(t, d, linkID, thisMonth(), 3)
				if got := take(t, d.Leases, linkID, 2, 3); got != 2 {
					t.Fatalf("%d hits taken, want 2", got)
				}
				c.settle(d, linkID, &hit)
				after(nearLife + 2*reapInterval)
				source.want(t, "when the lease is over", linkID, c.used, 0)
				if got := take(t, d.Leases, linkID, 5, 3); got != 3-c.used {
					t.Errorf("%d hits taken then, want %d", got, 3-c.used)
				}
				stop()
				source.want(t, "at the end", linkID, 3, 0)
			})
		})
	}
}

// TestLeases_PinTheLogWhileHitsArePending: the click of a hit may still be recorded, so the log
// keeps the lease's record.
func TestLeases_PinTheLogWhileHitsArePending(t *testing.T) {
	inBubble(t, func(t *testing.T, source *tally, d *desk, linkID string) {
		run(t, d.Leases)
		hit := takeHit(t, d, linkID, thisMonth(), 3)
		d.end.Add(1000)
		after(nearLife + 2*reapInterval)
		source.want(t, "while its hit is pending", linkID, 1, 1)
		if d.Pin() != 0 {
			t.Errorf("the log is kept from %d on, want 0", d.Pin())
		}
		hit.Commit(0)
		after(2 * reapInterval)
		source.want(t, "when it is settled", linkID, 1, 0)
		if d.Pin() != d.end.Load() {
			t.Errorf("the log is kept from %d on, want %d", d.Pin(), d.end.Load())
		}
	})
}

// TestLeases_CountHitsOnTheirWay: the bound contains hits that are granted or returned at the
// moment.
func TestLeases_CountHitsOnTheirWay(t *testing.T) {
	t.Parallel()
	source := newTally()
	d := newDesk(source)
	check := func() {
		if s := d.Stats(); s.Unused != 3 {
			t.Errorf("%+v, want 3 unused hits", s)
		}
	}
	source.taking, source.returning = func(context.Context, []*Request) error { check(); return nil }, check
	hold(t, d.Leases, id.New(id.Link), 3, 10)
	check()
	d.reap(t.Context(), true)
	if s := d.Stats(); s.Unused != 0 || s.Returned != 3 {
		t.Errorf("%+v at the end, want 3 returned hits", s)
	}
}

// TestLeases_ReturnEverythingAfterAnOutage: however many leases end while the source is down.
func TestLeases_ReturnEverythingAfterAnOutage(t *testing.T) {
	inBubble(t, func(t *testing.T, source *tally, d *desk, _ string) {
		const links = 3*takeBatch + 1
		for range links {
			hold(t, d.Leases, id.New(id.Link), 1, 1000)
		}
		source.fail(errGone)
		stop := run(t, d.Leases)
		after(abundantLife + time.Minute)
		if got := d.Stats(); got.Returned != 0 {
			t.Errorf("%d hits returned while the source is down", got.Returned)
		}
		source.fail(nil)
		after(2 * reapInterval)
		if got := d.Stats(); got.Returned != links || len(source.open) != 0 {
			t.Errorf("%d hits returned and %d leases open, want %d and 0", got.Returned, len(source.open), links)
		}
		stop()
	})
}

func TestQuota_CountsMonthsSeparately(t *testing.T) {
	inBubble(t, func(t *testing.T, source *tally, d *desk, linkID string) {
		january := thisMonth()
		hold(t, d.Leases, linkID, 5, 10)
		stop := run(t, d.Leases)
		february := january + 1
		// requests that are late, and clocks that differ
		for _, m := range []click.Month{january, february, january, february, february, february} {
			hit := takeHit(t, d, linkID, m, 10)
			hit.Commit(0)
		}
		stop()
		want := map[string]int64{linkID + january.String(): 2, linkID + february.String(): 4}
		if diff := cmp.Diff(want, source.used); diff != "" || len(source.open) > 0 {
			t.Errorf("%d leases are open; used (-want +got):\n%s", len(source.open), diff)
		}
	})
}

func TestQuota_ServesManyLinksConcurrently(t *testing.T) {
	inBubble(t, func(t *testing.T, source *tally, d *desk, _ string) {
		var tooMany atomic.Int64
		source.taking = func(_ context.Context, requests []*Request) error {
			if len(requests) > takeBatch {
				tooMany.Store(int64(len(requests)))
			}
			return nil
		}
		stop := run(t, d.Leases)
		var all sync.WaitGroup
		for range 3 * takeBatch {
			linkID := id.New(id.Link)
			all.Go(func() {
				if got := take(t, d.Leases, linkID, 3, 2); got != 2 {
					t.Errorf("%d hits given, want 2", got)
				}
			})
		}
		all.Wait()
		if n := tooMany.Load(); n > 0 {
			t.Errorf("%d were asked for at once, want %d at most", n, takeBatch)
		}
		stop()
		if len(source.open) > 0 {
			t.Errorf("%d leases are open at the end", len(source.open))
		}
	})
}

func TestQuota_RefusesUnknownLinkForm(t *testing.T) {
	t.Parallel()
	d := newDesk(newTally())
	for _, linkID := range []string{"", "lnk_1", id.New(id.Link) + "x", strings.Repeat("x", 1000)} {
		if _, ok, err := d.Take(t.Context(), &Claim{LinkID: linkID, Month: thisMonth(), Limit: 1}, time.Now()); ok ||
			!errors.Is(err, errLinkID) {
			t.Errorf("%s: given %t: %v", fmt.Sprintf("%.10q", linkID), ok, err)
		}
	}
}

// TestLeases_OutageAdmitsLeasedHits: held leases last for the whole outage, links beyond half of
// their limits fail at once, and everything returns afterwards.
func TestLeases_OutageAdmitsLeasedHits(t *testing.T) {
	inBubble(t, func(t *testing.T, source *tally, d *desk, linkID string) {
		other := id.New(id.Link)
		d.Clicks = clicksFunc(func([]string) (map[string]int64, error) { return map[string]int64{other: 50}, nil })
		hold(t, d.Leases, linkID, 10, 100)
		time.Sleep(floorLife) // the month has begun
		stop := run(t, d.Leases)
		source.fail(errGone)
		_, err := tryTake(t.Context(), d.Leases, other, 1, 100)
		if !errs.Is(err, errs.Unavailable) || !d.Stats().IsOutage {
			t.Errorf("the first request gets %v, outage is %t", err, d.Stats().IsOutage)
		}
		for range 5 {
			if got := take(t, d.Leases, linkID, 1, 100); got != 1 {
				t.Errorf("%d leased hits given, want 1", got)
			}
			began := time.Now()
			if _, err := tryTake(t.Context(), d.Leases, other, 1, 100); !errs.Is(err, errs.Unavailable) ||
				time.Since(began) > 0 {
				t.Errorf("a link without a lease waits for %s and gets %v", time.Since(began), err)
			}
			after(abundantLife)
		}
		source.want(t, "during the outage", linkID, 10, 1)
		source.fail(nil)
		after(2 * reapInterval)
		source.want(t, "afterwards", linkID, 5, 0)
		if got := take(t, d.Leases, other, 7, 100); got != 7 || d.Stats().IsOutage {
			t.Errorf("%d hits given afterwards, want 7; outage is %t", got, d.Stats().IsOutage)
		}
		stop()
		source.want(t, "at the end", other, 57, 0)
		for text, want := range map[string]int{"unavailable: links redirect up to half": 1, "available again": 1} {
			if got := strings.Count(d.said.String(), text); got != want {
				t.Errorf("%q was logged %d times, want %d", text, got, want)
			}
		}
	})
}

// TestLeases_LostAnswerIsNoOutage: a request without a response is repeated while its visitors
// wait, and its grant is returned.
func TestLeases_LostAnswerIsNoOutage(t *testing.T) {
	inBubble(t, func(t *testing.T, source *tally, d *desk, linkID string) {
		stop := run(t, d.Leases)
		source.taking = func(_ context.Context, requests []*Request) error {
			source.mu.Lock()
			defer source.mu.Unlock()
			source.grant(requests[0])
			source.taking = nil
			return errGone
		}
		if got := take(t, d.Leases, linkID, 3, 100); got != 3 || d.Stats().IsOutage {
			t.Errorf("%d hits given, want 3; outage is %t", got, d.Stats().IsOutage)
		}
		stop()
		source.want(t, "at the end", linkID, 3, 0)
	})
}

// TestLeases_SlowCallFailsNoOtherLink: as many calls as may run at a time hang, and others get a
// place when their deadline ends them.
func TestLeases_SlowCallFailsNoOtherLink(t *testing.T) {
	inBubble(t, func(t *testing.T, source *tally, d *desk, _ string) {
		slow := map[string]bool{}
		source.taking = func(ctx context.Context, requests []*Request) error {
			if slow[requests[0].LinkID] {
				<-ctx.Done()
				return errRedisDown
			}
			return nil
		}
		run(t, d.Leases)
		var waiting sync.WaitGroup
		for range maxTakes {
			linkID := id.New(id.Link)
			slow[linkID] = true
			waiting.Go(func() { _, _ = tryTake(t.Context(), d.Leases, linkID, 1, 10) })
			after(20 * time.Millisecond)
		}
		began := time.Now()
		if got := take(t, d.Leases, id.New(id.Link), 3, 10); got != 3 || time.Since(began) > takeDeadline {
			t.Errorf("%d hits of another link given after %s, want 3", got, time.Since(began))
		}
		waiting.Wait()
	})
}

// TestLeases_AdmitInOutage: if so configured, and the next lease begins above the admitted clicks.
func TestLeases_AdmitInOutage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		linkID, clicks := id.New(id.Link), int64(0)
		source := &severable{Counters: NewMemory("log_1"), isCut: new(atomic.Bool)}
		d := newDesk(source)
		d.AdmitsInOutage = true
		d.Clicks = clicksFunc(func([]string) (map[string]int64, error) { return map[string]int64{linkID: clicks}, nil })
		run(t, d.Leases)
		source.isCut.Store(true)
		for range 7 {
			hit, ok, err := d.Take(t.Context(), &Claim{LinkID: linkID, Month: thisMonth(), Limit: 10}, time.Now())
			if !ok || err != nil || hit.LeaseNumber() >= 0 {
				t.Fatalf("given %t of lease %d: %v", ok, hit.LeaseNumber(), err)
			}
			hit.Commit(d.end.Add(1))
			clicks++
		}
		if s := d.Stats(); s.Unused > 0 || s.InOutage != 5 {
			t.Errorf("%+v, want no unused hits, and 5 of leases", s)
		}
		source.isCut.Store(false)
		if got := take(t, d.Leases, linkID, 5, 10); got != 3 {
			t.Errorf("%d hits given afterwards, want the other 3 of 10", got)
		}
	})
}

// TestLeases_AdmitOnlyInOutage: not while the database cannot be read for a floor.
func TestLeases_AdmitOnlyInOutage(t *testing.T) {
	t.Parallel()
	d := newDesk(NewMemory("log_1"))
	d.AdmitsInOutage = true
	d.Clicks = clicksFunc(func([]string) (map[string]int64, error) { return nil, errGone })
	if got, err := tryTake(t.Context(), d.Leases, id.New(id.Link), 1, 10); got != 0 || !errors.Is(err, errGone) {
		t.Errorf("%d hits given: %v", got, err)
	}
}

// TestLeases_NeedNoDatabaseForACounter: a link that its node has forgotten, or never knew, is
// followed while the database is down, if other nodes have a counter, and is not if Redis lost it.
func TestLeases_NeedNoDatabaseForACounter(t *testing.T) {
	t.Parallel()
	dbtest.EachRedis(t, func(t *testing.T, k *redisx.Client) {
		for _, test := range []struct {
			readAt time.Time
			clicks int64
			want   int // hits of the counter, after another node has added one
		}{
			{thisMonth().Start().Add(-time.Minute), 7, 2}, // with the clicks of the month before
			{thisMonth().Start().Add(time.Minute), 7, 8},
			{thisMonth().Start().Add(time.Minute), -1, 2},
			{thisMonth().Start().Add(time.Hour), -1, 2},
		} {
			knownScripts.RLock()
			unlock := sync.OnceFunc(knownScripts.RUnlock)
			defer unlock()
			now := thisMonth().Start().Add(-nextMonthAhead - time.Hour)
			node := func() *desk {
				d := newDesk(NewRedis(k, id.New(id.Log), func() time.Time { return now }))
				d.Now = func() time.Time { return now }
				return d
			}
			row := Claim{LinkID: id.New(id.Link), Limit: 10}
			visit := func(d *desk) (bool, error) {
				c := row
				c.Month = click.MonthOf(now)
				_, ok, err := d.Take(t.Context(), &c, now)
				return ok, err
			}
			d, other := node(), node()
			for _, d := range []*desk{d, other} { // the server knows them
				if ok, err := visit(d); !ok || err != nil {
					t.Fatalf("a link in the month before: %t, %v", ok, err)
				}
			}
			row.Clicks, row.ReadAt, now = test.clicks, test.readAt, thisMonth().Start().Add(time.Hour)
			d.Clicks = clicksFunc(func([]string) (map[string]int64, error) { return nil, errGone })
			if ok, err := visit(d); ok || !errors.Is(err, errGone) {
				t.Errorf("a link without a counter: %t, %v", ok, err)
			}
			if ok, err := visit(other); !ok || err != nil {
				t.Fatalf("a link without a counter, with the database: %t, %v", ok, err)
			}
			if ok, err := visit(d); !ok || err != nil {
				t.Errorf("a link with a counter: %t, %v", ok, err)
			}
			counter := keysOf(row.LinkID, thisMonth())[0]
			if hits := must.Value(k.Get(t.Context(), counter).Int())(t); hits != test.want {
				t.Errorf("the counter is %d, want %d", hits, test.want)
			}

			unlock()
			flushScripts(t, k)
			row.LinkID, row.ReadAt, now = id.New(id.Link), now, now.Add(time.Hour)
			hold(t, other.Leases, row.LinkID, 1, 10)
			away := d.Clicks
			d.Clicks = clicksFunc(noClicks)
			hold(t, d.Leases, id.New(id.Link), 1, 10) // the server knows the node again
			d.Clicks = away
			if ok, err := visit(d); ok || !errors.Is(err, errGone) {
				t.Errorf("a counter that may lack hits from before a loss: %t, %v", ok, err)
			}
		}
	})
}

// TestLeases_RetryReadsFloorsAfterALoss: the counters lose hits between two attempts of a request.
func TestLeases_RetryReadsFloorsAfterALoss(t *testing.T) {
	inBubble(t, func(t *testing.T, source *tally, d *desk, linkID string) {
		if got, err := tryTake(t.Context(), d.Leases, linkID, 10, 10); got != 10 || err != nil {
			t.Fatalf("%d hits given: %v", got, err)
		}
		d.Clicks = clicksFunc(func([]string) (map[string]int64, error) { return map[string]int64{linkID: 10}, nil })
		source.taking = func(context.Context, []*Request) error {
			source.taking = nil
			source.losses.Add(1)
			source.used[linkID+thisMonth().String()] = 1 // of a snapshot
			return errGone
		}
		time.Sleep(refusedLife)
		if got, err := tryTake(t.Context(), d.Leases, linkID, 1, 10); got != 0 || err != nil {
			t.Errorf("%d hits given above the quota: %v", got, err)
		}
		d.requesting.Wait()
	})
}

// TestLeases_ReturnAfterTheyAreRegistered: a lease ends while a request registers it again after a
// loss of data.
func TestLeases_ReturnAfterTheyAreRegistered(t *testing.T) {
	t.Parallel()
	source, linkID := newTally(), id.New(id.Link)
	d := newDesk(source)
	hold(t, d.Leases, linkID, 3, 10)
	source.losses.Add(1)
	clear(source.used)
	clear(source.open)
	d.reapShard(d.shard(new(must.Value(keyOf(linkID, thisMonth()))(t))), 0, 0, 0, true)
	source.taking = func(context.Context, []*Request) error {
		source.taking = nil
		d.reap(t.Context(), true)
		return nil
	}
	take(t, d.Leases, linkID, 1, 10)
	source.taking = nil
	d.reap(t.Context(), true)
	source.want(t, "at the end", linkID, 1, 0)
}

// TestLeases_ReadFewFloorsInOutage: visitors of a link beyond half of its limit are refused, with a
// statement in a second.
func TestLeases_ReadFewFloorsInOutage(t *testing.T) {
	inBubble(t, func(t *testing.T, source *tally, d *desk, linkID string) {
		read := 0
		d.Clicks = clicksFunc(func([]string) (map[string]int64, error) {
			read++
			return map[string]int64{linkID: 5}, nil
		})
		source.fail(errGone)
		time.Sleep(floorLife) // the month has begun
		for n := range 20 {
			if n == 10 {
				time.Sleep(floorLife)
			}
			if got, err := tryTake(t.Context(), d.Leases, linkID, 1, 10); got != 0 || !errs.Is(err, errs.Unavailable) {
				t.Errorf("%d hits given: %v", got, err)
			}
		}
		if read != 2 || !d.Stats().IsOutage {
			t.Errorf("%d floors read, want 2; outage: %t", read, d.Stats().IsOutage)
		}
	})
}

// TestLeases_SlowFloorIsNoOutage: a visitor who can wait for the statement gets the hit.
func TestLeases_SlowFloorIsNoOutage(t *testing.T) {
	inBubble(t, func(t *testing.T, source *tally, d *desk, linkID string) {
		d.Clicks = slowly{d.Clicks, 1500 * time.Millisecond}
		stop := run(t, d.Leases)
		if got := take(t, d.Leases, linkID, 1, 10); got != 1 {
			t.Errorf("%d hits given, want 1", got)
		}
		stop()
		source.want(t, "at the end", linkID, 1, 0)
	})
}

// TestLeases_BrokenKeyIsNoOutage: neither for taken hits nor for returned ones.
func TestLeases_BrokenKeyIsNoOutage(t *testing.T) {
	t.Parallel()
	dbtest.EachRedis(t, func(t *testing.T, k *redisx.Client) {
		d := newDesk(NewRedis(k, "log_1", time.Now))
		broken, returning := id.New(id.Link), id.New(id.Link)
		breakKey := func() {
			must.NoError(t, k.Set(t.Context(), keysOf(broken, thisMonth())[1], "text", time.Minute).Err())
		}
		breakKey()
		if _, err := tryTake(t.Context(), d.Leases, broken, 1, 10); !errors.Is(err, errFault) || d.Stats().IsOutage {
			t.Errorf("a hit of a broken key: %v; outage is %t", err, d.Stats().IsOutage)
		}
		must.NoError(t, k.Del(t.Context(), keysOf(broken, thisMonth())[1]).Err())
		for _, linkID := range []string{broken, returning} {
			hold(t, d.Leases, linkID, 3, 1000)
		}
		breakKey()
		d.reap(t.Context(), true)
		if used := must.Value(d.counters.Used(t.Context(), thisMonth(), []string{returning}))(t); used[returning] != 0 {
			t.Errorf("%d hits are used", used[returning])
		}
		if open := k.HLen(t.Context(), keysOf(returning, thisMonth())[1]).Val(); open != 0 || d.Stats().Unused != 0 {
			t.Errorf("%d leases did not return: %+v", open, d.Stats())
		}
	})
}

// TestLeases_CarryClicksOfDeadProcesses: counters in memory grant nothing before these are counted,
// and begin above them then, also while each counter is being raised.
func TestLeases_CarryClicksOfDeadProcesses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		visited, other := id.New(id.Link), id.New(id.Link)
		var l *Leases
		var wasCalled atomic.Bool
		take := func(linkID string) (ok bool, err error) {
			hit, ok, err := l.Take(t.Context(), &Claim{
				LinkID: linkID, Month: thisMonth(), Limit: 10, Clicks: 1, ReadAt: time.Now(),
			}, time.Now())
			hit.Commit(0)
			return ok, err
		}
		clicks := clicksFunc(func(linkIDs []string) (map[string]int64, error) {
			if slices.Contains(linkIDs, visited) && !wasCalled.Swap(true) {
				for n := range 3 {
					if ok, err := take(visited); ok != (n < 2) || err != nil {
						t.Errorf("hit %d, while counters are raised: %t, %v", n, ok, err)
					}
				}
			}
			return map[string]int64{visited: 1, other: 3}, nil
		})
		l = NewLeases(Config{ClickLog: &testLog{}, Log: discard, Now: time.Now, Clicks: clicks}, NewMemory("log_1"))
		must.NoError(t, l.Carry(t.Context(), func(click.Month) (map[string]click.MonthCount, error) {
			if ok, err := take(id.New(id.Link)); ok || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("a hit before the clicks are counted: %t, %v", ok, err)
			}
			return map[string]click.MonthCount{visited: {Clicks: 7}, other: {Clicks: 4}}, nil
		}))
		used := must.Value(l.Used(t.Context(), thisMonth(), visited, other))(t)
		if diff := cmp.Diff(map[string]int64{visited: 8, other: 7}, used); diff != "" { // 2 are in open leases
			t.Errorf("used hits (-want +got):\n%s", diff)
		}
	})
}

// TestLeases_FailingAtOnceEndsEachRequestOnce: requests end before the visitors who have queued
// them continue.
func TestLeases_FailingAtOnceEndsEachRequestOnce(t *testing.T) {
	t.Parallel()
	source := &severable{Counters: NewMemory("log_1"), isCut: new(atomic.Bool)}
	source.isCut.Store(true)
	d := newDesk(source)
	d.Clicks = clicksFunc(func(linkIDs []string) (map[string]int64, error) {
		used := map[string]int64{}
		for _, linkID := range linkIDs {
			used[linkID] = 5
		}
		return used, nil
	})
	d.isOutage.Store(true)
	var visits sync.WaitGroup
	for range 8 {
		visits.Go(func() {
			for range 2000 {
				if got, err := tryTake(t.Context(), d.Leases, id.New(id.Link), 1, 10); got != 0 ||
					!errs.Is(err, errs.Unavailable) {
					t.Errorf("%d hits given: %v", got, err)
				}
			}
		})
	}
	visits.Wait()
}

// TestQuota_AnswersEveryWaiter: when the end comes while the source thinks, while requests wait for
// their turn, and after it.
func TestQuota_AnswersEveryWaiter(t *testing.T) {
	inBubble(t, func(t *testing.T, source *tally, d *desk, _ string) {
		source.taking = func(ctx context.Context, _ []*Request) error {
			<-ctx.Done()
			return ctx.Err()
		}
		stop := run(t, d.Leases)
		var waiting sync.WaitGroup
		began := time.Now()
		for range 2 * takeBatch {
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
		if _, ok, err := d.Take(context.Background(), &Claim{LinkID: id.New(id.Link), Month: thisMonth(), Limit: 1},
			time.Now()); ok ||
			!errors.Is(err, errClosed) {
			t.Errorf("after the end: given %t: %v, want %v", ok, err, errClosed)
		}
		if d.Stats().IsOutage {
			t.Error("the source was thought to be away because the end had come")
		}
	})
}

// TestQuota_CancelledCallerDelaysNobody: a hit whose caller has gone is available to others.
func TestQuota_CancelledCallerDelaysNobody(t *testing.T) {
	inBubble(t, func(t *testing.T, source *tally, d *desk, linkID string) {
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

// TestQuota_PinsBeforeEveryOpenLease: held ones, requested ones, and ones that could not be
// returned. The process that adopts the log has to find them in it.
func TestQuota_PinsBeforeEveryOpenLease(t *testing.T) {
	inBubble(t, func(t *testing.T, source *tally, d *desk, linkID string) {
		other := id.New(id.Link)
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

// thisMonth is the month of the fake clock.
func thisMonth() click.Month { return click.MonthOf(time.Now()) }
