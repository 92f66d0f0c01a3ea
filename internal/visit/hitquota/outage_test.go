package hitquota

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/linkforge/linkforge/internal/click"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/id"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/redisx"
)

// outages are those of the counters, by name.
var outages = map[string]func(source *tally){
	"refuses": func(source *tally) { source.fail(errRedisDown) },
	"answers too late": func(source *tally) {
		source.taking = func(context.Context, []*Request) error {
			time.Sleep(200 * time.Millisecond)
			return errRedisDown
		}
	},
	"is silent": func(source *tally) {
		source.taking = func(ctx context.Context, _ []*Request) error {
			ctx, cancel := context.WithTimeout(ctx, patience)
			defer cancel()
			<-ctx.Done()
			source.fail(errRedisDown)
			return errRedisDown
		}
	},
}

// TestOutage_GrantsAPartOfHalf: in every outage, from the first visit on and without a long wait, a
// node grants its part of the hits below half of the limit. Nothing is lost when the outage ends.
func TestOutage_GrantsAPartOfHalf(t *testing.T) {
	t.Parallel()
	for outage, begin := range outages {
		for name, c := range map[string]struct {
			limit, clicks, nodes int64
			isFull               bool  // the log
			noDatabase           error // of the database
			isRead               bool  // the row of the link, just now
			want                 int64
		}{
			"one node":               {limit: 100, clicks: 20, nodes: 1, want: 30},
			"two nodes":              {limit: 100, clicks: 20, nodes: 2, want: 15},
			"a new link":             {limit: 100, nodes: 3, want: 16},
			"unknown nodes":          {limit: 100},
			"the last below half":    {limit: 100, clicks: 49, nodes: 3, want: 1},
			"half":                   {limit: 100, clicks: 50, nodes: 1},
			"beyond half":            {limit: 100, clicks: 90, nodes: 1},
			"an odd limit":           {limit: 5, clicks: 2, nodes: 1, want: 1},
			"a limit of one":         {limit: 1, nodes: 1, want: 1},
			"fewer hits than nodes":  {limit: 7, clicks: 3, nodes: 2},
			"no hits at all":         {nodes: 1},
			"a full log":             {limit: 100, nodes: 1, isFull: true},
			"no database":            {limit: 100, nodes: 1, noDatabase: errGone},
			"no database, a new row": {limit: 100, clicks: 40, nodes: 2, noDatabase: errGone, isRead: true, want: 1},
		} {
			t.Run("Redis "+outage+", "+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					source, linkID := newTally(), id.New(id.Link)
					d := newDesk(source)
					d.nodes.Store(c.nodes)
					d.Clicks = clicksFunc(func([]string) (map[string]int64, error) {
						return map[string]int64{linkID: c.clicks}, c.noDatabase
					})
					time.Sleep(time.Minute) // the month has begun
					stop := run(t, d.Leases)
					begin(source)
					d.isFull = c.isFull
					row := Claim{LinkID: linkID, Month: thisMonth(), Limit: c.limit}
					if c.isRead {
						row.Clicks, row.ReadAt = c.clicks, time.Now()
					}
					given := click.MonthCount{}
					for range c.want + 2 {
						began := time.Now()
						hit, ok, err := d.Take(t.Context(), &row, d.Now())
						if took := time.Since(began); ok && took > 3*patience {
							t.Errorf("hit %d came after %s", given.Clicks+1, took)
						}
						if !ok && !errs.Is(err, errs.Unavailable) {
							t.Errorf("no hit: %v", err)
						}
						if ok {
							given.Clicks, given.Outage = given.Clicks+1, given.Outage+1
							d.waiting = map[string]click.MonthCount{linkID: given}
							hit.Commit(d.end.Add(1))
						}
					}
					if given.Clicks != c.want {
						t.Errorf("%d hits given, want %d", given.Clicks, c.want)
					}
					synctest.Wait() // a reap may ask it
					d.isFull, source.taking = false, nil
					source.fail(nil)
					after(scanTurns * reapInterval)
					if got := source.used[linkID+thisMonth().String()]; c.noDatabase == nil && c.want > 0 &&
						got != c.clicks+given.Clicks {
						t.Errorf("%d hits are counted afterwards, want %d", got, c.clicks+given.Clicks)
					}
					stop()
				})
			})
		}
	}
}

// TestOutage_GrantsAboveNewFloors: an outage lease ends soon, so that the clicks of other nodes count.
// The database may be slow, and statistics are read meanwhile.
func TestOutage_GrantsAboveNewFloors(t *testing.T) {
	inBubble(t, func(t *testing.T, source *tally, d *desk, linkID string) {
		clicks := int64(0)
		d.Clicks = slowly{clicksFunc(func([]string) (map[string]int64, error) {
			return map[string]int64{linkID: clicks}, nil
		}), 3 * blindAfter}
		d.onNote = func() {
			go d.Stats()
			time.Sleep(time.Millisecond)
		}
		time.Sleep(time.Minute)
		run(t, d.Leases)
		source.fail(errGone)
		hold(t, d.Leases, linkID, 20, 100)
		after(patience)
		if got := take(t, d.Leases, linkID, 5, 100); got != 5 {
			t.Errorf("%d hits given, want 5", got)
		}
		clicks = 50
		after(nearLife)
		if got, err := tryTake(t.Context(), d.Leases, linkID, 1, 100); got != 0 || !errs.Is(err, errs.Unavailable) {
			t.Errorf("%d hits given beyond half: %v", got, err)
		}
	})
}

