package main

import (
	"net/http"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/must"
	"github.com/linkforge/linkforge/internal/polltest"
)

// hitQuota is the monthly quota of a link.
const hitQuota = 50

func TestHitQuota_IsExact(t *testing.T) {
	t.Parallel()
	eachBackend(t, func(t *testing.T, b backend) {
		ends := nextMonth(t)
		nodes := startAll(t, b, 2*b.nodes-1, "LINKFORGE_HIT_QUOTA="+strconv.Itoa(hitQuota))
		who := nodes[0].tenant(t, "visited")
		l := who.shorten(t, "https://example.com/popular").Link

		got := visitAtOnce(t, nodes, l.path(nodes[0]), 5*hitQuota, ends)
		want := map[int]int{http.StatusFound: hitQuota, http.StatusTooManyRequests: 4 * hitQuota}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("answers (-want +got):\n%s", diff)
		}
		polltest.Until(t, "every redirect is counted", func() bool {
			return who.getLink(t, l.ID).ClickCount == int64(hitQuota)
		})

		for _, node := range nodes { // the database knows, whatever happens to a node
			node.stop()
			node.again()
			refused(t, node.expect(t, http.StatusTooManyRequests, http.MethodGet, l.path(node)), ends)
		}
		if got := chargedOf(t, b, l.ID); got != int64(hitQuota) {
			t.Errorf("%d hits are charged, want %d", got, hitQuota)
		}
		after := who.getLink(t, l.ID)
		if after.ClickCount != int64(hitQuota) || after.HitQuota.Used != int64(hitQuota) || after.HitQuota.Remaining != 0 {
			t.Errorf("%d clicks, quota %+v; want %d of %d used", after.ClickCount, after.HitQuota, hitQuota, hitQuota)
		}
	})
}

// visitAtOnce follows a short URL n times at once, on all nodes in turn, and returns the number
// of responses by status. A visitor who gets 503 has used nothing, and comes again, up to five times.
func visitAtOnce(t *testing.T, nodes []*server, path string, n int, ends time.Time) map[int]int {
	t.Helper()
	var mu sync.Mutex
	statuses := map[int]int{}
	gate := make(chan struct{})
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			<-gate
			a, err := nodes[i%len(nodes)].get(path)
			for range 5 {
				if err != nil || a.status != http.StatusServiceUnavailable {
					break
				}
				a, err = nodes[i%len(nodes)].get(path)
			}
			if err != nil {
				t.Error(err)
				return
			}
			if a.status == http.StatusTooManyRequests {
				refused(t, a, ends)
			}
			mu.Lock()
			defer mu.Unlock()
			statuses[a.status]++
		})
	}
	close(gate)
	all.Wait()
	return statuses
}

// refused checks that a 429 says when the month ends.
func refused(t *testing.T, a answer, ends time.Time) {
	t.Helper()
	wait, err := strconv.Atoi(a.header.Get("Retry-After"))
	left := time.Until(ends)
	if got := time.Duration(wait) * time.Second; err != nil || got < left-time.Second || got > left+patience {
		t.Errorf("Retry-After %q, the month ends in %s", a.header.Get("Retry-After"), left)
	}
	if wait < 1 || wait > 31*24*60*60 {
		t.Errorf("Retry-After %d: no month is as long", wait)
	}
	if location := a.header.Get("Location"); location != "" {
		t.Errorf("a refusal leads to %s", location)
	}
}

// chargedOf returns the monthly hits that the database has granted for a link.
func chargedOf(t *testing.T, b backend, linkID string) (hits int64) {
	t.Helper()
	d := must.Value(b.open())(t)
	defer d.Close()
	must.NoError(t, d.NewSelect().Table("hit_usage").ColumnExpr("CAST(coalesce(sum(hits), 0) AS BIGINT)").
		Where("link_id = ?", linkID).Scan(db.AsSystem(t.Context()), &hits))
	return hits
}
