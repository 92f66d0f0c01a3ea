package hitquota

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/linkforge/linkforge/internal/dbtest"
	"github.com/linkforge/linkforge/internal/id"
)

// TestRedis_LimitIsExactInACluster: three nodes concurrently take hits of many links, which are spread
// over all masters. Each link has five times as many visitors as its limit.
func TestRedis_LimitIsExactInACluster(t *testing.T) {
	t.Parallel()
	const links, limit, visitors, rounds = 40, 1000, 50, 33 // of each node
	k, c := dbtest.Redis(t, dbtest.ClusterURL(t)), &clock{}
	nodes := []*node{newNode(t, k, c, none), newNode(t, k, c, none), newNode(t, k, c, none)}
	through := make([]atomic.Int64, links)
	linkIDs := make([]string, links)
	for i := range linkIDs {
		linkIDs[i] = id.New(id.Link)
	}
	followAll := func() {
		var all sync.WaitGroup
		for i, linkID := range linkIDs {
			for _, n := range nodes {
				all.Go(func() { through[i].Add(n.follow(t, linkID, visitors, limit)) })
			}
		}
		all.Wait()
	}
	for range rounds {
		followAll()
	}
	for range 2 { // unused hits of a node return to the others
		c.advance(plentyLife)
		for _, n := range nodes {
			n.reap(t.Context(), false)
		}
		followAll()
	}
	for i, linkID := range linkIDs {
		if got := through[i].Load(); got != limit || countOf(t, k, linkID) != limit {
			t.Errorf("link %d: %d were let through and %d counted, want %d", i, got, countOf(t, k, linkID), limit)
		}
	}
}