// TestOutage_WritesClicksBeforeItRefuses: a part that is used up is granted again once the database
// has the clicks.
func TestOutage_WritesClicksBeforeItRefuses(t *testing.T) {
	inBubble(t, func(t *testing.T, source *tally, d *desk, linkID string) {
		var stored, waiting int64
		d.nodes.Store(4)
		d.Clicks = clicksFunc(func([]string) (map[string]int64, error) { return map[string]int64{linkID: stored}, nil })
		d.onFlush = func() { stored, waiting, d.waiting = stored+waiting, 0, nil }
		time.Sleep(time.Minute)
		run(t, d.Leases)
		source.fail(errGone)
		for n := range int64(51) {
			got, err := tryTake(t.Context(), d.Leases, linkID, 1, 100)
			if got != 1 && n < 50 || got == 1 && n == 50 {
				t.Errorf("%d hits given after %d: %v", got, n, err)
			}
			waiting += got
			d.waiting = map[string]click.MonthCount{linkID: {Clicks: waiting, Outage: waiting}}
		}
	})
}

// TestLeases_TakeBeyondHalfWithoutDatabase: unless another node may have granted these hits.
func TestLeases_TakeBeyondHalfWithoutDatabase(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		used, nodes int64
		isOpen      bool
		want        int64
	}{
		"below half":                 {40, 2, false, 1},
		"one node":                   {60, 1, false, 1},
		"unknown nodes":              {60, 0, false, 0},
		"two nodes":                  {60, 2, false, 0},
		"two nodes, open in outages": {60, 2, true, 1},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, source *tally, d *desk, linkID string) {
				d.AdmitsInOutage = c.isOpen
				d.nodes.Store(c.nodes)
				run(t, d.Leases)
				if got := take(t, d.Leases, linkID, int(c.used), 100); got != c.used {
					t.Fatalf("%d hits given, want %d", got, c.used)
				}
				d.Clicks = clicksFunc(func([]string) (map[string]int64, error) { return nil, errGone })
				after(2 * nearLife)
				if got, err := tryTake(t.Context(), d.Leases, linkID, 1, 100); got != c.want ||
					(err != nil) != (c.want == 0) {
					t.Errorf("%d hits given: %v", got, err)
				}
			})
		})
	}
}

// TestLeases_ReadFloorsBeyondHalf: for each lease, unless no other node can have had an outage lease
// since the last floor.
func TestLeases_ReadFloorsBeyondHalf(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		begin, between func(d *desk, key linkKey)
		want           int64 // statements for five leases
	}{
		"one node":  {want: 1},
		"two nodes": {begin: func(d *desk, _ linkKey) { d.setNodes(2) }, want: 5},
		"another node meanwhile": {want: 5, between: func(d *desk, _ linkKey) {
			d.setNodes(2)
			d.setNodes(1)
		}},
		"an adopted log": {want: 5, between: func(d *desk, _ linkKey) { _ = d.Recover(d.ctx, "log_2", nil) }},
		"an outage": {want: 5, between: func(d *desk, key linkKey) {
			(&Hit{leases: d.Leases, key: key, number: -1}).Commit(0)
			d.setOwing([]linkKey{key}, false)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, _ *tally, d *desk, linkID string) {
				var statements atomic.Int64
				key := must.Value(keyOf(linkID, thisMonth()))(t)
				d.Clicks = clicksFunc(func([]string) (map[string]int64, error) {
					statements.Add(1)
					return nil, nil
				})
				if c.begin != nil {
					c.begin(d, key)
				}
				run(t, d.Leases)
				take(t, d.Leases, linkID, 45, 100)
				statements.Store(0)
				for n := range 9 { // the first ones are below half
					if c.between != nil {
						c.between(d, key)
					}
					after(2 * nearLife)
					if got := take(t, d.Leases, linkID, 1, 100); got != 1 {
						t.Errorf("no hit %d", n)
					}
				}
				if n := statements.Load(); n != c.want {
					t.Errorf("%d statements, want %d", n, c.want)
				}
			})
		})
	}
}

// nodesFunc returns how many other nodes there are.
type nodesFunc func() (others int64, err error)

func (f nodesFunc) Report(context.Context, string, bool, time.Time, time.Time) (others, withRedis int64, err error) {
	others, err = f()
	return others, 0, err
}

func (nodesFunc) Leave(context.Context, string) error { return nil }

