package main

import (
	"net/http"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/linkforge/linkforge/internal/dbtest"
	"github.com/linkforge/linkforge/internal/polltest"
	"github.com/linkforge/linkforge/internal/redisx"
)

// hitQuota is 1,000 in the field, less in the suite.
var hitQuota = sized("LINKFORGE_TEST_HIT_QUOTA", 50)

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

		// Redis forgets; the database does not.
		if b.nodes == 1 {
			nodes[0].stop()
			nodes[0].again()
		}
		for _, node := range nodes {
			forget(t, b, l.ID, ends)
			polltest.Until(t, "the counter is re-created", func() bool {
				refused(t, node.expect(t, http.StatusTooManyRequests, http.MethodGet, l.path(node)), ends)
				return b.nodes == 1 || counterOf(t, l.ID, ends) == hitQuota
			})
		}
		forget(t, b, l.ID, ends)
		after := who.getLink(t, l.ID)
		if after.ClickCount != int64(hitQuota) || after.HitQuota.Used != int64(hitQuota) || after.HitQuota.Remaining != 0 {
			t.Errorf("%d clicks, quota %+v; want %d of %d used", after.ClickCount, after.HitQuota, hitQuota, hitQuota)
		}
	})
}

// visitAtOnce follows a short URL n times at once, on all nodes in turn, and returns the number
// of responses by status.
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

// counterOf returns the link's counter in Redis; zero if it does not exist.
func counterOf(t *testing.T, linkID string, ends time.Time) int {
	t.Helper()
	k, err := redisx.Open(os.Getenv(dbtest.RedisURL), 1)
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	n, _ := k.Get(t.Context(), "links:{"+linkID+"}:hits:"+ends.AddDate(0, -1, 0).Format("2006-01")).Int()
	return n
}

// forget deletes the link's counter from Redis, which must have held it with an expiry a day after
// the month's end. The in-process Redis cannot be reached.
func forget(t *testing.T, b backend, linkID string, ends time.Time) {
	t.Helper()
	if b.nodes == 1 {
		return
	}
	k, err := redisx.Open(os.Getenv(dbtest.RedisURL), 1)
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	key := "links:{" + linkID + "}:hits:" + ends.AddDate(0, -1, 0).Format("2006-01")
	if used, err := k.Get(t.Context(), key).Int(); err != nil || used != hitQuota {
		t.Errorf("the counter stands at %d, want %d: %v", used, hitQuota, err)
	}
	lives, err := k.PTTL(t.Context(), key).Result()
	if left := time.Until(ends.AddDate(0, 0, 1)); err != nil || lives < left-time.Second || lives > left+25*time.Hour {
		t.Errorf("the counter lives for %s, its month and a day for %s: %v", lives, left, err)
	}
	if n, err := k.Del(t.Context(), key).Result(); err != nil || n != 1 {
		t.Fatalf("%d counters deleted: %v", n, err)
	}
}
