package main

import (
	"context"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/linkforge/linkforge/internal/click"
	"github.com/linkforge/linkforge/internal/click/clickstore"
	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/faulttest"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/poll"
	"github.com/linkforge/linkforge/internal/platform/poll/polltest"
	"github.com/linkforge/linkforge/internal/platform/suitetest"
)

// crowd are visitors who follow a short URL repeatedly, and count the responses.
type crowd struct {
	url       string
	http      *http.Client // its own: the server's is another after each start
	seen      atomic.Int64 // redirects
	unsure    atomic.Int64 // requests without an answer
	slowest   atomic.Int64 // nanoseconds, since it was last set to zero
	mu        sync.Mutex
	otherwise map[int]int
	running   sync.WaitGroup
	stop      context.CancelFunc
}

// breath is the pause of a visitor after a response, so that concurrent tests have processors.
const breath = 10 * time.Millisecond

// gather lets n visitors loose, who wait for so long between two visits. The first one comes again
// until the link is in the cache of the server, which may take longer than a visitor waits on a
// busy machine.
func gather(t *testing.T, s *server, path string, n int, wait time.Duration) *crowd {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	v := &crowd{url: "http://" + s.address + path, otherwise: map[int]int{}, stop: cancel, http: newClient()}
	polltest.Until(t, "the first visitor is redirected", func() bool {
		v.once()
		return v.seen.Load() == 1
	})
	clear(v.otherwise)
	for range n {
		v.running.Go(func() {
			for ctx.Err() == nil {
				v.once()
				_ = poll.Wait(ctx, wait)
			}
		})
	}
	t.Cleanup(v.end)
	return v
}

func (v *crowd) once() {
	began := time.Now()
	a, err := v.http.Get(v.url)
	if err == nil {
		_, err = io.Copy(io.Discard, a.Body)
		_ = a.Body.Close()
	}
	if err != nil {
		v.unsure.Add(1)
		polltest.Elapse(time.Millisecond) // the server is down: yields the processor
		return
	}
	if a.StatusCode == http.StatusFound {
		v.seen.Add(1)
		for took := int64(time.Since(began)); ; {
			if slowest := v.slowest.Load(); took <= slowest || v.slowest.CompareAndSwap(slowest, took) {
				return
			}
		}
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.otherwise[a.StatusCode]++
}

// end waits until every visitor has had an answer.
func (v *crowd) end() {
	v.stop()
	v.running.Wait()
}

// others are the answers that were no redirects.
func (v *crowd) others() map[int]int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return maps.Clone(v.otherwise)
}

// clicksOf is how many clicks of the link there are, by its total, since the last month began, and row by row.
func clicksOf(t *testing.T, b backend, linkID string) (total, sums, rows int64) {
	t.Helper()
	d := must.Value(b.open())(t)
	defer d.Close()
	ctx := db.AsSystem(t.Context())
	total = must.Value(clickstore.LinkCounts(ctx, d, linkID))(t)[linkID]
	counts, _, err := (&clickstore.Ledger{DB: d}).Since(ctx, "", []string{linkID}, click.MonthOf(time.Now())-1)
	must.NoError(t, err)
	n := must.Value(d.NewSelect().Table("clicks").Where("link_id = ?", linkID).Count(ctx))(t)
	return total, counts[linkID].Clicks, int64(n)
}

// endIngested ends the visits, which have had no other answers, and waits until the click logs of
// dead processes are ingested.
func (v *crowd) endIngested(t *testing.T, b backend, linkID string) {
	t.Helper()
	v.end()
	if others := v.others(); len(others) > 0 {
		t.Errorf("other answers: %v", others)
	}
	polltest.Until(t, "the click logs of the dead processes are ingested", func() bool {
		total, _, _ := clicksOf(t, b, linkID)
		return total >= v.seen.Load()
	})
}

// expectCounted expects every redirect to be counted once in every place, and requests without a
// response at most once.
func (v *crowd) expectCounted(t *testing.T, b backend, linkID string) {
	t.Helper()
	total, sums, rows := clicksOf(t, b, linkID)
	if total != sums || total != rows {
		t.Errorf("%d clicks in all, %d by their sums, %d rows", total, sums, rows)
	}
	if seen, unsure := v.seen.Load(), v.unsure.Load(); total < seen || total > seen+unsure {
		t.Errorf("%d clicks, of %d redirects that were seen and %d requests without an answer", total, seen, unsure)
	}
}