// TestLeases_KnowTheNumberOfNodes: not before the first report, and it does not decrease shortly after
// a start or a failure.
func TestLeases_KnowTheNumberOfNodes(t *testing.T) {
	inBubble(t, func(t *testing.T, source *tally, _ *desk, _ string) {
		steps := []struct {
			at     time.Duration
			others int64
			err    error
			want   int64
		}{
			{0, 0, errGone, 0}, {10 * time.Second, 2, nil, 3}, {20 * time.Second, 0, nil, 3},
			{40 * time.Second, 1, nil, 2}, {time.Minute, 5, errGone, 2}, {2 * time.Minute, 0, nil, 2},
			{3 * time.Minute, 0, nil, 1},
		}
		began, c := time.Now(), newDesk(source).Config
		c.Nodes = nodesFunc(func() (int64, error) {
			now := steps[0]
			for _, step := range steps {
				if step.at <= time.Since(began) {
					now = step
				}
			}
			return now.others, now.err
		})
		l := NewLeases(c, source)
		run(t, l)
		for _, step := range steps {
			after(step.at + reportInterval - time.Since(began))
			if got := l.nodes.Load(); got != step.want {
				t.Errorf("%d nodes known after %s, want %d", got, step.at, step.want)
			}
		}
	})
}

// TestReap_IsNotHeldByASilentDatabase: the hits of outage leases are added when it answers again.
func TestReap_IsNotHeldByASilentDatabase(t *testing.T) {
	inBubble(t, func(t *testing.T, source *tally, d *desk, linkID string) {
		owing := func() (n int) {
			for i := range d.shards {
				for _, h := range d.shards[i].links {
					if h.owes {
						n++
					}
				}
			}
			return n
		}
		for range 3 * takeBatch {
			key := must.Value(keyOf(id.New(id.Link), thisMonth()))(t)
			d.shard(&key).links[key] = linkState{owes: true}
		}
		answering := d.Clicks
		d.Clicks = slowly{answering, time.Hour}
		for range scanTurns {
			began := time.Now()
			if d.reap(t.Context(), false); time.Since(began) > statementWait {
				t.Errorf("a reap took %s", time.Since(began))
			}
		}
		if n := owing(); n != 3*takeBatch {
			t.Errorf("%d links owe hits, want %d", n, 3*takeBatch)
		}
		d.Clicks = answering
		if d.reap(t.Context(), true); owing() != 0 {
			t.Errorf("%d links owe hits at the end", owing())
		}
	})
}

// TestLeases_MonthBeginsWithoutDatabase: for links that were followed on the last day of the month
// before, unless Redis loses their counters.
func TestLeases_MonthBeginsWithoutDatabase(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		before, after time.Duration // the month begins
		loses         bool
		want          bool
	}{
		"minutes":            {10 * time.Minute, time.Minute, false, true},
		"a second":           {2 * time.Second, 2 * time.Second, false, true},
		"hours":              {23 * time.Hour, 20 * 24 * time.Hour, false, true},
		"days":               {25 * time.Hour, time.Minute, false, false},
		"minutes, data lost": {10 * time.Minute, time.Minute, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dbtest.EachRedis(t, func(t *testing.T, k *redisx.Client) {
				knownScripts.RLock()
				defer knownScripts.RUnlock()
				now := thisMonth().End().Add(-c.before)
				d := newDesk(NewRedis(k, id.New(id.Log), func() time.Time { return now }))
				d.Now = func() time.Time { return now }
				row := Claim{LinkID: id.New(id.Link), Limit: 10, Clicks: 4, ReadAt: now}
				visit := func() (bool, error) {
					row.Month = click.MonthOf(now)
					_, ok, err := d.Take(t.Context(), &row, now)
					return ok, err
				}
				if ok, err := visit(); !ok || err != nil {
					t.Fatalf("before the end of the month: %t, %v", ok, err)
				}
				d.Clicks = clicksFunc(func([]string) (map[string]int64, error) { return nil, errGone })
				now = thisMonth().End().Add(c.after)
				next := keysOf(row.LinkID, thisMonth()+1)
				if left := k.TTL(t.Context(), next[0]).Val(); c.want && left <= time.Until(thisMonth().End()) {
					t.Errorf("the counter ends in %s", left)
				}
				if c.loses {
					must.NoError(t, k.Del(t.Context(), next...).Err())
				}
				if ok, err := visit(); ok != c.want || !c.want && !errors.Is(err, errGone) {
					t.Errorf("%t, %v, want %t", ok, err, c.want)
				}
			})
		})
	}
}

// TestOutage_EndedLeaseHasNoUnusedHits: only its pending hits may still become clicks.
func TestOutage_EndedLeaseHasNoUnusedHits(t *testing.T) {
	t.Parallel()
	d, key := newDesk(newTally()), must.Value(keyOf(id.New(id.Link), thisMonth()))(t)
	d.shard(&key).end(key, linkState{number: -1, size: 5, unused: 3, pending: 1, open: true})
	if s := d.Stats(); s.Unused != 0 || s.Pending != 1 {
		t.Errorf("%+v, want one pending hit", s)
	}
}
