package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/dbtest"
	"github.com/linkforge/linkforge/internal/polltest"
)

// failover is a Redis with a replica that takes over.
type failover struct {
	url  string
	kill func(linkID string)
}

// eachFailover runs the test on a cluster and on what sentinels watch over.
func eachFailover(t *testing.T, test func(t *testing.T, f failover)) {
	t.Helper()
	t.Run("cluster", func(t *testing.T) {
		t.Parallel()
		c := dbtest.NewCluster(t, 3, 1, time.Second)
		test(t, failover{c.URL, func(linkID string) { c.KillMaster(t, "links:{"+linkID+"}") }})
	})
	t.Run("sentinels", func(t *testing.T) {
		t.Parallel()
		s := dbtest.NewSentinels(t, 500*time.Millisecond)
		test(t, failover{s.URL, func(string) { s.KillMaster() }})
	})
}

// count is what crowds have seen together.
func count(all []*crowd) (seen int64) {
	for _, v := range all {
		seen += v.seen.Load()
	}
	return seen
}

// lagging measures the maximum number of a link's clicks that were not in the database at a time,
// until most is called.
func lagging(t *testing.T, b backend, linkID string, all []*crowd) (most func() int64) {
	t.Helper()
	var behind atomic.Int64
	ctx, cancel := context.WithCancel(t.Context())
	var sampling sync.WaitGroup
	sampling.Go(func() {
		next := time.NewTicker(50 * time.Millisecond)
		defer next.Stop()
		for ; ctx.Err() == nil; <-next.C {
			seen := count(all)
			total, _, _ := clicksOf(t, b, linkID)
			behind.Store(max(behind.Load(), seen-total))
		}
	})
	return func() int64 {
		cancel()
		sampling.Wait()
		return behind.Load()
	}
}

// awaitRedis waits until the node has noticed the outage of Redis, and counts in Redis again.
func (s *server) awaitRedis() {
	s.t.Helper()
	polltest.Until(s.t, "Redis is noticed to be away, and counts again", func() bool {
		said := content(s.t, s.err)
		gone, back := strings.LastIndex(said, "monthly hits cannot be taken"),
			strings.LastIndex(said, "monthly hits are taken again")
		return gone >= 0 && back > gone
	})
}

// expectOnly wants every visitor answered redirects, or the status, and returns the time of the
// slowest redirect.
func expectOnly(t *testing.T, status int, all []*crowd) (slowest time.Duration) {
	t.Helper()
	for _, v := range all {
		v.end()
		others := v.others()
		delete(others, status)
		if len(others) > 0 || v.unsure.Load() > 0 {
			t.Errorf("other answers: %v, and %d without one", others, v.unsure.Load())
		}
		slowest = max(slowest, time.Duration(v.slowest.Load()))
	}
	return slowest.Round(time.Millisecond)
}

// TestFailover_KeepsRedirecting kills a Redis master under load on two nodes; its replica takes
// over. Visitors are redirected until the quota is used up and receive 429 then, also at links that
// were not followed before. Every redirect is counted, and redirects exceed the quota at most by
// leased and unwritten hits.
func TestFailover_KeepsRedirecting(t *testing.T) {
	t.Parallel()
	eachFailover(t, func(t *testing.T, f failover) {
		const limit = 1200
		b := production(t)
		b.fails = true
		b.env = append(b.env, "LINKFORGE_REDIS_URL="+f.url)
		nodes := startAll(t, b, 2, "LINKFORGE_HIT_QUOTA=1000000000")
		who := nodes[0].tenant(t, "failover")
		limited, busy := who.shorten(t, "https://example.com/limited").Link, nodes[0].tenant(t, "busy").
			shorten(t, "https://example.com/busy").Link
		var fresh []linkView
		for i := range 10 {
			fresh = append(fresh, who.shorten(t, fmt.Sprintf("https://example.com/fresh/%d", i)).Link)
		}
		d, err := b.open()
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		if _, err := d.NewUpdate().Table("workspaces").Set("hit_quota = ?", limit).Where("slug = ?", "failover").
			Exec(db.AsSystem(t.Context())); err != nil {
			t.Fatal(err)
		}
		var counted, others []*crowd
		for _, node := range nodes {
			counted = append(counted, gather(t, node, limited.path(nodes[0]), 3, 25*time.Millisecond))
			others = append(others, gather(t, node, busy.path(nodes[0]), 2, breath))
		}
		most := lagging(t, b, limited.ID, counted)
		polltest.Until(t, "a quarter is used", func() bool { return count(counted) > limit/4 })
		f.kill(limited.ID)
		died := time.Now()
		for i, l := range fresh {
			others = append(others, gather(t, nodes[i%2], l.path(nodes[0]), 1, 50*time.Millisecond))
		}
		for _, node := range nodes {
			node.awaitRedis()
			t.Logf("a node's hits were counted by Redis again after %s", time.Since(died).Round(10*time.Millisecond))
		}
		then := count(counted)
		polltest.Settled(t, "no visitor is redirected any more", leaseReturn, func() int64 { return count(counted) })
		bound := most() + 2*2*128 // the parts of the documented bound: unwritten clicks, and leases from both sources
		slowest := expectOnly(t, http.StatusTooManyRequests, append(others, counted...))
		for _, node := range nodes {
			node.stop()
		}
		seen := count(counted)
		if seen < limit || seen > limit+bound {
			t.Errorf("%d redirects, want %d to %d", seen, limit, limit+bound)
		}
		if total, sums, rows := clicksOf(t, b, limited.ID); total != seen || sums != seen || rows != seen {
			t.Errorf("%d clicks in all, %d by their sums, %d rows; want %d", total, sums, rows, seen)
		}
		t.Logf("%d redirects of %d, %d of them when Redis counted again; the bound was %d more; the slowest of %d took %s",
			seen, limit, then, bound, count(append(others, counted...)), slowest)
	})
}
