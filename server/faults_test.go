package main

import (
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/linkforge/linkforge/internal/platform/faulttest"
	"github.com/linkforge/linkforge/internal/platform/poll"
	"github.com/linkforge/linkforge/internal/platform/poll/polltest"
	"github.com/linkforge/linkforge/internal/platform/suitetest"
)

// timings are how long operations took.
type timings struct {
	mu    sync.Mutex
	took  []time.Duration
	bad   map[string]int // results that were not expected
	calls sync.WaitGroup
	ended chan struct{}
}

// repeat calls an operation at an interval from one goroutine, until stop is called.
func repeat(t *testing.T, every time.Duration, operation func() (problem string)) *timings {
	t.Helper()
	c := &timings{bad: map[string]int{}, ended: make(chan struct{})}
	c.calls.Go(func() {
		for {
			select {
			case <-c.ended:
				return
			default:
			}
			began := time.Now()
			problem := operation()
			c.mu.Lock()
			c.took = append(c.took, time.Since(began))
			if problem != "" {
				c.bad[problem]++
			}
			c.mu.Unlock()
			_ = poll.Wait(t.Context(), every)
		}
	})
	return c
}

// stop returns the number of calls, the median and the maximum of their durations.
func (c *timings) stop() (n int, median, slowest time.Duration) {
	close(c.ended)
	c.calls.Wait()
	slices.Sort(c.took)
	n = len(c.took)
	return n, c.took[n/2], c.took[n-1]
}

// bounded is the longest time of a call on a busy machine.
func bounded(bound time.Duration) time.Duration { return max(5*bound, time.Second) }

// TestRedirect_DoesNotWaitForRedis: Redis accepts connections and answers nothing. Neither
// redirects nor API operations wait for it, with rate limits on, and all of them succeed, as quotas
// are open. Only the first ones, and those of a busy machine, take longer than the median. Then the node starts without
// Redis.
func TestRedirect_DoesNotWaitForRedis(t *testing.T) {
	t.Parallel()
	b, _, redis := behindProxies(t)
	node := start(t, b, "LINKFORGE_RATE_LIMITS=on", "LINKFORGE_LINK_RATE=0", "LINKFORGE_QUOTA_OUTAGE=open")
	who := node.tenant(t, "black")
	l := who.shorten(t, "https://example.com/known").Link
	follow := func() string {
		if a, err := node.get(l.path(node)); err != nil || a.status != http.StatusFound {
			return "no redirect"
		}
		return ""
	}
	operate := func() string {
		if err := who.try(&struct{}{}, "{ me { id } }", nil); err != nil {
			return err.Error()
		}
		return ""
	}
	redis.Set(faulttest.BlackHole)
	redirects, operations := repeat(t, breath, follow), repeat(t, breath, operate)
	polltest.Elapse(outage())
	for name, c := range map[string]struct {
		*timings
		bound time.Duration
	}{"redirects": {redirects, 150 * time.Millisecond}, "API operations": {operations, 300 * time.Millisecond}} {
		n, median, slowest := c.stop()
		t.Logf("%d %s, median %s, slowest %s", n, name, median, slowest)
		if median > c.bound || len(c.bad) > 0 {
			t.Errorf("%s: median %s, want %s at most; problems: %v", name, median, c.bound, c.bad)
		}
	}
	isUsed := func() bool {
		a, err := node.get("/readyz/redis")
		return err == nil && a.status == http.StatusOK && a.body == "ready\n"
	}
	redis.Set(faulttest.Pass)
	polltest.Until(t, "Redis is used again", isUsed)
	node.stop()
	redis.Set(faulttest.Refuse)
	node.again()
	node.expect(t, http.StatusFound, http.MethodGet, l.path(node))
	polltest.Until(t, "the node reports that it has no Redis", func() bool {
		a, err := node.get("/readyz/redis")
		return err == nil && a.status == http.StatusServiceUnavailable
	})
	redis.Set(faulttest.Pass)
	polltest.Until(t, "Redis is used again", isUsed)
}

// TestRedirect_ServesWithoutDatabase: PostgreSQL refuses connections, or hangs as after SIGSTOP. Links in memory are
// redirected, other visitors get 503 with Retry-After at once, no click is lost, and the node recovers soon.
func TestRedirect_ServesWithoutDatabase(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		mode      faulttest.Mode
		tolerated []int
	}{"refuses": {faulttest.Refuse, nil}, "hangs": {faulttest.BlackHole, []int{http.StatusServiceUnavailable}}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, database, _ := behindProxies(t)
			node := start(t, b, "LINKFORGE_HIT_QUOTA=1000000000")
			who := node.tenant(t, "stopped")
			known := who.shorten(t, "https://example.com/known").Link
			other := who.shorten(t, "https://example.com/other").Link
			v := gather(t, node, known.path(node), suitetest.Size(2, 16), breath)
			database.Set(c.mode)
			polltest.Until(t, "the server notices", node.misses("the database"))
			refusals := repeat(t, 50*time.Millisecond, func() string {
				a, err := node.get(other.path(node))
				if err != nil || a.status != http.StatusServiceUnavailable || a.header.Get("Retry-After") == "" {
					return "no 503 with Retry-After"
				}
				return ""
			})
			polltest.Elapse(outage())
			n, median, slowest := refusals.stop()
			t.Logf("%d visits of the other link, median %s, slowest %s", n, median, slowest)
			if slowest > bounded(time.Second) || len(refusals.bad) > 0 {
				t.Errorf("slowest %s, problems: %v", slowest, refusals.bad)
			}
			database.Set(faulttest.Pass)
			began := time.Now()
			polltest.Until(t, "the node has recovered", func() bool {
				a, err := node.get(other.path(node))
				return err == nil && a.status == http.StatusFound
			})
			if took := time.Since(began); took > bounded(5*time.Second) {
				t.Errorf("the recovery took %s", took)
			}
			if slowest := expectOnly(t, []*crowd{v}, c.tolerated...); slowest > bounded(time.Second) {
				t.Errorf("the slowest redirect took %s", slowest)
			}
			node.stop()
			v.expectCounted(t, b, known.ID)
		})
	}
}

// TestRedirect_UnverifiedCodeIsNoNotFound: a node has remembered that a code is unknown, then the code
// is created on another node, and the first node loses its database: it must not answer 404.
func TestRedirect_UnverifiedCodeIsNoNotFound(t *testing.T) {
	t.Parallel()
	b := production(t)
	cut, database, _ := throughProxies(t, b)
	first := start(t, cut)
	who := first.tenant(t, "twin")
	path := "/twin/later"
	first.expect(t, http.StatusNotFound, http.MethodGet, path)
	second := start(t, b, "LINKFORGE_PUBLIC_URL="+first.public)
	var made struct {
		CreateLink struct{ Link struct{ Code string } }
	}
	who.onServer(second).must(t, &made, `mutation ($w: ID!) {
		createLink(input: {workspaceId: $w, url: "https://example.com/later", customCode: "later"}) { link { code } }
	}`, map[string]any{"w": who.workspaceID})
	database.Set(faulttest.BlackHole)
	polltest.Until(t, "the absence is not believed any more", func() bool {
		a, err := first.get(path)
		return err == nil && a.status == http.StatusServiceUnavailable
	})
	for range 20 {
		first.expect(t, http.StatusServiceUnavailable, http.MethodGet, path)
	}
	database.Set(faulttest.Pass)
	polltest.Until(t, "the link is found", func() bool {
		a, err := first.get(path)
		return err == nil && a.status == http.StatusFound
	})
}