// TestClicks_SurviveKills kills a server under load at random times: every redirect is counted
// once. The quota holds, because unused hits of dead processes return.
func TestClicks_SurviveKills(t *testing.T) {
	t.Parallel()
	eachBackend(t, func(t *testing.T, b backend) {
		node := start(t, b.inProcesses(), "LINKFORGE_HIT_QUOTA=1000000000")
		who := node.tenant(t, "killed")
		l := who.shorten(t, "https://example.com/popular").Link
		v := gather(t, node, l.path(node), 16, breath)
		for range kills {
			polltest.Elapse(100*time.Millisecond + rand.N(400*time.Millisecond)) // at a random time
			node.killAndRestart()
		}
		v.endIngested(t, b, l.ID)
		node.stop()
		v.expectCounted(t, b, l.ID)
		t.Logf("%d redirects seen, %d requests without an answer", v.seen.Load(), v.unsure.Load())
	})
}

// TestFault_QuotaSurvivesKills: a link is followed while its server is killed, until its quota is used
// up. The redirects never exceed the quota, and unused hits of dead processes have returned by
// then.
func TestFault_QuotaSurvivesKills(t *testing.T) {
	suitetest.Fault(t)
	t.Parallel()
	eachBackend(t, func(t *testing.T, b backend) {
		const limit = 1000
		node := start(t, b.inProcesses(), "LINKFORGE_HIT_QUOTA=1000")
		l := node.tenant(t, "quota").shorten(t, "https://example.com/limited").Link
		v := gather(t, node, l.path(node), 8, breath)
		for v.others()[http.StatusTooManyRequests] == 0 {
			polltest.Elapse(rand.N(200 * time.Millisecond))
			node.killAndRestart()
			polltest.Elapse(100 * time.Millisecond)
		}
		polltest.Settled(t, "no visitor is redirected any more", leaseReturn, v.seen.Load)
		v.end()
		node.stop()
		v.expectCounted(t, b, l.ID)
		if total, _, _ := clicksOf(t, b, l.ID); total != limit {
			t.Errorf("%d clicks, want the %d of the quota", total, limit)
		}
	})
}

// leaseReturn is the time within which hits that a node holds become available to another node.
const leaseReturn = 3 * time.Second

// kills is how often a server is killed.
var kills = suitetest.Size(2, 6)

// outage is the duration of an outage.
func outage() time.Duration { return suitetest.Size(2*time.Second, 5*time.Second) }

// behindProxies is a backend whose connections to the database and Redis pass proxies.
func behindProxies(t *testing.T) (b backend, database, redis *faulttest.Proxy) {
	t.Helper()
	return throughProxies(t, production(t))
}

// throughProxies returns the same backend with connections that pass proxies. A Redis with sentinels has none: they
// name other addresses.
func throughProxies(t *testing.T, of backend) (b backend, database, redis *faulttest.Proxy) {
	t.Helper()
	b = of
	b.env, b.fails = slices.Clone(of.env), true
	for i, setting := range b.env {
		if u, ok := strings.CutPrefix(setting, "LINKFORGE_DATABASE_URL="); ok && u != "sqlite" {
			database, u = faulttest.ForURL(t, u)
			b.env[i] = "LINKFORGE_DATABASE_URL=" + u
		}
		if u, ok := strings.CutPrefix(setting, "LINKFORGE_REDIS_URL="); ok && !strings.HasPrefix(u, "redis+sentinel:") {
			redis, u = faulttest.ForURL(t, u)
			b.env[i] = "LINKFORGE_REDIS_URL=" + u
		}
	}
	return b, database, redis
}

// TestRedirect_ServesWithoutDatabase: PostgreSQL is down for a while under load. Cached links keep
// redirecting, no click is lost, and the server recovers soon after.
func TestRedirect_ServesWithoutDatabase(t *testing.T) {
	t.Parallel()
	t.Run("postgres", func(t *testing.T) {
		t.Run("redis", func(t *testing.T) {
			t.Parallel()
			b, database, _ := behindProxies(t)
			node := start(t, b.inProcesses(), "LINKFORGE_HIT_QUOTA=1000000000")
			l := node.tenant(t, "outage").shorten(t, "https://example.com/known").Link
			v := gather(t, node, l.path(node), suitetest.Size(2, 16), breath)
			more := func() { // visits
				before := v.seen.Load()
				polltest.Until(t, "visitors are redirected", func() bool { return v.seen.Load() > before+100 })
			}
			more()
			database.Set(faulttest.Refuse)
			polltest.Until(t, "the server notices", node.misses("the database"))
			polltest.Elapse(suitetest.Size(time.Second, outage()))
			more()
			database.Set(faulttest.Pass)
			polltest.Until(t, "the server recovers", func() bool { return !node.misses("the database")() })
			more()
			v.end()
			if others := v.others(); len(others) > 0 || v.unsure.Load() > 0 {
				t.Errorf("other answers: %v, and %d without one", others, v.unsure.Load())
			}
			node.stop()
			v.expectCounted(t, b, l.ID)
			t.Logf("%d redirects, the slowest took %s", v.seen.Load(), time.Duration(v.slowest.Load()))
		})
	})
}

