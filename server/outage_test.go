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

// misses returns a function that reports whether /readyz says that something does not answer.
func (s *server) misses(what string) func() bool {
	return func() bool {
		a, err := s.get("/readyz")
		return err == nil && strings.Contains(a.body, what+" does not answer")
	}
}
