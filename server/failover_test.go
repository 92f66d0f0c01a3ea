package main

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/db/dbtest"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/poll/polltest"
	"github.com/linkforge/linkforge/internal/platform/suitetest"
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

// expectOnly requires that visitors receive redirects or one of the statuses, and returns the time of the slowest
// redirect.
func expectOnly(t *testing.T, all []*crowd, statuses ...int) (slowest time.Duration) {
	t.Helper()
	for _, v := range all {
		v.end()
	}
	for _, v := range all {
		others := v.others()
		for _, status := range statuses {
			delete(others, status)
		}
		if len(others) > 0 || v.unsure.Load() > 0 {
			t.Errorf("other answers: %v, and %d without one", others, v.unsure.Load())
		}
		slowest = max(slowest, time.Duration(v.slowest.Load()))
	}
	return slowest.Round(time.Millisecond)
}

// TestFailover_KeepsRedirecting kills a Redis master under load on two nodes; its replica takes
// over. Visitors are redirected until the quota is used up and receive 429 then, also at links that
// were not followed before, and 503 while there is no master and the leased hits are used up. Every
// redirect is counted, and the quota is exact.
func TestFailover_KeepsRedirecting(t *testing.T) {
	t.Parallel()
	eachFailover(t, func(t *testing.T, f failover) {
		limit := suitetest.Size[int64](300, 1200)
		perNode, pause := suitetest.Size(1, 3), suitetest.Size(50*time.Millisecond, 25*time.Millisecond)
		b := production(t)
		b.fails = true
		b.env = append(b.env, "LINKFORGE_REDIS_URL="+f.url)
		nodes := startAll(t, b, 2, "LINKFORGE_HIT_QUOTA=1000000000")
		who := nodes[0].tenant(t, "failover")
		limited, busy := who.shorten(t, "https://example.com/limited").Link, nodes[0].tenant(t, "busy").
			shorten(t, "https://example.com/busy").Link
		var fresh []linkView
		for i := range suitetest.Size(4, 10) {
			fresh = append(fresh, who.shorten(t, fmt.Sprintf("https://example.com/fresh/%d", i)).Link)
		}
		d := must.Value(b.open())(t)
		defer d.Close()
		must.Value(d.NewUpdate().Table("workspaces").Set("hit_quota = ?", limit).Where("slug = ?", "failover").
			Exec(db.AsSystem(t.Context())))(t)
		var counted, others []*crowd
		for _, node := range nodes {
			counted = append(counted, gather(t, node, limited.path(nodes[0]), perNode, pause))
			others = append(others, gather(t, node, busy.path(nodes[0]), perNode, pause))
		}
		polltest.Until(t, "a quarter is used", func() bool { return count(counted) > limit/4 })
		f.kill(limited.ID)
		for i, l := range fresh {
			others = append(others, gather(t, nodes[i%2], l.path(nodes[0]), 1, 50*time.Millisecond))
		}
		polltest.Settled(t, "no visitor is redirected any more", leaseReturn, func() int64 { return count(counted) })
		slowest := expectOnly(t, append(others, counted...), http.StatusTooManyRequests, http.StatusServiceUnavailable)
		for _, node := range nodes {
			node.stop()
		}
		seen := count(counted)
		if seen != limit {
			t.Errorf("%d redirects, want %d", seen, limit)
		}
		if total, sums, rows := clicksOf(t, b, limited.ID); total != seen || sums != seen || rows != seen {
			t.Errorf("%d clicks in all, %d by their sums, %d rows; want %d", total, sums, rows, seen)
		}
		t.Logf("the slowest of %d redirects took %s", count(append(others, counted...)), slowest)
	})
}