// misses returns a function that reports whether /readyz says that something does not answer.
func (s *server) misses(what string) func() bool {
	return func() bool {
		a, err := s.get("/readyz")
		return err == nil && strings.Contains(a.body, what+" does not answer")
	}
}

// TestFault_RedisRestartsEmpty: Redis is down for a while and returns empty, under load on two
// nodes. Visitors receive only redirects until the quota is used up, every redirect is counted, and
// the quota is exceeded by at most the bound that the nodes report.
func TestFault_RedisRestartsEmpty(t *testing.T) {
	suitetest.Fault(t)
	t.Parallel()
	t.Run("postgres", func(t *testing.T) {
		t.Run("redis", func(t *testing.T) {
			t.Parallel()
			redis := dbtest.NewRedisServer(t)
			b := production(t).withRedis(redis.URL)
			nodes := startMembers(t, b, 2, "LINKFORGE_HIT_QUOTA=1000000000")
			who := nodes[0].tenant(t, "outage")
			endless, limited := who.shorten(t, "https://example.com/endless").Link,
				who.shorten(t, "https://example.com/limited").Link
			const limit = 4000
			d := must.Value(b.open())(t)
			defer d.Close()
			both := func(l linkView) (first, second *crowd) {
				path := l.path(nodes[0].server)
				return gather(t, nodes[0].server, path, 8, breath), gather(t, nodes[1].server, path, 8, breath)
			}
			first, second := both(endless)
			polltest.Until(t, "there is load", func() bool {
				return first.seen.Load() > 100 && second.seen.Load() > 100
			})
			redis.Stop()
			polltest.Elapse(outage())
			redis.Start(t)
			polltest.Elapse(outage())
			for _, v := range []*crowd{first, second} {
				v.end()
				if others := v.others(); len(others) > 0 || v.unsure.Load() > 0 {
					t.Errorf("other answers: %v, and %d without one", others, v.unsure.Load())
				}
			}
			all := first.seen.Load() + second.seen.Load()
			// A quota that is used up across another outage.
			must.Value(d.NewUpdate().Table("workspaces").Set("hit_quota = ?", limit).Where("slug = ?", "outage").
				Exec(db.AsSystem(t.Context())))(t)
			polltest.Elapse(time.Second) // until every node knows
			first, second = both(limited)
			polltest.Until(t, "a quarter is used", func() bool {
				return first.seen.Load()+second.seen.Load() > limit/4
			})
			bound := nodes[0].exposure(t) + nodes[1].exposure(t)
			redis.Stop()
			polltest.Elapse(500 * time.Millisecond)
			redis.Start(t)
			polltest.Settled(t, "no visitor is redirected any more", leaseReturn, func() int64 {
				return first.seen.Load() + second.seen.Load()
			})
			first.end()
			second.end()
			for _, node := range nodes {
				node.stop()
			}
			seen := first.seen.Load() + second.seen.Load()
			if seen < limit || seen > limit+bound {
				t.Errorf("%d redirects, want %d, and at most %d more", seen, limit, bound)
			}
			for _, v := range []*crowd{first, second} {
				for status, n := range v.others() {
					if status != http.StatusTooManyRequests {
						t.Errorf("%d answers %d", n, status)
					}
				}
			}
			if total, sums, rows := clicksOf(t, b, endless.ID); total != all || sums != all || rows != all {
				t.Errorf("%d clicks in all, %d by their sums, %d rows; want %d", total, sums, rows, all)
			}
			if total, sums, rows := clicksOf(t, b, limited.ID); total != seen || sums != seen || rows != seen {
				t.Errorf("%d clicks in all, %d by their sums, %d rows; want %d", total, sums, rows, seen)
			}
		})
	})
}
