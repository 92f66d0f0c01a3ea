package main

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/linkforge/linkforge/internal/click"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/faulttest"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/poll"
	"github.com/linkforge/linkforge/internal/platform/poll/polltest"
	"github.com/linkforge/linkforge/internal/platform/proctest"
	"github.com/linkforge/linkforge/internal/platform/suitetest"
)

// The sizes of the schedules: their number, and the seconds after which a quota is used up.
var (
	schedules       = suitetest.Size(1, 20)
	snapshotSeconds = suitetest.Size(4, 24)
)

const scheduleSeconds = 4

// member is a node with its own proxies in front of PostgreSQL and Redis.
type member struct {
	*server
	database, redis *faulttest.Proxy
	admin           string
	busy            sync.Mutex // held during a fault
}

// startMembers starts n nodes of one instance.
func startMembers(t *testing.T, b backend, n int, settings ...string) (all []*member) {
	t.Helper()
	for i := range n {
		cut, database, redis := throughProxies(t, b)
		if i > 0 {
			settings = append(slices.Clone(settings), "LINKFORGE_PUBLIC_URL="+all[0].public)
		}
		admin := proctest.FreeAddress()
		s := start(t, cut.inProcesses(), append(slices.Clone(settings), "LINKFORGE_ADMIN_LISTEN="+admin)...)
		all = append(all, &member{server: s, database: database, redis: redis, admin: admin})
	}
	return all
}

// fault happens to a member; the returned function ends it.
type fault func(m *member) (end func())

// faults are those of a schedule by name. None loses acknowledged data.
func faults() map[string]fault {
	set := func(of func(*member) *faulttest.Proxy, mode faulttest.Mode) fault {
		return func(m *member) func() {
			of(m).Set(mode)
			return func() { of(m).Set(faulttest.Pass) }
		}
	}
	database := func(m *member) *faulttest.Proxy { return m.database }
	redis := func(m *member) *faulttest.Proxy { return m.redis }
	return map[string]fault{
		"Redis refuses":          set(redis, faulttest.Refuse),
		"Redis is silent":        set(redis, faulttest.BlackHole),
		"the database refuses":   set(database, faulttest.Refuse),
		"the database is silent": set(database, faulttest.BlackHole),
		"the database is slow": func(m *member) func() {
			m.database.SetDelay(20 * time.Millisecond)
			return func() { m.database.SetDelay(0) }
		},
		"the node is killed": func(m *member) func() {
			m.kill()
			return m.again
		},
		"the node restarts": func(m *member) func() {
			m.stop()
			return m.again
		},
	}
}

// freeze stops a process for a while. No client that waits for it gets an answer meanwhile.
func freeze(m *member) func() {
	_ = m.process.Process.Signal(syscall.SIGSTOP)
	return func() { _ = m.process.Process.Signal(syscall.SIGCONT) }
}

// happen begins a random fault at a random member and ends it after a while. Members with a fault
// are left alone.
func happen(t *testing.T, rng *rand.Rand, all []*member, among map[string]fault, longest time.Duration) {
	t.Helper()
	m := all[rng.IntN(len(all))]
	name := slices.Sorted(maps.Keys(among))[rng.IntN(len(among))]
	last := 1 + time.Duration(rng.Int64N(int64(longest)))
	if !m.busy.TryLock() {
		return
	}
	defer m.busy.Unlock()
	t.Logf("%s: %s for %s", m.address, name, last.Round(time.Millisecond))
	end := among[name](m)
	_ = poll.Wait(t.Context(), last)
	end()
}

// redisOfSchedule starts a Redis for a schedule, and returns its URL and the faults that it may have. expose is called
// immediately before and after the moment at which it loses data.
type redisOfSchedule struct {
	name    string
	loses   bool
	seconds int // until the quota is used up
	start   func(t *testing.T, expose func()) (redisURL string, faults map[string]fault)
}

// at is a fault that lasts no time, once at a time.
func at(happens func()) fault {
	var mu sync.Mutex
	return func(*member) func() {
		mu.Lock()
		defer mu.Unlock()
		happens()
		return func() {}
	}
}

var redisesOfSchedules = []redisOfSchedule{
	{"Redis restarts", false, scheduleSeconds, func(t *testing.T, _ func()) (string, map[string]fault) {
		redis := dbtest.NewRedisServer(t, "appendonly yes", "appendfsync always")
		return redis.URL, map[string]fault{"Redis restarts": at(func() { redis.Stop(); redis.Start(t) })}
	}},
	{"Redis forgets", true, scheduleSeconds, func(t *testing.T, expose func()) (string, map[string]fault) {
		redis := dbtest.NewRedisServer(t)
		return redis.URL, map[string]fault{"Redis forgets": at(func() { expose(); redis.Do(t, "FLUSHALL") })}
	}},
	{"Redis restarts from a snapshot", true, snapshotSeconds,
		func(t *testing.T, expose func()) (string, map[string]fault) {
			redis, hasSnapshot := dbtest.NewRedisServer(t), false
			return redis.URL, map[string]fault{"Redis restarts from its first snapshot": at(func() {
				if !hasSnapshot {
					redis.Do(t, "SAVE")
					hasSnapshot = true
					return
				}
				expose()
				redis.Stop()
				expose()
				redis.Start(t)
			})}
		}},
	{"Redis fails over", true, scheduleSeconds, func(t *testing.T, expose func()) (string, map[string]fault) {
		redis := dbtest.NewSentinels(t, 500*time.Millisecond)
		return redis.URL,
			map[string]fault{"Redis fails over to a replica that is a second behind": at(sync.OnceFunc(func() {
				must.NoError(t, redis.CutReplica())
				_ = poll.Wait(t.Context(), time.Second)
				expose()
				redis.KillMaster()
				expose()
			}))}
	}},
}

