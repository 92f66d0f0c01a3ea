package main

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"

	"github.com/linkforge/linkforge/internal/click"
	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/poll/polltest"
	"github.com/linkforge/linkforge/internal/platform/redisx"
	"github.com/linkforge/linkforge/internal/visit/hitquota"
)

// hitQuota is the monthly quota of a link.
const hitQuota = 3000

func TestHitQuota_IsExact(t *testing.T) {
	t.Parallel()
	eachBackend(t, func(t *testing.T, b backend) {
		ends := nextMonth(t)
		nodes := startAll(t, b, b.nodes, "LINKFORGE_HIT_QUOTA="+strconv.Itoa(hitQuota))
		who := nodes[0].tenant(t, "visited")
		l := who.shorten(t, "https://example.com/popular").Link

		got := visitAtOnce(t, nodes, l.path(nodes[0]), 40, hitQuota*6/5, ends)
		want := map[int]int{http.StatusFound: hitQuota, http.StatusTooManyRequests: hitQuota / 5}
		same(t, "answers", got, want)
		polltest.Until(t, "every redirect is counted", func() bool {
			return who.getLink(t, l.ID).ClickCount == int64(hitQuota)
		})

		for _, node := range nodes { // the counter survives restarts
			node.stop()
			node.again()
			refused(t, node.expect(t, http.StatusTooManyRequests, http.MethodGet, l.path(node)), ends)
		}
		if got := chargedOf(t, b, l.ID); got != int64(hitQuota) {
			t.Errorf("%d hits are charged, want %d", got, hitQuota)
		}
		after := who.getLink(t, l.ID)
		if after.ClickCount != int64(hitQuota) || after.HitQuota.Used != int64(hitQuota) ||
			after.HitQuota.Remaining != 0 {
			t.Errorf("%d clicks, quota %+v; want %d of %d used", after.ClickCount, after.HitQuota, hitQuota, hitQuota)
		}
	})
}

// visitAtOnce follows a short URL n times by a number of threads, on all nodes in turn, and returns the number
// of responses by status.
func visitAtOnce(t *testing.T, nodes []*server, path string, threads, n int, ends time.Time) map[int]int {
	t.Helper()
	var mu sync.Mutex
	statuses := map[int]int{}
	var all errgroup.Group
	all.SetLimit(threads)
	for i := range n {
		all.Go(func() error {
			a, err := nodes[i%len(nodes)].visitPath(path)
			if a.status == http.StatusTooManyRequests {
				refused(t, a, ends)
			}
			mu.Lock()
			defer mu.Unlock()
			statuses[a.status]++
			return err
		})
	}
	must.NoError(t, all.Wait())
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

// chargedOf returns the hits that Redis has granted for a link this month, less those of open leases. Without Redis,
// counters end with their process: it returns the clicks.
func chargedOf(t *testing.T, b backend, linkID string) int64 {
	t.Helper()
	k := b.openRedis(t)
	if k == nil {
		clicks, _, _ := clicksOf(t, b, linkID)
		return clicks
	}
	defer k.Close()
	used := must.Value(hitquota.NewRedis(k, "", time.Now).Used(t.Context(), click.MonthOf(time.Now()),
		[]string{linkID}))(t)
	return used[linkID]
}

// openRedis opens the Redis of a backend; nil if it is in the process.
func (b backend) openRedis(t *testing.T) *redisx.Client {
	t.Helper()
	for _, variable := range b.env {
		if u, ok := strings.CutPrefix(variable, "LINKFORGE_REDIS_URL="); ok {
			return must.Value(redisx.Open(patient(u), 1))(t)
		}
	}
	return nil
}

// patient is the URL of one Redis server for a test that reads results: unlike a node, it waits for a busy machine.
func patient(redisURL string) string {
	if strings.HasPrefix(redisURL, "redis+") { // sentinels, or a cluster
		return redisURL
	}
	return redisURL + "?dial_timeout=30s&read_timeout=30s"
}

// openLeases returns the number of open leases of a link. Requests that had no answer leave leases without hits.
func openLeases(t *testing.T, b backend, linkID string) int64 {
	t.Helper()
	k := b.openRedis(t)
	if k == nil {
		return 0
	}
	defer k.Close()
	all := must.Value(k.HVals(t.Context(), "links:{"+linkID+"}:leases:"+click.MonthOf(time.Now()).String()).Result())(t)
	return int64(len(slices.DeleteFunc(all, func(hits string) bool { return hits == "0" })))
}

// TestHitQuota_SurvivesKills: counters of an embedded instance end with its process. The clicks of its log count
// from the first request on, before they are ingested.
func TestHitQuota_SurvivesKills(t *testing.T) {
	t.Parallel()
	ends := nextMonth(t)
	s := start(t, embedded(t).inProcesses(), "LINKFORGE_HIT_QUOTA=1000", "LINKFORGE_RATE_LIMITS=off")
	l := s.tenant(t, "killed").shorten(t, "https://example.com/popular").Link
	for _, visits := range []int{600, 400} {
		got := visitAtOnce(t, []*server{s}, l.path(s), visits, visits, ends)
		if diff := cmp.Diff(map[int]int{http.StatusFound: visits}, got); diff != "" {
			t.Fatalf("answers (-want +got):\n%s", diff)
		}
		s.killAndRestart()
	}
	refused(t, s.expect(t, http.StatusTooManyRequests, http.MethodGet, l.path(s)), ends)
}