// TestFault_QuotaUnderRandomFaults: three nodes lose each other's, the database's and Redis's company
// at random, while one link is followed more often than its quota permits. No schedule admits more
// than the quota, and the quota is used up at the end. If Redis loses data, a schedule admits at most
// as many more as linkforge_quota_overshoot_bound adds up to at that moment.
func TestFault_QuotaUnderRandomFaults(t *testing.T) {
	suitetest.Fault(t)
	for _, rate := range []int{150, 600} {
		for _, of := range redisesOfSchedules {
			t.Run(fmt.Sprintf("%s, %d visits a second", of.name, rate), func(t *testing.T) {
				t.Parallel()
				for i := range schedules {
					t.Run(fmt.Sprint("schedule ", i+1),
						func(t *testing.T) { testQuotaSchedule(t, of, rate, rand.Uint64()) })
				}
			})
		}
	}
}

func testQuotaSchedule(t *testing.T, of redisOfSchedule, rate int, seed uint64) {
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	nextMonth(t)
	quota := rate * of.seconds
	var nodes []*member
	var bound atomic.Int64
	expose := func() {
		now := int64(0)
		for _, node := range nodes {
			now += node.exposure(t)
		}
		for before := bound.Load(); now > before && !bound.CompareAndSwap(before, now); before = bound.Load() {
		}
	}
	redisURL, own := of.start(t, expose)
	b := production(t).withRedis(redisURL)
	nodes = startMembers(t, b, 3, fmt.Sprint("LINKFORGE_HIT_QUOTA=", quota))
	made := nodes[0].tenant(t, "raced").shorten(t, "https://example.com/raced").Link
	l := newTrafficLink(made, made.path(nodes[0].server), "raced", "302 429 503")
	l.losesCharges = of.loses
	among := faults()
	among["the node freezes"] = freeze
	if of.loses { // a node that does not run has no metrics
		for _, name := range []string{"the node freezes", "the node is killed", "the node restarts"} {
			delete(among, name)
		}
	}
	if nodes[0].redis == nil {
		delete(among, "Redis refuses")
		delete(among, "Redis is silent")
	}

	var running sync.WaitGroup
	visits := time.NewTicker(time.Second / time.Duration(rate))
	defer visits.Stop()
	incidents := time.NewTicker(500 * time.Millisecond)
	defer incidents.Stop()
	client := impatient()
	for sent := 0; sent < quota*3/2; {
		select {
		case <-visits.C:
			sent++
			address := nodes[rng.IntN(len(nodes))].address
			running.Go(func() { l.request(t, client, address) })
		case <-incidents.C:
			one, next := rand.New(rand.NewPCG(rng.Uint64(), 0)), among
			if rng.IntN(4) == 0 {
				next = own
			}
			running.Go(func() { happen(t, one, nodes, next, 3*time.Second) })
		}
	}
	running.Wait()
	if seen := l.seen.Load(); seen > int64(quota)+bound.Load() {
		t.Errorf("%d redirects of a quota of %d, and a bound of %d", seen, quota, bound.Load())
	}
	for _, node := range nodes {
		node.stop()
	}
	last := nodes[0] // it adopts the logs of killed nodes, and so the hits that they did not use
	last.again()
	var n int64
	t.Cleanup(func() {
		if t.Failed() {
			k := b.openRedis(t)
			defer k.Close()
			keys := "links:{" + l.id + "}:leases:" + click.MonthOf(time.Now()).String()
			t.Logf("%d clicks, charged %d, leases %v", n, chargedOf(t, b, l.id),
				k.HGetAll(context.Background(), keys).Val())
		}
	})
	polltest.Until(t, "the quota is used up and every click is counted", func() bool {
		status := l.request(t, client, last.address)
		n = b.countClicks(t, l.id)
		return n == int64(quota) || of.loses && n >= l.seen.Load() && status == http.StatusTooManyRequests
	})
	last.stop()
	clicks := l.check(t, b)
	t.Logf("%d redirects seen, %d GETs without a response, %d clicks of %d, bound %d", l.seen.Load(), l.unsure.Load(),
		clicks, quota, bound.Load())
	if clicks > int64(quota)+bound.Load() || !of.loses && clicks != int64(quota) {
		t.Errorf("%d clicks, want the quota of %d, and at most %d more after a loss", clicks, quota, bound.Load())
	}
}

// exposure returns linkforge_quota_overshoot_bound of a node.
func (m *member) exposure(t *testing.T) (n int64) {
	t.Helper()
	must.Value(fmt.Sscan(metric(t, m.admin, "linkforge_quota_overshoot_bound"), &n))(t)
	return n
}

// impatient is a client that gives up after five seconds and follows no redirect.
func impatient() *http.Client {
	c := newClient()
	c.Timeout = 5 * time.Second
	return c
}
